"""Checks of settings: errors that say what was wanted and what came."""

from __future__ import annotations

__all__ = ["check_choice", "check_count"]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless a setting is one of its choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless a setting is a whole number, no bool, and large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {value!r}")
