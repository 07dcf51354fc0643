"""Explanation of the prediction of one node by its neighbours and its attributes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.models import AnyPredictor


@dataclass(frozen=True)
class Influence:
    """Influence of a neighbour or of an attribute on the prediction of a node.

    Attributes:
        name: name of the neighbour or of the attribute.
        attention: attention of the node to the neighbour in the last layer of the attention
            network: the mean over heads, summed over repeated edges. It is NaN for an attribute,
            and if there is no edge from the neighbour to the node.
        without: probability of the predicted class, or predicted number, if the edges between the
            node and the neighbour are removed, or if the attribute of the node is missing.
        change: prediction minus ``without``. It is positive if the neighbour or the attribute
            raises the prediction.
    """

    name: Hashable
    attention: float
    without: float
    change: float


@dataclass(frozen=True)
class NodeExplanation:
    """Explanation of the prediction of one node.

    Attributes:
        place: index of the node.
        output: index of the predicted class; 0 for numbers.
        prediction: probability of the predicted class, or the predicted number.
        own_attention: attention of the node to itself; NaN if the network has no self-loop at this
            node.
        neighbours: the explained neighbours, sorted by decreasing absolute change.
        attributes: the attributes of the node that the model reads, sorted in the same way.
        degree: number of different neighbours of the node.
        isolated: probability of the predicted class, or predicted number, if all edges of the node
            are removed.
        predicted: [n, outputs] predictions of all nodes.
    """

    place: int
    output: int
    prediction: float
    own_attention: float
    neighbours: tuple[Influence, ...]
    attributes: tuple[Influence, ...]
    degree: int
    isolated: float
    predicted: Tensor = field(repr=False)


def explain_node(
    predictor: AnyPredictor, graph: AttributedGraph, node: Hashable, *, most: int = 10
) -> NodeExplanation:
    r"""For each neighbour and each attribute of a node, measure how the prediction of the node
    changes if it is removed.

    .. math:: \mathrm{change}_j = f(G)_i - f(G \setminus \{(i, j), (j, i)\})_i

    The prediction f is that of the whole model. The attention weights are those of the attention
    network, which may be one of several models in a stack.

    Args:
        predictor: the fitted model.
        graph: the graph to predict.
        node: name of the node.
        most: maximum number of neighbours; those with the largest attention are chosen. For each of
            them, the graph is predicted once.

    Returns:
        The explanation. It has no neighbours if the node has no edges.

    Raises:
        GraphError: the graph has no node of this name, or is compact.
    """
    if graph.network is not None:
        raise GraphError(
            "nodes explain needs a network with one table of nodes; the section Relations of the "
            "report shows how much the predictions depend on each relation"
        )
    if graph.compact:
        raise GraphError(
            "nodes explain needs a model that was trained on the whole graph; this one was trained "
            "on samples, because the graph was above the memory budget (--memory)"
        )
    place = place_of(graph, node)
    predicted = predictor.predict(graph)
    output = int(predicted[place].argmax())
    prediction = float(predicted[place, output])
    weights = _attention(predictor, graph, place)
    source, destination = graph.edge_index
    adjacent = torch.cat([source[destination == place], destination[source == place]]).unique()
    others = [other for other in adjacent.tolist() if other != place]
    others.sort(key=lambda other: (-weights.get(other, 0.0), other))

    def influence(name: Hashable, weight: float, edited: AttributedGraph) -> Influence:
        without = float(predictor.predict_edited(edited, graph)[place, output])
        return Influence(name, weight, without, prediction - without)

    neighbours = [
        influence(
            graph.names[other], weights.get(other, float("nan")),
            _without_edges(graph, place, [other]),
        )
        for other in others[:most]
    ]  # fmt: skip
    attributes = [
        influence(name, float("nan"), _without_value(graph, place, name))
        for name in _attributes(predictor, graph)
    ]
    isolated = predictor.predict_edited(_without_edges(graph, place, others), graph)
    return NodeExplanation(
        place, output, prediction, weights.get(place, float("nan")), _sorted(neighbours),
        _sorted(attributes), len(others), float(isolated[place, output]), predicted,
    )  # fmt: skip


def place_of(graph: AttributedGraph, node: Hashable) -> int:
    """Return the index of a node, given its name, or its name as text."""
    names = {name: i for i, name in enumerate(graph.names)}
    if node in names:
        return names[node]
    texts = [i for i, name in enumerate(graph.names) if str(name) == str(node)]
    if len(texts) != 1:
        examples = ", ".join(repr(str(name)) for name in graph.names[:3])
        raise GraphError(f"the graph has no node {str(node)!r}; its nodes are {examples}, ...")
    return texts[0]


def _attention(predictor: AnyPredictor, graph: AttributedGraph, place: int) -> dict[int, float]:
    """Return the attention weights of a node's incoming edges in the last layer, one for each
    source node.
    """
    layers = predictor.attention(graph)
    if not layers:
        return {}
    edges, weights = layers[-1]
    mask = edges[1] == place
    sums: dict[int, float] = {}
    for source, weight in zip(edges[0, mask].tolist(), weights[mask].double().mean(1).tolist()):
        # If edges have several columns, the same edge can occur several times.
        sums[source] = sums.get(source, 0.0) + weight
    return sums


def _without_edges(graph: AttributedGraph, place: int, others: Sequence[int]) -> AttributedGraph:
    """Return the graph without the edges between one node and some other nodes.

    The inputs of the other edges, and the times of the nodes, do not change.
    """
    removed = torch.tensor(others, dtype=torch.int64)

    def keep(ends: Tensor) -> Tensor:
        source, destination = ends
        pair = (source == place) & torch.isin(destination, removed)
        return ~(pair | (destination == place) & torch.isin(source, removed))

    arcs, edges = keep(graph.arcs), keep(graph.edge_index)
    inputs = graph.edge_inputs
    return replace(
        graph,
        arcs=graph.arcs[:, arcs],
        edge_index=graph.edge_index[:, edges],
        edge_inputs=None if inputs is None else inputs.select(edges.numpy(), arcs.numpy()),
    )


def _without_value(graph: AttributedGraph, place: int, name: str) -> AttributedGraph:
    """Return the graph in which one attribute value of one node is missing."""
    table = graph.table.copy(deep=False)
    table[name] = table[name].where(np.arange(len(table)) != place)
    return replace(graph, table=table)


def _attributes(predictor: AnyPredictor, graph: AttributedGraph) -> list[str]:
    """Return the attributes that the model reads and that the graph's table contains."""
    columns = predictor.encoder.columns
    return [column.name for column in columns if column.name in graph.table.columns]


def _sorted(influences: list[Influence]) -> tuple[Influence, ...]:
    return tuple(sorted(influences, key=lambda one: -abs(one.change)))
