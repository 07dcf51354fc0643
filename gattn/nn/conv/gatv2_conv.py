"""GATv2Conv: attention whose score is a one-layer perceptron of both nodes and the edge."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import read_edges, with_weights
from gattn.nn.common.features import (
    add_bias,
    channel_pair,
    glorot_linear,
    merge_heads,
    node_pair,
    project,
    skip,
    split_heads,
    tile_heads,
)
from gattn.nn.common.scores import GATv2Score
from gattn.nn.conv.base import AttentionConv, Nodes


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
        super().__init__(
            kwargs, in_channels=in_channels, out_channels=out_channels, heads=heads, concat=concat,
            negative_slope=negative_slope, dropout=dropout, add_self_loops=add_self_loops,
            edge_dim=edge_dim, fill_value=fill_value,
        )  # fmt: skip
        self.residual = residual
        self.share_weights = share_weights
        source, destination = channel_pair(in_channels)
        width, total = heads * out_channels, heads * out_channels if concat else out_channels
        self.lin_l = glorot_linear(source, width, bias)
        self.lin_r = self.lin_l if share_weights else glorot_linear(destination, width, bias)
        self.att = Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = None if edge_dim is None else glorot_linear(edge_dim, width)
        self.res = glorot_linear(destination, total) if residual else None
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
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Any:
        """Attend along the edges.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            return_attention_weights: whether to return the weights, too.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], is added to the score of each edge; -inf drops it.

        Returns:
            The new node features; asked for the weights, ``(out, (edge_index, alpha))`` with
            alpha [e, h] before dropout, aligned with the returned edges: the caller's without
            loops, then the loops, where they are added. For a sparse adjacency its entries. In a
            subclass that overrides ``edge_update`` alpha is what that gives.
        """
        x_src, x_dst = node_pair(x)
        residual = None if self.res is None else skip(self.res, x_dst)
        graph, edge_attr = read_edges(
            edge_index, edge_attr, x_src, x_dst, self_loops=self.add_self_loops
        )
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        nodes, want_any = self._project(x_src, x_dst), bool(return_attention_weights)
        out, alpha = self.attend(nodes, edge_attr, graph, want_any, terms=terms)
        out = merge_heads(out, self.heads, x_src, self.concat)
        out = add_bias(out, self.bias, residual)
        if alpha is None:
            return out
        return out, with_weights(edge_index, graph, alpha, x_src, self_loops=self.add_self_loops)

    def _project(self, x_src: Tensor, x_dst: Tensor) -> Nodes:
        """W_r x_i and W_l x_j, which is the value, too."""
        key = split_heads(project(self.lin_l, x_src), self.out_channels)
        if self.share_weights and x_dst is x_src:
            return Nodes(key, key, key)
        return Nodes(split_heads(project(self.lin_r, x_dst), self.out_channels), key, key)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> GATv2Score:
        query, key, _, _ = nodes
        assert query is not None
        edge_attr, edge_proj = self.edge_term(edge_attr, graph, key)
        att = tile_heads(self.att.squeeze(0), 0, key.shape[1]).to(key.dtype)
        slope = self.negative_slope
        return GATv2Score(query, key, att, edge_attr, edge_proj, negative_slope=slope)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        edge_index, edge_attr = graph.edge_index, self.edge_features(edge_attr, graph)
        x = nodes.key, nodes.query
        # edge_updater_type: (x: PairTensor, edge_attr: OptTensor)
        alpha = self.edge_updater(edge_index, x=x, edge_attr=edge_attr)
        # propagate_type: (x: PairTensor, alpha: Tensor)
        return self.propagate(edge_index, x=x, alpha=alpha), alpha

    def edge_update(
        self,
        x_j: Tensor,
        x_i: Tensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        dim_size: int | None,
    ) -> Tensor:
        """Weights [e, h] of the edges, after dropout: the edge-by-edge path."""
        hidden = x_i + x_j
        if edge_attr is not None:
            hidden = hidden + self.edge_values(edge_attr, hidden.shape[1])
        hidden = F.leaky_relu(hidden, self.negative_slope)
        score = (hidden * tile_heads(self.att, 1, hidden.shape[1])).sum(-1)
        return self.drop_weights(self.softmax(score, index, ptr, dim_size))

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Weighted values [e, h, c] of the edges: the edge-by-edge path."""
        return x_j * alpha.unsqueeze(-1)
