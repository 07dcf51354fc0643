"""Custom scores in gattn's chunked attention, in PyG's message passing, and in gattn's fused
kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import softmax

import gattn
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import leaf
from benchmarks.sides.inputs import CHANNELS, HEADS


class Gaussian(nn.Module):
    """Score that is the logarithm of a Gaussian kernel."""

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return the scores of b edges, [b, h]."""
        return -(query - key).square().sum(-1)


class Perceptron(nn.Module):
    """Score of GATv2. gattn also has a fused kernel for this score."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(HEADS, CHANNELS))

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return the scores of b edges, [b, h]."""
        return (self.weight * nn.functional.leaky_relu(query + key, 0.2)).sum(-1)


SCORES = {"gaussian": Gaussian, "perceptron": Perceptron}


class _Messages(MessagePassing):
    """Layer with the same score, written with PyG's MessagePassing."""

    def __init__(self, score: nn.Module) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.score = score

    def forward(self, query: Tensor, key: Tensor, value: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, query=query, key=key, value=value)

    def message(
        self, query_i: Tensor, key_j: Tensor, value_j: Tensor, index: Tensor, size_i: int
    ) -> Tensor:
        alpha = softmax(self.score(query_i, key_j, None), index, num_nodes=size_i)
        return alpha.unsqueeze(-1) * value_j


def attention(side: str, topology: Topology, dtype: torch.dtype, *, name: str) -> Contender:
    """Create attention with one of these scores: by "gattn", "pyg", or "gattn_fused" (only the
    perceptron).
    """
    torch.manual_seed(0)
    score = SCORES[name]().to(dtype)
    size = topology.num_nodes, HEADS, CHANNELS
    query, key, value = (
        leaf(*size, seed=seed, dtype=dtype, device=topology.device) for seed in (1, 2, 3)
    )
    graph = gattn.Graph(topology.edge_index, topology.num_nodes)
    messages = _Messages(score)

    def forward() -> Tensor:
        if side == "pyg":
            return messages(query, key, value, topology.edge_index)
        if side == "gattn_fused":
            weight = score.get_parameter("weight")
            return gattn.functional.gatv2_attention(query, key, value, weight, graph)
        return gattn.functional.attention(score, query, key, value, graph)

    leaves = {"query": query, "key": key, "value": value}
    return Contender(forward, {**leaves, **dict(score.named_parameters())})
