"""GATConv: attention whose score is a sum of one scalar per node, and one per edge."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.typing import Adj, OptPairTensor, OptTensor, Size

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import (
    is_linear,
    keeps_loop_features,
    read_edges,
    with_loop_features,
    with_weights,
)
from gattn.nn.common.features import (
    add_bias,
    as_columns,
    channel_pair,
    folded_score,
    glorot_linear,
    is_product,
    merge_heads,
    node_inputs,
    skip,
    tile_heads,
    values_and_scores,
)
from gattn.nn.common.scores import GATScore
from gattn.nn.conv.base import AttentionConv, Nodes


class GATConv(AttentionConv):
    r"""Graph attention with an additive score.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} W_s x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}
        (a_t \cdot W_t x_i + a_s \cdot W_s x_j + a_e \cdot W_e e_{ij})

    Takes the arguments and the parameters of ``torch_geometric.nn.GATConv`` and gives its
    outputs. No tensor of size edges x channels is formed: the scores are scalars per node,
    :math:`a \cdot W x = (W^\top a) \cdot x`, and per edge, likewise.

    Args:
        in_channels: features of a node, d; a pair (source, destination) gives each its own W;
            -1 takes it from the first input.
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
        bias: whether a bias is added.
        residual: whether a projection of the destination's own features is added.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t] or None) if bipartite, dense or
          ``torch.sparse`` CSR, or dense [b, n, d] for b sets of features on one set of edges;
          edges as pairs (2, e), an adjacency [n, m] or a :class:`gattn.Graph`;
          edge features [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, -] with a batch; for a
          node without edges what is added to the sum: the residual and the bias

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape or size, an index out of range, or a setting that is none.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch
        >>> from gattn.nn import GATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> GATConv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
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
        residual: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kwargs, in_channels=in_channels, out_channels=out_channels, heads=heads, concat=concat,
            negative_slope=negative_slope, dropout=dropout, add_self_loops=add_self_loops,
            edge_dim=edge_dim, fill_value=fill_value,
        )  # fmt: skip
        self.residual = residual
        source, destination = channel_pair(in_channels)
        width, total = heads * out_channels, heads * out_channels if concat else out_channels
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(in_channels, (tuple, list)):
            self.lin_src = glorot_linear(source, width)
            self.lin_dst = glorot_linear(destination, width)
        else:
            self.lin = glorot_linear(source, width)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = self.att_edge = None
        if edge_dim is not None:
            self.lin_edge = glorot_linear(edge_dim, width)
            self.att_edge = Parameter(torch.empty(1, heads, out_channels))
        self.res = glorot_linear(destination, total) if residual else None
        self.bias = Parameter(torch.empty(total)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        super().reset_parameters()
        for linear in (self.lin, self.lin_src, self.lin_dst, self.lin_edge, self.res):
            if linear is not None:
                linear.reset_parameters()
        glorot(self.att_src)
        glorot(self.att_dst)
        glorot(self.att_edge)
        zeros(self.bias)

    def forward(
        self,
        x: Tensor | OptPairTensor,
        edge_index: Adj | Graph,
        edge_attr: OptTensor = None,
        size: Size = None,
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
            size: (m, n), where x does not tell.
            return_attention_weights: whether to return the weights, too.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], is added to the score of each edge; -inf drops it.

        Returns:
            The new node features; asked for the weights, ``(out, (edge_index, alpha))`` with
            alpha [e, h] before dropout, aligned with the returned edges: the caller's without
            loops, then the loops, where they are added. For a sparse adjacency its entries. In a
            subclass that overrides ``edge_update`` alpha is what that gives.
        """
        x_src, x_dst = node_inputs(x)
        residual = None if self.res is None or x_dst is None else skip(self.res, x_dst)
        graph, edge_attr = read_edges(
            edge_index, edge_attr, x_src, x_dst, size, self_loops=self.add_self_loops
        )
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        nodes, want_any = self._project(x_src, x_dst), bool(return_attention_weights)
        out, alpha = self.attend(nodes, edge_attr, graph, want_any, terms=terms)
        out = merge_heads(out, self.heads, x_src, self.concat)
        out = add_bias(out, self.bias, residual)
        if alpha is None:
            return out
        return out, with_weights(edge_index, graph, alpha, x_src, self_loops=self.add_self_loops)

    def _project(self, x_src: Tensor, x_dst: OptTensor) -> Nodes:
        """a_t . W_t x_i, a_s . W_s x_j and W_s x_j, from one product where both sides are one."""
        source, destination = (self.lin_src, self.lin_dst) if self.lin is None else (self.lin,) * 2
        if x_dst is x_src and destination is source:
            value, (query, key) = values_and_scores(source, x_src, self.att_dst, self.att_src)
            return Nodes(query, key, value, value)
        value, (key,) = values_and_scores(source, x_src, self.att_src)
        if x_dst is None:
            return Nodes(None, key, value)
        name = "x of the destinations"
        if self.fused:
            return Nodes(folded_score(destination, x_dst, self.att_dst, name), key, value)
        value_dst, (query,) = values_and_scores(destination, x_dst, self.att_dst, name=name)
        return Nodes(query, key, value, value_dst)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> GATScore:
        query = nodes.query
        if query is None:
            query = nodes.key.new_zeros(graph.num_dst, nodes.key.shape[1])
        edge = self._edge_score(edge_attr, graph, nodes.key.shape[1])
        return GATScore(query, nodes.key, edge=edge, negative_slope=self.negative_slope)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        edge_index, edge_attr = graph.edge_index, self.edge_features(edge_attr, graph)
        recognized = nodes.value_dst is not None or graph.num_src == graph.num_dst
        size = None if recognized else graph.size  # PyG reads it off the values
        scores, values = (nodes.key, nodes.query), (nodes.value, nodes.value_dst)
        # edge_updater_type: (alpha: OptPairTensor, edge_attr: OptTensor)
        alpha = self.edge_updater(edge_index, alpha=scores, edge_attr=edge_attr, size=size)
        # propagate_type: (x: OptPairTensor, alpha: Tensor)
        return self.propagate(edge_index, x=values, alpha=alpha, size=size), alpha

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: OptTensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        dim_size: int | None,
    ) -> Tensor:
        """Weights [e, h] of the edges, after dropout: the edge-by-edge path."""
        score = alpha_j if alpha_i is None else alpha_j + alpha_i
        if edge_attr is not None and self.lin_edge is None:
            self.warn_of_ignored(edge_attr)
        elif edge_attr is not None:
            score = score + tile_heads(self._edge_term(edge_attr), 1, score.shape[1])
        alpha = self.softmax(F.leaky_relu(score, self.negative_slope), index, ptr, dim_size)
        return self.drop_weights(alpha)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Weighted values [e, h, c] of the edges: the edge-by-edge path."""
        return alpha.unsqueeze(-1) * x_j

    def _edge_score(self, edge_attr: OptTensor, graph: Graph, heads: int) -> OptTensor:
        """The edges' part of the score, loops included: [e, h].

        Where the features of a loop are linear in the others', so is its score: a narrower sum,
        unless the features are kept.
        """
        if edge_attr is None:
            return None
        if self.att_edge is None:
            self.warn_of_ignored(edge_attr)
            return None
        linear = is_linear(self.fill_value) and is_product(self.lin_edge)
        if self.add_self_loops and linear and not keeps_loop_features(edge_attr, graph):
            score = with_loop_features(self._edge_term(edge_attr), graph, self.fill_value)
        else:
            score = self._edge_term(self.edge_features(edge_attr, graph))
        return tile_heads(score, 1, heads)

    def _edge_term(self, edge_attr: Tensor) -> Tensor:
        """a_e . W_e e_ij: [e, h]."""
        assert self.att_edge is not None
        return folded_score(self.lin_edge, as_columns(edge_attr), self.att_edge, "edge_attr")
