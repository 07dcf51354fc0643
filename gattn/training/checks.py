"""Checks of settings: errors that say what was wanted and what came."""

from __future__ import annotations

from typing import Protocol

__all__ = ["check_choice", "check_count", "check_network", "check_seed", "check_share"]

LARGEST_SEED = 2**31
"""Scikit-learn takes seeds below 2**32; the seeds of several trainings count on from the first."""


class NetworkSettings(Protocol):
    """What settings of an attention network have in common."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def dropout(self) -> float: ...
    @property
    def width(self) -> int: ...
    @property
    def heads(self) -> int: ...


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless a setting is one of its choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless a setting is a whole number, no bool, and large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {value!r}")


def check_seed(seed: int) -> None:
    """Raise unless a seed is one for all that draws: torch, NumPy and scikit-learn."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < LARGEST_SEED:
        raise ValueError(f"seed must be a whole number from 0 to {LARGEST_SEED - 1}; got {seed!r}")


def check_share(name: str, value: float) -> None:
    """Raise unless a setting is above 0 and below 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {value}")


def check_network(settings: NetworkSettings) -> None:
    """Raise unless a network can be made and trained by these settings; its counts are checked."""
    if not settings.learning_rate > 0:
        raise ValueError(f"learning_rate must be above 0; got {settings.learning_rate}")
    if not settings.weight_decay >= 0:
        raise ValueError(f"weight_decay must be at least 0; got {settings.weight_decay}")
    if not 0 <= settings.dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1; got {settings.dropout}")
    if settings.width % settings.heads:
        raise ValueError(f"heads ({settings.heads}) must divide width ({settings.width})")
