"""Model of nodes without training: a combination of ridge regressions on filtered features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gattn.nodes.stack.blocks import Blocks
from gattn.nodes.stack.linear import LARGE, Scaler, leave_one_out
from gattn.nodes.stack.propagation import propagate, propagate_folds
from gattn.nodes.stack.weights import fit_weights, pool, temperature

__all__ = ["ClosedForm"]

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


@dataclass(frozen=True, eq=False)
class ClosedForm:
    r"""Combination of label propagation and of ridge regressions on filtered features.

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
        for x in _filtered(blocks, len(train)):
            weight, _, left_out, _ = leave_one_out(x[train], labels)
            factor = temperature(left_out, truth) if is_class else 1.0
            weights.append(weight.astype(np.float32))
            factors.append(factor)
            outputs.append(_output(left_out, factor, is_class=is_class))
        spread = propagate_folds(blocks.neighbours.means, labels, train, seed)
        outputs.append(spread[train, :-1].astype(np.float64))
        shares = fit_weights(outputs, truth, is_class=is_class)
        model = cls(tuple(weights), tuple(factors), shares, is_class)
        return model, outputs

    def predict(self, blocks: Blocks, labels: NDArray, train: NDArray) -> NDArray[np.float64]:
        """Predict all nodes: probabilities or standardised numbers, [n, c].

        Args:
            blocks: features of all nodes.
            labels: [k, c], as in :meth:`fit`.
            train: [k], the nodes that have these labels.
        """
        filtered = _filtered(blocks, len(train))
        outputs = [
            _output(np.asarray(x @ weight, np.float64), factor, is_class=self.is_class)
            for x, weight, factor in zip(filtered, self.weights, self.factors)
        ]
        spread = propagate(blocks.neighbours.means, labels, train)[:, :-1]
        return pool([*outputs, spread.astype(np.float64)], self.shares, is_class=self.is_class)


def _filtered(blocks: Blocks, rows: int) -> list[Matrix]:
    """Return the features after each of the five graph filters, with a constant column: [n,
    d + 1].
    """
    import scipy.sparse as sp

    means = blocks.neighbours.means
    wide = blocks.x.shape[1] > blocks.reduced.shape[1]
    x = blocks.x if rows <= LARGE and wide else blocks.reduced
    near = means @ x
    far = means @ near
    high = x - near
    filtered = [x, near, far, high, high - means @ high]
    if edge_blocks := blocks.edge_blocks():
        parts = [x, near, *edge_blocks]
        filtered.append(Scaler.fit(parts).join(parts))
    joined = []
    for each in filtered:
        one: Matrix = sp.csr_matrix(each)
        size = float(np.sqrt(one.multiply(one).sum() / max(one.shape[0], 1)))
        constant = np.full((one.shape[0], 1), size or 1.0, np.float32)
        joined.append(sp.csr_matrix(sp.hstack([one, constant], format="csr")))
    return joined


def _output(scores: NDArray, factor: float, *, is_class: bool) -> NDArray[np.float64]:
    if not is_class:
        return scores
    odds = np.exp(factor * (scores - scores.max(1, keepdims=True)))
    return odds / odds.sum(1, keepdims=True)
