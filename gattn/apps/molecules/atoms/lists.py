"""Lists of values in table cells. A list contains one value for each atom or bond of a molecule."""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import numpy as np

from gattn.apps.tables.numbers import is_missing

Item: TypeAlias = "float | int | str | None"
"""Value of an atom or bond: a number, a class, a limit such as ``"<1"``, or None if it is missing.
"""

NAN = re.compile(r"\b[nN]a[nN]\b")
BARE = re.compile(r"\[([^\[\]()'\"]+)\]")
"""Pattern of a list as NumPy prints it."""


class ListLabels(NamedTuple):
    """Labels of the atoms or bonds of n rows, one after another.

    Attributes:
        values: r labels of t targets.
        owners: [r] int64, ascending, the row of each label.
        problems: for each row the reason why its lists cannot be used, or "".
    """

    values: list[tuple[Item, ...]]
    owners: np.ndarray
    problems: list[str]


def read_lists(rows: Sequence[Sequence[object]], names: Sequence[str]) -> ListLabels:
    """Read the lists of t targets of n rows.

    Args:
        rows: for each row a cell for each target.
        names: names of the targets.

    >>> read_lists([["[1, null]", "[3, 4]"], ["[5]", ""]], ["a", "b"]).values
    [(1, 3), (None, 4), (5, None)]
    """
    values: list[tuple[Item, ...]] = []
    owners: list[int] = []
    problems: list[str] = []
    for row, cells in enumerate(rows):
        try:
            lists = _lists(cells, names)
        except ValueError as error:
            problems.append(str(error))
            continue
        problems.append("")
        values += zip(*lists)
        owners += [row] * max(map(len, lists))
    return ListLabels(values, np.array(owners, np.int64), problems)


def _lists(cells: Sequence[object], names: Sequence[str]) -> list[list[Item]]:
    """Return the lists of a row. A missing list is filled with missing values."""
    lists: list[list[Item] | None] = []
    try:
        lists.extend(map(read_list, cells))
    except ValueError as error:
        raise ValueError(f"{names[len(lists)]}: {error}") from None
    sizes = {name: len(values) for name, values in zip(names, lists) if values is not None}
    if len({*sizes.values()}) > 1:
        shown = ", ".join(f"{size} values of {name}" for name, size in sizes.items())
        raise ValueError(f"the lists of a row must have equal lengths; it has {shown}")
    size = max(sizes.values(), default=0)
    return [[None] * size if values is None else values for values in lists]


def read_list(cell: object) -> list[Item] | None:
    """Return the values in a cell such as ``[0.1, -0.2]``, in order.

    Args:
        cell: text in JSON, in Python or as NumPy prints it; or a list, a tuple or an array.

    Returns:
        The values, None where a value is missing; None if the cell is empty.

    Raises:
        ValueError: the cell is not a list, or a value is neither a number nor a text.

    >>> read_list('[0.1, null, "<2"]')
    [0.1, None, '<2']
    """
    convert = getattr(cell, "tolist", None)
    values = cell if convert is None else convert()
    if isinstance(cell, str):
        values = None if is_missing(cell) else _parsed(cell.strip())
    if values is None or values != values:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"expected a list such as [0.1, 0.2]; got {_shown(cell)}")
    return [_item(value, cell) for value in values]


def _parsed(text: str) -> object:
    for read in (json.loads, lambda text: ast.literal_eval(NAN.sub("None", text))):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(text)
    bare = BARE.fullmatch(text)
    return re.split(r"[\s,;]+", bare[1].strip()) if bare else text


def _item(value: object, cell: object) -> Item:
    if value is None or value != value or (isinstance(value, str) and is_missing(value)):
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (int, float)):
        # Python's integers have no limit.
        if abs(value) > sys.float_info.max:
            return math.inf if value > 0 else -math.inf
        return value
    raise ValueError(f"expected numbers or texts in a list; got {value!r} in {_shown(cell)}")


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
