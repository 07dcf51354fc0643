"""Baselines for comparison with a model: the mean, and kernel ridge regression on fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.molecules.classes import normalised
from gattn.apps.molecules.gaussian_process import draw
from gattn.apps.molecules.inputs import in_pieces
from gattn.apps.molecules.settings import Task
from gattn.data.molecules.fingerprints import tanimoto_ridges

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

__all__ = ["BASELINE_ROWS", "baseline_predictions"]

BASELINE_ROWS = 4000
"""Maximum number of training molecules for kernel ridge regression. Its memory grows with the
square of this number.
"""
PIECE = 1024
"""Number of molecules that kernel ridge regression predicts at once."""


def baseline_predictions(
    train: MoleculeInputs, y: Tensor, inputs: MoleculeInputs, task: Task, *, seed: int = 0,
    classes: Sequence[int] = (), weights: Tensor | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Train the baselines on molecules and return their predictions for other molecules.

    Args:
        train: k training molecules.
        y: [k, t] float64; NaN for a missing label; 0 and 1 for classes. Each target is fitted to
            the molecules that have a label. For several classes a column for each class.
        inputs: m molecules to predict.
        task: for classes the ridge's predictions are clipped to 0..1; for several classes they are
            then divided by their sum.
        seed: seed that samples the training molecules if there are more than ``BASELINE_ROWS``.
        classes: for the task multiclass, the number of classes of each target.
        weights: [k] weights of the training molecules; None if all are equal.

    Returns:
        ``"kernel_ridge"`` (:func:`gattn.data.tanimoto_ridge` on Morgan bits) and ``"mean"``,
        each [m, t] float64.
    """
    ridge = torch.stack([_ridge(train, column, inputs, seed, weights) for column in y.unbind(1)], 1)
    if task == "multiclass":
        ridge = normalised(ridge, classes)
    return {
        "kernel_ridge": ridge.clamp(0, 1) if task == "classification" else ridge,
        "mean": _mean(y, weights).expand(len(inputs), -1).clone(),
    }


def _mean(y: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of the labels of each target, [t]."""
    if weights is None:
        return y.nanmean(0)
    factors = weights[:, None] * y.isfinite()
    return (factors * y.nan_to_num(0.0)).sum(0) / factors.sum(0)


def _ridge(
    train: MoleculeInputs, y: Tensor, inputs: MoleculeInputs, seed: int, weights: Tensor | None
) -> Tensor:
    labelled = y.isfinite().nonzero().flatten()
    labelled = labelled[draw(len(labelled), BASELINE_ROWS, seed)]
    bits = (train[labelled].counts > 0).float()
    queries = ((piece.counts > 0).float() for piece in in_pieces(inputs, PIECE))
    some = None if weights is None else weights[labelled]
    return torch.cat(list(tanimoto_ridges(bits, y[labelled], queries, weights=some)))
