"""Neighbours of one labelled node along all relations, for the explanation of its prediction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.typed.predictor import TypedPredictor, offsets
from gattn.apps.nodes.typed.relations import Relation

__all__ = ["Neighbourhood", "TypedNeighbour", "typed_neighbourhood"]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Neighbours of a node.

    Attributes:
        titles: name and type of each neighbour.
        weights: attention of the node to its neighbours in the last layer, the mean over heads.
            A neighbour without an edge to the node is missing.
        without: function that returns the graph without the edges between the node and some
            neighbours.
        own_attention: attention of the node to itself; NaN without a self-loop.
    """

    titles: Mapping[Any, tuple[Hashable, str]]
    weights: Mapping[Any, float]
    without: Callable[[Sequence[Any]], AttributedGraph]
    own_attention: float = float("nan")

    @property
    def others(self) -> list[Any]:
        """The neighbours, in descending order of attention."""
        return sorted(self.titles, key=lambda one: (-self.weights.get(one, 0.0), one))


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


def typed_neighbourhood(
    predictor: TypedPredictor, graph: AttributedGraph, place: int
) -> Neighbourhood:
    """Return the neighbours of a labelled node along all relations.

    Args:
        predictor: the attention network of the model.
        graph: the graph to predict, with the inputs of its network.
        place: index of the node.
    """
    network, encoder = graph.network, predictor.encoder.network
    assert network is not None
    assert encoder is not None
    first, last = offsets(network), predictor.relation_attention(graph)[-1]
    titles: dict[TypedNeighbour, tuple[str, str]] = {}
    weights: dict[TypedNeighbour, float] = {}
    for relation, edges in network.edges.items():
        for message in (relation, relation.reverse()):
            if message.destination != network.target:
                continue
            is_source, kind = message == relation, message.source
            ends = edges.pairs.numpy() if is_source else edges.pairs.numpy()[::-1]
            for end in np.unique(ends[0, ends[1] == place]).tolist():
                name = f"{relation}: {network.names(kind, graph)[end]}"
                titles[TypedNeighbour(relation, is_source, end)] = name, kind
            if message in last:
                (source, destination), alpha = last[message]
                mask = destination == place
                sources = (source[mask] - first[kind]).tolist()
                for end, weight in zip(sources, alpha[mask].double().mean(1).tolist()):
                    other = TypedNeighbour(relation, is_source, end)
                    weights[other] = weights.get(other, 0.0) + weight

    def without(others: Sequence[TypedNeighbour]) -> AttributedGraph:
        changed: dict[Relation, EdgeTable] = {}
        for other in others:
            edges = changed.get(other.relation, network.edges[other.relation])
            ends = edges.pairs.numpy() if other.is_source else edges.pairs.numpy()[::-1]
            changed[other.relation] = edges.select((ends[0] != other.place) | (ends[1] != place))
        return encoder.with_edges(graph, changed)

    return Neighbourhood(titles, weights, without)
