"""Report page of a training run whose targets are values of atoms and bonds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.calibration import coverage_reliability, probability_reliability
from gattn.apps.molecules.atoms.training import one_hot_labels
from gattn.apps.molecules.atoms.values import padded
from gattn.apps.molecules.runs.report import run_facts
from gattn.apps.report.run_figures import CLASSES, TARGETS
from gattn.apps.report.run_report import run_report
from gattn.apps.run.product import Report

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.stages import MoleculeRun

__all__ = ["atom_report"]

PROMISE = (
    "The coverage holds for a random atom or bond of a new molecule, on average over molecules "
    "from the distribution of the validation molecules. Every molecule counts once, however many "
    "atoms it has."
)


def atom_report(run: MoleculeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    model, targets = run.estimator, run.estimator.targets_
    predicted = run.predictions["test"]
    y, mean, std = _outputs(run)
    if model.task == "regression":

        def interval(coverage: float) -> tuple[Tensor, Tensor]:
            lower, upper = model.predictor_.interval(predicted, coverage)
            return padded(lower.rows, targets), padded(upper.rows, targets)

        curve = coverage_reliability(y, interval)
    else:
        curve = probability_reliability(y, mean.clamp(0, 1))
    facts = run_facts(
        run, notes=run.notes, y=y, mean=mean, std=std, reliability=curve,
        words=CLASSES if model.task == "multiclass" else TARGETS, promise=PROMISE,
    )  # fmt: skip
    return run_report(facts)


def _outputs(run: MoleculeRun) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels, means and standard deviations of all targets as adjacent columns, [r,
    outputs].

    For several classes the outputs are the classes of all targets, otherwise the targets.
    """
    model, predicted = run.estimator, run.predictions["test"]
    targets, width = model.targets_, model.predictor_.width
    labels = {k: one_hot_labels(y, width) for k, y in run.part("test").y.rows.items()}
    y, mean, std = (
        padded(values, targets) for values in (labels, predicted.mean.rows, predicted.std.rows)
    )
    if width == 1:
        return y[..., 0], mean[..., 0], std
    counts = torch.tensor([len(kinds) for kinds in model.classes_by_target])
    chosen = torch.arange(width) < counts[:, None]
    return y[:, chosen], mean[:, chosen], std[..., None].expand_as(mean)[:, chosen]
