"""Messages that are a sum of what both ends and the edge bring: never formed for all edges."""

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
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import features_and_weight, head_scores, infinite_as_nan
from gattn.nn.common.scores import (
    GATScore,
    Score,
    WithEdgeValues,
    attend_with_score,
    sum_with_edges,
)
from gattn.ops.custom_score.chunked import edgewise


class Messages(NamedTuple):
    """m_ij = v_j + u_i + W a_ij, by its parts."""

    source: Tensor
    """v, [m, h, c]."""
    destination: Tensor | None
    """u, [n, h, c]."""
    edge_attr: Tensor | None
    """a, [e, d]."""
    lin_edge: Linear | None
    """W, with its bias if it has one."""

    def score(self, vector: Tensor, nodes: int) -> GATScore:
        """LeakyReLU(w . m_ij) into each of n nodes, for w of shape [1, h, c]."""
        (key,) = head_scores(self.source, vector)
        query = key.new_zeros(nodes, key.shape[1])
        if self.destination is not None:
            (query,) = head_scores(self.destination, vector)
        edge = None
        if self.edge_attr is not None:
            columns, weight = features_and_weight(self.lin_edge, self.edge_attr)
            folded = vector.transpose(0, 1) @ weight.unflatten(0, vector.shape[1:])
            edge = infinite_as_nan(F.linear(columns, folded.squeeze(1)))
        return GATScore(query, key, edge=edge)

    def sum(self, score: Score | None, graph: Graph, terms: EdgeTerms) -> Tensor:
        """The sum of the messages, weighted by the softmax of a score if given: [n, h, c]."""
        heads, channels = self.source.shape[1:]
        value, columns, proj = self.source, None, None
        if self.destination is not None:  # one channel more, for the sum of the weights
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


def opposite_products(there: Messages, back: Messages, graph: Graph) -> Tensor:
    """m_ij . m_ji with the features of the one edge for both, [e, h].

    Args:
        there: the messages along the edges.
        back: those against them: of nodes j for the parts of i, and the other way round.
        graph: the edges.
    """
    if there.edge_attr is None and there.destination is None:
        return edge_dot(back.source, there.source, graph)
    at_dst = _given(back.source, there.destination)
    graph, at_src = graph.fetch_source_rows(*_given(there.source, back.destination))
    linear = None if there.edge_attr is None else there.lin_edge
    if torch.compiler.is_compiling():  # which takes no module that is made on the way
        source, destination = graph.edge_index
        rows = [t[destination] for t in at_dst], [t[source] for t in at_src]
        return _products(*rows, there.edge_attr, linear)
    ends = ("destination", at_dst), ("source", at_src), ("edge", there.edge_attr)
    return edgewise(_Products(linear), graph, *ends)


def _given(*tensors: Tensor | None) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor is not None]


class _Products(Module):
    """:func:`_products`, and the map that is learned."""

    def __init__(self, lin_edge: Linear | None) -> None:
        super().__init__()
        self.lin_edge = lin_edge

    def forward(
        self, of_dst: Sequence[Tensor], of_src: Sequence[Tensor], edge_attr: Tensor | None
    ) -> Tensor:
        return _products(of_dst, of_src, edge_attr, self.lin_edge)


def _products(
    of_dst: Sequence[Tensor],
    of_src: Sequence[Tensor],
    edge_attr: Tensor | None,
    lin_edge: Linear | None,
) -> Tensor:
    """m_ij . m_ji of a batch of edges, [b, h]; of an end its v and, if there is one, its u."""
    there, back = of_src[0], of_dst[0]
    if len(of_dst) > 1:
        there, back = there + of_dst[1], back + of_src[1]
    if edge_attr is not None and lin_edge is not None:
        of_edge = lin_edge(edge_attr).view_as(there)
        there, back = there + of_edge, back + of_edge
    return (there * back).sum(-1)
