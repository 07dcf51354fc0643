"""The scores of attention as records: what each is made of, and the operators that take it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor
from torch_geometric.typing import EdgeType

from gattn.functional import (
    additive_attention,
    additive_attention_weights,
    aggregate,
    dot_product_attention,
    dot_product_attention_weights,
    edge_softmax,
    mlp_attention,
    mlp_attention_weights,
)
from gattn.graph import Graph
from gattn.nn.recording import note, recording


class Score(Protocol):
    """A score of the edges, in the terms of its operator."""

    def attend(self, value: Tensor, graph: Graph, dropout: float) -> Tensor:
        """Sum of the values [m, h, c] by the weights, [n, h, c]."""
        ...

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        ...


class AdditiveScore(NamedTuple):
    """LeakyReLU(a_i + b_j + c_ij), of scalars: see :func:`gattn.functional.additive_attention`."""

    query: Tensor
    key: Tensor
    edge: Tensor | None = None
    negative_slope: float = 0.2

    def attend(self, value: Tensor, graph: Graph, dropout: float) -> Tensor:
        """Sum of the values [m, h, c] by the weights, [n, h, c]."""
        return additive_attention(
            self.query, self.key, value, graph,
            edge_score=self.edge, negative_slope=self.negative_slope, dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return additive_attention_weights(
            self.query, self.key, graph, edge_score=self.edge, negative_slope=self.negative_slope
        )


class MLPScore(NamedTuple):
    """w . act(q_i + k_j + W a_ij): see :func:`gattn.functional.mlp_attention`."""

    query: Tensor
    key: Tensor
    weight: Tensor
    edge_attr: Tensor | None = None
    edge_proj: Tensor | None = None
    activation: str = "leaky_relu"
    negative_slope: float = 0.2

    def attend(self, value: Tensor, graph: Graph, dropout: float) -> Tensor:
        """Sum of the values [m, h, c] by the weights, [n, h, c]."""
        return mlp_attention(
            self.query, self.key, value, self.weight, graph,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj,
            activation=self.activation, negative_slope=self.negative_slope, dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return mlp_attention_weights(
            self.query, self.key, self.weight, graph,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj,
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
    bias: Tensor | None = None
    scale: float | None = None

    def attend(self, value: Tensor, graph: Graph, dropout: float) -> Tensor:
        """Sum of the values [m, h, c] by the weights, [n, h, c]."""
        return dot_product_attention(
            self.query, self.key, value, graph, scale=self.scale, bias=self.bias,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj, dropout=dropout,
        )  # fmt: skip

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return dot_product_attention_weights(
            self.query, self.key, graph, scale=self.scale, bias=self.bias,
            edge_attr=self.edge_attr, edge_proj=self.edge_proj,
        )  # fmt: skip


class EdgeScore(NamedTuple):
    """Any score [e, h], in the caller's edge order: see :func:`gattn.functional.edge_softmax`."""

    score: Tensor

    def attend(self, value: Tensor, graph: Graph, dropout: float) -> Tensor:
        """Sum of the values [m, h, c] by the weights, [n, h, c]."""
        return aggregate(F.dropout(self.weights(graph), dropout), value, graph)

    def weights(self, graph: Graph) -> Tensor:
        """The weights before dropout, [e, h]."""
        return edge_softmax(self.score, graph)


def attend(
    score: Score,
    value: Tensor,
    graph: Graph,
    *,
    dropout: float = 0.0,
    want_weights: bool = False,
    edge_type: EdgeType | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention with a score: the sum of the values, [n, h, c], and the weights if asked for.

    ``edge_type`` is what a record of the weights says of the edges.
    """
    out = score.attend(value, graph, dropout)
    if not (want_weights or recording()):
        return out, None
    weights = score.weights(graph)
    note(weights, graph, edge_type)
    return out, weights if want_weights else None
