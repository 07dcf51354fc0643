"""The multiplicative score of graph transformers: edge features weigh the products of both ends."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.typing import Adj

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.features import as_columns

LIMIT = 5.0
"""Scores are kept within it, as the authors of both layers do, before the exponential."""


class EdgeProduct(Module):
    r""":math:`q_i \odot k_j \odot W a_{ij} / \sqrt c`: what each channel adds to a score.

    Args:
        edge_dim: features of an edge.
        heads: number of heads, h.
        channels: of each head, c.
        bias: whether W adds a bias.
    """

    def __init__(self, edge_dim: int, heads: int, channels: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.lin = Linear(edge_dim, heads * channels, bias=bias)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """[b, h, c], of the b edges between rows of query and of key."""
        return self.unscaled(query, key, edge_attr) / math.sqrt(query.shape[-1])

    def unscaled(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """The product alone."""
        return query * key * self.lin(edge_attr).unflatten(-1, (self.heads, -1))


class EdgeProductScore(EdgeProduct):
    """The sum of these over the channels, within the limit."""

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """[b, h]."""
        total = self.unscaled(query, key, edge_attr).sum(-1)
        return limited(total / math.sqrt(query.shape[-1]))


def limited(score: Tensor) -> Tensor:
    """A score within the limit."""
    return score.clamp(-LIMIT, LIMIT)


def read_required(
    edge_index: Adj | Graph, edge_attr: Tensor | None, x: Tensor
) -> tuple[Graph, Tensor]:
    """The graph among the rows of x, and features of its edges, [e, d], which there have to be."""
    if x.dim() != 2:
        raise ValueError(f"x must have shape (n, d); got {tuple(x.shape)}")
    graph, edge_attr = read_edges(edge_index, edge_attr, x, x)
    if edge_attr is None:
        raise TypeError("edge_attr must be a tensor, of a row for each edge; got None")
    return graph, as_columns(edge_attr)
