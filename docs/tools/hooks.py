"""Hooks of mkdocs: equations become MathML, links out of the documentation become text."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
OUTWARD = re.compile(r"\[(?P<text>[^\]]+)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """In a page at the top, a link to ``../`` leads to the repository, not into the site."""
    return OUTWARD.sub(r"\g<text>", markdown) if "/" not in page.file.src_uri else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Equations as MathML: no script is loaded to show them."""
    return EQUATION.sub(_to_mathml, content)


def _to_mathml(match: re.Match[str]) -> str:
    display = "block" if match["tag"] == "div" else "inline"
    return convert(html.unescape(match["latex"]).strip(), display=display)
