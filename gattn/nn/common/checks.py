"""Checks of the settings and inputs of layers. Each check raises one clear error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from gattn.graph.edge_input import check_not_traced
from gattn.ops.registration.checks import check_probability as check_probability
from gattn.ops.registration.checks import check_tensor as check_tensor


def check_settings(
    *, heads: int = 1, out_channels: int = 1, dropout: float = 0.0, **others: Any
) -> None:
    """Check that heads and out_channels are at least 1, and that dropout is a probability.
    ``others`` are not checked. Raises ValueError otherwise, and TypeError for a dropout that is not
    a number.
    """
    check_at_least(1, heads=heads, out_channels=out_channels)
    check_probability("dropout", dropout)


def check_at_least(minimum: int, **settings: Any) -> None:
    """Check that every setting is None or an integer that is at least ``minimum``. Raises
    ValueError for the first setting that is not.
    """
    for name, value in settings.items():
        if value is not None and not (hasattr(value, "__index__") and int(value) >= minimum):
            raise ValueError(f"{name} must be an int >= {minimum}; got {value!r}")


def check_heads_divide(heads: int, **channels: int) -> None:
    """Check that heads is at least 1 and divides each number of channels. Raises ValueError
    otherwise.
    """
    check_at_least(1, heads=heads)
    check_at_least(0, **channels)
    for name, value in channels.items():
        if value % heads:
            raise ValueError(f"heads must divide {name} ({value}); got heads={heads}")


def check_width(name: str, x: Any, channels: int) -> None:
    """Check that x is a tensor whose last dimension is ``channels``. Raises TypeError if x is no
    tensor, ValueError for another width, and RuntimeError under torch.jit.trace.
    """
    check_tensor(name, x)
    check_not_traced()
    if x.dim() == 0 or x.shape[-1] != channels:
        raise ValueError(f"{name} must have {channels} features; got shape {tuple(x.shape)}")


def readable_weight(linear: Any) -> Tensor | None:
    """Return the weight of a linear layer if it is a plain, initialised parameter; otherwise None.

    An adapter, a quantized or a parametrised module has no such parameter. Only the stored
    parameters are looked up, because reading a computed weight can have side effects: a spectral
    norm runs a power iteration at each access.
    """
    weight = getattr(linear, "_parameters", {}).get("weight")
    return None if weight is None or is_lazy(linear) else weight


def is_lazy(linear: Any) -> bool:
    """Return True if a linear layer has no weight yet, because its first input determines the
    width.
    """
    weight = getattr(linear, "_parameters", {}).get("weight")
    return isinstance(weight, UninitializedParameter)


def check_input(name: str, x: Any, channels: int, linear: Any) -> None:
    """Check that x has ``channels`` features and the dtype of a linear layer.

    The dtype is not checked under autocast, or if the weight of the layer cannot be read. Raises
    ValueError for another width, TypeError for another dtype or anything but a tensor, and
    RuntimeError under torch.jit.trace.
    """
    check_features(name, x, channels, readable_weight(linear))


def check_input_of(name: str, x: Any, linear: Any) -> None:
    """Check that x has the width and the dtype of a linear layer, if the weight of the layer can be
    read; under autocast, only the width. Raises TypeError for anything but a tensor or for another
    dtype, ValueError for another width, and RuntimeError under torch.jit.trace.
    """
    weight = readable_weight(linear)
    if weight is None:
        check_tensor(name, x)
    else:
        check_features(name, x, weight.shape[1], weight)


def shape_of_rows(channels: Any) -> str:
    """Return the expected shape of node features as text, such as "(n, 16)", for error messages."""
    return f"(n, {channels})" if isinstance(channels, int) and channels >= 0 else "(n, d)"


def refuse_scripts(*kinds: Any) -> None:
    """Make ``torch.jit.script`` raise RuntimeError, with advice, for modules of these classes. The
    method is stored in the classes. Other objects are ignored.
    """

    def refuse(self: Any) -> None:
        """Raise RuntimeError, because torch.jit.script cannot compile the module."""
        raise RuntimeError(
            f"gattn's {type(self).__name__} does not run under torch.jit.script: use "
            "torch.compile, torch.export.export or torch.onnx.export(dynamo=True)"
        )

    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            kind.__prepare_scriptable__ = refuse  # pyright: ignore[reportAttributeAccessIssue]


def is_autocast(x: Tensor) -> bool:
    """Return True if autocast is enabled for the device of x. It is never enabled for meta
    tensors.
    """
    return not x.is_meta and torch.is_autocast_enabled(x.device.type)


def check_features(name: str, x: Any, channels: int, parameter: Any) -> None:
    """Check that x has ``channels`` features and the same dtype as a parameter of the layer.

    The dtype is not checked under autocast, or if ``parameter`` is not a tensor: the weight of a
    quantized layer is a method, and such a layer converts x itself. Raises ValueError for another
    width, TypeError for another dtype or anything but a tensor, and RuntimeError under
    torch.jit.trace.
    """
    check_width(name, x, channels)
    if isinstance(parameter, Tensor) and x.dtype != parameter.dtype and not is_autocast(x):
        raise TypeError(f"{name} must be {parameter.dtype}, like the layer; got {x.dtype}")
