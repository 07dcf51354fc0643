"""The values of a column as arrays: numbers, texts, and which are missing.

An empty cell is missing: None, NaN, or a text of nothing but spaces. Words such as ``NA``, ``NaN``,
``None`` and ``null``, in upper or lower case, are missing in a column whose other cells are
numbers. In every other column they are values: a class may be called ``none``, and the code of
Namibia is ``NA``.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, time, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.data.tables import numbers as written
from gattn.data.tables.numbers import NumberFormat
from gattn.nodes.attributed import GraphError

__all__ = [
    "as_numbers",
    "as_texts",
    "gap_words",
    "is_complex",
    "is_empty",
    "is_missing",
    "time_words",
]

DATES = (date, time, np.datetime64, pd.Period)
DURATIONS = (timedelta, np.timedelta64, pd.tseries.offsets.BaseOffset)

PLAIN = NumberFormat()


def is_empty(values: pd.Series) -> NDArray[np.bool_]:
    """Whether each of n values is None, NaN, or a text of nothing but spaces: [n]."""
    blank = [isinstance(value, str) and not value.strip() for value in values.tolist()]
    return np.asarray(values.isna(), dtype=bool) | np.array(blank, dtype=bool)


def is_missing(values: pd.Series, *, numbers: bool | None = None) -> NDArray[np.bool_]:
    """Whether each of n values is missing: [n].

    Args:
        values: n values.
        numbers: whether the column holds numbers, so that words such as ``NA`` are gaps; None to
            see whether all its other values are numbers.

    >>> is_missing(pd.Series(["1.5", "NA", ""])), is_missing(pd.Series(["none", "mild", ""]))
    (array([False,  True,  True]), array([False, False,  True]))
    """
    empty, words = is_empty(values), _is_word(values)
    if not words.any():
        return empty
    if numbers is None:
        rest = ~(empty | words)
        numbers = bool(rest.any()) and not np.isnan(as_numbers(values)[rest]).any()
    return empty | words if numbers else empty


def gap_words(values: pd.Series) -> Counter[str]:
    """How often a column holds each of the words that may stand for a gap, such as ``NA``.

    >>> gap_words(pd.Series(["NA", "DE", "none", "NA"]))
    Counter({'NA': 2, 'none': 1})
    """
    return Counter(str(value).strip() for value in values[_is_word(values)].tolist())


def as_numbers(values: pd.Series, style: NumberFormat = PLAIN) -> NDArray[np.float64]:
    """The n values as numbers: [n], NaN where one is missing or no number.

    Args:
        values: n values.
        style: how numbers are written in texts.

    Returns:
        The numbers; a date, a time and a duration are none.

    Raises:
        GraphError: a value is complex.

    >>> as_numbers(pd.Series(["1.5", None, "old", "−2"]))
    array([ 1.5,  nan,  nan, -2. ])
    """
    if is_complex(values):
        title = "labels" if values.name is None else f"attribute {values.name!r}"
        raise GraphError(
            f"{title} must hold real numbers; got complex ones: give the real and the imaginary "
            "part, or the absolute value and the angle, as columns of their own"
        )
    if values.dtype.kind in "mM" or isinstance(values.dtype, pd.PeriodDtype):
        return np.full(len(values), np.nan)
    if values.dtype == object or isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        parsed: dict[object, float] = {}
        texts = {value for value in values.tolist() if isinstance(value, str)}
        for text in texts:
            number = style.parse(text) if _may_be_number(text) else None
            parsed[text] = math.nan if number is None else number
        values = pd.Series(
            [
                parsed[value]
                if isinstance(value, str)
                else math.nan
                if isinstance(value, DATES + DURATIONS)
                else value
                for value in values.tolist()
            ],
            dtype=object,
        )
    found = pd.Series(pd.to_numeric(values, errors="coerce"))
    numbers = np.array(found.to_numpy(dtype=np.float64, na_value=np.nan))
    numbers[np.asarray(values.isna(), dtype=bool)] = np.nan  # of a date it is a number of its own
    return numbers


def is_complex(values: pd.Series) -> bool:
    """Whether a column holds a complex number."""
    if values.dtype.kind == "c":
        return True
    is_mixed = values.dtype == object or isinstance(values.dtype, pd.CategoricalDtype)
    return is_mixed and any(isinstance(value, complex | np.complexfloating) for value in values)


def time_words(values: pd.Series) -> str:
    """Say how many dates, times and durations a column holds that are no texts; empty for none.

    >>> time_words(pd.Series(pd.to_datetime(["2020-01-31", None])))
    "1 cell is a date or a time, as '2020-01-31'"
    """
    cells = [value for value, gone in zip(values.tolist(), is_empty(values)) if not gone]
    told = []
    for kinds, one, several in (
        (DATES, "is a date or a time", "are dates or times"),
        (DURATIONS, "is a duration", "are durations"),
    ):
        some = [cell for cell in cells if isinstance(cell, kinds)]
        if some:
            shape = f"cell {one}" if len(some) == 1 else f"cells {several}"
            told.append(f"{len(some):,} {shape}, as {_as_text(some[0])!r}")
    return "; ".join(told)


def _as_text(value: object) -> str:
    """A value as text: a time stamp at midnight as its date, as tables are written."""
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, date) else text


def _may_be_number(text: str) -> bool:
    """Whether a text begins as a number does: others need no look at patterns."""
    start = text.lstrip()[:1]
    return not start.isalpha() or start in "iI"  # infinity


def as_texts(values: pd.Series, *, gaps: bool = False) -> list[str]:
    """The n values as texts, empty where one is missing.

    Args:
        values: n values.
        gaps: whether words such as ``NA`` are gaps in every column, as in one of masks.
    """
    missing = is_missing(values, numbers=gaps or None)
    return ["" if gone else _as_text(value) for value, gone in zip(values.tolist(), missing)]


def _is_word(values: pd.Series) -> NDArray[np.bool_]:
    words = [_is_gap(value) for value in values.tolist()]
    return np.array(words, dtype=bool)


def _is_gap(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and written.is_missing(value)
