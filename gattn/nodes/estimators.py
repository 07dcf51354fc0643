"""Models of nodes as scikit-learn knows estimators: a class or a number of every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from torch import Tensor

from gattn.data import Split
from gattn.nodes.attributed import GraphError, Where, at_row
from gattn.nodes.base import NodeEstimator
from gattn.nodes.labels import encode_classes, encode_numbers, find_classes
from gattn.nodes.reading import GraphLike
from gattn.nodes.settings import NodeTask
from gattn.nodes.splits import check_numbers, missing_classes
from gattn.training.conformal import IntervalCalibrator, LabelSetCalibrator

__all__ = ["NodeClassifier", "NodeRegressor"]


class NodeClassifier(ClassifierMixin, NodeEstimator):
    """Predict the class of every node of a graph, of which some classes are known.

    ``fit`` reads the whole graph and the known labels (transductive); ``predict(graph)`` takes
    another graph with the same attributes (inductive). Settings are those of
    :class:`gattn.nodes.NodeSettings`.

    Args:
        label: the attribute to predict; None for ``y`` of ``fit``, or an attribute ``y`` or
            ``label``.
        features: attributes to read; None for all others, or for the ``x`` of PyG's ``Data``.
            Numbers are standardised, categories one-hot, text is TF-IDF; where there are none, the
            degrees and random walks of the graph are read.
        model: ``"gat"``, ``"gatv2"``, ``"transformer"`` or ``"gps"``.
        epochs: at most so many steps.
        patience: epochs to wait for a better validation part.
        learning_rate: of Adam.
        weight_decay: of the penalty on the weights.
        width: features inside.
        layers: how many.
        heads: attention heads.
        output_heads: of the last layer.
        dropout: a probability.
        seed: of everything that is drawn.
        directed: whether messages follow the edges' direction alone; None for both ways, but for
            ``Data`` as its edges are.
        validation_fraction: of the labelled nodes of every class, where no mask marks validation.

    Attributes:
        classes_: the classes, sorted.
        graph_: the graph of ``fit``, whose ``names`` are in the order of predictions.
        split_: the positions of the training and validation part.
        notes_: what was decided in reading the graph, in a sentence each.
        predictor_: the fitted model.
        history_: a record an epoch.

    Example:
        >>> import networkx
        >>> club = networkx.karate_club_graph()
        >>> known = {0: "Mr. Hi", 1: "Mr. Hi", 32: "Officer", 33: "Officer"}
        >>> model = NodeClassifier(epochs=20, features=[], validation_fraction=0.5)
        >>> model.fit(club, known).predict().shape
        (34,)
    """

    task: ClassVar[NodeTask] = "classification"

    def predict(self, graph: GraphLike | None = None) -> np.ndarray:
        """Predict the most probable class of every node.

        Args:
            graph: another graph with the same attributes; None for that of ``fit``.

        Returns:
            [n] of ``classes_``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or none was given to a loaded estimator.
        """
        best = self.predict_proba(graph).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graph: GraphLike | None = None) -> np.ndarray:
        """Predict the probability of every class: [n, classes], as :meth:`predict`."""
        read = self.read(graph)
        return self.predictor_.predict(read).numpy()

    def predict_set(self, graph: GraphLike | None = None, coverage: float = 0.9) -> np.ndarray:
        """Give sets of classes that hold the true one as often as promised, for each class apart.

        See :class:`gattn.training.conformal.LabelSetCalibrator` for what is promised: it is for
        nodes that are drawn as those of the validation part were.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.

        Returns:
            [n, classes] bool: whether each class is in the set.
        """
        return self.sets(torch.from_numpy(self.predict_proba(graph)), coverage).numpy()

    def sets(self, probability: Tensor, coverage: float) -> Tensor:
        """The sets [k, classes] of nodes whose probabilities [k, classes] are known."""
        return self.calibrator_.sets(probability[:, None], coverage=coverage)[:, 0]

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Accuracy on the nodes whose label is known.

        Args:
            graph: another graph; None for that of ``fit``.
            y: labels as in ``fit``; with neither given, the labelled nodes of ``fit`` that are in
                neither its training nor its validation part.

        Returns:
            From 0 to 1.

        Raises:
            GraphError: no label is known.
        """
        read, truth = self._held_out(graph, y)
        known = truth.isfinite()
        guess = self.predictor_.predict(read).argmax(1)
        return float(accuracy_score(truth[known].numpy(), guess[known].numpy()))

    @property
    def outputs(self) -> int:
        """How many classes there are."""
        return len(self.classes_)

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Remember the labels that there are, and encode them as :meth:`encode_labels`."""
        self.classes_ = find_classes(values, where)
        return self.encode_labels(values, where)

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Labels [n] float64, NaN where unknown; ``where`` puts a position into words."""
        return encode_classes(values, self.classes_)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Notes on the classes that parts lack, as :func:`gattn.nodes.splits.missing_classes`."""
        return missing_classes(y, split, self.classes_.tolist())

    def _calibrate(self, y: Tensor, made: Tensor) -> None:
        self.calibrator_ = LabelSetCalibrator.fit(y, made[:, None])

    def _labels_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "calibration": self.calibrator_.state()}

    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        self.classes_ = np.array(state["classes"])
        self.calibrator_ = LabelSetCalibrator.from_state(state["calibration"])


class NodeRegressor(RegressorMixin, NodeEstimator):
    """Predict a number of every node of a graph, of which some are known.

    The arguments are those of :class:`gattn.nodes.NodeClassifier`, labels are numbers.

    Args:
        label: the attribute to predict.
        features: attributes to read.
        model: ``"gat"``, ``"gatv2"``, ``"transformer"`` or ``"gps"``.
        epochs: at most so many steps.
        patience: epochs to wait for a better validation part.
        learning_rate: of Adam.
        weight_decay: of the penalty on the weights.
        width: features inside.
        layers: how many.
        heads: attention heads.
        output_heads: of the last layer.
        dropout: a probability.
        seed: of everything that is drawn.
        directed: whether messages follow the edges' direction alone.
        validation_fraction: of the labelled nodes, where no mask marks validation.

    Example:
        >>> import networkx
        >>> path = networkx.path_graph(12)
        >>> model = NodeRegressor(epochs=5).fit(path, [0.1 * i for i in range(12)])
        >>> model.predict().shape
        (12,)
    """

    task: ClassVar[NodeTask] = "regression"

    def predict(self, graph: GraphLike | None = None) -> np.ndarray:
        """Predict the number of every node: [n] float64 in the labels' unit.

        Args:
            graph: another graph with the same attributes; None for that of ``fit``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or none was given to a loaded estimator.
        """
        read = self.read(graph)
        return self.predictor_.predict(read)[:, 0].numpy()

    def predict_interval(
        self, graph: GraphLike | None = None, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give the ends [n] of intervals that hold the truth as often as promised.

        See :class:`gattn.training.conformal.IntervalCalibrator` for what is promised. They are as
        wide for every node.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.
        """
        low, high = self.intervals(torch.from_numpy(self.predict(graph))[:, None], coverage)
        return low[:, 0].numpy(), high[:, 0].numpy()

    def intervals(self, mean: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        """The ends [k, 1] of the intervals around predictions [k, 1]."""
        return self.calibrator_.interval(mean, torch.ones_like(mean), coverage=coverage)

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """R² on the nodes whose label is known, chosen as :meth:`NodeClassifier.score` does."""
        read, truth = self._held_out(graph, y)
        known = truth.isfinite()
        guess = self.predictor_.predict(read)[:, 0]
        return float(r2_score(truth[known].numpy(), guess[known].numpy()))

    @property
    def outputs(self) -> int:
        """One number."""
        return 1

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Remember the labels that there are, and encode them as :meth:`encode_labels`."""
        y = self.encode_labels(values, where)
        if len(y[y.isfinite()].unique()) < 2:
            raise GraphError("labels must be at least two different numbers")
        return y

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Labels [n] float64, NaN where unknown; ``where`` puts a position into words."""
        return encode_numbers(values, where)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Check the labels of the training part, as :func:`gattn.nodes.splits.check_numbers`."""
        check_numbers(y, split)
        return []

    def _calibrate(self, y: Tensor, made: Tensor) -> None:
        self.calibrator_ = IntervalCalibrator.fit(y, made, torch.ones_like(made))

    def _labels_state(self) -> dict[str, Any]:
        return {"calibration": self.calibrator_.state()}

    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        self.calibrator_ = IntervalCalibrator.from_state(state["calibration"])
