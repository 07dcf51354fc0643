"""The layer ExphormerConv, in gattn and with PyG's message passing."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import softmax

import gattn
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import leaf
from benchmarks.sides.inputs import CHANNELS, EDGE_DIM, HEADS, WIDTH, edge_attr


class _Messages(MessagePassing):
    """Attention of the layer written with PyG's message passing."""

    def __init__(self, layer: gattn.nn.ExphormerConv) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor, features: Tensor) -> Tensor:
        layer = self.layer
        maps = layer.lin_query, layer.lin_key, layer.lin_value
        query, key, value = (linear(x).view(-1, HEADS, CHANNELS) for linear in maps)
        weight = layer.score.lin(features).view(-1, HEADS, CHANNELS) / math.sqrt(CHANNELS)
        stream = self.edge_updater(edge_index, query=query, key=key, weight=weight)
        out = self.propagate(edge_index, stream=stream, value=value, size=(len(x), len(x)))
        return out.flatten(1)

    def edge_update(self, query_i: Tensor, key_j: Tensor, weight: Tensor) -> Tensor:
        return query_i * key_j * weight

    def message(self, stream: Tensor, value_j: Tensor, index: Tensor, size_i: int) -> Tensor:
        alpha = softmax(stream.sum(-1).clamp(-5, 5), index, num_nodes=size_i)
        return alpha.unsqueeze(-1) * value_j


def exphormer(side: str, topology: Topology, dtype: torch.dtype) -> Contender:
    """Create the attention of ExphormerConv."""
    torch.manual_seed(0)
    layer = gattn.nn.ExphormerConv(WIDTH, HEADS * CHANNELS, HEADS, edge_dim=EDGE_DIM).to(dtype)
    x, features = _inputs(topology, dtype)
    messages = _Messages(layer)

    def forward() -> Tensor:
        if side == "pyg":
            return messages(x, topology.edge_index, features)
        return layer(x, topology.edge_index, features)

    return Contender(forward, {"x": x, **dict(layer.named_parameters())})


def _inputs(topology: Topology, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x = leaf(topology.num_nodes, WIDTH, seed=1, dtype=dtype, device=topology.device)
    return x, edge_attr(topology, dtype)
