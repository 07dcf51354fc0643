"""PyG's message passing as operators with projected inputs."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from benchmarks.core.case import CannotRun, Function, Topology
from benchmarks.sides.inputs import EDGE_DIM, Shape

MOST_EDGES = 12_000_000
"""Maximum number of edges for which tensors of size edges x heads x channels fit on a GPU."""


def operator(shape: Shape, topology: Topology) -> Function:
    """Create PyG's computation for the inputs of an operator."""
    edge_index = topology.edge_index
    options: dict[str, Any] = {"heads": shape.heads, "bias": False}
    if shape.has_edges:
        options["edge_dim"] = EDGE_DIM
    if shape.family not in _LAYERS:
        raise CannotRun(f"PyG has no layer with the score {shape.family}")
    layer: Any = _LAYERS[shape.family](1, shape.channels, **options)

    def gat(query_score: Tensor, key_score: Tensor, value: Tensor) -> Tensor:
        alpha = layer.edge_updater(
            edge_index, alpha=(key_score, query_score), edge_attr=None, size=None
        )
        return layer.propagate(edge_index, x=(value, value), alpha=alpha, size=None)

    def gatv2(
        query: Tensor, key: Tensor, weight: Tensor,
        edge_attr: Tensor | None = None, edge_proj: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        layer._parameters["att"] = weight.unsqueeze(0)
        _give_projection(layer, edge_proj)
        alpha = layer.edge_updater(edge_index, x=(key, query), edge_attr=edge_attr)
        return layer.propagate(edge_index, x=(key, query), alpha=alpha)

    def dot_product(
        query: Tensor, key: Tensor, value: Tensor,
        edge_attr: Tensor | None = None, edge_proj: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        _give_projection(layer, edge_proj)
        return layer.propagate(edge_index, query=query, key=key, value=value, edge_attr=edge_attr)

    return {"gat": gat, "gatv2": gatv2, "dot_product": dot_product}[shape.family]


_LAYERS = {"gat": pyg.GATConv, "gatv2": pyg.GATv2Conv, "dot_product": pyg.TransformerConv}


def _give_projection(layer: Any, weight: Tensor | None) -> None:
    """Replace a layer's parameter for the edge projection by a plain tensor."""
    if weight is not None:
        layer.lin_edge._parameters["weight"] = weight.flatten(0, 1)


def on_card(shape: Shape, topology: Topology) -> Function:
    """Create PyG's operator if its intermediate tensors fit on the GPU."""
    check_fits(topology)
    return operator(shape, topology)


def check_fits(topology: Topology) -> None:
    """Raise :class:`CannotRun` if a tensor of size edges x heads x channels does not fit on a
    GPU.
    """
    if topology.num_edges > MOST_EDGES:
        raise CannotRun("a tensor of edges x heads x channels does not fit into memory")


def compiled(function: Function) -> Function:
    """Compile a function again, because dynamo stops compiling code that was compiled for
    several cases.
    """
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)
