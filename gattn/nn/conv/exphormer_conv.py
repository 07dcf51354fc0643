"""The layer ExphormerConv: sparse attention with edge features, for expander graphs."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.typing import Adj

from gattn.graph import Graph
from gattn.nn.common.checks import check_at_least, check_heads_divide, check_input
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.features import as_columns, project, split_heads
from gattn.nn.common.scores import SortedScore, attend_with_score
from gattn.ops.custom_score.api import sorted_scores

LIMIT = 5.0
"""Scores are clamped to [-LIMIT, LIMIT] before the softmax, as in the authors' code."""


class EdgeProductScore(Module):
    r"""Score of an edge and head: the sum over the channels of query x key x edge features,
    clamped to [-5, 5].

    Args:
        edge_dim: number of edge features.
        heads: number of heads, h.
        channels: number of channels per head, c.
        bias: whether the projection of the edge features has a bias.
    """

    def __init__(self, edge_dim: int, heads: int, channels: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.lin = Linear(edge_dim, heads * channels, bias=bias)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the scores of b edges, [b, h], for their query and key rows [b, h, c] and their
        features [b, edge_dim].
        """
        product = query * key * self.lin(edge_attr).unflatten(-1, (self.heads, -1))
        return (product.sum(-1) / math.sqrt(query.shape[-1])).clamp(-LIMIT, LIMIT)


class ExphormerConv(CompositeModule):
    r"""Exphormer layer: attention with edge features that multiply the products of queries and
    keys.

    .. math::
        x'_i = \sum_{j \in N(i)} \alpha_{ij} W_v x_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)} \Bigl[ \tfrac{1}{\sqrt c}
        \textstyle\sum_c (W_q x_i)_c\, (W_k x_j)_c\, (W_e a_{ij})_c \Bigr]_{-5}^{5},

    where the brackets clamp the score to [-5, 5]. Use the edges of
    :class:`gattn.transforms.AddExpander`, with features that distinguish the edge types, such as
    an embedding of ``expander_type``. The result equals the result of the authors' code, except
    that no small constant is added to the softmax's denominator. Scores are computed for some
    thousand edges at a time and recomputed in backward, so no tensor of size edges x channels is
    stored.

    Args:
        in_dim: number of node features.
        out_dim: number of output features, h c.
        num_heads: number of heads, h; must divide out_dim.
        use_bias: whether the four projections have a bias.
        edge_dim: number of edge features; None means in_dim.

    Shapes:
        - **input:** x [n, in_dim]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; edge features [e, edge_dim], or [e] for edge_dim=1
        - **output:** [n, out_dim]; zeros for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, edge_attr is not a tensor, or
            dtypes differ.
        ValueError: if num_heads does not divide out_dim, a shape is wrong, or an index is out of
            range.

    Reference:
        Shirzad et al., "Exphormer: sparse transformers for graphs" (ICML 2023).

    Example:
        >>> import torch
        >>> from gattn.nn import ExphormerConv
        >>> from gattn.transforms import AddExpander
        >>> from torch_geometric.data import Data
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> data = AddExpander(4)(Data(edge_index=edge_index, x=torch.randn(9, 16)))
        >>> kinds = torch.nn.Embedding(4, 16)
        >>> conv = ExphormerConv(16, 8, num_heads=2)
        >>> conv(data.x, data.expander_index, kinds(data.expander_type)).shape
        torch.Size([9, 8])
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        num_heads: int = 1,
        use_bias: bool = False,
        *,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__()
        edge_dim = in_dim if edge_dim is None else edge_dim
        check_at_least(0, in_dim=in_dim, edge_dim=edge_dim)
        check_at_least(1, out_dim=out_dim)
        check_heads_divide(num_heads, out_dim=out_dim)
        self.in_dim, self.out_dim = in_dim, out_dim
        self.num_heads, self.edge_dim = num_heads, edge_dim
        self.lin_query = Linear(in_dim, out_dim, bias=use_bias)
        self.lin_key = Linear(in_dim, out_dim, bias=use_bias)
        self.lin_value = Linear(in_dim, out_dim, bias=use_bias)
        self.score = EdgeProductScore(edge_dim, num_heads, out_dim // num_heads, use_bias)

    def forward(self, x: Tensor, edge_index: Adj | Graph, edge_attr: Tensor) -> Tensor:
        """Compute the attention along the edges. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.

        Returns:
            The new node features.

        Raises:
            ValueError: if x or edge_attr has a wrong shape, or an index is out of range.
            TypeError: if edge_attr is missing, the edges have an unsupported type, or x or
                edge_attr does not have the dtype of the layer.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: torch finds no compiler, or cannot compile the function of the edges of a
                large graph, which then runs uncompiled.
        """
        check_input("x", x, self.in_dim, self.lin_query)
        if x.dim() != 2:
            raise ValueError(f"x must have shape (n, d); got {tuple(x.shape)}")
        graph, features = read_edges(edge_index, edge_attr, x, x)
        if features is None:
            raise TypeError("edge_attr must be a tensor with a row for each edge; got None")
        features = as_columns(features)
        check_input("edge_attr", features, self.edge_dim, self.score.lin)
        query, key, value = (
            split_heads(project(linear, x), self.out_dim // self.num_heads)
            for linear in (self.lin_query, self.lin_key, self.lin_value)
        )
        score = sorted_scores(self.score, query, key, graph, features)
        out, _ = attend_with_score(SortedScore(score), value, graph)
        return out.flatten(1)

    def _reset_parameters(self) -> None:
        """Reset all learnable parameters; PyG's GPSConv calls its attention's reset this way."""
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"{self.in_dim}, {self.out_dim}, num_heads={self.num_heads}"
