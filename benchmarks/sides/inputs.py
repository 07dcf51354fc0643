"""Sizes and inputs of the layers and operators in the cases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.core.case import Topology
from benchmarks.core.seeds import leaf, normal
from benchmarks.sides.families import EDGES, FAMILIES

WIDTH, HEADS, CHANNELS, EDGE_DIM = 128, 8, 16, 16
"""Number of input channels, heads, channels per head, and edge features."""


@dataclass(frozen=True)
class Shape:
    """Operator with the widths and the dtype of its inputs."""

    operator: str
    """Name of the operator, one of :data:`benchmarks.sides.families.OPERATORS`."""
    heads: int = HEADS
    channels: int = CHANNELS
    dtype: torch.dtype = torch.float32

    @property
    def family(self) -> str:
        """Name of the operator without the suffix for edge features."""
        return self.operator.removesuffix(EDGES)

    @property
    def has_edges(self) -> bool:
        """True if edges have features."""
        return self.operator.endswith(EDGES)


def edge_attr(topology: Topology, dtype: torch.dtype) -> Tensor:
    """Create features of the edges, [e, d], which require no gradient."""
    size = topology.num_edges, EDGE_DIM
    return normal(*size, seed=10, dtype=dtype, device=topology.device)


def operator_inputs(
    topology: Topology, shape: Shape, *, edge_gradient: bool = False
) -> dict[str, Tensor]:
    """Create the projected inputs of an operator, by the names of its arguments.

    All inputs are leaves of autograd, except that edge_attr is a leaf only if its gradient is
    requested.
    """
    lengths = {"n": topology.num_nodes, "h": shape.heads, "c": shape.channels}
    sizes = {
        name: tuple(map(lengths.__getitem__, letters))
        for name, letters in FAMILIES[shape.family].shapes.items()
    }
    if shape.has_edges:
        sizes["edge_proj"] = shape.heads, shape.channels, EDGE_DIM
    inputs = {
        name: leaf(*size, seed=seed, dtype=shape.dtype, device=topology.device)
        for seed, (name, size) in enumerate(sizes.items())
    }
    if shape.has_edges:
        inputs["edge_attr"] = edge_attr(topology, shape.dtype).requires_grad_(edge_gradient)
    return inputs


def in_float64(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert inputs to float64 without changing their values."""
    return {
        name: tensor.detach().double().requires_grad_(tensor.requires_grad)
        for name, tensor in inputs.items()
    }
