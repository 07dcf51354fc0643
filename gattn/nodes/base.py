"""What the classifier and the regressor of nodes share: reading, fitting, saving, loading."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.data import Split
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.features import FeatureEncoder
from gattn.nodes.parts import MASKS, masked_parts, random_parts
from gattn.nodes.predictor import NodePredictor, NodeProblem
from gattn.nodes.reading import GraphLike, read_graph
from gattn.nodes.settings import NodeModel, NodeSettings, NodeTask
from gattn.training.checks import check_share
from gattn.training.records import EpochRecord, History
from gattn.training.runs import RunError, read_model, write_model
from gattn.training.settings import settings_of

__all__ = ["EncodedGraph", "NodeEstimator", "fit_together"]

DEFAULT = NodeSettings()
LABELS = ("y", "label")
Self = TypeVar("Self", bound="NodeEstimator")


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A graph with its features.

    Attributes:
        graph: the nodes and edges.
        encoder: how the attributes became features.
        x: [n, d] float32, dense or ``torch.sparse_csr``.
        notes: what was decided in reading it.
    """

    graph: AttributedGraph
    encoder: FeatureEncoder
    x: Tensor
    notes: tuple[str, ...]


class NodeEstimator(BaseEstimator, ABC):
    """The settings of an estimator of nodes; the subclasses say what they mean."""

    task: ClassVar[NodeTask]
    predictor_: NodePredictor
    graph_: AttributedGraph
    y_: Tensor
    notes_: tuple[str, ...]
    split_: Split

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
        validation_fraction: float = 0.2,
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
        y: Sequence[object] | Mapping[object, object] | None = None,
        *,
        tick: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train on the nodes of a graph whose label is known.

        Args:
            graph: a networkx graph, PyG's ``Data``, a table of edges, or tables (edges, nodes).
            y: n labels in the order of the nodes, None or NaN where there is none, or labels by
                the nodes' names; None to take the attribute ``label``.
            tick: told of every epoch.

        Returns:
            The estimator itself.

        Raises:
            GraphError: a graph, an attribute or labels that cannot be trained on.
            ValueError: a setting out of its range.
        """
        self.settings()  # a wrong setting is told before anything is read
        read = read_graph(graph, directed=self.directed)
        values = self.read_labels(read, y)
        encoded = self.learn_labels(values)
        split = self._parts(read, encoded)
        return self.fit_parts(self.encode(read), encoded, split, tick=tick)

    def encode(self, graph: AttributedGraph, *, leave: Sequence[str] = ()) -> EncodedGraph:
        """Learn the features of a graph that was read.

        Args:
            graph: the graph.
            leave: attributes that are no features, besides the label and the masks.
        """
        own = [name for name in (self.label or "", *LABELS, *MASKS) if name in graph.table.columns]
        encoder, notes = FeatureEncoder.fit(graph, self.features, [*own, *leave])
        return EncodedGraph(graph, encoder, encoder.features(graph), (*graph.notes, *notes))

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
            GraphError: a part without a labelled node.
        """
        fit_together([self], encoded, y, split, tick=tick)
        return self

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
        return self.predictor_.embed(self.read(graph)).numpy()

    def attention(self, graph: GraphLike | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give each layer's edges and how much is attended along them.

        Args:
            graph: as in :meth:`embed`.

        Returns:
            For each layer edges [2, e] from source to destination, with the self-loops that the
            layer adds, and weights [e, h], which add up to 1 over the edges into a node.
        """
        found = self.predictor_.attention(self.read(graph))
        return [(edges.numpy(), weights.numpy()) for edges, weights in found]

    def read(self, graph: GraphLike | None) -> AttributedGraph:
        """The graph that was given, or that of ``fit``.

        Raises:
            GraphError: neither is there.
        """
        check_is_fitted(self, "predictor_")
        if graph is not None:
            return read_graph(graph, directed=self.directed)
        if getattr(self, "graph_", None) is None:
            raise GraphError("a loaded estimator holds no graph: give it the graph to predict on")
        return self.graph_

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator: weights as safetensors, all else as a JSON card, no graph.

        Args:
            folder: made where it is missing.

        Raises:
            NotFittedError: the estimator was not fitted.
            OSError: the folder cannot be written; a model that stood there stands still.
        """
        write_model(folder, *self.state())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors of a fitted estimator, and the rest of its card."""
        check_is_fitted(self, "predictor_")
        tensors, predictor = self.predictor_.state()
        parameters = dict(self.get_params())
        parameters["features"] = None if self.features is None else list(self.features)
        return tensors, {
            "estimator": type(self).__name__, "task": self.task, "parameters": parameters,
            "labels": self._labels_state(), "predictor": predictor,
        }  # fmt: skip

    @classmethod
    def load(cls: type[Self], folder: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote, or the run of a ``train`` command; nothing is executed.

        Args:
            folder: of the model.

        Returns:
            The fitted estimator, which predicts what the saved one did on a graph that it is given.

        Raises:
            RunError: a file is missing, truncated or changed, or holds another kind of model.
        """
        return cls.from_state(folder, *read_model(folder))

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Make the estimator of what a folder holds."""
        if card.get("estimator") != cls.__name__:
            raise RunError(f"{folder} holds a {card.get('estimator')}, not a {cls.__name__}")
        try:
            made = cls(**card["parameters"])
            made._take_labels_state(card["labels"])
            made.predictor_ = NodePredictor.from_state(tensors, card["predictor"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{folder} holds no model of nodes: {error!r}") from error
        return made

    def read_labels(
        self,
        graph: AttributedGraph,
        y: Sequence[object] | Mapping[object, object] | None,
    ) -> pd.Series:
        """The labels of the n nodes as they are, missing ones None.

        Raises:
            GraphError: there are none, or too few or many.
        """
        if isinstance(y, Mapping):
            known = set(graph.names)
            strange = [name for name in y if name not in known]
            if strange:
                raise GraphError(f"y has a label of {strange[0]!r}, which is no node")
            return pd.Series([y.get(name) for name in graph.names], dtype=object)
        if y is not None:
            if len(y) != len(graph):
                raise GraphError(f"y must hold {len(graph)} labels, one a node; got {len(y)}")
            return pd.Series(list(y), dtype=object)
        name = self.label
        if name is None:
            name = next((one for one in LABELS if one in graph.table.columns), None)
        if name is None:
            held = ", ".join(map(repr, graph.table.columns[:20])) or "none"
            raise GraphError(f"labels are wanted: y, or the name of an attribute among {held}")
        return graph.column(name)

    def _parts(self, graph: AttributedGraph, y: Tensor) -> Split:
        if all(name in graph.table.columns for name in MASKS):
            return masked_parts(graph)
        share = float(self.validation_fraction)
        check_share("validation_fraction", share)
        shares = (1 - share, share, 0.0)
        return random_parts(y, self.seed, shares, by_class=self.task == "classification")

    def _held_out(self, graph: GraphLike | None, y: Any) -> tuple[AttributedGraph, Tensor]:
        """The graph to score on, and its labels: without arguments those of no part of ``fit``."""
        read = self.read(graph)
        if graph is not None or y is not None:
            return read, self.encode_labels(self.read_labels(read, y))
        rest = self.y_.clone()
        rest[torch.cat([self.split_.train, self.split_.val])] = torch.nan
        if not rest.isfinite().any():
            raise GraphError("every labelled node was trained on: give score a graph and labels")
        return read, rest

    @property
    def history_(self) -> list[History]:
        """What was recorded of the training."""
        return self.predictor_.history

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers the network gives of a node."""

    @abstractmethod
    def learn_labels(self, values: pd.Series) -> Tensor:
        """Remember what labels there are, and encode them."""

    @abstractmethod
    def encode_labels(self, values: pd.Series) -> Tensor:
        """Labels [n] float64, NaN where unknown."""

    @abstractmethod
    def _calibrate(self, y: Tensor, made: Tensor) -> None:
        """Learn from the validation part how wide intervals, or how large sets, have to be."""

    @abstractmethod
    def _labels_state(self) -> dict[str, Any]:
        """What is to be known of the labels, for JSON."""

    @abstractmethod
    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`_labels_state` gave."""


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
