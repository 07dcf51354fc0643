"""The layer GeneralConv: a general message-passing layer with optional attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor, PairTensor, Size

from gattn.functional import edge_dot
from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.checks import check_at_least, check_input_of, is_lazy, shape_of_rows
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import (
    as_columns,
    features_and_weight,
    head_scores,
    node_pair,
    project,
    split_heads,
)
from gattn.nn.common.scores import (
    EdgeScore,
    FusedScore,
    Score,
    WithEdgeValues,
    attend_with_score,
    gat_score,
    sum_with_edges,
)
from gattn.nn.conv.base import AttentionConv
from gattn.ops.custom_score.chunked import edgewise

_TYPES = ("additive", "dot_product")


class GeneralConv(pyg.GeneralConv, AttentionConv):
    r"""General graph convolution with optional attention, from the design space of graph neural
    networks.

    .. math::
        x'_i = W_{\mathrm{self}} x_i + \frac{1}{h} \sum_{\mathrm{heads}} \sum_{j \in N(i)}
        \alpha_{ij}\, m_{ij}, \qquad m_{ij} = W x_j + W_i x_i + W_e a_{ij}, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(s_{ij})

    with :math:`s_{ij} = a \cdot m_{ij}` for additive attention, and
    :math:`s_{ij} = m_{ji} \cdot m_{ij} / \sqrt{c}` for dot-product attention, where
    :math:`m_{ji}` uses the features of the same edge. Has the arguments and the parameters of
    ``torch_geometric.nn.GeneralConv`` and returns the same outputs. Nodes are projected once, not
    once per edge, and no tensor of size edges x channels is stored: dot products of messages with
    terms W_i x_i or W_e a_ij are computed for some thousand edges at a time.
    :meth:`reset_parameters` also reinitialises W_i, which PyG's method leaves unchanged.

    Args:
        in_channels: number of node features, d, or a pair (source, destination); -1 takes the
            number from the first input.
        out_channels: number of output features, c.
        in_edge_channels: number of edge features; None for a layer without edge features.
        aggr: ``"add"``, or another aggregation of PyG's, which runs edge by edge.
        skip_linear: whether to use a linear map W_self even if in_channels equals out_channels;
            else x_i is then added unchanged.
        directed_msg: whether messages omit the destination's term W_i x_i.
        heads: number of heads, h.
        attention: whether messages have attention weights; else each weight is 1.
        attention_type: ``"additive"`` or ``"dot_product"``.
        l2_normalize: whether each output row is divided by its L2 norm.
        bias: whether the linear maps have a bias.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite; edges as pairs (2, e), an
          adjacency [n, m] or a :class:`gattn.Graph`; edge features [e, in_edge_channels] or [e]
        - **output:** [n, c]; W_self x_i for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape or setting, an index out of range, edge features without
            in_edge_channels, or an attn_bias without attention.

    Reference:
        You, Ying and Leskovec, "Design space for graph neural networks" (NeurIPS 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import GeneralConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> conv = GeneralConv(16, 8, heads=2, attention=True)
        >>> conv(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    scaler: Tensor

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for an unknown attention_type, or in_edge_channels below -1."""
        kind = arguments["attention_type"]
        if arguments["attention"] and kind not in _TYPES:
            raise ValueError(f"attention_type must be one of {_TYPES}; got {kind!r}")
        check_at_least(-1, in_edge_channels=arguments["in_edge_channels"])

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        return () if self.in_edge_channels is None else ("lin_edge",)

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj | Graph,
        edge_attr: OptTensor = None,
        size: Size = None,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Sum the messages into each node. The first call of a layer with the width -1 creates its
        weights. The attention weights are passed to the active recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes; optional.
            size: (m, n), the numbers of sources and destinations, if the edges do not contain them.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features.

        Raises:
            ValueError: if an input has a wrong shape, an index is out of range, or the layer was
                created without the setting that it needs: attention for attn_bias, in_edge_channels
                for edge_attr.
            TypeError: if the edges have an unsupported type, or an input does not have the dtype of
                the layer.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.

        Warns:
            UserWarning: torch finds no compiler, or cannot compile the function of the edges of a
                large graph, which then runs uncompiled.
        """
        x_src, x_dst = node_pair(x)
        if x_src.dim() != 2 or x_dst.dim() != 2:
            shape = shape_of_rows(self.in_channels)
            raise ValueError(f"x must have shape {shape}; got {tuple(x_src.shape)}")
        if attn_bias is not None and not self.attention:
            raise ValueError(f"{self} was created with attention=False and takes no attn_bias")
        graph, edge_attr = read_edges(edge_index, edge_attr, x_src, x_dst, size)
        edge_attr = self._checked(edge_attr)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        sum_messages = self._sum if self.fused else self._sum_edge_by_edge
        out = sum_messages(x_src, x_dst, edge_attr, graph, terms).mean(1)
        out = out + project(self.lin_self, x_dst)
        return F.normalize(out, dim=-1) if self.normalize_l2 else out

    def _sum(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Compute the weighted sums of the messages, [n, h, c], with fused operators, from x_src
        [m, d], x_dst [n, d] and edge features [e, in_edge_channels]. The first call of a lazy layer
        creates its weights. The attention weights are passed to the active recordings. Raises the
        errors of :func:`project` and of :func:`edgewise`.
        """
        messages = self._messages(x_src, x_dst)
        score: Score | None = None
        if self.attention and self.attention_type == "additive":
            score = self._additive_score(messages, edge_attr, x_dst.shape[0])
        elif self.attention:
            reverse = messages if x_dst is x_src else self._messages(x_dst, x_src)
            if is_lazy(self.lin_self):  # edgewise reads all parameters of the layer
                self.lin_self(x_dst[:0])
            product = self._opposite_products(messages, reverse, edge_attr, graph)
            score = EdgeScore(F.leaky_relu(product / self.scaler.to(product.dtype), 0.2))
        value, columns, proj = messages.source, None, None
        if messages.destination is not None:
            # Append a channel of ones, whose weighted sum is the sum of the weights.
            value = F.pad(value, (0, 1), value=1.0)
        if edge_attr is not None:
            columns, weight = features_and_weight(self.lin_edge, edge_attr)
            proj = weight.unflatten(0, (self.heads, -1))
            proj = F.pad(proj, (0, 0, 0, value.shape[-1] - self.out_channels))
        if score is None:
            ones = terms.weighted(value.new_ones(graph.num_edges, self.heads))
            out = sum_with_edges(ones, value, graph, columns, proj)
        else:
            if columns is not None and proj is not None:
                score = WithEdgeValues(score, columns, proj)
            out = attend_with_score(score, value, graph, terms=terms)[0]
        if messages.destination is None:
            return out
        return out[..., :-1] + out[..., -1:] * messages.destination

    def _messages(self, x_src: Tensor, x_dst: Tensor) -> _Messages:
        """Return the terms of the messages along edges from rows of x_src to rows of x_dst."""
        destination = None if self.directed_msg else self._project(self.lin_msg_i, x_dst)
        return _Messages(self._project(self.lin_msg, x_src), destination)

    def _additive_score(self, messages: _Messages, edge_attr: OptTensor, nodes: int) -> FusedScore:
        """Return the score LeakyReLU(a . m_ij), given the edge features [e, in_edge_channels] and
        the number n of destinations. Raises the errors of :func:`node_scores`.
        """
        vector = self.att_msg
        (key,) = head_scores(messages.source, vector)
        query = key.new_zeros(nodes, key.shape[1])
        if messages.destination is not None:
            (query,) = head_scores(messages.destination, vector)
        edge = None
        if edge_attr is not None:
            columns, weight = features_and_weight(self.lin_edge, edge_attr)
            folded = vector.transpose(0, 1) @ weight.unflatten(0, vector.shape[1:])
            edge = infinite_as_nan(F.linear(columns, folded.squeeze(1)))
        return gat_score(query, key, edge_score=edge)

    def _opposite_products(
        self, messages: _Messages, reverse: _Messages, edge_attr: OptTensor, graph: Graph
    ) -> Tensor:
        """Return the dot product m_ij . m_ji of the two messages of each edge, for each head: [e,
        h].

        Both messages use the features of the same edge. Raises the errors of :func:`edgewise`.

        Args:
            messages: terms of the messages m_ij along the edges.
            reverse: terms of the messages m_ji against the edges: destinations have the source
                terms.
            edge_attr: edge features, or None.
            graph: the edges.
        """
        if edge_attr is None and messages.destination is None:
            return edge_dot(reverse.source, messages.source, graph)
        dst_terms = _without_none(reverse.source, messages.destination)
        src_terms = _without_none(messages.source, reverse.destination)
        graph, src_terms = graph.fetch_source_rows(*src_terms)
        if torch.compiler.is_compiling():
            source, destination = graph.edge_index
            rows = [t[destination] for t in dst_terms], [t[source] for t in src_terms]
            return self._products(*rows, edge_attr)
        ends = ("destination", dst_terms), ("source", src_terms), ("edge", edge_attr)
        return edgewise(self._products, graph, *ends)

    def _products(
        self, dst_terms: Sequence[Tensor], src_terms: Sequence[Tensor], edge_attr: OptTensor
    ) -> Tensor:
        """Return the dot products m_ij . m_ji for a batch of b edges, [b, h].

        Args:
            dst_terms: the terms v_i and, if there is one, u_i of the destinations, each [b, h, c].
            src_terms: the terms v_j and, if there is one, u_j of the sources, each [b, h, c].
            edge_attr: edge features [b, d], or None.
        """
        forward, reverse = src_terms[0], dst_terms[0]
        if len(dst_terms) > 1:
            forward, reverse = forward + dst_terms[1], reverse + src_terms[1]
        if edge_attr is not None and self.lin_edge is not None:
            edge_term = self.lin_edge(edge_attr).view_as(forward)
            forward, reverse = forward + edge_term, reverse + edge_term
        return (forward * reverse).sum(-1)

    def _project(self, linear: Linear, x: Tensor) -> Tensor:
        return split_heads(project(linear, x), self.out_channels)

    def _sum_edge_by_edge(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the sums of the messages, [n, h, c], computed by PyG's message passing from the
        arguments of :meth:`_sum`. Raises RuntimeError if attention weights are recorded, and
        ValueError if a subclass overrides the method that reads one of the ``terms``.
        """
        self.record_edge_by_edge(None, graph)
        graph, (x_src,) = graph.fetch_source_rows(x_src)
        # propagate_type: (x: PairTensor, edge_attr: OptTensor)
        with self.bind_terms(terms):
            return self.propagate(graph.edge_index, x=(x_src, x_dst), edge_attr=edge_attr)

    def message(
        self,
        x_i: Tensor,
        x_j: Tensor,
        edge_attr: OptTensor,
        edge_index_i: Tensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the messages of the edges, [e, h, c], multiplied by their weights, from the
        features [e, d] of their ends (only edge by edge). ``edge_index_i`` [e] are the
        destinations, and ``size_i`` is their number, which is read from ``edge_index_i`` if it is
        None. Raises the errors of torch if the widths do not fit.
        """
        message = self._message(x_i, x_j, edge_attr)
        if not self.attention:
            return message
        if self.attention_type == "dot_product":
            score = (self._message(x_j, x_i, edge_attr) * message).sum(-1) / self.scaler
        else:
            score = (message * self.att_msg).sum(-1)
        alpha = self.softmax(F.leaky_relu(score, 0.2), edge_index_i, None, size_i)
        return message * alpha.unsqueeze(-1)

    def _message(self, x_i: Tensor, x_j: Tensor, edge_attr: OptTensor) -> Tensor:
        """Return the messages m_ij of all edges, [e, h, c], from features [e, d] of the ends."""
        message = self.lin_msg(x_j)
        if not self.directed_msg:
            message = message + self.lin_msg_i(x_i)
        if edge_attr is not None and self.lin_edge is not None:
            message = message + self.lin_edge(edge_attr)
        return split_heads(message, self.out_channels)

    def _checked(self, edge_attr: OptTensor) -> OptTensor:
        """Check the edge features; return them as [e, in_edge_channels], or None if there are none.
        Raises ValueError if the layer has no in_edge_channels or the width is wrong, and TypeError
        for a wrong dtype, and RuntimeError under torch.jit.trace. The first call of a lazy layer
        creates its weight.
        """
        if edge_attr is None:
            return None
        linear = getattr(self, "lin_edge", None)
        if linear is None:
            raise ValueError(f"{self} was created without in_edge_channels and takes no edge_attr")
        edge_attr = as_columns(edge_attr)
        if is_lazy(linear):
            linear(edge_attr[:0])
        check_input_of("edge_attr", edge_attr, linear)
        return edge_attr

    def __repr__(self) -> str:
        return MessagePassing.__repr__(self)


class _Messages(NamedTuple):
    """Terms of the nodes in the messages m_ij = v_j + u_i + W_e a_ij."""

    source: Tensor
    """Term of the source nodes, v, [m, h, c]."""
    destination: Tensor | None
    """Term of the destination nodes, u, [n, h, c]; None if there is no such term."""


def _without_none(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]
