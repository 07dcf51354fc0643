"""Pictures of the worst predicted molecules, with the weights of their atoms."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import torch

from gattn.draw import draw_molecule, shared_scale
from gattn.molecules.attributions import DEFAULT_METHOD, attribute
from gattn.molecules.estimators import MoleculeClassifier
from gattn.molecules.predictor import Prediction, batch_elements
from gattn.molecules.rows import LabelledMolecules
from gattn.training.plots.style import number
from gattn.training.report import Section
from gattn.training.sections import themed
from gattn.training.threads import limited_threads

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator
    from gattn.molecules.inputs import MoleculeInputs

__all__ = ["worst_molecules"]

WORST = 12
"""Number of molecules to draw."""
DRAWN = 100
"""Maximum number of atoms of a molecule that is drawn; a larger picture is unreadable."""
SIZE = 320, 240
"""Pixels of one picture."""
METHOD = DEFAULT_METHOD.replace("_", " ")


def worst_molecules(
    estimator: MoleculeEstimator, molecules: LabelledMolecules, predicted: Prediction
) -> Section:
    """Draw the molecules of a part with the largest errors, the largest first.

    Args:
        estimator: the estimator that made the predictions.
        molecules: the molecules of the part.
        predicted: their predictions.

    Returns:
        A section of a report, its pictures on one scale. With several targets the errors are in
        units of each target's standard deviation in the part, and a molecule is shown for its
        target with the largest error.
    """
    rows, targets = _worst(molecules, predicted)
    predictor = estimator.predictor_
    with limited_threads(batch_elements(1, predictor.settings), predictor.threads):
        weights = [
            attribute(predictor, molecules.inputs[row : row + 1], target=target)[0]
            for row, target in zip(rows, targets)
        ]
    scale = shared_scale(weights)
    smiles = dict(zip(rows, molecules.inputs[rows].molecules.smiles))
    figures = tuple(
        themed(
            partial(
                draw_molecule,
                smiles[row],
                weight,
                scale=scale,
                size=SIZE,
                label=f"contribution by {METHOD}",
            ),
            f"The structure of {smiles[row]} with a weight on each atom",
            f"{_caption(estimator, molecules, predicted, row, target)}\n{smiles[row]}",
        )
        for row, target, weight in zip(rows, targets, weights)
    )
    text = (
        "The molecules of the test part with the largest errors, the largest first. A disc shows "
        f"the contribution of its atom to the prediction, by {METHOD}: orange raises it, blue "
        "lowers it, on one signed scale for all pictures. These contributions led to the wrong "
        "predictions.",
        "“Nearest” is the Tanimoto similarity to the most similar molecule of the training and "
        "validation parts.",
    )
    return Section("Predicted worst", text, figures=figures, gallery=True)


def _worst(molecules: LabelledMolecules, predicted: Prediction) -> tuple[list[int], list[int]]:
    """Return the rows of the largest errors that can be drawn, and the target of each."""
    spread = (molecules.y - molecules.y.nanmean(0)).square().nanmean(0).sqrt()
    error = (predicted.mean - molecules.y).abs() / torch.where(spread > 0, spread, 1.0)
    largest, target = error.nan_to_num(nan=-1.0).max(1)
    order = largest.argsort(descending=True, stable=True)
    order = order[largest[order] >= 0].tolist()
    rows = list(islice((row for row in order if _can_be_drawn(molecules.inputs[[row]])), WORST))
    return rows, target[rows].tolist()


def _can_be_drawn(one: MoleculeInputs) -> bool:
    return len(one.molecules.arrays.x) <= DRAWN


def _caption(
    estimator: MoleculeEstimator,
    molecules: LabelledMolecules,
    predicted: Prediction,
    row: int,
    target: int,
) -> str:
    """Describe the label, the prediction and the nearest molecule of the other parts."""
    y, mean, std = (
        float(values[row, target]) for values in (molecules.y, predicted.mean, predicted.std)
    )
    lines = [estimator.targets_[target]] if len(estimator.targets_) > 1 else []
    if isinstance(estimator, MoleculeClassifier):
        label, probability = estimator.classes_by_target[target][int(y)], mean if y else 1 - mean
        lines += [f"measured {label}", f"its probability {number(probability)}"]
    else:
        lines += [f"measured {number(y)}", f"predicted {number(mean)} ± {number(std)}"]
    lines += [f"nearest {number(float(predicted.max_train_similarity[row]))}"]
    return "\n".join(lines)
