"""From the cells of a table to labels: which task they make, their numbers and their classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gattn.data.tables import as_number, is_missing
from gattn.molecules.settings import Task

__all__ = ["Labels", "read_labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of k rows.

    Attributes:
        task: what they are for.
        y: [k, t] float64, NaN where nothing was measured; for classification [k, t] objects, texts
            as they stand or whole numbers, None where nothing was measured.
        problems: k texts, empty where every cell could be read.
    """

    task: Task
    y: np.ndarray
    problems: list[str]


def read_labels(
    cells: Sequence[Sequence[str]],
    targets: Sequence[str],
    task: Literal["auto"] | Task = "auto",
    lines: Sequence[int] | None = None,
    *,
    learnable: bool = True,
) -> Labels:
    """Read the target cells of a table.

    ``"auto"`` takes a column for classes where its cells are only 0 and 1, or where none of them
    is a number and they are of two kinds; every other column is one of numbers.

    Args:
        cells: k rows of t texts.
        targets: the t names of the columns.
        task: what the labels are for.
        lines: of the rows in their file, which errors name; otherwise they count from 1.
        learnable: whether a column of one class or of one number is an error.

    Returns:
        The labels. A cell that should be a number and is none is a problem of its own row.

    Raises:
        ValueError: a column without any label, of one class only, of more than two classes, of
            one number only, of no numbers; a number that is not finite; columns of two tasks.

    >>> read_labels([["0.5"], ["1.5"], ["NA"], ["high"]], ["logS"]).problems
    ['', '', '', "logS must be a number or empty; it is 'high'"]
    >>> read_labels([["yes"], ["no"], [""]], ["toxic"]).task
    'classification'
    """
    columns = [[row[i].strip() for row in cells] for i in range(len(targets))]
    for target, column in zip(targets, columns):
        if all(is_missing(cell) for cell in column):
            raise ValueError(f"column {target!r} has no label at all")
    task = _common_task(columns, targets) if task == "auto" else task
    if task == "classification":
        y = [_classes(column, target, learnable) for column, target in zip(columns, targets)]
        return Labels(task, _objects(y, len(cells)), [""] * len(cells))
    lines = range(1, len(cells) + 1) if lines is None else lines
    numbers = [
        _numbers(column, target, lines, learnable) for column, target in zip(columns, targets)
    ]
    problems = [
        "; ".join(
            f"{target} must be a number or empty; it is {column[k]!r}"
            for target, column, values in zip(targets, columns, numbers)
            if values[k] is None
        )
        for k in range(len(cells))
    ]
    y = np.array([[math.nan if v is None else v for v in values] for values in numbers], float)
    return Labels(task, y.T.reshape(len(cells), len(targets)), problems)


def _common_task(columns: Sequence[Sequence[str]], targets: Sequence[str]) -> Task:
    tasks: dict[str, Task] = {target: _task(column) for target, column in zip(targets, columns)}
    if len(set(tasks.values())) > 1:
        told = ", ".join(f"{target}: {task}" for target, task in tasks.items())
        raise ValueError(f"the targets must be of one task; they are {told}; give --task")
    return next(iter(tasks.values()))


def _task(column: Sequence[str]) -> Task:
    kinds = {cell for cell in column if not is_missing(cell)}
    numbers = {as_number(cell) for cell in kinds}
    if numbers <= {0.0, 1.0} or (numbers == {None} and len(kinds) <= 2):
        return "classification"
    return "regression"


def _numbers(
    column: Sequence[str], target: str, lines: Sequence[int], learnable: bool
) -> list[float | None]:
    """NaN where a cell says that nothing was measured, None where it is no number."""
    values = [as_number(cell) for cell in column]
    for row, value in enumerate(values):
        if value is not None and math.isinf(value):
            told = f"{target} must be finite; it is {column[row]!r} in line {lines[row]}"
            raise ValueError(told + ", beyond float32" * any(map(str.isdigit, column[row])))
    known = {value for value in values if value is not None and not math.isnan(value)}
    if not known:
        raise ValueError(_no_numbers(column, target))
    if len(known) == 1 and learnable:
        raise ValueError(f"column {target!r} is constant: every label is {known.pop():g}")
    return values


def _no_numbers(column: Sequence[str], target: str) -> str:
    """What to say of a column of texts that should be learnt as numbers."""
    kinds = list(dict.fromkeys(cell for cell in column if not is_missing(cell)))
    shown = ", ".join(map(repr, kinds[:5])) + ", ..." * (len(kinds) > 5)
    if len(kinds) <= 2:
        return f"column {target!r} holds no numbers: {shown}; classes are --task classification"
    return (
        f"column {target!r} holds no numbers (decimals have a point) and {len(kinds)} kinds of "
        f"text, where classes are two: {shown}; split more classes into columns of 0 and 1"
    )


def _classes(column: Sequence[str], target: str, learnable: bool) -> list[str | int | None]:
    """Whole numbers where every cell is one, else texts."""
    known = {cell: as_number(cell) for cell in column if not is_missing(cell)}
    whole = all(value is not None and value.is_integer() for value in known.values())
    labels = {cell: int(value) if whole else cell for cell, value in known.items()}  # pyright: ignore[reportArgumentType]
    kinds = sorted(set(labels.values()), key=str)
    if len(kinds) > 2 or (len(kinds) < 2 and learnable):
        shown = ", ".join(repr(kind) for kind in kinds[:5]) + ", ..." * (len(kinds) > 5)
        raise ValueError(f"column {target!r} must have two classes; it has {len(kinds)}: {shown}")
    return [labels.get(cell) for cell in column]


def _objects(columns: Sequence[Sequence[str | int | None]], rows: int) -> np.ndarray:
    y = np.empty((rows, len(columns)), dtype=object)
    for i, column in enumerate(columns):
        y[:, i] = column
    return y
