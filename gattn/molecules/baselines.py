"""What every model has to beat: the mean, and kernel ridge regression on fingerprints alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.data.molecules.fingerprints import tanimoto_ridges
from gattn.molecules.gaussian_process import draw
from gattn.molecules.inputs import in_pieces
from gattn.molecules.settings import Task

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs

__all__ = ["BASELINE_ROWS", "baseline_predictions"]

BASELINE_ROWS = 4000
"""The ridge reads at most so many training molecules: its memory grows with their square."""
PIECE = 1024
"""Molecules that are predicted at once."""


def baseline_predictions(
    train: MoleculeInputs, y: Tensor, inputs: MoleculeInputs, task: Task, *, seed: int = 0
) -> dict[str, Tensor]:
    """Predict by the baselines, each target from its own known training values.

    Args:
        train: k training molecules.
        y: [k, t] float64; NaN where a target was not measured; 0 and 1 for classes.
        inputs: m molecules to predict.
        task: for classes the ridge's numbers are cut to 0..1.
        seed: of the draw of training molecules, where there are more than the ridge reads.

    Returns:
        ``"kernel_ridge"`` (:func:`gattn.data.tanimoto_ridge` on Morgan bits) and ``"mean"``,
        each [m, t] float64.
    """
    ridge = torch.stack([_ridge(train, column, inputs, seed) for column in y.unbind(1)], 1)
    return {
        "kernel_ridge": ridge.clamp(0, 1) if task == "classification" else ridge,
        "mean": y.nanmean(0).expand(len(inputs), -1).clone(),
    }


def _ridge(train: MoleculeInputs, y: Tensor, inputs: MoleculeInputs, seed: int) -> Tensor:
    known = y.isfinite().nonzero().flatten()
    known = known[draw(len(known), BASELINE_ROWS, seed)]
    bits = (train[known].counts > 0).float()
    others = ((some.counts > 0).float() for some in in_pieces(inputs, PIECE))
    return torch.cat(list(tanimoto_ridges(bits, y[known], others)))
