"""Attention scores as named tuples, and functions that compute attention with such a score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.typing import EdgeType

from gattn.functional import (
    aggregate,
    dot_product_attention,
    dot_product_attention_weights,
    edge_softmax,
    gat_attention,
    gat_attention_weights,
    gatv2_attention,
    gatv2_attention_weights,
)
from gattn.graph import Graph
from gattn.nn.common.edge_terms import NO_TERMS, EdgeTerms
from gattn.nn.common.recording import is_recording, record
from gattn.ops.attention.gat import attend_by_score
from gattn.ops.custom_score.api import attend_sorted


class Score(Protocol):
    """Attention score. It stores the arguments of the operator that computes it."""

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the sums of alpha * edge_weight * value, [n, h, c]; value is [m, h, c], and
        ``edge_weight`` [e] in the caller's order. Dropout draws from torch's generator. Raises the
        errors of the operator.
        """
        ...

    def weights(self, graph: Graph) -> Tensor:
        """Return the attention weights before dropout, [e, h]."""
        ...

    def plus(self, terms: EdgeTerms) -> Score:
        """Return this score with the bias of each edge added."""
        ...


class FusedScore(NamedTuple):
    """Score that a fused operator computes. It contains the arguments of the operator.

    The functions :func:`gat_score`, :func:`gatv2_score` and :func:`dot_product_score` create it.
    """

    attention: Callable[..., Tensor]
    """Operator that sums the values, such as :func:`gattn.functional.gat_attention`."""
    attention_weights: Callable[..., Tensor]
    """Operator that returns the attention weights."""
    query: Tensor
    key: Tensor
    options: dict[str, Any]
    """Other arguments of both operators, by name."""

    def plus(self, terms: EdgeTerms) -> FusedScore:
        """Return this score with the bias of each edge added."""
        bias = terms.joined_bias(self.options.get("attn_bias"), self.query)
        return self._replace(options={**self.options, "attn_bias": bias})

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the sums of alpha * edge_weight * value, [n, h, c]; value is [m, h, c], and
        ``edge_weight`` [e] in the caller's order. Dropout draws from torch's generator. Raises the
        errors of the operator.
        """
        return self.attention(
            self.query, self.key, value, graph=graph, edge_weight=edge_weight, dropout=dropout,
            **self.options,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """Return the attention weights before dropout, [e, h]."""
        return self.attention_weights(self.query, self.key, graph=graph, **self.options)


def gat_score(query_score: Tensor, key_score: Tensor, **options: Any) -> FusedScore:
    """Return GAT's score LeakyReLU(a_i + b_j + c_ij) + bias, with scalars a [n, h], b [m, h] and c
    [e, h].

    The options are keyword arguments of :func:`gattn.functional.gat_attention_weights`.
    """
    return FusedScore(gat_attention, gat_attention_weights, query_score, key_score, options)


def gatv2_score(query: Tensor, key: Tensor, weight: Tensor, **options: Any) -> FusedScore:
    """Return GATv2's score w . act(q_i + k_j + W a_ij) + bias, with q [n, h, c], k [m, h, c] and w
    [h, c].

    The options are keyword arguments of :func:`gattn.functional.gatv2_attention_weights`.
    """
    options["weight"] = weight
    return FusedScore(gatv2_attention, gatv2_attention_weights, query, key, options)


def dot_product_score(query: Tensor, key: Tensor, **options: Any) -> FusedScore:
    """Return the score scale * q_i . (k_j + W a_ij) + bias, with q [n, h, c] and k [m, h, c]. W
    a_ij is also added to the value.

    The options are keyword arguments of :func:`gattn.functional.dot_product_attention_weights`.
    """
    return FusedScore(dot_product_attention, dot_product_attention_weights, query, key, options)


class EdgeScore(NamedTuple):
    """Scores [e, h] that are computed beforehand, in the caller's order of edges.

    See :func:`gattn.functional.edge_softmax`.
    """

    score: Tensor

    def plus(self, terms: EdgeTerms) -> EdgeScore:
        """Return this score with the bias of each edge added."""
        return EdgeScore(terms.biased(self.score))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the sums of alpha * edge_weight * value, [n, h, c]; value is [m, h, c], and
        ``edge_weight`` [e] in the caller's order. Dropout draws from torch's generator. Raises the
        errors of the operator.
        """
        return attend_by_score(self.score, value, graph, edge_weight=edge_weight, dropout=dropout)

    def weights(self, graph: Graph) -> Tensor:
        """Return the attention weights before dropout, [e, h]."""
        return edge_softmax(self.score, graph)


