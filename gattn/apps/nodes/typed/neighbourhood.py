"""Neighbours of one labelled node along all relations, for the explanation of its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.typed.predictor import TypedPredictor, offsets
from gattn.apps.nodes.typed.relations import Relation

__all__ = ["TypedNeighbour", "TypedNeighbourhood"]


class TypedNeighbour(NamedTuple):
    """Node that an edge connects with the explained node.

    Attributes:
        relation: relation of the edge.
        is_source: True if the edge begins at the neighbour.
        place: index of the neighbour among the nodes of its type.
    """

    relation: Relation
    is_source: bool
    place: int


class TypedNeighbourhood:
    """Neighbours of a labelled node along all relations.

    Args:
        encoder: the encoder of the model.
        network: the attention network of the model.
        graph: the graph to predict, with the inputs of its network.
        place: index of the node.

    Attributes:
        others: the neighbours, in descending order of attention.
        own_attention: NaN, because the network has no self-loops.
    """

    own_attention = float("nan")

    def __init__(
        self, encoder: FeatureEncoder, network: TypedPredictor, graph: AttributedGraph, place: int
    ) -> None:
        assert graph.network is not None
        self._graph, self._network, self._place = graph, graph.network, place
        self._encoder = encoder
        self._weights = _weights(network, graph, place)
        target, others = graph.network.target, set()
        for relation, edges in graph.network.edges.items():
            source, destination = edges.pairs.numpy()
            if relation.source == target:
                ends = np.unique(destination[source == place]).tolist()
                others |= {TypedNeighbour(relation, False, end) for end in ends}
            if relation.destination == target:
                ends = np.unique(source[destination == place]).tolist()
                others |= {TypedNeighbour(relation, True, end) for end in ends}
        self.others = sorted(others, key=lambda one: (-self._weights.get(one, 0.0), one))

    def name(self, other: TypedNeighbour) -> str:
        """Return the relation and the name of a neighbour."""
        return (
            f"{other.relation}: {self._network.names(self.kind(other), self._graph)[other.place]}"
        )

    def kind(self, other: TypedNeighbour) -> str:
        """Return the type of a neighbour."""
        return other.relation.source if other.is_source else other.relation.destination

    def attention(self, other: TypedNeighbour) -> float:
        """Return the attention of the node to a neighbour along the relation; NaN if no messages
        are sent to the node.
        """
        return self._weights.get(other, float("nan"))

    def without(self, others: Sequence[TypedNeighbour]) -> AttributedGraph:
        """Return the graph without the edges between the node and some neighbours."""
        changed: dict[Relation, EdgeTable] = {}
        for other in others:
            edges = changed.get(other.relation, self._network.edges[other.relation])
            ends = edges.pairs.numpy() if other.is_source else edges.pairs.numpy()[::-1]
            changed[other.relation] = edges.select(
                (ends[0] != other.place) | (ends[1] != self._place)
            )
        assert self._encoder.network is not None
        return self._encoder.network.with_edges(self._graph, changed)


def _weights(
    network: TypedPredictor, graph: AttributedGraph, place: int
) -> dict[TypedNeighbour, float]:
    """Return the attention of a node to each neighbour in the last layer, the mean over heads."""
    assert graph.network is not None
    first = offsets(graph.network)
    last = network.relation_attention(graph)[-1]
    weights: dict[TypedNeighbour, float] = {}
    for relation in graph.network.edges:
        for message in (relation, relation.reverse()):
            if message not in last or message.destination != graph.network.target:
                continue
            (source, destination), alpha = last[message]
            mask = destination == place
            ends = (source[mask] - first[message.source]).tolist()
            for end, weight in zip(ends, alpha[mask].double().mean(1).tolist()):
                other = TypedNeighbour(relation, message == relation, end)
                weights[other] = weights.get(other, 0.0) + weight
    return weights
