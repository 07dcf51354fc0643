"""Explanation of the prediction of one node by a trained model, written as tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.estimators import AnyPredictor, NodeClassifier, NodeEstimator
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.nodes.runs.predict import load_estimator, read_graph
from gattn.apps.report.style import with_digits
from gattn.apps.run.train import Log, no_log
from gattn.draw import draw_network
from gattn.files import new_folder, write_rows


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
        GraphError: the graph has no node of this name, has several types of nodes, or is compact.
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
    """Return the index of a node, given its name, or its name as text. Raises GraphError if there
    is none, or if several names have this text.
    """
    names = {name: i for i, name in enumerate(graph.names)}
    if node in names:
        return names[node]
    texts = [i for i, name in enumerate(graph.names) if str(name) == str(node)]
    if len(texts) != 1:
        examples = ", ".join(repr(str(name)) for name in graph.names[:3])
        raise GraphError(f"the graph has no node {str(node)!r}; its nodes are {examples}, ...")
    return texts[0]


def _attention(predictor: AnyPredictor, graph: AttributedGraph, place: int) -> dict[int, float]:
    """Return the attention weights of the edges into a node in the last layer, by the index of the
    source: means over the heads, which are summed over repeated edges. The source may be the node
    itself. The result is empty for a model without attention.
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
        """Return a mask [e] of the edges that do not connect the node to a removed one."""
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


def _without_value(graph: AttributedGraph, place: int, name: Hashable) -> AttributedGraph:
    """Return the graph in which one attribute value of one node is missing."""
    table = graph.table.copy(deep=False)
    table[name] = table[name].where(np.arange(len(table)) != place)
    return replace(graph, table=table)


def _attributes(predictor: AnyPredictor, graph: AttributedGraph) -> list[str | int]:
    """Return the attributes that the model reads and that the graph's table contains."""
    columns = predictor.encoder.columns
    return [column.name for column in columns if column.name in graph.table.columns]


def _sorted(influences: list[Influence]) -> tuple[Influence, ...]:
    return tuple(sorted(influences, key=lambda one: -abs(one.change)))


def explain_graph_node(
    run: str | Path,
    path: str | Path,
    node: str,
    out: str | Path,
    *,
    most: int = 10,
    reading: GraphReading = DEFAULT_READING,
    threads: int = 0,
    log: Log = no_log,
) -> NodeExplanation:
    """Explain the prediction of one node of a graph.

    The folder ``out`` has the tables ``neighbours.csv`` and ``attributes.csv``, with one row for
    each :class:`Influence`, and ``network.png``, a picture of the node and its neighbours. If the
    node attends to itself, the last row of ``neighbours.csv`` is the node itself, without a
    prediction.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        node: name of the node.
        out: a new folder.
        most: maximum number of neighbours, those with the largest attention.
        reading: rules for reading the files, and the table of nodes.
        threads: number of threads inside one operator; 0 to choose it from the size of the graph.
        log: called with each line that the user should read.

    Returns:
        The explanation, which is also written to the folder.

    Raises:
        RunError: the folder contains no model that can be read.
        GraphError: the graph cannot be read, has no such node, or lacks an attribute that the model
            reads.
        FileNotFoundError: a file of the graph, or the folder in which ``out`` is created, does not
            exist.
        FileExistsError: ``out`` exists.
        ImportError: matplotlib or networkx, which draw the picture, is missing.
    """
    estimator = load_estimator(run).set_params(threads=threads)
    with new_folder(out) as folder:
        graph = read_graph(estimator, path, reading, log)
        explanation = explain_node(estimator.predictor_, graph, node, most=most)
        neighbours = list(_rows("neighbour", explanation.neighbours))
        if not math.isnan(explanation.own_attention):
            # The self-loop belongs to the network and cannot be removed.
            neighbours.append((node, f"{explanation.own_attention:.6g}", "", ""))
        write_rows(folder / "neighbours.csv", neighbours)
        write_rows(folder / "attributes.csv", _rows("attribute", explanation.attributes))
        (folder / "network.png").write_bytes(_picture(estimator, graph, explanation))
    for sentence in _sentences(estimator, graph, explanation):
        log(sentence)
    return explanation


def _rows(name: str, influences: Iterable[Influence]) -> Iterable[Sequence[object]]:
    """Yield the rows of the influence table. A weight that does not exist gives an empty cell."""
    yield name, "attention", "prediction_without", "change"
    for one in influences:
        attention = "" if math.isnan(one.attention) else f"{one.attention:.6g}"
        yield one.name, attention, with_digits(one.without, 6), f"{one.change:.6g}"


def _sentences(
    estimator: NodeEstimator, graph: AttributedGraph, explanation: NodeExplanation
) -> Iterable[str]:
    """Yield a sentence on the prediction, and a sentence for each of the largest influences."""
    is_class = isinstance(estimator, NodeClassifier)
    name, value = graph.names[explanation.place], with_digits(explanation.prediction, 4)
    if is_class:
        kind = estimator.classes_.tolist()[explanation.output]
        yield f"{name}: class {kind} with probability {value}"
    else:
        yield f"{name}: {value}"
    if explanation.degree:
        change = explanation.prediction - explanation.isolated
        yield f"without any edge: {with_digits(explanation.isolated, 4)} (change {change:+.4g})"
    for kind, influences in (
        ("neighbour", explanation.neighbours),
        ("attribute", explanation.attributes),
    ):
        for one in influences[:5]:
            without = f"{with_digits(one.without, 4)} (change {one.change:+.4g})"
            yield f"without {kind} {one.name}: {without}"


def _picture(
    estimator: NodeEstimator, graph: AttributedGraph, explanation: NodeExplanation
) -> bytes:
    """Return a PNG drawing of the explained node, its most influential neighbours, and its
    attention to them, relative to the largest one. Raises ImportError without matplotlib or
    networkx.
    """
    others, title = explanation.neighbours, str(graph.names[explanation.place])
    edges = np.stack([1 + np.arange(len(others)), np.zeros(len(others), np.int64)])
    weights = np.nan_to_num([one.attention for one in others])
    names = [str(one.name) for one in others]
    places = {name: i for i, name in enumerate(graph.names)}
    shown = [explanation.place, *(places[one.name] for one in others)]
    predicted, kinds = explanation.predicted[shown].numpy(), []
    colour = predicted[:, 0]
    if isinstance(estimator, NodeClassifier):
        colour = predicted.argmax(1)
        kinds = estimator.class_names
    return draw_network(
        edges, weights / max(weights.max(initial=0.0), 1e-12), colour, kinds,
        labels=[title, *names], wrong=np.arange(1 + len(others)) == 0,
        title=f"{title} in the ring",
    )  # fmt: skip
