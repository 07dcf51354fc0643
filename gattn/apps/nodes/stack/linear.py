"""Linear models of nodes: logistic regression and ridge regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.scratch import Matrix, pieces, sample
from gattn.apps.nodes.stack.weights import mean_loss

ROWS = 30_000
"""Maximum number of training nodes, and of validation nodes."""
STRENGTHS = (1.0, 10.0, 100.0)
"""Inverse penalties of logistic regression, from the strongest penalty to the weakest."""
ITERATIONS = 40
"""Maximum number of L-BFGS steps for each penalty; each fit starts from the previous result."""


@dataclass(frozen=True, eq=False)
class Scaler:
    """Scaling of blocks of features by one factor per block, so that the mean squared norm of a row
    is 1.

    Attributes:
        factors: the factor of each block; 0 for a block of zeros.
    """

    factors: tuple[float, ...]

    @classmethod
    def fit(cls, blocks: Sequence[Matrix]) -> Scaler:
        """Compute the factor of each block of features [n, d], sparse or dense: 1 divided by the
        root of the mean squared norm of a row, or 0 for a block of zeros or without rows.
        """
        squares = [_squares(block) / max(block.shape[0], 1) for block in blocks]
        return cls(tuple(float(s**-0.5) if s > 0 else 0.0 for s in squares))

    def join(self, blocks: Sequence[Matrix]) -> Matrix:
        """Scale the blocks, and concatenate them to one sparse matrix [n, d] float32 (CSR)."""
        scaled = [sp.csr_matrix(b) * np.float32(f) for b, f in zip(blocks, self.factors)]
        return sp.csr_matrix(sp.hstack(scaled, format="csr", dtype=np.float32))


def _squares(block: Matrix) -> float:
    """Return the sum of the squared values, in pieces of bounded memory."""
    values = block.data if sp.issparse(block) else block
    parts = (np.square(values[rows], dtype=np.float64).sum() for rows in pieces(len(values)))
    return float(sum(parts))


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels of nodes, and the parts to which the models of a stack are fitted.

    Attributes:
        y: [n] numbers of classes from 0, or standardised numbers; only those of the two parts are
            read.
        train: [k] training nodes.
        val: [m] validation nodes, by which penalties, epochs and weights are chosen.
        outputs: number of classes; 1 for numbers.
        is_class: True for classes.
        seed: seed of folds, samples and initial weights.
    """

    y: NDArray
    train: NDArray[np.int64]
    val: NDArray[np.int64]
    outputs: int
    is_class: bool
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear model that predicts classes or numbers.

    Attributes:
        weight: [d, c] float32.
        bias: [c] float64; minus infinity for a class without a training node.
        is_class: True if the model predicts probabilities of classes.
        penalty: the chosen inverse penalty; 0 if all training nodes are of one class.
        scaler: scaling of the blocks of features.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float64]
    is_class: bool
    penalty: float
    scaler: Scaler

    @classmethod
    def fit(cls, blocks: Sequence[Matrix], to: Targets, like: Linear | None = None) -> Linear:
        """Fit linear models from the strongest penalty to the weakest until the validation loss no
        longer falls, and return the one with the lowest loss.

        Args:
            blocks: blocks of features [n, ...] of all nodes, dense or sparse.
            to: classes for logistic regression, or numbers for ridge regression. At most 30,000
                nodes of each part are used, drawn at random by its seed.
            like: model whose penalty is used; None, or a model with the penalty 0, to choose it by
                the validation part.

        Warns:
            ConvergenceWarning: a logistic regression stopped after 40 steps. Callers may ignore it,
                because the validation part compares the results.
        """
        scaler, is_class = Scaler.fit(blocks), to.is_class
        train, val = (sample(part, ROWS, to.seed) for part in (to.train, to.val))
        x, of_val = (scaler.join([block[rows] for block in blocks]) for rows in (train, val))
        penalty = None if like is None else like.penalty
        strengths = STRENGTHS if is_class else (0.1, *STRENGTHS, 1000.0)
        fits = (_logistic if is_class else _ridge)(
            x, to.y[train], to.outputs, (penalty,) if penalty else strengths, scaler
        )
        best, lowest = None, np.inf
        for model in fits:
            if penalty:
                return model
            loss = mean_loss(model._outputs(of_val), to.y[val], is_class=is_class)
            if best is not None and loss >= lowest:
                break
            best, lowest = model, loss
        assert best is not None
        return best

    def predict(self, blocks: Sequence[Matrix]) -> NDArray[np.float64]:
        """Predict probabilities or numbers [n, c] from blocks of features [n, ...]."""
        return self._outputs(self.scaler.join(blocks))

    def _outputs(self, x: Matrix) -> NDArray[np.float64]:
        """Return the outputs of n rows x [n, d], which are already scaled: [n, outputs] class
        probabilities, or numbers in regression.
        """
        out = np.asarray(x @ self.weight, np.float64) + self.bias
        if not self.is_class:
            return out
        out = np.exp(out - out.max(1, keepdims=True))
        return out / out.sum(1, keepdims=True)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors from which :meth:`from_state` restores the model."""
        return {
            "weight": torch.from_numpy(np.ascontiguousarray(self.weight)),
            "bias": torch.from_numpy(self.bias),
            "penalty": torch.tensor([self.penalty], dtype=torch.float64),
            "factors": torch.tensor(self.scaler.factors, dtype=torch.float64),
        }

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], *, is_class: bool) -> Linear:
        """Restore a model from the result of :meth:`state_dict`."""
        weight, bias = tensors["weight"].numpy(), tensors["bias"].numpy()
        scaler = Scaler(tuple(tensors["factors"].tolist()))
        return cls(weight, bias, is_class, float(tensors["penalty"]), scaler)


def _logistic(
    x: Matrix, y: NDArray, classes: int, strengths: Sequence[float], scaler: Scaler
) -> Iterator[Linear]:
    """Yield logistic regressions fitted to features [k, d], which ``scaler`` has scaled, and
    classes [k]. There is one for each inverse penalty in ``strengths``, and each fit starts from
    the previous one. If the k nodes have a single class, there is one constant model with the
    penalty 0. scikit-learn issues a ConvergenceWarning for a fit that stops after
    :data:`ITERATIONS` steps.
    """
    from sklearn.linear_model import LogisticRegression

    labels = y.astype(int)
    kinds = np.unique(labels)
    bias = np.full(classes, -np.inf)
    if len(kinds) == 1:
        bias[kinds] = 0
        yield Linear(np.zeros((x.shape[1], classes), np.float32), bias, True, 0.0, scaler)
        return
    model = LogisticRegression(max_iter=ITERATIONS, tol=1e-3, warm_start=True)
    for strength in strengths:
        model.set_params(C=strength).fit(x, labels)
        weight = np.zeros((x.shape[1], classes), np.float32)
        intercept: Any = model.intercept_
        # For two classes, scikit-learn stores only the coefficients of the second class.
        one_sided = len(kinds) == 2
        coefficients = np.vstack([0 * model.coef_, model.coef_]) if one_sided else model.coef_
        weight[:, kinds] = coefficients.T
        bias[kinds] = [0, intercept[0]] if one_sided else intercept
        yield Linear(weight, bias.copy(), True, strength, scaler)


def _ridge(
    x: Matrix, y: NDArray, classes: int, strengths: Sequence[float], scaler: Scaler
) -> Iterator[Linear]:
    """Yield ridge regressions fitted to features [k, d], which ``scaler`` has scaled, and numbers
    [k]. There is one for each inverse penalty s in ``strengths``, whose penalty is the square root
    of k, divided by s. The number of outputs, ``classes``, is 1.
    """
    from sklearn.linear_model import Ridge

    for strength in strengths:
        model = Ridge(alpha=len(y) ** 0.5 / strength).fit(x, y)
        weight = np.asarray(model.coef_, np.float32).reshape(-1, classes)
        yield Linear(weight, np.array([float(model.intercept_)]), False, strength, scaler)
