"""Reader of a column of numbers that are labels, with its errors and notes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gattn.apps.run.text import plural
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.numbers import (
    NumberColumn,
    NumberFormat,
    Pattern,
    classify,
    is_missing,
    read_numbers,
)

__all__ = ["SKIP", "LabelColumn", "number_labels"]

FEW = 5
"""A column of numbers with at most this number of different whole numbers gets a note that they
may be classes.
"""
SKIP = "--skip-bad-labels"


class LabelColumn(NamedTuple):
    """Labels of one target (None or NaN if missing), and the rows whose cells are invalid."""

    values: Sequence[float | str | int | None]
    unread: Sequence[int]
    missing: int
    censored: int
    notes: Sequence[str]


def number_labels(
    column: Sequence[str],
    target: str,
    lines: Sequence[int],
    learnable: bool,
    style: NumberFormat,
    skip_bad: bool,
    guessed: bool,
) -> LabelColumn:
    """Return the numbers in a column; raise an error for cells such as ``>10`` or ``1,008``.

    Leaving such cells out would select labels by their value.
    """
    read = read_numbers(column, style)
    values, unread = read.values, set(read.unread)
    large = np.flatnonzero(np.abs(np.nan_to_num(values)) > LARGEST)
    patterns = [pattern for pattern in read.recognised() if pattern.kind != "infinite"]
    if patterns and not skip_bad:
        shown = "; ".join(p.sentence(_at(lines), "label") for p in patterns)
        advice = _advice(patterns, learnable=learnable)
        raise ValueError(f"column {target!r}: {shown}. {advice}")
    infinite = [row for row in unread if classify(column[row]).kind == "infinite"]
    if (beyond := sorted({*infinite, *large.tolist()})) and not skip_bad:
        row = beyond[0]
        message = f"{target} must be finite; it is {column[row]!r} in line {lines[row]}"
        raise ValueError(message + ", beyond float32" * any(map(str.isdigit, column[row])))
    values[large] = math.nan
    unread.update(large.tolist())
    different = np.unique(values[~np.isnan(values)])
    if not len(different):
        raise ValueError(_no_numbers(column, target, read))
    if len(different) == 1 and learnable:
        raise ValueError(f"column {target!r} is constant: every label is {different[0]:g}")
    notes = [f"Column {target!r}: {note}" for note in _notes(read, column, style, guessed)]
    return LabelColumn(values.tolist(), sorted(unread), read.missing, read.dropped, notes)


def _advice(patterns: Sequence[Pattern], *, learnable: bool) -> str:
    """Return advice for labels such as ``>10`` that cannot be parsed with the current options."""
    advice = []
    if any(pattern.kind != "censored" for pattern in patterns):
        advice.append(
            "Use the option that reads these labels, or write plain numbers: leaving out labels "
            f"because of their format would bias the model ({SKIP} does so)"
        )
    if any(pattern.kind == "censored" for pattern in patterns):
        limits = "--loss-function bounded-mse trains on censored labels as limits; "
        advice.append(
            f"{limits if learnable else ''}--censored bound uses the bound as the value, although "
            "the real value is beyond it; --censored drop leaves these labels out"
        )
    return ". ".join(advice)


def _notes(
    read: NumberColumn,
    column: Sequence[str],
    style: NumberFormat,
    guessed: bool,
) -> Iterator[str]:
    """Yield notes on a numeric column that may in fact contain classes, row numbers, dates or
    limits.
    """
    if read.dropped and style.censored == "limit":
        yield (
            f"{plural(read.dropped, 'censored label')} read as limits for training; metrics and "
            "intervals use measured values only."
        )
    elif read.dropped:
        yield f"{plural(read.dropped, 'censored label')} treated as missing (--censored drop)."
    if style.censored == "bound":
        bounds = sum(bool(classify(cell).relation) for cell in column)
        if bounds:
            yield f"the bound of {plural(bounds, 'censored label')} is used as the value."
    different = np.unique(read.values[~np.isnan(read.values)])
    whole = not (different % 1).any()
    if guessed and whole and 2 < len(different) <= FEW and read.labelled >= 4 * len(different):
        shown = ", ".join(f"{value:g}" for value in different)
        yield (f"its labels {shown} are read as numbers; --task multiclass reads them as classes.")
    if guessed and whole and len(different) == 2 and read.labelled >= 4 * len(different):
        yield (
            f"its labels {different[0]:g} and {different[1]:g} are read as numbers; "
            "--task classification reads them as two classes."
        )


def _no_numbers(column: Sequence[str], target: str, read: NumberColumn) -> str:
    """Return the error message for a column that contains no number."""
    kinds = list(dict.fromkeys(cell for cell in column if not is_missing(cell)))
    shown = ", ".join(map(repr, kinds[:5])) + ", ..." * (len(kinds) > 5)
    if read.dropped and not read.unread:
        return f"column {target!r} has only censored values: {shown}; --censored bound reads them"
    if len(kinds) <= 2:
        return f"column {target!r} has no numbers: {shown}; for classes use --task classification"
    return (
        f"column {target!r} has no numbers (decimals have a point) and {len(kinds)} "
        f"different texts: {shown}; for classes use --task multiclass"
    )


def _at(lines: Sequence[int]):
    return lambda place: f"in line {lines[place]}"
