"""Explanation of the prediction of one node by a trained model, written as tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.estimators import NodeClassifier
from gattn.apps.nodes.explanation import Influence, NodeExplanation, explain_node
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.nodes.runs.predict import load_estimator, read_graph
from gattn.apps.run.product import Log, no_log
from gattn.draw import draw_network
from gattn.files import new_folder, write_rows

__all__ = ["explain_graph_node"]


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
    each :class:`gattn.apps.nodes.explanation.Influence`, and ``network.png``, a picture of the node
    and its neighbours. If the node attends to itself, the last row of ``neighbours.csv`` is the
    node itself, without a prediction.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        node: name of the node.
        out: a new folder.
        most: maximum number of neighbours, those with the largest attention.
        reading: rules for reading the files, and the table of nodes.
        threads: number of threads inside one operator; 0 to choose it from the size of the graph.
        log: called with each line that the user should read.

    Raises:
        RunError: the folder contains no model that can be read.
        GraphError: the graph cannot be read, has no such node, or lacks an attribute that the
            model reads.
        FileExistsError: ``out`` exists.
    """
    estimator = load_estimator(run).set_params(threads=threads)
    with new_folder(out) as folder:
        graph = read_graph(estimator, path, reading, log)
        explanation = explain_node(estimator.predictor_, graph, node, most=most)
        neighbours = chain(_rows("neighbour", explanation.neighbours), _own_row(graph, explanation))
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
        yield one.name, attention, f"{one.without:.6g}", f"{one.change:.6g}"


def _own_row(graph: AttributedGraph, explanation: NodeExplanation) -> Iterable[Sequence[object]]:
    """Yield the row of the attention of the node to itself, if there is a self-loop. It has no
    prediction, because the self-loop belongs to the network and cannot be removed.
    """
    if not math.isnan(explanation.own_attention):
        yield graph.names[explanation.place], f"{explanation.own_attention:.6g}", "", ""


def _sentences(
    estimator: NodeEstimator, graph: AttributedGraph, explanation: NodeExplanation
) -> Iterable[str]:
    """Yield a sentence on the prediction, and a sentence for each of the largest influences."""
    name, value = graph.names[explanation.place], f"{explanation.prediction:.4g}"
    if isinstance(estimator, NodeClassifier):
        kind = estimator.classes_.tolist()[explanation.output]
        yield f"{name}: class {kind} with probability {value}"
    else:
        yield f"{name}: {value}"
    if explanation.degree:
        change = explanation.prediction - explanation.isolated
        yield f"without any edge: {explanation.isolated:.4g} (change {change:+.4g})"
    for one in explanation.neighbours[:5]:
        yield f"without neighbour {one.name}: {one.without:.4g} (change {one.change:+.4g})"
    for one in explanation.attributes[:5]:
        yield f"without attribute {one.name}: {one.without:.4g} (change {one.change:+.4g})"


def _picture(
    estimator: NodeEstimator, graph: AttributedGraph, explanation: NodeExplanation
) -> bytes:
    """Draw the explained node, its most influential neighbours, and the edges between them."""
    if graph.network is not None:
        return _typed_picture(graph, explanation)
    positions = {name: i for i, name in enumerate(graph.names)}
    shown = [explanation.place, *(positions[one.name] for one in explanation.neighbours)]
    predicted = explanation.predicted[shown]
    index = np.full(len(graph), -1)
    index[shown] = np.arange(len(shown))
    layers = estimator.predictor_.attention(graph)
    edges, weights = layers[-1] if layers else (graph.edge_index, None)
    ends = index[edges.numpy()]
    mask = (ends >= 0).all(0)
    if weights is not None:
        weights = _relative(ends[:, mask], weights.double().numpy()[mask].mean(1))
    classes = isinstance(estimator, NodeClassifier)
    return draw_network(
        ends[:, mask], weights,
        predicted.argmax(1).numpy() if classes else predicted[:, 0].numpy(),
        [str(kind) for kind in estimator.classes_.tolist()] if classes else (),
        labels=[str(graph.names[place]) for place in shown],
        wrong=np.arange(len(shown)) == 0, title=f"{graph.names[explanation.place]} in the ring",
    )  # fmt: skip


def _relative(ends: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the line widths of the edges: those into the explained node (node 0) are relative to
    its largest attention to a neighbour, and the others have none.

    Attention among the neighbours has another scale, because each node divides 1 among its own
    neighbours.

    Args:
        ends: [2, e] pairs of nodes of the picture.
        weights: [e] attention.
    """
    is_into = (ends[1] == 0) & (ends[0] != 0)
    # If edges have several columns, the same edge can occur several times.
    sums = np.bincount(ends[0], np.where(is_into, weights, 0.0))
    into = np.where(is_into, sums[ends[0]], 0.0)
    return into / max(into.max(initial=0.0), 1e-12)


def _typed_picture(graph: AttributedGraph, explanation: NodeExplanation) -> bytes:
    """Draw the explained node and its neighbours of all types, coloured by type."""
    assert graph.network is not None
    others, kinds = explanation.neighbours, graph.network.types
    weights = np.nan_to_num([one.attention for one in others])
    edges = np.stack([1 + np.arange(len(others)), np.zeros(len(others), np.int64)])
    weights = _relative(edges, weights)
    title = str(graph.names[explanation.place])
    return draw_network(
        edges, weights, np.array([0, *(kinds.index(one.kind) for one in others)]),
        [f"type {kind}" for kind in kinds],
        labels=[title, *(str(one.name).partition(": ")[2] for one in others)],
        wrong=np.arange(1 + len(others)) == 0, title=f"{title} in the ring",
    )  # fmt: skip
