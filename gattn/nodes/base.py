"""What the classifier and the regressor of nodes share: reading, fitting, predicting parts."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.data import Split
from gattn.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.nodes.features import EncodedGraph, encode_graph
from gattn.nodes.labels import Labels, read_labels, usual_labels
from gattn.nodes.predictor import NodePredictor, NodeProblem
from gattn.nodes.reading import GraphLike, read_graph
from gattn.nodes.settings import NodeModel, NodeSettings
from gattn.nodes.splits import (
    MASKS,
    VALIDATION,
    mask_columns,
    masked_split,
    random_node_split,
    split_column_notes,
)
from gattn.nodes.tables import row_number_notes
from gattn.training.checks import check_share
from gattn.training.estimator import KeptEstimator
from gattn.training.settings import settings_of
from gattn.training.types import EpochRecord

__all__ = ["NodeEstimator", "fit_together"]

DEFAULT = NodeSettings()
Self = TypeVar("Self", bound="NodeEstimator")


class NodeEstimator(KeptEstimator):
    """The settings of an estimator of nodes; the subclasses say what they mean."""

    item: ClassVar[str] = "nodes"
    predictor_: NodePredictor
    graph_: AttributedGraph
    y_: Tensor
    notes_: tuple[str, ...]
    split_: Split
    _predictor_kind = NodePredictor

    def __init__(
        self,
        label: str | None = None,
        features: Sequence[str] | None = None,
        *,
        model: NodeModel = DEFAULT.model,
        epochs: int = DEFAULT.epochs,
        patience: int = DEFAULT.patience,
        learning_rate: float = DEFAULT.learning_rate,
        weight_decay: float = DEFAULT.weight_decay,
        width: int = DEFAULT.width,
        layers: int = DEFAULT.layers,
        heads: int = DEFAULT.heads,
        output_heads: int = DEFAULT.output_heads,
        dropout: float = DEFAULT.dropout,
        seed: int = DEFAULT.seed,
        directed: bool | None = None,
        validation_fraction: float = VALIDATION,
    ) -> None:
        self.label = label
        self.features = features
        self.model = model
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.width = width
        self.layers = layers
        self.heads = heads
        self.output_heads = output_heads
        self.dropout = dropout
        self.seed = seed
        self.directed = directed
        self.validation_fraction = validation_fraction

    def fit(
        self: Self,
        graph: GraphLike,
        y: Labels | None = None,
        *,
        tick: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train on the nodes of a graph whose label is known.

        Args:
            graph: a networkx graph, PyG's ``Data``, a table of edges, or tables (edges, nodes).
            y: n labels in the order of the nodes, None or NaN where there is none, or labels by
                the nodes' names; None to take the attribute that ``label`` names. In a tensor of
                whole numbers -1 is a node without a class.
            tick: told of every epoch.

        Returns:
            The estimator itself.

        Raises:
            GraphError: a graph, an attribute or labels that cannot be trained on.
            ValueError: a setting out of its range.
        """
        self.settings()  # a wrong setting is told before anything is read
        read = read_graph(graph, directed=self.directed)
        values, notes = self._read_labels(read, y)
        labels = self.learn_labels(values, read.where)
        split, decided = self._parts(read, labels)
        encoded = self.encode(read.with_notes(*notes, *decided), values.name)
        return self.fit_parts(encoded, labels, split, tick=tick)

    def encode(
        self, graph: AttributedGraph, label: Hashable, *, leave: Sequence[str] = ()
    ) -> EncodedGraph:
        """Learn the features of a graph that was read.

        Args:
            graph: the graph.
            label: the attribute that holds the labels; None where they were given beside the
                graph: then those that are called as labels usually are may hold them, too, and are
                no features unless ``features`` names them.
            leave: attributes that are no features, besides the label and the masks. Columns that
                hold parts or row numbers are none either unless ``features`` names them.
        """
        left = [name for name in (label, self.label, *leave, *MASKS) if name is not None]
        if label is None:
            doubtful = [name for name in usual_labels(graph) if name not in (self.features or ())]
            left += doubtful
            graph = graph.with_notes(
                *(f"Attribute {name!r} may hold the labels: it is no feature." for name in doubtful)
            )
        if self.features is None and graph.x is None:
            decided = row_number_notes(graph) | split_column_notes(graph)
            decided = {name: note for name, note in decided.items() if name not in left}
            left += decided
            graph = graph.with_notes(*decided.values())
        return encode_graph(graph, self.features, left)

    def fit_parts(
        self: Self,
        encoded: EncodedGraph,
        y: Tensor,
        split: Split,
        *,
        tick: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train on parts of a graph whose features are known.

        Args:
            encoded: what :meth:`encode` gave.
            y: [n] float64 as :meth:`learn_labels` gives them, NaN where unknown.
            split: positions of nodes; the test part is not looked at.
            tick: told of every epoch.

        Returns:
            The estimator itself.

        Raises:
            GraphError: a part without a labelled node, or a training part of one class only.
        """
        notes = self.check_split(y, split)
        encoded = replace(encoded, notes=(*encoded.notes, *notes))
        fit_together([self], encoded, y, split, tick=tick)
        return self

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Check the labels of the parts before training.

        Args:
            y: [n] float64, NaN where unknown.
            split: positions of nodes.

        Returns:
            Notes on what the parts lack, a sentence each; empty for labels that are numbers.

        Raises:
            GraphError: the training part holds one class only.
        """
        return []

    def settings(self) -> NodeSettings:
        """The settings of the model."""
        return settings_of(NodeSettings, self)

    def embed(self, graph: GraphLike | None = None) -> np.ndarray:
        """Describe nodes by the vectors that the last layer reads.

        Args:
            graph: another graph with the same attributes; None for that of ``fit``.

        Returns:
            [n, width] float32.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or none was given to a loaded estimator.
        """
        read = self.read(graph)
        return self.predictor_.embed(read).numpy()

    def attention(self, graph: GraphLike | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give each layer's edges and how much is attended along them.

        Args:
            graph: as in :meth:`embed`.

        Returns:
            For each layer edges [2, e] from source to destination, with the self-loops that the
            layer adds, and weights [e, h], which add up to 1 over the edges into a node.
        """
        read = self.read(graph)
        found = self.predictor_.attention(read)
        return [(edges.numpy(), weights.numpy()) for edges, weights in found]

    def read(self, graph: GraphLike | None) -> AttributedGraph:
        """The graph that was given, or that of ``fit``; a warning says what has no feature.

        Raises:
            GraphError: neither is there.
        """
        check_is_fitted(self, "predictor_")
        if graph is not None:
            found = read_graph(graph, directed=self.directed)
            for note in self.predictor_.encoder.unknown(found):
                warnings.warn(note, stacklevel=3)
            return found
        if getattr(self, "graph_", None) is None:
            raise GraphError("a loaded estimator holds no graph: give it the graph to predict on")
        return self.graph_

    def _read_labels(self, graph: AttributedGraph, y: Labels | None) -> tuple[pd.Series, list[str]]:
        return read_labels(graph, self.label, y, classes=self.task == "classification")

    def _parts(self, graph: AttributedGraph, y: Tensor) -> tuple[Split, list[str]]:
        share, by_class = float(self.validation_fraction), self.task == "classification"
        if mask_columns(graph):
            return masked_split(graph, y, self.seed, share, by_class=by_class)
        check_share("validation_fraction", share)
        return random_node_split(y, self.seed, (1 - share, share, 0.0), by_class=by_class), []

    def _held_out(self, graph: GraphLike | None, y: Any) -> tuple[AttributedGraph, Tensor]:
        """The graph to score on, and its labels: without arguments those of no part of ``fit``."""
        read = self.read(graph)
        if graph is not None or y is not None:
            return read, self.encode_labels(self._read_labels(read, y)[0], read.where)
        rest = self.y_.clone()
        rest[torch.cat([self.split_.train, self.split_.val])] = torch.nan
        if not rest.isfinite().any():
            raise GraphError("every labelled node was trained on: give score a graph and labels")
        return read, rest

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers the network gives of a node."""

    @abstractmethod
    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Remember the labels that there are, and encode them as :meth:`encode_labels`."""

    @abstractmethod
    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Labels [n] float64, NaN where unknown; ``where`` puts a position into words."""

    @abstractmethod
    def _calibrate(self, y: Tensor, made: Tensor) -> None:
        """Learn from the validation part how wide intervals, or how large sets, have to be."""


def fit_together(
    estimators: Sequence[NodeEstimator],
    encoded: EncodedGraph,
    y: Tensor,
    split: Split,
    *,
    tick: Callable[[EpochRecord], None] = lambda record: None,
) -> None:
    """Train estimators that differ in their seeds alone on parts of a graph: see ``fit_parts``.

    Args:
        estimators: which know the labels.
        encoded: what :meth:`NodeEstimator.encode` gave.
        y: [n] float64, NaN where unknown.
        split: positions of nodes; the test part is not looked at.
        tick: told of every epoch.

    Raises:
        GraphError: a part without a labelled node.
    """
    known = y.isfinite()
    train, val, test = (part[known[part]] for part in (split.train, split.val, split.test))
    for name, part in (("training", train), ("validation", val)):
        if not len(part):
            raise GraphError(f"the {name} part has no node with a label")
    graph, first = encoded.graph, estimators[0]
    problem = NodeProblem(graph, encoded.x, y, first.outputs, train, val)
    settings = [one.settings() for one in estimators]
    predictors = NodePredictor.fit(problem, encoded.encoder, first.task, settings, tick)
    for one, predictor in zip(estimators, predictors):
        one.predictor_ = predictor
        one.graph_, one.y_, one.notes_ = graph, y, encoded.notes
        one.split_ = Split(train, val, test, split.protocol)
        one._calibrate(y[val, None], predictor.predict(graph)[val])
