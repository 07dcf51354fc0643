"""The layer GTConv: a graph transformer layer that updates nodes and edges."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear
from torch_geometric.typing import Adj

from gattn.functional import apply_edges
from gattn.graph import Graph
from gattn.nn.attention.block import feed_forward, norms
from gattn.nn.common.checks import (
    check_at_least,
    check_heads_divide,
    check_input,
    check_probability,
)
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.features import project, split_heads
from gattn.nn.common.scores import EdgeScore, attend_with_score
from gattn.nn.conv.edge_product import EdgeProduct, clamp_score, read_required


class GTConv(CompositeModule):
    r"""Graph transformer layer of Dwivedi and Bresson, which updates nodes and edges.

    .. math::
        w_{ij} = \tfrac{1}{\sqrt c}\, W_q x_i \odot W_k x_j \odot W_e e_{ij}, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)} \Bigl[ \textstyle\sum_c w_{ijc}
        \Bigr]_{-5}^{5}

    .. math::
        x'_i = U_x\Bigl(x_i, \textstyle\sum_{j \in N(i)} \alpha_{ij} W_v x_j\Bigr), \qquad
        e'_{ij} = U_e(e_{ij}, w_{ij}), \qquad
        U(a, b) = \mathrm{norm}(y + \mathrm{MLP}(y)), \quad y = \mathrm{norm}(a + O\, b)

    where the brackets clamp the score to [-5, 5]. The edge tensor w is the only tensor of size
    edges x channels that is formed. The queries and keys for it are gathered for some thousand
    edges at a time, and again in backward (:func:`gattn.functional.apply_edges`).

    Args:
        in_dim: number of node features.
        out_dim: number of output features of nodes and of edges, h c.
        num_heads: number of heads, h; must divide out_dim.
        dropout: dropout probability, in training, of the attention's output and of the hidden
            features of the MLPs.
        layer_norm: whether to apply layer normalisation.
        batch_norm: whether to apply batch normalisation, after the layer normalisation.
        residual: whether inputs are added. Inputs whose width is not out_dim are never added.
        use_bias: whether the projections to queries, keys, values and edges have a bias.
        edge_dim: number of edge features; None means in_dim.

    Shapes:
        - **input:** x [n, in_dim]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; edge features [e, edge_dim], or [e] for edge_dim=1
        - **output:** nodes [n, out_dim] and edges [e, out_dim], in the caller's order; for a node
          without edges the attention's output is zero

    Raises:
        TypeError: if the edges have an unsupported type, edge_attr is not a tensor, or
            dtypes differ.
        ValueError: if num_heads does not divide out_dim, a shape is wrong, or an index is out of
            range.

    Reference:
        Dwivedi, Bresson, "A generalization of transformer networks to graphs" (AAAI workshop
        2021).

    Example:
        >>> import torch
        >>> from gattn.nn import GTConv
        >>> conv = GTConv(16, 8, num_heads=2, edge_dim=3)
        >>> x, edge_attr = torch.randn(4, 16), torch.randn(3, 3)
        >>> nodes, edges = conv(x, torch.tensor([[0, 1, 2], [1, 2, 2]]), edge_attr)
        >>> nodes.shape, edges.shape
        (torch.Size([4, 8]), torch.Size([3, 8]))
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        num_heads: int = 1,
        dropout: float = 0.0,
        layer_norm: bool = False,
        batch_norm: bool = True,
        residual: bool = True,
        use_bias: bool = False,
        *,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__()
        edge_dim = in_dim if edge_dim is None else edge_dim
        check_at_least(0, in_dim=in_dim, edge_dim=edge_dim)
        check_at_least(1, out_dim=out_dim)
        check_heads_divide(num_heads, out_dim=out_dim)
        check_probability("dropout", dropout)
        self.in_dim, self.out_dim = in_dim, out_dim
        self.num_heads, self.edge_dim = num_heads, edge_dim
        self.lin_query = Linear(in_dim, out_dim, bias=use_bias)
        self.lin_key = Linear(in_dim, out_dim, bias=use_bias)
        self.lin_value = Linear(in_dim, out_dim, bias=use_bias)
        self.product = EdgeProduct(edge_dim, num_heads, out_dim // num_heads, use_bias)
        options = out_dim, dropout, residual, (layer_norm, batch_norm)
        self.node_update = _Update(in_dim, *options)
        self.edge_update = _Update(edge_dim, *options)

    def forward(
        self, x: Tensor, edge_index: Adj | Graph, edge_attr: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the attention along the edges, and update nodes and edges.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.

        Returns:
            The new features of the nodes and of the edges.

        Raises:
            ValueError: if x or edge_attr has a wrong shape.
            TypeError: if edge_attr is missing, or x or edge_attr does not have the dtype of the
                layer.
        """
        check_input("x", x, self.in_dim, self.lin_query)
        graph, edge_attr = read_required(edge_index, edge_attr, x)
        check_input("edge_attr", edge_attr, self.edge_dim, self.product.lin)
        query, key, value = (
            split_heads(project(linear, x), self.out_dim // self.num_heads)
            for linear in (self.lin_query, self.lin_key, self.lin_value)
        )
        stream = apply_edges(self.product, query, key, graph, edge_attr=edge_attr)
        out, _ = attend_with_score(EdgeScore(clamp_score(stream.sum(-1))), value, graph)
        return self.node_update(x, out.flatten(1)), self.edge_update(edge_attr, stream.flatten(1))

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"{self.in_dim}, {self.out_dim}, num_heads={self.num_heads}"


class _Update(CompositeModule):
    """Part of GTConv after the attention, for nodes or edges: projection, residual, MLP and
    normalisation.
    """

    def __init__(
        self,
        in_width: int,
        width: int,
        dropout: float,
        residual: bool,
        norm_options: tuple[bool, bool],
    ) -> None:
        super().__init__()
        self.dropout, self.residual = dropout, residual
        self.adds_input = residual and in_width == width
        self.lin_out = Linear(width, width)
        self.mlp = feed_forward(width, 2 * width, "relu", dropout)
        self.norm1, self.norm2 = norms(width, *norm_options), norms(width, *norm_options)

    def forward(self, old: Tensor, new: Tensor) -> Tensor:
        """Return the updated rows, given the input rows and the output of the attention."""
        y = self.lin_out(F.dropout(new, self.dropout, self.training))
        y = self.norm1(old + y if self.adds_input else y)
        z = self.mlp(y)
        return self.norm2(y + z if self.residual else z)
