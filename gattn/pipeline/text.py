"""Counts and numbers in words."""

from __future__ import annotations

import math

__all__ = ["amount", "beside_error"]


def amount(count: int, what: str) -> str:
    """A number of things, of which the plural ends in s.

    >>> amount(1, "row"), amount(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def beside_error(value: float, error: float, *, digits: int, of_error: int) -> str:
    """Write a number to so many significant digits that its error shows in the last of them.

    Args:
        value: the number.
        error: its standard deviation, in the same unit.
        digits: the least number of digits.
        of_error: digits of the error that the number is to show.

    Returns:
        The number; with the least number of digits where the error is 0 or not finite.

    >>> beside_error(1000000.12345678, 0.001, digits=6, of_error=4)
    '1000000.123457'
    >>> beside_error(5.0e-13, 1.0e-13, digits=6, of_error=4)
    '5e-13'
    """
    if value != 0 and 0 < error < math.inf and math.isfinite(value):
        places = math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        digits = min(max(digits, places + of_error), 17)
    return f"{value:.{digits}g}"
