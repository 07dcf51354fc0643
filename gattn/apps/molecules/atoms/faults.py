"""Values in lists of labels that are not numbers, for a regression."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gattn.apps.molecules.atoms.lists import Item, limits_of
from gattn.apps.tables.csv_table import LARGEST

if TYPE_CHECKING:
    from gattn.apps.molecules.atoms.labels import AtomCells

__all__ = ["Fault", "number_faults", "without_faults"]


class Fault(NamedTuple):
    """List with a value that is not a label of a regression.

    Attributes:
        row: row of the list, from 0.
        name: its column.
        reason: the reason why the value is not a label. It begins with the name of the column.
        selective: whether a row that is left out for this reason would select labels by their
            value: the value is too large, or it is a limit.
    """

    row: int
    name: str
    reason: str
    selective: bool


def number_faults(cells: AtomCells) -> list[Fault]:
    """Return the first value of each list that is not a number, in the order of the rows.

    Args:
        cells: the parsed cells of all rows.

    >>> from gattn.apps.molecules.atoms.labels import read_cells
    >>> [fault.reason for fault in number_faults(read_cells({"atom": {"a": ["[1, 'x']"]}}))]
    ["a: value 2 must be a number or null; it is 'x'"]
    """
    faults = []
    for name in cells.targets.names:
        for row, values in enumerate(cells.values[name]):
            for place, value in enumerate(values or ()):
                reason, selective = _reason(value)
                if reason:
                    words = f"{name}: value {place + 1} {reason}"
                    faults.append(Fault(row, name, words, selective))
                    break
    return sorted(faults)


def without_faults(cells: AtomCells) -> AtomCells:
    """Return the cells after each list that :func:`number_faults` reports was replaced by None. The
    problem of its row is the reason of the fault.
    """
    faults = number_faults(cells)
    if not faults:
        return cells
    problems = list(cells.problems)
    values = {name: list(lists) for name, lists in cells.values.items()}
    for row, name, reason, _ in faults:
        problems[row] = problems[row] or reason
        values[name][row] = None
    return replace(cells, values=values, problems=problems)


def _reason(value: Item) -> tuple[str, bool]:
    """Return the reason why a value is not a label, or "", and whether it is selective."""
    if value is None:
        return "", False
    if isinstance(value, bool):
        word = "true" if value else "false"
        return f"must be a number; it is {word}, which --task classification reads", False
    if not isinstance(value, str):
        if abs(value) <= LARGEST:
            return "", False
        return f"must be finite; it is {value!r}, beyond float32", True
    limits = limits_of(value)
    if limits is None:
        if _is_infinite(value):
            return f"must be finite; it is {value!r}", True
        return f"must be a number or null; it is {value!r}", False
    if not any(abs(end) <= LARGEST for end in limits):
        return f"must be finite; it is {value!r}, beyond float32", True
    return f"is the limit {value!r}, which is not a measured value", True


def _is_infinite(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False
