"""An extension of griffe: docstrings as they stand in the code, read as the site's Markdown.

The docstrings write equations, references, tables and examples as Sphinx and doctest do; Markdown
wants dollar signs, code, bars and fences.
"""

import re
import textwrap
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


def to_markdown(text: str) -> str:
    """Markdown for one docstring."""
    text = EQUATION.sub(_equation, text)
    text = TABLE.sub(_table, text)
    text = ROLE.sub(_role, text)
    return DOCTEST.sub(_doctest, text)


class MarkdownDocstrings(griffe.Extension):
    """Rewrites every docstring on loading."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def _equation(match: re.Match[str]) -> str:
    latex = textwrap.dedent(match["below"] or match["beside"]).strip()
    lines = ["", "$$", *(line.strip() for line in latex.splitlines() if line.strip()), "$$", ""]
    return "\n".join(match[1] + line if line else line for line in lines)


def _table(match: re.Match[str]) -> str:
    """A simple table: a row without a first cell continues the row above."""
    indent = match["indent"]
    starts = [len(indent) + found.start() for found in re.finditer("=+", match["rule"])]
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


def _role(match: re.Match[str]) -> str:
    text = match["text"]
    if match["role"] == "math":
        return f"${text}$"
    name = text.rsplit(".", 1)[-1] if text.startswith("~") else text
    return f"`{name}`"


def _doctest(match: re.Match[str]) -> str:
    indent = match["indent"]
    return f"{indent}```pycon\n{match[0]}\n{indent}```"
