"""Counts in words."""

from __future__ import annotations

__all__ = ["amount"]


def amount(count: int, what: str) -> str:
    """A number of things, of which the plural ends in s.

    >>> amount(1, "row"), amount(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"
