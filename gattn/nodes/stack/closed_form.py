"""A model without training: ridge regression on filtered features, combined on left-out nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gattn.nodes.stack.blocks import Blocks
from gattn.nodes.stack.linear import LARGE, leave_one_out
from gattn.nodes.stack.propagation import label_features, propagate
from gattn.nodes.stack.weights import fit_weights, pool, temperature

__all__ = ["ClosedForm"]

Matrix = Any
"""A sparse matrix of SciPy, whose types are incomplete."""


@dataclass(frozen=True, eq=False)
class ClosedForm:
    r"""Ridge regressions of the labels on features that pass filters of the graph.

    .. math:: X, \quad A X, \quad A^2 X, \quad (I - A) X, \quad (I - A)^2 X

    Each regression has an exact prediction of every training node without itself. These choose the
    penalties, the factors that make probabilities of the scores, and the weights with which the
    regressions and propagated labels are combined. There are no steps of an optimiser.

    Attributes:
        weights: [d, c] coefficients of each regression, with a row of constants at the end.
        factors: factor of the scores of each regression; 1 for numbers.
        shares: [6] weight of each regression, and of propagated labels at last.
        is_class: True for probabilities.

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
    ) -> tuple[ClosedForm, NDArray[np.float64]]:
        """Fit the regressions to one-hot classes or standardised numbers.

        Args:
            blocks: features of all nodes.
            labels: [k, c].
            train: [k] nodes with these labels.
            seed: seed of the folds of propagated labels.
            is_class: True for one-hot classes.

        Returns:
            The model, and its prediction [k, c] of each node without its label.
        """
        truth = labels.argmax(1) if is_class else labels[:, 0]
        weights, factors, outputs = [], [], []
        for x in _filtered(blocks, len(train)):
            weight, _, left_out, _ = leave_one_out(x[train], labels)
            factor = temperature(left_out, truth) if is_class else 1.0
            weights.append(weight.astype(np.float32))
            factors.append(factor)
            outputs.append(_output(left_out, factor, is_class=is_class))
        guess = np.zeros((blocks.own.shape[0], labels.shape[1]), np.float32)
        spread = label_features(blocks.neighbours, labels, train, guess, seed)[-1]
        outputs.append(spread[train, :-1].astype(np.float64))
        shares = fit_weights(outputs, truth, is_class=is_class)
        model = cls(tuple(weights), tuple(factors), shares, is_class)
        return model, pool(outputs, shares, is_class=is_class)

    def predict(self, blocks: Blocks, labels: NDArray, train: NDArray) -> NDArray[np.float64]:
        """Predict probabilities or standardised numbers: [n, c].

        Args:
            blocks: features of all nodes.
            labels: [k, c], as in :meth:`fit`.
            train: [k] nodes with these labels.
        """
        filtered = _filtered(blocks, len(train))
        outputs = [
            _output(np.asarray(x @ weight, np.float64), factor, is_class=self.is_class)
            for x, weight, factor in zip(filtered, self.weights, self.factors)
        ]
        spread = propagate(blocks.neighbours.means, labels, train)[:, :-1]
        return pool([*outputs, spread.astype(np.float64)], self.shares, is_class=self.is_class)


def _filtered(blocks: Blocks, rows: int) -> list[Matrix]:
    """Return the features after each filter, with a constant: [n, d + 1] each."""
    import scipy.sparse as sp

    means = blocks.neighbours.means
    wide = blocks.own.shape[1] > blocks.reduced.shape[1]
    x = blocks.own if rows <= LARGE and wide else blocks.reduced
    near = means @ x
    far = means @ near
    high = x - near
    filtered = [x, near, far, high, high - means @ high]
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
