"""Boosted regression trees, which are stored as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trees", "can_fit_trees"]

ROUNDS, LEARNING_RATE = 150, 0.08
"""Maximum number of trees per class, and learning rate."""
FINE, COARSE = (31, 255), (15, 31)
"""Maximum number of leaves per tree, and number of bins of a feature. The coarse values are used
for three or more classes, because each boosting round then fits a tree for each class, and most of
the time is spent on bins.
"""
PILOT_ROUNDS, PILOT_RATE = 15, 0.25
"""Number of trees per class and learning rate of a pilot, which estimates the loss of the trees."""
LEAST = 300
"""Minimum number of training nodes for which trees are fitted. For fewer nodes, linear models
are more accurate.
"""
MOST = 2e7
"""Maximum of (training nodes) x (features) x (classes) for which trees are fitted. The time of a
boosting round is proportional to this product.
"""


def can_fit_trees(rows: int, features: int, outputs: int) -> bool:
    """Return True if the number of training nodes and features is suitable for boosted trees."""
    return rows >= LEAST and rows * features * outputs <= MOST


@dataclass(frozen=True, eq=False)
class Trees:
    r"""Boosted regression trees for classes or numbers.

    .. math:: s_c(x) = b_c + \sum_t f_{tc}(x)

    The trees are fitted by scikit-learn's ``HistGradientBoosting``, and stored as arrays, so that a
    model is saved without pickle. The nodes of all trees are in one list.

    Attributes:
        feature: [m] int32 feature that an inner node compares; -1 for a leaf.
        threshold: [m] float64; rows with a value of at most the threshold continue on the left.
        children: [m, 2] int32, left and right child of an inner node.
        value: [m] float64, value of a leaf.
        roots: [t, k] int32, root of each tree for each round and score.
        baseline: [k] float64, initial scores. Two classes have one score.
        labels: [c] classes of the training nodes; empty for numbers.
        outputs: number of classes; 1 for numbers.

    Reference:
        Friedman, "Greedy function approximation: a gradient boosting machine" (Annals of Statistics
        2001); Ke et al., "LightGBM: a highly efficient gradient boosting decision tree" (NeurIPS
        2017).
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    children: NDArray[np.int32]
    value: NDArray[np.float64]
    roots: NDArray[np.int32]
    baseline: NDArray[np.float64]
    labels: NDArray[np.int64]
    outputs: int

    @classmethod
    def fit(
        cls,
        x: NDArray,
        y: NDArray,
        train: NDArray,
        outputs: int,
        seed: int,
        *,
        is_class: bool,
        pilot: bool = False,
    ) -> Trees:
        """Fit trees to the training nodes; training stops early based on the loss on a tenth of
        these nodes.

        Args:
            x: [n, d] dense features.
            y: [n] classes from 0, or standardised numbers.
            train: [k] nodes to fit.
            outputs: number of classes; 1 for numbers.
            seed: seed of the nodes that are held out.
            is_class: True for classes.
            pilot: True to fit few trees with a large learning rate.
        """
        labels = np.unique(y[train].astype(np.int64)) if is_class else np.zeros(0, np.int64)
        if len(labels) == 1:
            empty = np.zeros(0)
            leaf, roots = np.zeros((0, 2), np.int32), np.zeros((0, 1), np.int32)
            return cls(
                leaf[:, 0], empty, leaf, empty, roots, np.zeros(1), labels, outputs
            )  # fmt: skip
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        counts = np.unique(y[train], return_counts=True)[1]
        leaves, bins = COARSE if len(labels) > 2 else FINE
        options: dict[str, Any] = {
            "max_iter": PILOT_ROUNDS if pilot else ROUNDS, "max_leaf_nodes": leaves,
            "learning_rate": PILOT_RATE if pilot else LEARNING_RATE, "max_bins": bins,
            "l2_regularization": 1.0, "random_state": seed,
            # scikit-learn holds out nodes of each class, which requires at least two nodes per
            # class.
            "early_stopping": not is_class or bool(counts.min() > 1),
        }  # fmt: skip
        kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
        with threadpool_limits(1, "openmp"):
            model: Any = kind(**options).fit(x[train], y[train])
        return cls._from_model(model, labels, outputs)

    @classmethod
    def _from_model(cls, model: Any, labels: NDArray[np.int64], outputs: int) -> Trees:
        """Copy the trees of a fitted scikit-learn model."""
        # scikit-learn has no public function that returns these trees. A test compares the
        # predictions with those of the model.
        rounds = [[one.nodes for one in each] for each in model._predictors]
        sizes = np.array([[len(nodes) for nodes in each] for each in rounds], np.int64)
        roots = (sizes.cumsum() - sizes.ravel()).reshape(sizes.shape)
        nodes = np.concatenate([nodes for each in rounds for nodes in each])
        first = np.repeat(roots.ravel(), sizes.ravel())
        is_leaf = nodes["is_leaf"].astype(bool)
        children = np.stack([first + nodes["left"], first + nodes["right"]], 1)
        return cls(
            np.where(is_leaf, -1, nodes["feature_idx"]).astype(np.int32),
            np.where(is_leaf, 0, nodes["num_threshold"]).astype(np.float64),
            np.where(is_leaf[:, None], 0, children).astype(np.int32),
            nodes["value"].astype(np.float64), roots.astype(np.int32),
            np.asarray(model._baseline_prediction, np.float64).ravel(), labels, outputs,
        )  # fmt: skip

    def predict(self, x: NDArray) -> NDArray[np.float64]:
        """Return probabilities or standardised numbers [n, outputs] for features [n, d]."""
        scores = np.repeat(self.baseline[None], len(x), 0)
        rows = np.arange(len(x))
        for each in self.roots:
            for score, root in enumerate(each.tolist()):
                place = np.full(len(x), root)
                active = rows if self.feature[root] >= 0 else rows[:0]
                while len(active):
                    at = place[active]
                    right = x[active, self.feature[at]] > self.threshold[at]
                    place[active] = self.children[at, right.astype(np.int64)]
                    active = active[self.feature[place[active]] >= 0]
                scores[:, score] += self.value[place]
        if not len(self.labels):
            return scores
        if len(self.labels) == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        odds = np.exp(scores - scores.max(1, keepdims=True))
        result = np.zeros((len(x), self.outputs))
        result[:, self.labels] = odds / odds.sum(1, keepdims=True)
        return result

    def arrays(self) -> dict[str, NDArray]:
        """Return the arrays from which :meth:`from_arrays` restores the trees."""
        return {name: value for name, value in vars(self).items() if name != "outputs"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], outputs: int) -> Trees:
        """Restore trees from the result of :meth:`arrays`.

        Raises:
            KeyError: an array is missing.
        """
        names = (
            "feature", "threshold", "children", "value", "roots", "baseline", "labels",
        )  # fmt: skip
        return cls(**{name: arrays[name] for name in names}, outputs=outputs)
