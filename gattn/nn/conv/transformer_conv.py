"""The layer TransformerConv: graph attention with a scaled dot-product score."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import input_edges_with_weights, read_edges
from gattn.nn.common.features import (
    is_plain,
    merge_heads,
    node_pair,
    project,
    skip,
    split_heads,
)
from gattn.nn.common.scores import FusedScore, dot_product_score
from gattn.nn.conv.base import AttentionConv, Nodes


class TransformerConv(pyg.TransformerConv, AttentionConv):
    r"""Graph attention with a scaled dot-product score.

    .. math::
        x'_i = W_{\mathrm{skip}} x_i + \Big\Vert_h \sum_{j \in N(i)} \alpha_{ij}
        (W_v x_j + W_e e_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_j
        \frac{W_q x_i \cdot (W_k x_j + W_e e_{ij})}{\sqrt{c}}

    With ``beta=True`` the skip connection s and the attention's output o are gated:
    :math:`x'_i = \beta_i s_i + (1 - \beta_i) o_i` with
    :math:`\beta_i = \sigma(w \cdot [o_i, s_i, o_i - s_i])`. Has the arguments and the parameters of
    ``torch_geometric.nn.TransformerConv`` and returns the same outputs. No tensor of size
    edges x channels is formed, because W_e is applied to queries and to sums of edge features.

    Args:
        in_channels: number of node features, d, or a pair (source, destination); -1 takes the
            number from the first input.
        out_channels: channels per head, c.
        heads: number of heads, h.
        concat: whether the heads are concatenated; else they are averaged.
        beta: whether the skip connection and the attention are gated.
        dropout: dropout probability of the attention weights in training.
        edge_dim: number of edge features; None for a layer without edge features.
        bias: whether the projections have a bias.
        root_weight: whether the skip connection is added; without it there is no gate.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite, dense or ``torch.sparse``
          CSR, or dense [b, n, d] for b sets of features on one set of edges; edges as pairs
          (2, e), an adjacency [n, m] or a :class:`gattn.Graph`; edge features [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, h * c] or [b, n, c] with
          a batch

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape, an index out of range, edge features without edge_dim, or
            edge_dim without edge features.

    Reference:
        Shi et al., "Masked label prediction: unified message passing model for semi-supervised
        classification" (IJCAI 2021).

    Example:
        >>> import torch
        >>> from gattn.nn import TransformerConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> TransformerConv(16, 8, heads=4)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
    """

    _alpha: OptTensor

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
            return_attention_weights: True or False returns the attention weights, too, as in PyG;
                None returns the features alone.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features. With ``return_attention_weights``, ``(out, (edge_index, alpha))``
            with the attention weights alpha [e, h] before dropout, in the order of the caller's
            edges. For a SparseTensor, ``(out, adj_t)`` with alpha as its values.

        Raises:
            ValueError: if an input has a wrong shape, an index is out of range, or edge_attr is
                missing in a layer with edge_dim or passed to a layer without it.
            TypeError: if the edges have an unsupported type, or an input does not have the dtype of
                the layer.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.
        """
        x_src, x_dst = node_pair(x)
        graph, edge_attr = read_edges(edge_index, edge_attr, x_src, x_dst)
        if self.lin_edge is not None and edge_attr is None:
            raise ValueError(
                f"{self} was created with edge_dim={self.edge_dim} and needs edge_attr"
            )
        query = split_heads(project(self.lin_query, x_dst), self.out_channels)
        key = split_heads(project(self.lin_key, x_src), self.out_channels)
        value = split_heads(project(self.lin_value, x_src), self.out_channels)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        nodes, needs_weights = Nodes(query, key, value), isinstance(return_attention_weights, bool)
        out, alpha = self.attend(nodes, edge_attr, graph, needs_weights, terms=terms)
        out = merge_heads(out, self.heads, x_src, self.concat)
        if self.root_weight:
            out = self._add_skip(out, skip(self.lin_skip, x_dst))
        if alpha is None:
            return out
        return out, input_edges_with_weights(edge_index, graph, alpha, x_src)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> FusedScore:
        """Return the dot-product score of the fused operator for queries [n, h, c], keys [m, h, c]
        and edge features [e, edge_dim] or [e]. Raises ValueError or TypeError if the edge features
        do not fit.
        """
        assert nodes.query is not None
        edge_attr, edge_proj = self.edge_term(edge_attr, graph, nodes.key)
        return dot_product_score(nodes.query, nodes.key, edge_attr=edge_attr, edge_proj=edge_proj)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, OptTensor]:
        """Return the outputs [n, h, c] and the attention weights [e, h], computed by PyG's message
        passing; the weights are None if a replaced ``message`` does not store them. Raises
        ValueError for edge features without edge_dim.
        """
        query, key, value, _ = nodes
        # propagate_type: (query: Tensor, key: Tensor, value: Tensor, edge_attr: OptTensor)
        out = self.propagate(
            graph.edge_index, query=query, key=key, value=value, edge_attr=edge_attr
        )
        alpha, self._alpha = self._alpha, None
        return out, alpha

    def message(
        self,
        query_i: Tensor,
        key_j: Tensor,
        value_j: Tensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, h, c], multiplied by the attention weights
        after dropout. The weights before dropout are stored in the layer.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        queries, keys and values of the ends are [e, h, c], and ``index`` [e] is the destination.
        Raises ValueError for edge features without edge_dim.
        """
        if edge_attr is not None:
            edge_value = self.edge_values(edge_attr, key_j.shape[1])
            key_j, value_j = key_j + edge_value, value_j + edge_value
        score = (query_i * key_j).sum(-1) / math.sqrt(self.out_channels)
        self._alpha = alpha = self.softmax(score, index, ptr, size_i)
        return value_j * F.dropout(alpha, self.dropout, self.training).unsqueeze(-1)

    def _add_skip(self, out: Tensor, skip: Tensor) -> Tensor:
        """Add the skip connection to the output of the attention, or mix both, which have the shape
        of the layer's output, with a gate.

        The gate's logit w . [o, s, o - s] is computed as (w1 + w3) . o + (w2 - w3) . s.
        """
        if self.lin_beta is None:
            return out + skip
        if not is_plain(self.lin_beta):
            return out.lerp(skip, self.lin_beta(torch.cat([out, skip, out - skip], -1)).sigmoid())
        w1, w2, w3 = self.lin_beta.weight.chunk(3, dim=-1)
        beta = (F.linear(out, w1 + w3, self.lin_beta.bias) + F.linear(skip, w2 - w3)).sigmoid()
        return out.lerp(skip, beta)
