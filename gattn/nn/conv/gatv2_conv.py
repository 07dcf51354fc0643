"""The layer GATv2Conv: graph attention with the score of a one-layer perceptron."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import read_edges, with_weights
from gattn.nn.common.features import (
    add_bias,
    merge_heads,
    node_pair,
    project,
    skip,
    split_heads,
    tile_heads,
)
from gattn.nn.common.scores import FusedScore, gatv2_score
from gattn.nn.conv.base import AttentionConv, Nodes


class GATv2Conv(pyg.GATv2Conv, AttentionConv):
    r"""Graph attention with the score of a one-layer perceptron.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} W_l x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\,
        a \cdot \mathrm{LeakyReLU}(W_r x_i + W_l x_j + W_e e_{ij})

    Has the arguments and the parameters of ``torch_geometric.nn.GATv2Conv`` and returns the same
    outputs. No tensor of size edges x channels is formed: edge features are projected inside the
    operator.

    Args:
        in_channels: number of node features, d, or a pair (source, destination); -1 takes the
            number from the first input.
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
        bias: whether the projections and the output have a bias.
        share_weights: whether W_r and W_l are the same matrix.
        residual: whether a linear projection of the destination's features is added.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite, dense or ``torch.sparse``
          CSR, or dense [b, n, d] for b sets of features on one set of edges; edges as pairs
          (2, e), an adjacency [n, m] or a :class:`gattn.Graph`; edge features [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, h * c] or [b, n, c] with
          a batch

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
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
        """Compute the attention along the edges, in training with dropout. The first call of a
        layer with the width -1 creates its weights. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
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
            ValueError: for a wrong shape, an index out of range, or edge features without edge_dim.
            RuntimeError: under torch.jit.trace.
        """
        x_src, x_dst = node_pair(x)
        residual = None if self.res is None else skip(self.res, x_dst)
        graph, edge_attr = read_edges(
            edge_index, edge_attr, x_src, x_dst, self_loops=self.add_self_loops
        )
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        nodes, needs_weights = self._project(x_src, x_dst), bool(return_attention_weights)
        out, alpha = self.attend(nodes, edge_attr, graph, needs_weights, terms=terms)
        out = merge_heads(out, self.heads, x_src, self.concat)
        out = add_bias(out, self.bias, residual)
        if alpha is None:
            return out
        return out, with_weights(edge_index, graph, alpha, x_src, self_loops=self.add_self_loops)

    def _project(self, x_src: Tensor, x_dst: Tensor) -> Nodes:
        """Return the queries W_r x_i, [n, h, c], and the keys W_l x_j, [m, h, c], which are also
        the values. Raises the errors of :func:`project`.
        """
        key = split_heads(project(self.lin_l, x_src), self.out_channels)
        if self.share_weights and x_dst is x_src:
            return Nodes(key, key, key)
        return Nodes(split_heads(project(self.lin_r, x_dst), self.out_channels), key, key)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> FusedScore:
        """Return the score of the fused operator from queries [n, h, c], keys [m, h, c], the vector
        a of each head, and the edge features and their projection, if there are any. Raises
        ValueError or TypeError if the edge features do not fit.
        """
        query, key, _, _ = nodes
        assert query is not None
        edge_attr, edge_proj = self.edge_term(edge_attr, graph, key)
        att = tile_heads(self.att.squeeze(0), 0, key.shape[1]).to(key.dtype)
        edges, slope = {"edge_attr": edge_attr, "edge_proj": edge_proj}, self.negative_slope
        return gatv2_score(query, key, att, negative_slope=slope, **edges)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs [n, h, c] and the attention weights [e, h] before dropout, computed by
        PyG's message passing. Raises ValueError or TypeError if the edge features do not fit, and
        RuntimeError under torch.jit.trace.
        """
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
        """Return the attention weights [e, h] after dropout; their values before dropout are
        stored.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        queries and keys of the ends are [e, h, c], and ``index`` [e] is the destination. Raises
        ValueError for edge features without edge_dim.
        """
        hidden = x_i + x_j
        if edge_attr is not None:
            hidden = hidden + self.edge_values(edge_attr, hidden.shape[1])
        hidden = F.leaky_relu(hidden, self.negative_slope)
        score = (hidden * tile_heads(self.att, 1, hidden.shape[1])).sum(-1)
        return self.drop_weights(self.softmax(score, index, ptr, dim_size))

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Return the values of the source nodes, [e, h, c], multiplied by the attention weights.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        values of sources are [e, h, c], and the weights alpha [e, h].
        """
        return x_j * alpha.unsqueeze(-1)
