"""A griffe extension that converts the docstrings of the code to the site's Markdown.

The docstrings contain equations, references, tables and examples in the notation of Sphinx and
doctest; Markdown needs dollar signs, links, bars and fences instead.
"""

import functools
import inspect
import pydoc
import re
import textwrap
from pathlib import Path
from typing import Any

import griffe

EQUATION = re.compile(
    r"^( *)\.\. math::(?:[ \t]*\n(?P<below>(?:\n*\1[ ]+.*\n?)+)|(?P<beside>.+(?:\n\1[ ]+.*)*))",
    re.M,
)
ROLE = re.compile(r":(?P<role>\w+):`(?P<text>[^`]+)`")
TABLE = re.compile(
    r"^(?P<indent> *)(?P<rule>=+(?: +=+)+)\n(?P<head>.*\n)(?P=indent)(?P=rule)\n"
    r"(?P<body>(?:.*\n)*?)(?P=indent)(?P=rule)$",
    re.M,
)
DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent).*\S.*)*", re.M)


PAGES = Path(__file__).parents[1] / "api"


def to_markdown(text: str, owner: str = "") -> str:
    """Return the Markdown of a docstring of the class ``owner`` or of one of its methods."""
    text = EQUATION.sub(_equation, text)
    text = TABLE.sub(_table, text)
    text = ROLE.sub(functools.partial(_role, owner), text)
    return DOCTEST.sub(_doctest, text)


class MarkdownDocstrings(griffe.Extension):
    """Griffe extension that converts every docstring when it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of a module, class, function or attribute, in place."""
        if obj.is_attribute and str(getattr(obj, "annotation", "")).startswith("Annotated["):
            # Show only the type, because the docstring contains the range and the description.
            obj.annotation = obj.annotation.slice.elements[0]
        if obj.docstring is not None:
            if "{settings}" in obj.docstring.value:
                obj.docstring.value = inspect.getdoc(pydoc.locate(obj.path)) or ""
            owner = obj if obj.is_class else obj.parent
            name = owner.name if owner is not None and owner.is_class else ""
            obj.docstring.value = to_markdown(obj.docstring.value, name)


def _equation(match: re.Match[str]) -> str:
    latex = textwrap.dedent(match["below"] or match["beside"]).strip()
    lines = ["", "$$", *(line.strip() for line in latex.splitlines() if line.strip()), "$$", ""]
    return "\n".join(match[1] + line if line else line for line in lines)


def _table(match: re.Match[str]) -> str:
    """Return the Markdown of a simple table, a match of ``TABLE``. A row without a first cell
    continues the row above.
    """
    indent = match["indent"]
    starts = [len(indent) + run.start() for run in re.finditer("=+", match["rule"])]
    columns = list(zip(starts, [*starts[1:], None]))
    rows: list[list[str]] = []
    for line in (match["head"] + match["body"]).splitlines():
        cells = [line[start:end].strip() for start, end in columns]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells)]
    rows.insert(1, [])
    lines = ["| " + " | ".join(row) + " |" if row else "|---" * len(columns) + "|" for row in rows]
    return "\n".join(indent + line for line in lines)


def _role(owner: str, match: re.Match[str]) -> str:
    """Return a role of reStructuredText, such as one of a function, as Markdown: an equation, a
    link, or code if the site has no such name. ``owner`` is the class of the docstring, or "".
    """
    text = match["text"]
    if match["role"] == "math":
        return f"${text}$"
    name = text.rsplit(".", 1)[-1] if text.startswith("~") else text
    path = _path(text.lstrip("~"), owner)
    if not path:
        return f"`{name}`"
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'


def _path(name: str, owner: str) -> str:
    """Return the target of a name on the site, or an empty text. Methods may omit their class."""
    if name.startswith("gattn."):
        return name
    paths = _public()
    first, _, rest = name.partition(".")
    if first in paths:
        return ".".join(filter(None, (paths[first], rest)))
    return f"{paths[owner]}.{name}" if owner in paths and not rest else ""


@functools.cache
def _public() -> dict[str, str]:
    """Return the full path of each public name by its last part."""
    text = "\n".join(page.read_text() for page in PAGES.rglob("*.md"))
    paths = {}
    for path in re.findall(r"^::: (\S+)", text, re.MULTILINE):
        for name in getattr(pydoc.locate(path), "__all__", [""]):
            whole = f"{path}.{name}".rstrip(".")
            paths[whole.rsplit(".", 1)[-1]] = whole
    return paths


def _doctest(match: re.Match[str]) -> str:
    indent = match["indent"]
    return f"{indent}```pycon\n{match[0]}\n{indent}```"
