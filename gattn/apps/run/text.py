"""Formatting of counts and lines of text for messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import fill

TEMPORARY = "gattn-input-"
"""Beginning of the name of a temporary folder with a copy of the standard input."""


def without_temporary(text: str) -> str:
    """Replace the path of a temporary copy by the words for what was copied.

    >>> without_temporary("/tmp/gattn-input-x1_y/the standard input.csv is empty")
    'the standard input is empty'
    """
    return re.sub(rf"[^\s'\"(]*{TEMPORARY}\w+/(the [a-zA-Z ]+)\.\w+", r"\1", text)


def divided(text: str, width: int) -> str:
    """Divide each line that is longer than a width between words. Longer words are not divided.

    >>> divided("a note in /a/long/path.csv", 10).splitlines()
    ['a note in', '/a/long/path.csv']
    """
    return "\n".join(
        fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def plural(count: int, noun: str) -> str:
    """Format a count and a noun; the noun gets an "s" in the plural.

    >>> plural(1, "row"), plural(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def case_hints(kinds: Iterable[object]) -> Iterator[str]:
    """Yield a sentence, without its period, for classes whose names differ only in case."""
    names: dict[str, list[str]] = {}
    for kind in sorted(map(str, kinds)):
        names.setdefault(kind.casefold(), []).append(kind)
    for alike in names.values():
        if len(alike) > 1:
            yield f"the classes {' and '.join(map(repr, alike))} differ only in case"


def count_of(count: int, item: str) -> str:
    """Format a count and a plural noun, which becomes singular for one.

    >>> count_of(1, "nodes"), count_of(1, "rows of 2 molecules"), count_of(1200, "reactions")
    ('1 node', '1 row of 2 molecules', '1,200 reactions')
    """
    noun, of, rest = item.partition(" of ")
    return f"{plural(count, noun.removesuffix('s'))}{of}{rest}"
