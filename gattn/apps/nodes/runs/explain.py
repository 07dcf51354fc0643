"""Explanation of the prediction of one node by a trained model, written as tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.estimators import NodeClassifier
from gattn.apps.nodes.explanation import Influence, NodeExplanation, explain_node
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.nodes.runs.predict import load_estimator, read_graph
from gattn.apps.run.train import Log, no_log
from gattn.draw import draw_network
from gattn.files import new_folder, write_rows


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
    """Draw the explained node, its most influential neighbours, and its attention to them, relative
    to the largest one.
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
        kinds = [str(kind) for kind in estimator.classes_.tolist()]
    return draw_network(
        edges, weights / max(weights.max(initial=0.0), 1e-12), colour, kinds,
        labels=[title, *names], wrong=np.arange(1 + len(others)) == 0,
        title=f"{title} in the ring",
    )  # fmt: skip
