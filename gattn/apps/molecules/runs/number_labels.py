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
    command_option,
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
        # The options for censored labels have different effects, which the advice describes.
        options = {p.kind: None if p.kind == "censored" else command_option for p in patterns}
        shown = "; ".join(p.sentence(_at(lines), options[p.kind], "label") for p in patterns)
        advice = _advice(patterns, read, learnable=learnable)
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


def _advice(patterns: Sequence[Pattern], read: NumberColumn, *, learnable: bool) -> str:
    """Return advice for labels such as ``>10`` that cannot be parsed with the current options."""
    others = [pattern for pattern in patterns if pattern.kind != "censored"]
    is_measured = bool(np.isfinite(read.values).any())
    advice = []
    if others:
        readable = all(pattern.settings for pattern in others)
        way = "use the option that reads them" if readable else "write plain numbers"
        advice.append(
            f"Leaving out labels because of their format would bias the model: {way}, or use "
            f"{SKIP} to leave them out"
            if is_measured
            else f"No label is a plain number: {way}"
        )
    if len(others) < len(patterns):
        is_measured = is_measured or bool(others)
        advice.append(_censored_advice(is_measured=is_measured, learnable=learnable))
    return ". ".join(advice)


def _censored_advice(*, is_measured: bool, learnable: bool) -> str:
    """Return the recommended option for censored labels, and the effects of the other options."""
    bound = "--censored bound uses the bound as the value"
    if not is_measured:
        return f"No label is a measured value; {bound}"
    if not learnable:
        return (
            "Use --censored drop, which computes the metrics from the other labels; "
            f"{bound}, so that the errors of these labels are only estimates"
        )
    return (
        "Use --loss-function bounded-mse, which trains on them as limits. Alternatives: "
        f"{bound}, although the real value is beyond it; --censored drop (or {SKIP}) leaves them "
        "out, so that the model does not learn from these extreme values"
    )


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
    if whole and len(different) == len(read.values) > FEW and (np.diff(read.values) == 1).all():
        yield "its labels count the rows, like row numbers or compound numbers."
    if whole and read.labelled > FEW and all(map(_is_day, different)):
        yield "its labels look like dates written as numbers, and are read as numbers."


def _is_day(value: float) -> bool:
    """Return True if a number is a date in the form YYYYMMDD."""
    year, rest = divmod(int(value), 10_000)
    return 1900 <= year <= 2100 and 1 <= rest // 100 <= 12 and 1 <= rest % 100 <= 31


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
