"""The scores of attention as records: what each is made of, and the operators that take it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

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
    """A score of the edges, in the terms of its operator."""

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        ...

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        ...

    def plus(self, terms: EdgeTerms) -> Score:
        """This score and the bias of each edge."""
        ...


class GATScore(NamedTuple):
    """LeakyReLU(a_i + b_j + c_ij) + bias, of scalars.

    See :func:`gattn.functional.gat_attention`.
    """

    query: Tensor
    key: Tensor
    edge: Tensor | None = None
    negative_slope: float = 0.2
    attn_bias: Tensor | None = None

    def plus(self, terms: EdgeTerms) -> GATScore:
        """This score and the bias of each edge."""
        return self._replace(attn_bias=terms.bias_like(self.query))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        return gat_attention(
            self.query, self.key, value, graph, edge_score=self.edge, attn_bias=self.attn_bias,
            edge_weight=edge_weight, negative_slope=self.negative_slope, dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return gat_attention_weights(
            self.query, self.key, graph,
            edge_score=self.edge, attn_bias=self.attn_bias, negative_slope=self.negative_slope,
        )  # fmt: skip


class GATv2Score(NamedTuple):
    """w . act(q_i + k_j + W a_ij) + bias: see :func:`gattn.functional.gatv2_attention`."""

    query: Tensor
    key: Tensor
    weight: Tensor
    edge_attr: Tensor | None = None
    edge_proj: Tensor | None = None
    activation: str = "leaky_relu"
    negative_slope: float = 0.2
    attn_bias: Tensor | None = None

    def plus(self, terms: EdgeTerms) -> GATv2Score:
        """This score and the bias of each edge."""
        return self._replace(attn_bias=terms.bias_like(self.query))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        return gatv2_attention(
            self.query, self.key, value, self.weight, graph,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj,
            attn_bias=self.attn_bias, edge_weight=edge_weight,
            activation=self.activation, negative_slope=self.negative_slope, dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return gatv2_attention_weights(
            self.query, self.key, self.weight, graph,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj, attn_bias=self.attn_bias,
            activation=self.activation, negative_slope=self.negative_slope,
        )  # fmt: skip


class DotScore(NamedTuple):
    """scale q_i . (k_j + W a_ij) + bias: see :func:`gattn.functional.dot_product_attention`.

    What an edge brings is added to the value, too.
    """

    query: Tensor
    key: Tensor
    edge_attr: Tensor | None = None
    edge_proj: Tensor | None = None
    attn_bias: Tensor | None = None
    scale: float | None = None

    def plus(self, terms: EdgeTerms) -> DotScore:
        """This score and the bias of each edge."""
        return self._replace(attn_bias=terms.joined_bias(self.attn_bias, self.query))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        return dot_product_attention(
            self.query, self.key, value, graph, scale=self.scale, attn_bias=self.attn_bias,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj, edge_weight=edge_weight,
            dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return dot_product_attention_weights(
            self.query, self.key, graph, scale=self.scale, attn_bias=self.attn_bias,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj,
        )  # fmt: skip


class EdgeScore(NamedTuple):
    """Any score [e, h], in the caller's edge order: see :func:`gattn.functional.edge_softmax`."""

    score: Tensor

    def plus(self, terms: EdgeTerms) -> EdgeScore:
        """This score and the bias of each edge."""
        return EdgeScore(terms.biased(self.score))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        return attend_by_score(self.score, value, graph, edge_weight=edge_weight, dropout=dropout)

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return edge_softmax(self.score, graph)


class SortedScore(NamedTuple):
    """Any score [e, h], in the order of :meth:`gattn.Graph.by_destination`, and a bias."""

    score: Tensor
    attn_bias: Tensor | None = None
    """[e, h] or [e, 1] in the caller's edge order."""

    def plus(self, terms: EdgeTerms) -> SortedScore:
        """This score and the bias of each edge."""
        return self._replace(attn_bias=terms.joined_bias(self.attn_bias, self.score))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values [m, h, c] by alpha, times the weights [e] of edges: [n, h, c]."""
        order = self._order(graph)
        edge_weight = None if edge_weight is None else edge_weight[order]
        score = self._biased(order)
        return attend_sorted(score, value, graph, edge_weight=edge_weight, dropout=dropout)

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        graph, _ = graph.fetch_source_rows()
        order = self._order(graph)
        alpha = edge_softmax(self._biased(order), graph.by_destination())
        return torch.empty_like(alpha).index_copy(0, order, alpha)

    def _order(self, graph: Graph) -> Tensor:
        """The caller's positions of the sorted edges, [e]."""
        return graph.fetch_source_rows()[0].layout.perm.long()

    def _biased(self, order: Tensor) -> Tensor:
        return self.score if self.attn_bias is None else self.score + self.attn_bias[order]


class WithEdgeValues(NamedTuple):
    """A score whose edges add to the values: sum of weight (v_j + W a_ij)."""

    score: Score
    edge_attr: Tensor
    """a, [e, d], or [e, h, d] where each head has its own."""
    edge_proj: Tensor
    """W, [h, c, d]."""

    def plus(self, terms: EdgeTerms) -> WithEdgeValues:
        """This score and the bias of each edge."""
        return self._replace(score=self.score.plus(terms))

    def sum_values(
        self, value: Tensor, graph: Graph, dropout: float, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Sum of the values and of what the edges bring, by alpha and the weights: [n, h, c]."""
        weight = _applied(self.weights(graph), dropout, edge_weight)
        return sum_with_edges(weight, value, graph, self.edge_attr, self.edge_proj)

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return self.score.weights(graph)


def _applied(alpha: Tensor, dropout: float, edge_weight: Tensor | None) -> Tensor:
    """What the values of a composed score are summed with, [e, h]."""
    weight = F.dropout(alpha, dropout)
    return weight if edge_weight is None else weight * edge_weight.unsqueeze(1)


def sum_with_edges(
    weight: Tensor,
    value: Tensor,
    graph: Graph,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
) -> Tensor:
    """Sum of weight (v_j + W a_ij), [n, h, c]: W multiplies the sums of a, not every a."""
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
    """Attention with a score: the sum of the values, [n, h, c], and the weights if asked for.

    ``edge_type`` is what a record of the weights says of the edges.
    """
    want_any = want_weights or is_recording()
    out, weights = attend_unrecorded(score, value, graph, terms, dropout, want_any)
    if weights is not None:
        record(weights, graph, edge_type)
    return out, weights if want_weights else None


def attend_unrecorded(
    score: Score, value: Tensor, graph: Graph, terms: EdgeTerms, dropout: float, want_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """As :func:`sum_values`. The weights are the softmax's, without those that the terms bring."""
    if terms.bias is not None:
        score = score.plus(terms)
    out = score.sum_values(value, graph, dropout, terms.weight_like(value))
    return out, score.weights(graph) if want_weights else None
