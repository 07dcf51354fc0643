"""Conversion of the cells of predictions to JSON values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["json_value"]


def json_value(cell: Any) -> Any:
    """Return a number or a text for JSON.

    JSON has no infinity and no NaN: the end of an interval without a bound is None. Other objects
    become texts.

    >>> json_value(np.float64(0.5)), json_value(float("inf")), json_value(np.int64(3))
    (0.5, None, 3)
    """
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)
