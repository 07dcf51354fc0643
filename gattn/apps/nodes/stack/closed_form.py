"""Model of nodes that is fitted in closed form: a combination of ridge regressions on filtered
features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gattn.apps.nodes.stack.blocks import Blocks
from gattn.apps.nodes.stack.linear import Scaler, leave_one_out
from gattn.apps.nodes.stack.propagation import propagate, propagate_folds
from gattn.apps.nodes.stack.weights import fit_weights, pool, temperature

__all__ = ["ClosedForm"]

SIDE = 1500
"""Maximum of min(training nodes, features) for which a regression reads all features, because
its time grows with the cube of this number. Above it, a regression reads the reduced features.
"""
DENSE = 0.05
"""Features are multiplied as a sparse matrix if at most this fraction of their entries is
nonzero.
"""
FILTERS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 0), (1, -2, 1))
"""Coefficients of X, A X and A² X in each graph filter, where A computes the mean over
neighbours.
"""

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


@dataclass(frozen=True, eq=False)
class ClosedForm:
    r"""Combination of label propagation and several ridge regressions on filtered features.

    .. math:: X, \quad A X, \quad A^2 X, \quad (I - A) X, \quad (I - A)^2 X

    If columns of edges are read, one further regression reads X, A X, the means over the neighbours
    of each type, and the means of the edges' features.

    The leave-one-out predictions of ridge regression, in which each training node is predicted by a
    model that was fitted to the other nodes, have a closed form. They are used to choose the
    penalties, the factors that convert scores to probabilities, and the weights of the combination.
    The model is therefore fitted without gradient descent.

    Attributes:
        weights: coefficients [d, c] of each regression; the last row is the constant.
        factors: factor of the scores of each regression before the softmax; 1 for numbers.
        shares: the weight of each regression, and last that of propagated labels.
        is_class: True if the labels are classes, so that probabilities are predicted.

    References:
        Zhao et al., "GraphAny: fully-inductive node classification on arbitrary graphs" (ICLR
        2025); Wu et al., "Simplifying graph convolutional networks" (ICML 2019).
    """

    weights: tuple[NDArray[np.float32], ...]
    factors: tuple[float, ...]
    shares: NDArray[np.float64]
    is_class: bool

    @classmethod
    def fit(
        cls, blocks: Blocks, labels: NDArray, train: NDArray, seed: int, *, is_class: bool
    ) -> tuple[ClosedForm, list[NDArray[np.float64]]]:
        """Fit the regressions and the weights of the combination to the labels.

        Args:
            blocks: features of all nodes.
            labels: [k, c] one-hot classes, or standardised numbers.
            train: [k], the nodes that have these labels.
            seed: seed of the folds of propagated labels.
            is_class: True for one-hot classes.

        Returns:
            The model, and predictions [k, c] of the training nodes by each filter and by propagated
            labels, which do not depend on the node's label.
        """
        truth = labels.argmax(1) if is_class else labels[:, 0]
        weights, factors, outputs = [], [], []
        x = _features(blocks, len(train))
        inputs = [*_filtered_rows(x, blocks.neighbours.means, train)]
        inputs += [joined[train] for joined in _edge_features(blocks, x)]
        for x in inputs:
            weight, left_out = _regress(x, labels)
            factor = temperature(left_out, truth) if is_class else 1.0
            weights.append(weight)
            factors.append(factor)
            outputs.append(_output(left_out, factor, is_class=is_class))
        spread = propagate_folds(blocks.neighbours.means, labels, train, seed)
        outputs.append(spread[train, :-1].astype(np.float64))
        shares = fit_weights(outputs, truth, is_class=is_class)
        model = cls(tuple(weights), tuple(factors), shares, is_class)
        return model, outputs

    def predict(self, blocks: Blocks, labels: NDArray, train: NDArray) -> NDArray[np.float64]:
        """Predict probabilities or standardised numbers for all nodes, [n, c].

        Args:
            blocks: features of all nodes.
            labels: [k, c], as in :meth:`fit`.
            train: [k], the nodes that have these labels.
        """
        x, means = _features(blocks, len(train)), blocks.neighbours.means
        scores = [
            _filter(factors, x @ weight[:-1], means) + weight[-1]
            for factors, weight in zip(FILTERS, self.weights)
        ]
        scores += [
            np.asarray(joined @ weight[:-1], np.float64) + weight[-1]
            for joined, weight in zip(_edge_features(blocks, x), self.weights[len(FILTERS) :])
        ]
        outputs = [
            _output(each, factor, is_class=self.is_class)
            for each, factor in zip(scores, self.factors)
        ]
        spread = propagate(blocks.neighbours.means, labels, train)[:, :-1]
        return pool([*outputs, spread.astype(np.float64)], self.shares, is_class=self.is_class)


def _features(blocks: Blocks, rows: int) -> Matrix:
    """Return all features, or the reduced features if a regression on all features would take
    long.
    """
    return blocks.x if min(rows, blocks.x.shape[1]) <= SIDE else blocks.reduced


def _filtered_rows(x: Matrix, means: Matrix, rows: NDArray) -> Iterator[Matrix]:
    """Yield the selected rows of the features, filtered by each of the :data:`FILTERS`."""
    near = means @ x
    steps = [x[rows], near[rows], means[rows] @ near]
    for factors in FILTERS:
        yield sum(factor * step for factor, step in zip(factors, steps) if factor)


def _filter(factors: Sequence[int], values: NDArray, means: Matrix) -> NDArray[np.float64]:
    """Apply one of the :data:`FILTERS` to values [n, c] of the nodes."""
    total = np.zeros(values.shape)
    for factor in factors:
        total += factor * values
        values = means @ values
    return total


def _edge_features(blocks: Blocks, x: Matrix) -> list[Matrix]:
    """Return one matrix with the features of nodes, of their neighbours and of their edges. It
    has no columns if the edges have no features.
    """
    edge_blocks = blocks.edge_blocks()
    if not edge_blocks:
        return []
    parts = [x, blocks.neighbours.means @ x, *edge_blocks]
    return [Scaler.fit(parts).join(parts)]


def _regress(x: Matrix, labels: NDArray) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the coefficients [d + 1, c], of which the last is the constant, and leave-one-out
    predictions.
    """
    squares = x.multiply(x).sum() if sp.issparse(x) else np.square(x, dtype=np.float64).sum()
    size = float(np.sqrt(squares / max(x.shape[0], 1))) or 1.0
    constant = np.full((x.shape[0], 1), size, np.float32)
    if sp.issparse(x) and x.nnz < DENSE * x.shape[0] * x.shape[1]:
        joined = sp.csr_matrix(sp.hstack([x, constant], format="csr"))
    else:
        joined = np.hstack([x.toarray() if sp.issparse(x) else x, constant])
    weight, _, left_out, _ = leave_one_out(joined, labels)
    weight[-1] *= size
    return weight.astype(np.float32), left_out


def _output(scores: NDArray, factor: float, *, is_class: bool) -> NDArray[np.float64]:
    if not is_class:
        return scores
    odds = np.exp(factor * (scores - scores.max(1, keepdims=True)))
    return odds / odds.sum(1, keepdims=True)
