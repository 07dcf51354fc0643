"""Lists of values in table cells. A list contains one value for each atom or bond of a molecule."""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Iterable
from typing import TypeAlias

Item: TypeAlias = "float | int | str | None"
"""Value of an atom or bond: a number, a Boolean, a class, a limit such as ``"<1"``, or None if it
is missing. An infinite number is the text ``"inf"`` or ``"-inf"``.
"""

MISSING = {"", "none", "nan", "null", "na", "n/a", "-"}
"""Texts that stand for a missing value, in lower case."""
NAN = re.compile(r"\b[nN]a[nN]\b")
BETWEEN = re.compile(r"[\s,;]+")


def read_list(cell: object) -> list[Item] | None:
    """Return the values in a cell such as ``[0.1, -0.2]``, in order.

    The cell may be a list of JSON, a list or tuple of Python, or numbers in brackets that spaces,
    commas or semicolons separate, as NumPy prints them.

    Args:
        cell: the text of a cell, or a sequence of numbers or texts.

    Returns:
        The values, None for a missing value; or None for an empty cell.

    Raises:
        ValueError: the cell is not a list.

    >>> read_list("[0.1, None, '<2']"), read_list("[0.5 1]"), read_list("")
    ([0.1, None, '<2'], [0.5, 1.0], None)
    """
    if cell is None:
        return None
    if not isinstance(cell, str):
        return _items(_sequence(cell), cell)
    text = cell.strip()
    if text.lower() in MISSING:
        return None
    if text[0] not in "[(":
        raise ValueError(f"expected a list such as [0.1, 0.2]; got {_shown(cell)}")
    try:
        values = _parsed(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        values = _separated(text, cell)
    return _items(values, cell)


def format_list(values: Iterable[float | int | str | list[float] | None]) -> str:
    """Return a list as JSON text. NaN becomes null, and numbers have six digits.

    >>> format_list([0.12345678, None, float("nan"), "C"]), format_list([[0.25, 0.75]])
    ('[0.123457, null, null, "C"]', '[[0.25, 0.75]]')
    """
    return json.dumps([_rounded(value) for value in values], ensure_ascii=False)


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(NAN.sub("None", text))


def _separated(text: str, cell: str) -> list[str]:
    """Split a list that is neither valid JSON nor valid Python, such as ``[0.1 0.2]``."""
    closing = {"[": "]", "(": ")"}[text[0]]
    inner = text[1:-1].strip()
    if not text.endswith(closing) or any(sign in inner for sign in "[]()'\""):
        raise ValueError(f"expected a list such as [0.1, 0.2]; got {_shown(cell)}")
    return BETWEEN.split(inner) if inner else []


def _sequence(cell: object) -> object:
    """Convert an array, a Series or a tuple to a list; return None for a missing cell of pandas."""
    if isinstance(cell, float) and math.isnan(cell):
        return None
    convert = getattr(cell, "tolist", None)
    return convert() if convert is not None else cell


def _items(values: object, cell: object) -> list[Item] | None:
    if values is None:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"expected a list such as [0.1, 0.2]; got {_shown(cell)}")
    return [_item(value, cell) for value in values]


def _item(value: object, cell: object) -> Item:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (int, float)):
        # An infinite number is converted to a text, so that a regression reports it together with
        # its row.
        if abs(value) <= sys.float_info.max:
            return value
        return "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        return _text(value.strip())
    raise ValueError(f"expected numbers or texts in a list; got {value!r} in {_shown(cell)}")


def _text(text: str) -> Item:
    if text.lower() in MISSING:
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
