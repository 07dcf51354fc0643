"""What layers ask of their settings and of their inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from gattn.graph.edge_input import check_not_traced
from gattn.ops.registration.checks import check_probability, check_tensor

__all__ = [
    "check_at_least",
    "check_features",
    "check_heads_divide",
    "check_input",
    "check_input_of",
    "check_probability",
    "check_settings",
    "check_tensor",
    "check_width",
    "is_autocast",
    "is_lazy",
    "readable_weight",
    "refuse_scripts",
    "shape_of_rows",
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


def readable_weight(linear: Any) -> Tensor | None:
    """The weight of a map where it is a plain parameter that has its shape; else None.

    An adapter, a quantized map or a parametrised one has no such parameter, and nothing is computed
    to find out: a spectral norm steps on each time that its weight is read.
    """
    weight = getattr(linear, "_parameters", {}).get("weight")
    return None if weight is None or is_lazy(linear) else weight


def is_lazy(linear: Any) -> bool:
    """Whether a map takes its width from its first input, and has had none yet."""
    weight = getattr(linear, "_parameters", {}).get("weight")
    return isinstance(weight, UninitializedParameter)


def check_input(name: str, x: Any, channels: int, linear: Any) -> None:
    """Raise unless x has so many features, in the dtype of a map whose weight can be read."""
    check_features(name, x, channels, readable_weight(linear))


def check_input_of(name: str, x: Any, linear: Any) -> None:
    """Raise unless x has the features and the dtype of a map, where its weight can be read."""
    weight = readable_weight(linear)
    if weight is None:
        check_tensor(name, x)
    else:
        check_features(name, x, weight.shape[1], weight)


def shape_of_rows(channels: Any) -> str:
    """The shape of node features in words: (n, d) where no number of features is fixed."""
    return f"(n, {channels})" if isinstance(channels, int) and channels >= 0 else "(n, d)"


def refuse_scripts(*kinds: Any) -> None:
    """Have ``torch.jit.script`` of these modules, alone or in a model, end in one clear error."""

    def refuse(self: Any) -> None:
        raise RuntimeError(
            f"gattn's {type(self).__name__} does not run under torch.jit.script: use "
            "torch.compile, torch.export.export or torch.onnx.export(dynamo=True)"
        )

    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            kind.__prepare_scriptable__ = refuse  # pyright: ignore[reportAttributeAccessIssue]


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
