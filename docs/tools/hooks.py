"""mkdocs hooks: repository files as pages, equations as MathML, external links as text."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
OUTWARD = re.compile(r"\[(?P<text>[^\]]+)\]\(\.\./[^)]*\)")
INCLUDED = re.compile(r'^--8<-- "(?P<path>.+)"$', re.MULTILINE)
SOURCE = re.compile(r"\[(?P<text>[^\]]+)\]\([\w/]+\.py\)")
ROOT = Path(__file__).parents[2]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with the repository files that it includes, and with links to
    sources as text. A page in a folder is returned unchanged.
    """
    if "/" in page.file.src_uri:
        return markdown
    markdown = INCLUDED.sub(_included, markdown)
    return SOURCE.sub(r"\g<text>", OUTWARD.sub(r"\g<text>", markdown))


def _included(match: re.Match[str]) -> str:
    """Return a repository file, with links relative to the folder of the pages. Raises
    FileNotFoundError if it does not exist.
    """
    return (ROOT / match["path"]).read_text().replace("](docs/", "](")


def on_page_content(content: str, **_: Any) -> str:
    """Return the HTML of a page with equations as MathML, so that no script is needed. Raises
    PluginError for an unknown LaTeX command.
    """
    return EQUATION.sub(_to_mathml, content)


def _to_mathml(match: re.Match[str]) -> str:
    """Return one equation as MathML; ``match`` has the groups "latex" and "tag". Raises PluginError
    for an unknown LaTeX command.
    """
    latex = html.unescape(match["latex"]).strip()
    if match["tag"] == "span":
        return _convert(latex, "inline")
    # On a narrow page, the parts of an equation are placed below each other.
    parts = [latex] if r"\begin" in latex else latex.split(r"\qquad")
    return (
        f'<div class="equation">{"".join(_convert(part.strip(), "block") for part in parts)}</div>'
    )


def _convert(latex: str, display: str) -> str:
    """Convert LaTeX to MathML. Raises PluginError for unknown commands."""
    mathml = convert(latex.replace(r"\Vert", "\N{DOUBLE VERTICAL LINE}"), display=display)
    if "\\" in mathml:
        raise PluginError(f"an equation has a command that latex2mathml does not know: {latex}")
    return mathml