class SortedScore(NamedTuple):
    """Scores [e, h] that are computed beforehand, in the order of
    :meth:`gattn.Graph.by_destination`, and a bias.
    """

    score: Tensor
    attn_bias: Tensor | None = None
    """Bias, [e, h] or [e, 1], in the caller's order of edges."""

    def plus(self, terms: EdgeTerms) -> SortedScore:
        """Return this score with the bias of each edge added."""
        return self._replace(attn_bias=terms.joined_bias(self.attn_bias, self.score))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the sums of alpha * edge_weight * value, [n, h, c]; value is [m, h, c], and
        ``edge_weight`` [e] in the caller's order. Dropout draws from torch's generator. Raises
        TypeError or ValueError for inputs that do not fit.
        """
        order = self._order(graph)
        edge_weight = None if edge_weight is None else edge_weight[order]
        score = self._biased(order)
        return attend_sorted(score, value, graph, edge_weight=edge_weight, dropout=dropout)

    def weights(self, graph: Graph) -> Tensor:
        """Return the attention weights before dropout, [e, h], in the caller's order of edges."""
        graph, _ = graph.fetch_source_rows()
        order = self._order(graph)
        alpha = edge_softmax(self._biased(order), graph.by_destination())
        return torch.empty_like(alpha).index_copy(0, order, alpha)

    def _order(self, graph: Graph) -> Tensor:
        """Return the caller's index of each edge, in the order of destinations: [e] int64."""
        return graph.fetch_source_rows()[0].layout.perm.long()

    def _biased(self, order: Tensor) -> Tensor:
        return self.score if self.attn_bias is None else self.score + self.attn_bias[order]


class WithEdgeValues(NamedTuple):
    """Score for attention whose values include edge features: v_j + W a_ij."""

    score: Score
    edge_attr: Tensor
    """Edge features a: [e, d], or [e, h, d] if each head has its own features."""
    edge_proj: Tensor
    """Projection W of the edge features, [h, c, d]."""

    def plus(self, terms: EdgeTerms) -> WithEdgeValues:
        """Return this score with the bias of each edge added."""
        return self._replace(score=self.score.plus(terms))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Return the sums of alpha * edge_weight * (v_j + W a_ij), [n, h, c], with v [m, h, c] and
        the ``edge_weight`` [e]. Dropout draws from torch's generator. Raises the errors of the
        score.
        """
        weight = _applied_weights(self.weights(graph), dropout, edge_weight)
        return sum_with_edges(weight, value, graph, self.edge_attr, self.edge_proj)

    def weights(self, graph: Graph) -> Tensor:
        """Return the attention weights before dropout, [e, h]."""
        return self.score.weights(graph)


def _applied_weights(alpha: Tensor, dropout: float, edge_weight: Tensor | None) -> Tensor:
    """Return the attention weights after dropout, multiplied by edge_weight: [e, h]. Dropout draws
    from torch's generator.
    """
    weight = F.dropout(alpha, dropout)
    return weight if edge_weight is None else weight * edge_weight.unsqueeze(1)


def sum_with_edges(
    weight: Tensor,
    value: Tensor,
    graph: Graph,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
) -> Tensor:
    """Return the sums of weight * (v_j + W a_ij), [n, h, c], for weights [e, h] and features a [e,
    d] or [e, h, d] in the caller's order of edges, values v [m, h, c] and the projection W [h, c,
    d]; without edge features, the sums of weight * v_j.

    W multiplies the weighted sums of a_ij per node, so that W a_ij is not formed for each edge.
    """
    weight = weight.to(value.dtype)
    out = aggregate(weight, value, graph)
    if edge_attr is None or edge_proj is None:
        return out
    edge_attr = edge_attr if edge_attr.dim() == 3 else edge_attr.unsqueeze(1)
    edges = aggregate(weight, edge_attr.to(value.dtype), graph.incidence())
    return out + torch.einsum("nhd,hcd->nhc", edges, edge_proj.to(value.dtype))


def attend_with_score(
    score: Score,
    value: Tensor,
    graph: Graph,
    *,
    terms: EdgeTerms = NO_TERMS,
    dropout: float = 0.0,
    want_weights: bool = False,
    edge_type: EdgeType | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention with a score. If a recording is active, record the attention weights.
    Dropout draws from torch's generator. Raises the errors of the operator that the score calls.

    Args:
        score: the attention score.
        value: values [m, h, c] of the sources.
        graph: the edges.
        terms: edge_weight and attn_bias of the edges.
        dropout: dropout probability of the attention weights.
        want_weights: whether to return the attention weights.
        edge_type: type of the edges, which is stored in the record.

    Returns:
        The weighted sums [n, h, c], and the weights [e, h] before dropout or None.
    """
    needs_weights = want_weights or is_recording()
    out, weights = attend_unrecorded(score, value, graph, terms, dropout, needs_weights)
    if weights is not None:
        record(weights, graph, edge_type)
    return out, weights if want_weights else None


def attend_unrecorded(
    score: Score, value: Tensor, graph: Graph, terms: EdgeTerms, dropout: float, want_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Compute attention like :func:`attend_with_score`, without recording the weights.

    Returns the weighted sums [n, h, c], and the softmax weights [e, h] or None. The softmax weights
    are returned before dropout and without edge_weight.
    """
    if terms.bias is not None:
        score = score.plus(terms)
    out = score.sum_values(value, graph, dropout, terms.weight_like(value))
    return out, score.weights(graph) if want_weights else None
