"""Runs of ``gattn nodes train`` for the server; nodes are looked up by name."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from gattn.apps.fitting.settings import read_toml
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.estimators import NodeClassifier, NodeEstimator, attention_network
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.predict import load_estimator, prediction_rows, read_graph
from gattn.apps.nodes.runs.splits import data_hash
from gattn.apps.nodes.sampled.predictor import SampledPredictor
from gattn.apps.run.model_io import RunError, check_files, coverage_of, read_card, read_json
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.paths import run_paths, without_paths
from gattn.apps.serve.schemas import NodeAnswer, NodeNeighbour
from gattn.apps.serve.served import ServedRun, json_value
from gattn.draw import draw_network

SHOWN = 20
"""Maximum number of neighbours that are shown for a node."""
Layer: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Edges [2, e] of a layer, sorted by destination, and their attention weights [e]."""


SUGGESTIONS = 20
"""Maximum number of names that a search for nodes returns."""


class NodeNames:
    """Names of the nodes of a graph.

    Args:
        run: name of the run on this server, for error messages.
        names: n names.
        kind: type of the nodes, for error messages; "" if there is one type.

    Attributes:
        index: the number of each node by its name as a text.

    Example:
        >>> names = NodeNames("run", ["Cosette", "Marius", 7])
        >>> names.search("m"), names.place("7")
        (['Marius'], 2)
    """

    def __init__(self, run: str, names: Iterable[Hashable], kind: str = "") -> None:
        self.run, self.of_type = run, f" of type {kind!r}" if kind else ""
        self.index = {str(name): number for number, name in enumerate(names)}

    def search(self, text: str) -> list[str]:
        """Return at most 20 names that contain a text in upper or lower case. Names that begin with
        the text come first.
        """
        text = text.casefold()
        names = [name for name in self.index if text in name.casefold()]
        names.sort(key=lambda name: not name.casefold().startswith(text))
        return names[:SUGGESTIONS]

    def place(self, name: str) -> int:
        """Return the index of the node with this name.

        Raises:
            RequestError: there is no node of this name (404).
        """
        place = self.index.get(name)
        if place is None:
            raise RequestError(404, f"{self.run} has no node {name[:200]!r}{self.of_type}")
        return place


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedNetwork(ServedRun):
    """Run on a network, whose nodes are looked up by name.

    Attributes:
        graph: the graph that the model was trained on.
    """

    kind = "nodes or links"
    graph: AttributedGraph

    @cached_property
    def names(self) -> NodeNames:
        """Names of the nodes."""
        network = self.graph.network
        return NodeNames(self.name, self.graph.names, network.target if network else "")


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedNodes(ServedNetwork):
    """Run of ``gattn nodes train`` with its graph and the predictions of all nodes.

    Attributes:
        estimator: the model.
        coverage: coverage of the label sets or intervals, which is that of the training.
        rows: n rows of cells.
        attended: names of the nodes that others attend to: the predicted nodes, and after them the
            nodes of other types.
        attention: for each layer its edges [2, e] and weights [e], sorted by destination; empty for
            a model that samples neighbours, whose attention is computed for each request.
    """

    kind = "nodes"
    estimator: NodeEstimator
    coverage: float
    rows: list[list[Any]]
    attended: list[str]
    attention: list[Layer]
    _drawing: threading.Lock = field(default_factory=threading.Lock)
    _sampling: threading.Lock = field(default_factory=threading.Lock)

    def details(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the description; see :meth:`.ServedRun.details`."""
        return {
            "task": self.estimator.task.name, "targets": [str(self.estimator.label or "label")],
            "size": len(self.graph), "coverage": self.coverage,
        }  # fmt: skip

    def predict(self, name: str) -> NodeAnswer:
        """Return the prediction for a node, and at most 20 of the nodes that it attends to, in
        descending order of the sum of their weights over the layers.

        Raises:
            RequestError: there is no node of this name (404).
        """
        place = self.names.place(name)
        weights = self._weights_into(place)
        order = sorted(weights, key=lambda source: (-sum(weights[source]), source))
        neighbours = [
            NodeNeighbour(
                name=self.attended[source], prediction=self._predicted(source),
                weights=weights[source],
            )
            for source in order[:SHOWN]
        ]  # fmt: skip
        values = dict(zip(self.columns, self.rows[place]))
        for column in values:
            if column.startswith("probability_"):
                values[column] = float(values[column])
        return NodeAnswer(
            model=self.name, name=name, values=values, neighbours=neighbours, degree=len(order)
        )

    def draw(self, name: str, dark: bool) -> bytes:
        """Return a PNG drawing of a node and at most 20 of the nodes that it attends to, those with
        the highest attention weights in the last layer. The widths are relative to the highest of
        these weights.

        Raises:
            RequestError: there is no node of this name (404).
        """
        place = self.names.place(name)
        weights = {source: row[-1] for source, row in self._weights_into(place).items()}
        order = sorted(weights, key=lambda source: -weights[source])[:SHOWN]
        sources = [source for source in order if source != place and weights[source]]
        nodes = [place, *sources]
        edges = np.stack([np.arange(1, len(nodes)), np.zeros(len(sources), np.int64)])
        strength = np.array([weights[source] for source in sources])
        strength = strength / max(strength.max(initial=0.0), 1e-12)
        predicted = [self._predicted(node) for node in nodes]
        colour: list[Any] = predicted
        if isinstance(self.estimator, NodeClassifier):
            colour = ["other type" if value is None else str(value) for value in predicted]
        elif None in predicted:
            # A node of another type has no number, so it gets the colour of the attending node.
            colour = [predicted[0] if value is None else value for value in predicted]
        with self._drawing:
            return draw_network(
                edges, strength, colour,
                labels=[self.attended[node] for node in nodes], top_labels=SHOWN, dark=dark,
            )  # fmt: skip

    def _predicted(self, node: int) -> Any:
        """Return the predicted class or number of a node; None for a node of another type."""
        return self.rows[node][0] if node < len(self.rows) else None

    def _weights_into(self, place: int) -> dict[int, list[float]]:
        """Return a dictionary from each source of a node's edges to its attention weights, one for
        each layer. The weights of several edges from one source are added.
        """
        weights: dict[int, list[float]] = {}
        layers = self._attention_of(place)
        for number, (edges, alpha) in enumerate(layers):
            begin, end = np.searchsorted(edges[1], [place, place + 1])
            for source, weight in zip(edges[0, begin:end].tolist(), alpha[begin:end].tolist()):
                weights.setdefault(source, [0.0] * len(layers))[number] += weight
        return weights

    def _attention_of(self, place: int) -> list[Layer]:
        """Return for each layer edges and weights, sorted by destination as by :func:`_sorted`,
        among them all or a sample of those of the edges into a node.
        """
        network = attention_network(self.estimator.predictor_)
        if not isinstance(network, SampledPredictor):
            return self.attention
        with self._sampling:
            return [_sorted(*layer) for layer in network.attention_of(self.graph, place)]


def open_nodes(name: str, folder: Path, threads: int) -> ServedNodes:
    """Load a run of nodes with its graph, and predict all nodes.

    Args:
        name: name of the run on this server.
        folder: the folder of the run.
        threads: number of threads inside one operator; 0 to choose it by the size.

    Raises:
        RunError: the folder holds no run, or its graph has changed since the model was trained.
        GraphError: the graph cannot be read.
        FileNotFoundError: a file of the graph is missing.
    """
    estimator = load_estimator(folder).set_params(threads=threads)
    check_files(folder, "config.toml")
    settings = read_toml(NodeRunSettings, folder / "config.toml")
    check_data(folder, settings.data, *settings.tables)
    notes: list[str] = []
    graph = read_graph(estimator, settings.data, settings.reading, notes.append)
    predicted = estimator.predictor_.predict(graph)
    coverage = coverage_of(read_card(folder))
    (_, *header), *cells = prediction_rows(estimator, graph.names, predicted, coverage)
    columns = list(map(str, header))
    rows = [list(map(json_value, row)) for _, *row in cells]
    attention: list[Layer] = []
    if not graph.compact:
        attention = [_sorted(*layer) for layer in estimator.predictor_.attention(graph)]
    attended = [str(one) for one in graph.names]
    if graph.network is not None:
        attended = graph.network.titles()[0]
    paths = run_paths(folder)
    return ServedNodes(
        name=name, folder=folder, notes=tuple(without_paths(note, paths) for note in notes),
        columns=columns, graph=graph, estimator=estimator, coverage=coverage, rows=rows,
        attended=attended, attention=attention,
    )  # fmt: skip


def check_data(folder: Path, data: str, *tables: str) -> None:
    """Raise an error if the graph files of a run differ from those used in training.

    Args:
        folder: the folder of the run.
        data: the graph of its settings.
        *tables: the tables of its settings; an empty text stands for no file.

    Raises:
        RunError: a file has changed since the model was trained.
        FileNotFoundError: a file is missing.
    """
    check_files(folder, "splits.json")
    splits = read_json(folder / "splits.json", "sha256", remedy="train the model again")
    try:
        digest = data_hash(data, *tables)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} was trained on {Path(error.filename).absolute()}, which does not exist: "
            "move it back"
        ) from None
    if digest != splits["sha256"]:
        raise RunError(
            f"{data or 'a table'} has changed since {folder} was trained: train it again"
        )


def _sorted(edges: Tensor, weights: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges [2, e] sorted by destination, and the means over the heads of their
    attention weights [e, h], in the same order.
    """
    pairs, mean = edges.numpy(), weights.mean(1).numpy()
    order = np.argsort(pairs[1], kind="stable")
    return pairs[:, order], mean[order]
