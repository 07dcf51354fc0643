"""GATv2Conv: attention whose score is a one-layer perceptron of both nodes and the edge."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.typing import Adj, OptTensor, PairTensor
from torch_geometric.utils import softmax

from gattn.functional import mlp_attention, mlp_attention_weights
from gattn.graph import Graph
from gattn.nn._checks import check_at_least, check_probability
from gattn.nn._conv import (
    AttentionConv,
    add_bias,
    channel_pair,
    merge_heads,
    node_pair,
    project,
    skip,
    split_heads,
    tile_heads,
)
from gattn.nn._edges import read_edges, with_loop_features, with_weights


class GATv2Conv(AttentionConv):
    r"""Graph attention with the score of a one-layer perceptron.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} W_l x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\,
        a \cdot \mathrm{LeakyReLU}(W_r x_i + W_l x_j + W_e e_{ij})

    Takes the arguments and the parameters of ``torch_geometric.nn.GATv2Conv`` and gives its
    outputs. No tensor of size edges x channels is formed: edge features are projected inside the
    operator.

    Args:
        in_channels: features of a node, d, or a pair (source, destination); -1 takes it from the
            first input.
        out_channels: channels per head, c.
        heads: number of heads, h.
        concat: whether heads are laid side by side, or averaged.
        negative_slope: slope of the LeakyReLU below zero.
        dropout: probability of dropping a weight in training.
        add_self_loops: whether each node attends to itself: loops in the input are replaced by
            one loop per node.
        edge_dim: features of an edge; None where there are none. A forward without edge_attr
            leaves the edges' term out of the score, as PyG's does.
        fill_value: features of the loops that are added: a number, a vector [edge_dim], or how to
            reduce those of a node's incoming edges (``"mean"``, ``"add"``, ``"min"``, ``"max"``,
            ``"mul"``).
        bias: whether the projections and the output have a bias.
        share_weights: whether W_r is W_l.
        residual: whether a projection of the destination's own features is added.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite, dense or ``torch.sparse``
          CSR, or dense [b, n, d] for b sets of features on one set of edges; edges as pairs
          (2, e), an adjacency [n, m] or a :class:`gattn.Graph`; edge features [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, -] with a batch

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape, an index out of range, or edge features without edge_dim.

    Reference:
        Brody, Alon, Yahav, "How attentive are graph attention networks?" (ICLR 2022).

    Example:
        >>> import torch
        >>> from gattn.nn import GATv2Conv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> GATv2Conv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | Tensor | str = "mean",
        bias: bool = True,
        share_weights: bool = False,
        residual: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(node_dim=0, **kwargs)
        check_at_least(1, heads=heads)
        check_at_least(0, out_channels=out_channels)
        check_probability("dropout", dropout)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = dropout
        self.add_self_loops = add_self_loops
        self.edge_dim = edge_dim
        self.fill_value = fill_value
        self.residual = residual
        self.share_weights = share_weights

        def linear(width: int, out: int, bias: bool) -> Linear:
            return Linear(width, out, bias=bias, weight_initializer="glorot")

        source, destination = channel_pair(in_channels)
        width, total = heads * out_channels, heads * out_channels if concat else out_channels
        self.lin_l = linear(source, width, bias)
        self.lin_r = self.lin_l if share_weights else linear(destination, width, bias)
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = None if edge_dim is None else linear(edge_dim, width, False)
        self.res = linear(destination, total, False) if residual else None
        self.bias = Parameter(torch.empty(total)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        super().reset_parameters()
        for linear in (self.lin_l, self.lin_r, self.lin_edge, self.res):
            if linear is not None:
                linear.reset_parameters()
        glorot(self.att)
        zeros(self.bias)

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj | Graph,
        edge_attr: OptTensor = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Attend along the edges.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            return_attention_weights: whether to return the weights, too.

        Returns:
            The new node features; asked for the weights, ``(out, (edge_index, alpha))`` with
            alpha [e, h] before dropout, aligned with the returned edges: the caller's without
            loops, then the loops, where they are added. For a sparse adjacency its entries.
        """
        x_src, x_dst = node_pair(x)
        residual = None if self.res is None else skip(self.res, x_dst)
        graph, edge_attr = read_edges(
            edge_index, edge_attr, x_src, x_dst, self_loops=self.add_self_loops
        )
        if edge_attr is not None and self.add_self_loops:
            self.check_edge_width(edge_attr)
            edge_attr = with_loop_features(edge_attr, graph, self.fill_value)
        key = split_heads(project(self.lin_l, x_src), self.out_channels)
        shared = self.share_weights and x_dst is x_src
        query = key if shared else split_heads(project(self.lin_r, x_dst), self.out_channels)
        attend = self._attend if self.fused else self._attend_edge_by_edge
        out, alpha = attend(query, key, edge_attr, graph, bool(return_attention_weights))
        out = merge_heads(out, self.heads, x_src, self.concat)
        out = add_bias(out if residual is None else out + residual, self.bias)
        if alpha is None:
            return out
        return out, with_weights(edge_index, graph, alpha, x_src, self_loops=self.add_self_loops)

    def _attend(
        self, query: Tensor, key: Tensor, edge_attr: OptTensor, graph: Graph, want_weights: bool
    ) -> tuple[Tensor, OptTensor]:
        edge_attr, edge_proj = self.edge_term(edge_attr, key)
        score: dict[str, Any] = {
            "weight": tile_heads(self.att.squeeze(0), 0, key.shape[1]).to(key.dtype),
            "edge_attr": edge_attr,
            "edge_proj": edge_proj,
            "negative_slope": self.negative_slope,
        }
        out = mlp_attention(query, key, key, graph=graph, dropout=self.dropout_now(), **score)
        return out, mlp_attention_weights(
            query, key, graph=graph, **score
        ) if want_weights else None

    def _attend_edge_by_edge(
        self, query: Tensor, key: Tensor, edge_attr: OptTensor, graph: Graph, want_weights: bool
    ) -> tuple[Tensor, OptTensor]:
        edge_index, size = graph.edge_index, graph.size
        # edge_updater_type: (x: PairTensor, edge_attr: OptTensor)
        alpha = self.edge_updater(edge_index, x=(key, query), edge_attr=edge_attr, size=size)
        # propagate_type: (x: PairTensor, alpha: Tensor)
        out = self.propagate(edge_index, x=(key, query), alpha=alpha, size=size)
        return out, alpha if want_weights else None

    def edge_update(
        self,
        x_j: Tensor,
        x_i: Tensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        dim_size: int | None,
    ) -> Tensor:
        """Weights [e, h] of the edges, after dropout: the edge by edge path."""
        hidden = x_i + x_j
        if edge_attr is not None:
            hidden = hidden + self.edge_values(edge_attr, hidden.shape[1])
        hidden = F.leaky_relu(hidden, self.negative_slope)
        score = (hidden * tile_heads(self.att, 1, hidden.shape[1])).sum(-1)
        return F.dropout(softmax(score, index, ptr, dim_size), self.dropout, self.training)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Weighted values [e, h, c] of the edges: the edge by edge path."""
        return x_j * alpha.unsqueeze(-1)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"heads={self.heads})"
        )
