"""Score of graph transformers that multiplies edge features by queries and keys."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.typing import Adj

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.features import as_columns

LIMIT = 5.0
"""Scores are clamped to [-LIMIT, LIMIT] before the softmax, as in the authors' code of GTConv and
ExphormerConv.
"""


class EdgeProduct(Module):
    r"""Elementwise product of queries, keys and projected edge features.

    .. math:: q_i \odot k_j \odot W a_{ij} / \sqrt c

    The sum over the channels of a head is the score of that head.

    Args:
        edge_dim: number of edge features.
        heads: number of heads, h.
        channels: number of channels per head, c.
        bias: whether the projection W has a bias.
    """

    def __init__(self, edge_dim: int, heads: int, channels: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.lin = Linear(edge_dim, heads * channels, bias=bias)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the scaled products of b edges, [b, h, c], for their query and key rows [b, h,
        c].
        """
        return self.unscaled(query, key, edge_attr) / math.sqrt(query.shape[-1])

    def unscaled(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the products, [b, h, c], without the factor 1 / sqrt(c)."""
        return query * key * self.lin(edge_attr).unflatten(-1, (self.heads, -1))


class EdgeProductScore(EdgeProduct):
    """Score of an edge and head: the sum over the channels of query x key x edge features,
    clamped to [-5, 5].
    """

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the scores of b edges, [b, h], for their query and key rows [b, h, c]."""
        total = self.unscaled(query, key, edge_attr).sum(-1)
        return clamp_score(total / math.sqrt(query.shape[-1]))


def clamp_score(score: Tensor) -> Tensor:
    """Clamp a score to the range [-5, 5], as the authors of GTConv and ExphormerConv do."""
    return score.clamp(-LIMIT, LIMIT)


def read_required(
    edge_index: Adj | Graph, edge_attr: Tensor | None, x: Tensor
) -> tuple[Graph, Tensor]:
    """Return the graph between the rows of x and the features of its edges, [e, d].

    Raises:
        TypeError: if there are no edge features.
        ValueError: for a wrong shape or an index out of range.
    """
    if x.dim() != 2:
        raise ValueError(f"x must have shape (n, d); got {tuple(x.shape)}")
    graph, edge_attr = read_edges(edge_index, edge_attr, x, x)
    if edge_attr is None:
        raise TypeError("edge_attr must be a tensor with a row for each edge; got None")
    return graph, as_columns(edge_attr)
