"""Messages that are the sum of a source term, a destination term and an edge term.

They are aggregated without forming a tensor of size edges x channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.dense.linear import Linear

from gattn.functional import edge_dot
from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import features_and_weight, head_scores
from gattn.nn.common.scores import (
    FusedScore,
    Score,
    WithEdgeValues,
    attend_with_score,
    gat_score,
    sum_with_edges,
)
from gattn.ops.custom_score.chunked import edgewise


class Messages(NamedTuple):
    """Terms of the messages m_ij = v_j + u_i + W a_ij."""

    source: Tensor
    """Term of the source nodes, v, [m, h, c]."""
    destination: Tensor | None
    """Term of the destination nodes, u, [n, h, c]; None if there is no such term."""
    edge_attr: Tensor | None
    """Edge features, a, [e, d]; None if there is no edge term."""
    lin_edge: Linear | None
    """Linear layer of the edge features, W, with or without a bias."""

    def score(self, vector: Tensor, nodes: int) -> FusedScore:
        """Return the score LeakyReLU(w . m_ij), given a vector w [1, h, c] and the number n of
        destinations.
        """
        (key,) = head_scores(self.source, vector)
        query = key.new_zeros(nodes, key.shape[1])
        if self.destination is not None:
            (query,) = head_scores(self.destination, vector)
        edge = None
        if self.edge_attr is not None:
            columns, weight = features_and_weight(self.lin_edge, self.edge_attr)
            folded = vector.transpose(0, 1) @ weight.unflatten(0, vector.shape[1:])
            edge = infinite_as_nan(F.linear(columns, folded.squeeze(1)))
        return gat_score(query, key, edge_score=edge)

    def sum(self, score: Score | None, graph: Graph, terms: EdgeTerms) -> Tensor:
        """Return the sums of the messages into each node, [n, h, c]; the messages are weighted by a
        softmax.

        The weights are the softmax of ``score``, or 1 if it is None.
        """
        heads, channels = self.source.shape[1:]
        value, columns, proj = self.source, None, None
        if self.destination is not None:
            # Append a channel of ones, whose weighted sum is the sum of the weights.
            value = F.pad(value, (0, 1), value=1.0)
        if self.edge_attr is not None:
            columns, weight = features_and_weight(self.lin_edge, self.edge_attr)
            proj = weight.unflatten(0, (heads, channels))
            proj = F.pad(proj, (0, 0, 0, value.shape[-1] - channels))
        if score is None:
            ones = terms.weighted(value.new_ones(graph.num_edges, heads))
            out = sum_with_edges(ones, value, graph, columns, proj)
        else:
            if columns is not None and proj is not None:
                score = WithEdgeValues(score, columns, proj)
            out = attend_with_score(score, value, graph, terms=terms)[0]
        if self.destination is None:
            return out
        return out[..., :channels] + out[..., channels:] * self.destination


def opposite_products(forward: Messages, reverse: Messages, graph: Graph) -> Tensor:
    """Return the dot product m_ij . m_ji of the two messages of each edge, for each head: [e, h].

    Both messages use the features of the same edge.

    Args:
        forward: terms of the messages m_ij along the edges.
        reverse: terms of the messages m_ji against the edges: destinations have the source terms.
        graph: the edges.
    """
    if forward.edge_attr is None and forward.destination is None:
        return edge_dot(reverse.source, forward.source, graph)
    dst_terms = _without_none(reverse.source, forward.destination)
    graph, src_terms = graph.fetch_source_rows(*_without_none(forward.source, reverse.destination))
    linear = None if forward.edge_attr is None else forward.lin_edge
    if torch.compiler.is_compiling():
        # torch.compile does not trace modules that are created in a forward pass.
        source, destination = graph.edge_index
        rows = [t[destination] for t in dst_terms], [t[source] for t in src_terms]
        return _products(*rows, forward.edge_attr, linear)
    ends = ("destination", dst_terms), ("source", src_terms), ("edge", forward.edge_attr)
    return edgewise(_Products(linear), graph, *ends)


def _without_none(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


class _Products(Module):
    """Module that computes :func:`_products`. It contains the learned linear layer for edge
    features.
    """

    def __init__(self, lin_edge: Linear | None) -> None:
        super().__init__()
        self.lin_edge = lin_edge

    def forward(
        self, dst_terms: Sequence[Tensor], src_terms: Sequence[Tensor], edge_attr: Tensor | None
    ) -> Tensor:
        return _products(dst_terms, src_terms, edge_attr, self.lin_edge)


def _products(
    dst_terms: Sequence[Tensor],
    src_terms: Sequence[Tensor],
    edge_attr: Tensor | None,
    lin_edge: Linear | None,
) -> Tensor:
    """Return the dot products m_ij . m_ji for a batch of b edges, [b, h].

    Args:
        dst_terms: the terms v_i and, if there is one, u_i of the destinations, each [b, h, c].
        src_terms: the terms v_j and, if there is one, u_j of the sources, each [b, h, c].
        edge_attr: edge features [b, d], or None.
        lin_edge: linear map of the edge features, or None.
    """
    forward, reverse = src_terms[0], dst_terms[0]
    if len(dst_terms) > 1:
        forward, reverse = forward + dst_terms[1], reverse + src_terms[1]
    if edge_attr is not None and lin_edge is not None:
        edge_term = lin_edge(edge_attr).view_as(forward)
        forward, reverse = forward + edge_term, reverse + edge_term
    return (forward * reverse).sum(-1)
