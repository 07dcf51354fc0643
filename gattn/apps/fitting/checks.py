"""Checks of arguments, whose errors name the expected and the actual value."""

from __future__ import annotations


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless a value is above 0 and below 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {value}")
