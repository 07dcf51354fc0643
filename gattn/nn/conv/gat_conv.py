"""The layer GATConv: graph attention with GAT's score."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptPairTensor, OptTensor, Size

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import (
    caches_loop_features,
    is_linear,
    read_edges,
    with_loop_features,
    with_weights,
)
from gattn.nn.common.edge_terms import NARROW, report_shape
from gattn.nn.common.features import (
    add_bias,
    as_columns,
    folded_score,
    is_product,
    merge_heads,
    node_inputs,
    skip,
    tile_heads,
    values_and_scores,
)
from gattn.nn.common.scores import FusedScore, gat_score
from gattn.nn.conv.base import AttentionConv, Nodes


class GATConv(pyg.GATConv, AttentionConv):
    r"""Graph attention with GAT's score, a sum of a query score and a key score.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} W_s x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}
        (a_t \cdot W_t x_i + a_s \cdot W_s x_j + a_e \cdot W_e e_{ij})

    Has the arguments and the parameters of ``torch_geometric.nn.GATConv`` and returns the same
    outputs. No tensor of size edges x channels is formed: the terms of the score are computed as
    scalars per node, :math:`a \cdot W x = (W^\top a) \cdot x`, and in the same way per edge.

    Args:
        in_channels: number of node features, d, or a pair (source, destination) for separate
            projections W_s and W_t; -1 takes the number from the first input.
        out_channels: channels per head, c.
        heads: number of heads, h.
        concat: whether the heads are concatenated; else they are averaged.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training.
        add_self_loops: whether each node also attends to itself: self-loops in the input are
            replaced by one self-loop per node.
        edge_dim: number of edge features; None for a layer without edge features. Without
            edge_attr in forward, the score has no edge term, as in PyG.
        fill_value: features of the added self-loops: a number, a vector [edge_dim], or the
            reduction of the features of the node's incoming edges (``"mean"``, ``"add"``,
            ``"min"``, ``"max"``, ``"mul"``).
        bias: whether a learned bias is added to the output.
        residual: whether a linear projection of the destination's features is added.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t] or None) if bipartite, dense or
          ``torch.sparse`` CSR, or dense [b, n, d] for b sets of features on one set of edges;
          edges as pairs (2, e), an adjacency [n, m] or a :class:`gattn.Graph`;
          edge features [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, h * c] or [b, n, c] with
          a batch. A node without edges gets the residual and the bias alone

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape or size, an index out of range, or an invalid setting.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch
        >>> from gattn.nn import GATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> GATConv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

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
        """Compute the attention along the edges, in training with dropout. The first call of a
        layer with the width -1 creates its weights. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            size: (m, n), the numbers of sources and destinations, if x does not determine them.
            return_attention_weights: whether to return the attention weights, too.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features. With ``return_attention_weights``, ``(out, (edge_index, alpha))``
            with the attention weights alpha [e, h] before dropout, in the order of the returned
            edges: the caller's edges without self-loops, then the added self-loops; or the entries
            of a sparse adjacency. For a SparseTensor, ``(out, adj_t)`` with alpha as its values. If
            a subclass overrides ``edge_update``, alpha is its result.

        Raises:
            TypeError: if the edges have an unsupported type, or the dtypes differ.
            ValueError: for a wrong shape or size, or an index out of range.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: edge_attr is passed to a layer without edge_dim, which ignores it; a layer
                warns once.
        """
        x_src, x_dst = node_inputs(x)
        residual = None if self.res is None or x_dst is None else skip(self.res, x_dst)
        graph, edge_attr = read_edges(
            edge_index, edge_attr, x_src, x_dst, size, self_loops=self.add_self_loops
        )
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        # One channel is the score of SAGPooling.
        report_shape(self.heads * self.out_channels, 2 if edge_attr is None else NARROW)
        nodes, needs_weights = self._project(x_src, x_dst), bool(return_attention_weights)
        out, alpha = self.attend(nodes, edge_attr, graph, needs_weights, terms=terms)
        out = merge_heads(out, self.heads, x_src, self.concat)
        out = add_bias(out, self.bias, residual)
        if alpha is None:
            return out
        return out, with_weights(edge_index, graph, alpha, x_src, self_loops=self.add_self_loops)

    def _project(self, x_src: Tensor, x_dst: OptTensor) -> Nodes:
        """Return the query scores a_t . W_t x_i, [n, h], the key scores a_s . W_s x_j, [m, h], and
        the values W_s x_j, [m, h, c].

        If sources and destinations are the same nodes with the same W, x is projected once. Raises
        the errors of :func:`project`.
        """
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

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> FusedScore:
        """Return the score of the fused operator: a sum of the scores of the query and the key, [n,
        h] and [m, h], and of the edge features, if there are any. The query score is zero for
        destinations without features. A layer without edge_dim warns once that it ignores edge
        features. Raises ValueError or TypeError if they do not fit.
        """
        query = nodes.query
        if query is None:
            query = nodes.key.new_zeros(graph.num_dst, nodes.key.shape[1])
        edge = self._edge_score(edge_attr, graph, nodes.key.shape[1])
        return gat_score(query, nodes.key, edge_score=edge, negative_slope=self.negative_slope)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs [n, h, c] and the attention weights [e, h] before dropout, computed by
        PyG's message passing. Raises ValueError or TypeError if the edge features do not fit, and
        RuntimeError under torch.jit.trace.
        """
        edge_index, edge_attr = graph.edge_index, self.edge_features(edge_attr, graph)
        is_size_known = nodes.value_dst is not None or graph.num_src == graph.num_dst
        # If the size is None, PyG infers the number of nodes from the values.
        size = None if is_size_known else graph.size
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
        """Return the attention weights [e, h] after dropout; their values before dropout are
        stored. A layer without edge_dim ignores ``edge_attr`` and warns once.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        scores alpha of both ends are [e, h], and ``index`` [e] is the destination. Raises
        ValueError or TypeError if the edge features do not fit.
        """
        score = alpha_j if alpha_i is None else alpha_j + alpha_i
        if edge_attr is not None and self.lin_edge is None:
            self.warn_of_ignored(edge_attr)
        elif edge_attr is not None:
            score = score + tile_heads(self._edge_term(edge_attr), 1, score.shape[1])
        alpha = self.softmax(F.leaky_relu(score, self.negative_slope), index, ptr, dim_size)
        return self.drop_weights(alpha)

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Return the values of the source nodes, [e, h, c], multiplied by the attention weights.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        values of sources are [e, h, c], and the weights alpha [e, h].
        """
        return alpha.unsqueeze(-1) * x_j

    def _edge_score(self, edge_attr: OptTensor, graph: Graph, heads: int) -> OptTensor:
        """Return the edge term of the score, [e, h], including self-loops; None if the layer or the
        caller has no edge features.

        If a self-loop's features are a linear function of the other edges' features, so is its
        score. Then the scores [e, h] are reduced, which is cheaper than reducing the features,
        unless the self-loops' features are cached. A layer without ``edge_dim`` warns once that it
        ignores the features. Raises ValueError or TypeError if their width or dtype is wrong, and
        RuntimeError under torch.jit.trace.
        """
        if edge_attr is None:
            return None
        if self.att_edge is None:
            self.warn_of_ignored(edge_attr)
            return None
        linear = is_linear(self.fill_value) and is_product(self.lin_edge)
        if self.add_self_loops and linear and not caches_loop_features(edge_attr, graph):
            score = with_loop_features(self._edge_term(edge_attr), graph, self.fill_value)
        else:
            score = self._edge_term(self.edge_features(edge_attr, graph))
        return tile_heads(score, 1, heads)

    def _edge_term(self, edge_attr: Tensor) -> Tensor:
        """Return the edge term a_e . W_e e_ij of the score for each edge and head: [e, h]."""
        assert self.att_edge is not None
        return folded_score(self.lin_edge, as_columns(edge_attr), self.att_edge, "edge_attr")
