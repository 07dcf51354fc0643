"""Checks of the arguments of operators. An error names the expected and the actual value."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from gattn.graph import Graph

T = TypeVar("T")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check_tensor(name: str, value: Any, when: str = "") -> None:
    """Raise TypeError unless a value is a tensor; the message states the condition ``when``."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor{when}; got {type(value).__name__}")


def check_shape(name: str, tensor: Tensor, *shape: int | str) -> None:
    """Check that a value is a tensor of this shape. A letter in the shape stands for any length.
    Raises TypeError for anything but a tensor, and ValueError for another shape.
    """
    check_tensor(name, tensor)
    fits = tensor.dim() == len(shape) and all(
        isinstance(expected, str) or expected == length
        for expected, length in zip(shape, tensor.shape)
    )
    if not fits:
        text = ", ".join(map(str, shape))
        is_padded = len(shape) == 3 and tensor.dim() == 4
        hint = "; gattn.graphs.pack removes the padding of a batch (b, t, h, c)" * is_padded
        raise ValueError(f"{name} must have shape ({text}); got {tuple(tensor.shape)}{hint}")


def check_floats(graph: Graph, **tensors: Tensor | None) -> None:
    """Check that tensors have the same floating-point dtype and are on the graph's device. None is
    skipped, unless all are None. Raises TypeError for another type, layout or dtype, and ValueError
    for another device.
    """
    present: dict[str, Any] = {name: t for name, t in tensors.items() if t is not None} or tensors
    first, lead = next(iter(present.items()))
    device = graph.device
    # torch.compile raises an error if a backward that it traces reads the layout of a tensor.
    has_layout = not torch.compiler.is_compiling()
    for name, tensor in present.items():
        check_tensor(name, tensor)
        if has_layout and (tensor.layout != torch.strided or tensor.is_nested):
            kind = "nested" if tensor.is_nested else tensor.layout
            raise TypeError(f"{name} must be a dense tensor; got a {kind} one")
        if tensor.dtype not in FLOATS:
            raise TypeError(f"{name} must be float32, float64, bfloat16 or float16; got "
                            f"{tensor.dtype}")  # fmt: skip
        if tensor.dtype != lead.dtype:
            raise TypeError(f"{name} must be {lead.dtype} like {first}; got {tensor.dtype}")
        if tensor.device != device:
            raise ValueError(f"{name} must be on {device}, like the graph; got {tensor.device}")


def check_graph(graph: object) -> None:
    """Raise TypeError unless ``graph`` is a :class:`gattn.Graph`.

    Operators do not accept edge indices, because these do not contain the numbers of nodes.
    """
    if not isinstance(graph, Graph):
        raise TypeError(
            "graph must be a gattn.Graph (create it with gattn.Graph(edges, size)); got "
            f"{type(graph).__module__}.{type(graph).__name__}"
        )


def check_number(name: str, value: float) -> None:
    """Raise TypeError unless ``value`` is a number. A tensor is rejected, because it would get
    no gradient.
    """
    if isinstance(value, (Tensor, str, list, tuple)) or value is None:
        raise TypeError(f"{name} must be a number; got {type(value).__name__}")


def check_probability(name: str, value: float) -> None:
    """Raise ValueError unless 0 <= value <= 1. Raises TypeError for anything but a number."""
    check_number(name, value)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a probability in [0, 1]; got {value}")


def check_grouped(name: str, heads: int, value_heads: int) -> None:
    """Raise ValueError unless the number of value heads divides the number of heads."""
    if value_heads == 0 and heads == 0:
        return
    if value_heads == 0 or heads % value_heads:
        raise ValueError(f"{name} must have a number of heads that divides {heads}; got "
                         f"{value_heads}")  # fmt: skip


def as_bias(attn_bias: T, like: Tensor) -> T | Tensor:
    """Convert a boolean mask of edges to a bias in the dtype of ``like``: 0 for True, and -inf for
    False.

    Any other value is returned unchanged, and is checked later.
    """
    if not isinstance(attn_bias, Tensor) or attn_bias.dtype != torch.bool:
        return attn_bias
    zeros = torch.zeros(attn_bias.shape, dtype=like.dtype, device=attn_bias.device)
    return zeros.masked_fill(~attn_bias, -torch.inf)


def new_seed(dropout: float, device: torch.device, edge_offset: int = 0) -> Tensor | None:
    """Return the seed of dropout, [2] int64; None if there is no dropout.

    The seed consists of a key, which is drawn from torch's generator, and of the index of the
    graph's first edge.
    """
    if dropout == 0.0:
        return None
    key = torch.randint(-(2**63), 2**63 - 1, (1,), device=device)
    return torch.nn.functional.pad(key, (0, 1), value=edge_offset)
