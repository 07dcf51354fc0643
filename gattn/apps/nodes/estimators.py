"""Scikit-learn estimators that predict a class or a number for each node of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.nodes.attributed import GraphError, Where, at_row
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.labels import encode_classes, encode_numbers, find_classes
from gattn.apps.nodes.reading import GraphLike
from gattn.apps.nodes.settings import NodeTask
from gattn.apps.nodes.splits import check_numbers, missing_classes
from gattn.data import Split


class NodeClassifier(ClassifierMixin, NodeEstimator):
    """Classifier of the nodes of a graph, trained on the nodes with a label.

    ``fit`` reads the whole graph and its labels, and ``predict()`` predicts all its nodes
    (transductive). ``predict(graph)`` predicts another graph with the same attributes (inductive).

    Args:
        {settings}

    Attributes:
        classes_: the classes, sorted.
        graph_: the graph of ``fit``, whose ``names`` are in the order of predictions.
        split_: the indices of the training and validation part.
        notes_: sentences about the choices that were made when the graph was read.
        predictor_: the fitted model.
        history_: the training history.

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
        """Predict the most probable class of each node.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Returns:
            [n], the predicted class of each node, one of ``classes_``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.
        """
        best = self.predict_proba(graph).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the probability of each class for each node, [n, classes] float64.

        The argument and the errors are the same as for :meth:`predict`.
        """
        read = self.read(graph)
        return self.predictor_.predict(read).numpy()

    def predict_set(self, graph: GraphLike | None = None, coverage: float = 0.9) -> np.ndarray:
        """Predict sets of classes that contain the true class with the given probability.

        The coverage holds for each class, on nodes from the distribution of the validation part:
        see :class:`gattn.apps.fitting.conformal.LabelSetCalibrator`. Every set contains the
        predicted class.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.

        Returns:
            [n, classes] bool: True for each class in the set.
        """
        return self.sets(torch.from_numpy(self.predict_proba(graph)), coverage).numpy()

    def sets(self, probability: Tensor, coverage: float) -> Tensor:
        """Return the sets of classes as a mask [k, classes] bool, given probabilities [k,
        classes]. Every set contains the most probable class.
        """
        sets = self.calibrator_.sets(probability[:, None], coverage=coverage)[:, 0]
        # Models that were fitted again, and changed networks, have other probabilities than those
        # of the calibration. A set without the prediction would contradict it.
        return sets.scatter(1, probability.argmax(1, keepdim=True), value=True)

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the accuracy on the labelled nodes.

        Args:
            graph: another graph; None for the graph of ``fit``.
            y: labels as in ``fit``; by default the labelled nodes of ``fit`` that are in neither
                its training nor its validation part.

        Returns:
            From 0 to 1.

        Raises:
            GraphError: no node is labelled.
        """
        read, truth = self._held_out(graph, y)
        mask = truth.isfinite()
        guess = self.predictor_.predict(read).argmax(1)
        return float(accuracy_score(truth[mask].numpy(), guess[mask].numpy()))

    @property
    def outputs(self) -> int:
        """Number of classes, which is the number of outputs of the network for each node."""
        return len(self.classes_)

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Store the classes of the labels, and return the labels encoded as by
        :meth:`encode_labels`.
        """
        self.classes_ = find_classes(values, where)
        return self.encode_labels(values, where)

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Return the index of each label in ``classes_``, [n] float64; NaN for a missing label."""
        return encode_classes(values, self.classes_)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Return notes on classes that are missing in a part of the split.

        See :func:`gattn.apps.nodes.splits.missing_classes`.
        """
        return missing_classes(y, split, self.classes_.tolist())

    def _calibrate(self, y: Tensor, output: Tensor) -> None:
        self.calibrator_ = LabelSetCalibrator.fit(y, output[:, None])

    def _labels_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "calibration": self.calibrator_.state()}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        self.classes_ = np.array(state["classes"])
        self.calibrator_ = LabelSetCalibrator.from_state(state["calibration"])


class NodeRegressor(RegressorMixin, NodeEstimator):
    """Regressor of the nodes of a graph, trained on the nodes with a label.

    Args:
        {settings}

    Example:
        >>> import networkx
        >>> path = networkx.path_graph(12)
        >>> model = NodeRegressor(epochs=5).fit(path, [0.1 * i for i in range(12)])
        >>> model.predict().shape
        (12,)
    """

    task: ClassVar[NodeTask] = "regression"

    def predict(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the predicted number for each node, [n] float64, in the unit of the labels.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.
        """
        read = self.read(graph)
        return self.predictor_.predict(read)[:, 0].numpy()

    def predict_interval(
        self, graph: GraphLike | None = None, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends, [n] each, of intervals that contain the true value with
        the given probability.

        The intervals have the same width for every node: see
        :class:`gattn.apps.fitting.conformal.IntervalCalibrator`.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.
        """
        low, high = self.intervals(torch.from_numpy(self.predict(graph))[:, None], coverage)
        return low[:, 0].numpy(), high[:, 0].numpy()

    def intervals(self, mean: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        """Return the lower and upper ends, [k, 1] each, of the prediction intervals for
        predictions [k, 1].
        """
        return self.calibrator_.interval(mean, torch.ones_like(mean), coverage=coverage)

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return R² on the labelled nodes, which are chosen as in :meth:`NodeClassifier.score`."""
        read, truth = self._held_out(graph, y)
        mask = truth.isfinite()
        guess = self.predictor_.predict(read)[:, 0]
        return float(r2_score(truth[mask].numpy(), guess[mask].numpy()))

    @property
    def outputs(self) -> int:
        """Number of outputs of the network for each node, which is 1."""
        return 1

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Check that the labels are not all equal, and return them encoded as by
        :meth:`encode_labels`.
        """
        y = self.encode_labels(values, where)
        if len(y[y.isfinite()].unique()) < 2:
            raise GraphError("labels must be at least two different numbers")
        return y

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Convert labels to [n] float64, with NaN for nodes without a label.

        Error messages use ``where`` to describe the position of a node.
        """
        return encode_numbers(values, where)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Check that the labels of the training part are not all equal; return no notes."""
        check_numbers(y, split)
        return []

    def _calibrate(self, y: Tensor, output: Tensor) -> None:
        self.calibrator_ = IntervalCalibrator.fit(y, output, torch.ones_like(output))

    def _labels_state(self) -> dict[str, Any]:
        return {"calibration": self.calibrator_.state()}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        self.calibrator_ = IntervalCalibrator.from_state(state["calibration"])
