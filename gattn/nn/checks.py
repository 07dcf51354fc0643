"""What layers ask of their settings and of their inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.edges import check_not_traced
from gattn.ops.checks import check_probability, check_tensor

__all__ = [
    "check_at_least",
    "check_features",
    "check_heads_divide",
    "check_probability",
    "check_settings",
    "check_tensor",
    "check_width",
    "is_autocast",
]


def check_settings(
    *, heads: int = 1, out_channels: int = 1, dropout: float = 0.0, **others: Any
) -> None:
    """Raise for no heads, no channels, or a dropout that is no probability."""
    check_at_least(1, heads=heads, out_channels=out_channels)
    check_probability("dropout", dropout)


def check_at_least(least: int, **settings: Any) -> None:
    """Raise unless every setting is an int that is not below the least, or None."""
    for name, value in settings.items():
        if value is not None and not (hasattr(value, "__index__") and int(value) >= least):
            raise ValueError(f"{name} must be an int >= {least}; got {value!r}")


def check_heads_divide(heads: int, **channels: int) -> None:
    """Raise unless there are heads, and the channels can be shared out among them."""
    check_at_least(1, heads=heads)
    check_at_least(0, **channels)
    for name, value in channels.items():
        if value % heads:
            raise ValueError(f"heads must divide {name} ({value}); got heads={heads}")


def check_width(name: str, x: Any, channels: int) -> None:
    """Raise unless x is a tensor of so many features."""
    check_tensor(name, x)
    check_not_traced()
    if x.dim() == 0 or x.shape[-1] != channels:
        raise ValueError(f"{name} must have {channels} features; got shape {tuple(x.shape)}")


def is_autocast(x: Tensor) -> bool:
    """Whether autocast is on where x lies; for tensors without data it never is."""
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def check_features(name: str, x: Any, channels: int, parameter: Any) -> None:
    """Raise unless x has so many features, in the dtype of the layer's parameters.

    A quantized map keeps no tensor for its weight, but a method: it casts x itself.
    """
    check_width(name, x, channels)
    if isinstance(parameter, Tensor) and x.dtype != parameter.dtype and not is_autocast(x):
        raise TypeError(f"{name} must be {parameter.dtype}, as the layer; got {x.dtype}")
