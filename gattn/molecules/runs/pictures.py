"""The molecules that a model predicts worst, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gattn.draw import draw_molecule
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import Labelled
from gattn.training.plots.style import number
from gattn.training.report import Figure, Section

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator

__all__ = ["worst_molecules"]

WORST = 12
"""So many molecules are drawn."""
DRAWN = 100
"""Larger molecules are left to their rows in the table: nobody could read the picture."""
SIZE = 320, 240
"""Pixels of one picture."""


def worst_molecules(estimator: MoleculeEstimator, known: Labelled, made: Prediction) -> Section:
    """The molecules of a part whose labels the model missed by most, the worst first.

    Args:
        estimator: what predicted.
        known: the molecules of the part.
        made: their predictions.

    Returns:
        A section of a report. With several targets the errors are in units of each target's
        standard deviation in the part.
    """
    error = (made.mean - known.y).abs()
    spread = (known.y - known.y.nanmean(0)).square().nanmean(0).sqrt()
    largest, target = (error / spread.clamp(min=1e-300)).nan_to_num(-1).max(1)
    order = largest.argsort(descending=True, stable=True).tolist()
    figures = []
    for i in order:
        smiles = known.inputs.molecules.smiles[i]
        if len(figures) == WORST or len(known.inputs.molecules[i].x) > DRAWN:
            continue
        figures.append(
            Figure(
                draw_molecule(smiles, size=SIZE),
                f"The structure of {smiles}",
                _caption(estimator, known, made, i, int(target[i])),
            )
        )
    text = (
        "The molecules of the test part whose labels were missed by most, the worst first. "
        "“Nearest” is the Tanimoto similarity to the most similar molecule of the training part."
    )
    return Section("Predicted worst", (text,), figures=tuple(figures), gallery=True)


def _caption(
    estimator: MoleculeEstimator, known: Labelled, made: Prediction, row: int, target: int
) -> str:
    """What was measured and predicted of a molecule, and how near the training part comes to it."""
    y, mean, std = (float(values[row, target]) for values in (known.y, made.mean, made.std))
    lines = [estimator.targets_[target]] if len(estimator.targets_) > 1 else []
    if estimator.task == "regression":
        lines += [f"measured {number(y)}", f"predicted {number(mean)} ± {number(std)}"]
    else:
        lines += [f"class {y:.0f}", f"predicted with probability {number(mean if y else 1 - mean)}"]
    lines += [f"nearest {number(float(made.nearest[row]))}"]
    return "\n".join([*lines, known.inputs.molecules.smiles[row]])
