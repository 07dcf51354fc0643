"""What the constructors of layers ask of their settings."""

from __future__ import annotations

from typing import Any

from gattn.ops.checks import probability

__all__ = ["at_least", "heads_divide", "probability"]


def at_least(least: int, **settings: Any) -> None:
    """Raise unless every setting is an int that is not below the least, or None."""
    for name, value in settings.items():
        if value is not None and not (hasattr(value, "__index__") and int(value) >= least):
            raise ValueError(f"{name} must be an int >= {least}; got {value!r}")


def heads_divide(heads: int, **channels: int) -> None:
    """Raise unless there are heads, and the channels can be shared out among them."""
    at_least(1, heads=heads)
    at_least(0, **channels)
    for name, value in channels.items():
        if value % heads:
            raise ValueError(f"heads must divide {name} ({value}); got heads={heads}")
