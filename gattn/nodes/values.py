"""The values of a column as arrays: numbers, texts, and which are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["as_numbers", "as_texts", "is_missing"]


def is_missing(values: pd.Series) -> NDArray[np.bool_]:
    """Whether each of n values is missing: None, NaN, or a text of nothing but spaces: [n]."""
    empty = [isinstance(value, str) and not value.strip() for value in values.tolist()]
    return np.asarray(values.isna(), dtype=bool) | np.array(empty, dtype=bool)


def as_numbers(values: pd.Series) -> NDArray[np.float64]:
    """The n values as numbers: [n], NaN where one is missing or no number.

    >>> as_numbers(pd.Series(["1.5", None, "old"]))
    array([1.5, nan, nan])
    """
    found = pd.Series(pd.to_numeric(values, errors="coerce"))
    numbers = np.array(found.to_numpy(dtype=np.float64, na_value=np.nan))
    numbers[np.asarray(values.isna(), dtype=bool)] = np.nan  # of a date it is a number of its own
    return numbers


def as_texts(values: pd.Series) -> list[str]:
    """The n values as texts, empty where one is missing."""
    return ["" if gone else str(value) for value, gone in zip(values.tolist(), is_missing(values))]
