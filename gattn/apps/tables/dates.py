"""Parser of dates in table cells."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gattn.apps.tables.numbers import read_numbers

DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\S.*)?)?")
"""Pattern of an ISO 8601 date, such as 2024-01 or 2024-01-31 12:00. A year alone is read as a
number.
"""


def read_days(cells: Sequence[str]) -> NDArray[np.float64]:
    """Convert dates of ISO 8601 to days since 1970; other texts give NaN.

    >>> read_days(["1970-01-02", "1970-02", "1970-01-01 12:00", "1970"]).tolist()
    [1.0, 31.0, 0.5, nan]
    """
    # The import of pandas is slow, and few tables have dates.
    import pandas as pd

    dates = [cell.strip() if DATE.fullmatch(cell.strip()) else None for cell in cells]
    stamps = pd.to_datetime(pd.Series(dates), format="ISO8601", errors="coerce", utc=True)
    return ((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)


def read_times(cells: Sequence[str]) -> NDArray[np.float64]:
    """Convert the cells of a column of times to numbers; NaN for other texts.

    If most cells are numbers, such as years, they are read as numbers, otherwise as dates of ISO
    8601, in days since 1970.

    >>> read_times(["1970-01-02", "1970-02", "soon"]).tolist()
    [1.0, 31.0, nan]
    >>> read_times(["2019", "2020.5", "2020-01-01"]).tolist()
    [2019.0, 2020.5, nan]
    """
    numbers, days = read_numbers(cells).values, read_days(cells)
    return numbers if np.isfinite(numbers).sum() >= np.isfinite(days).sum() else days
