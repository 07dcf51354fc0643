"""How good a model is on labelled molecules: metrics, and whether its intervals keep their word."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.baselines import BASELINE_ROWS, baseline_predictions
from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import Labelled
from gattn.molecules.settings import MoleculeSettings, Task
from gattn.training.conformal import IntervalCalibrator
from gattn.training.metrics import (
    classification_metrics,
    regression_metrics,
    undefined_metrics,
)

__all__ = [
    "constant_width",
    "count_labels",
    "label_notes",
    "measure",
    "measure_baselines",
    "measure_intervals",
    "measure_targets",
    "ridge_rows",
    "undefined",
]


def measure(task: Task, y: Tensor, mean: Tensor) -> dict[str, float]:
    """The metrics of a task, each a mean over targets.

    Args:
        task: what is predicted.
        y: [k, t] labels, NaN where there is none.
        mean: [k, t] predictions.

    Returns:
        ``rmse``, ``mae`` and ``r2``, or ``roc_auc``, ``pr_auc`` and ``accuracy``.
    """
    of = regression_metrics if task == "regression" else classification_metrics
    return of(y, mean)


def measure_targets(
    estimator: MoleculeEstimator, y: Tensor, mean: Tensor
) -> dict[str, dict[str, float]]:
    """The metrics of each target, by its name."""
    return {
        target: measure(estimator.task, y[:, i], mean[:, i])
        for i, target in enumerate(estimator.targets_)
    }


def count_labels(
    estimator: MoleculeEstimator, parts: Mapping[str, Tensor]
) -> dict[str, dict[str, int | dict[str, int]]]:
    """Count the labels of each target in each part, of classes for each class apart.

    Args:
        estimator: knows the targets and their classes.
        parts: [k, t] labels by the name of the part, NaN where there is none.

    Returns:
        By target and part a number, or a number by class; a part without rows has 0.
    """
    return {
        target: {part: _count(estimator, i, y[:, i]) for part, y in parts.items()}
        for i, target in enumerate(estimator.targets_)
    }


def label_notes(estimator: MoleculeEstimator, parts: Mapping[str, Tensor]) -> list[str]:
    """Say which part has no label, or no label of one class, of which target.

    Args:
        estimator: knows the targets and their classes.
        parts: [k, t] labels by the name of the part, NaN where there is none.

    Returns:
        A sentence for each target and part that lacks something; none where nothing lacks.
    """
    notes = []
    for target, counts in count_labels(estimator, parts).items():
        for part, count in counts.items():
            by_class = count if isinstance(count, dict) else {}
            if not (sum(by_class.values()) if by_class else count):
                notes.append(f"The {part} part has no label of {target!r}: {_lost(part)}.")
                continue
            notes += [
                f"The {part} part has no label of class {name!r} of {target!r}: "
                f"{_lost(part, by_class)}."
                for name, labels in by_class.items()
                if not labels
            ]
    return notes


def _count(estimator: MoleculeEstimator, target: int, y: Tensor) -> int | dict[str, int]:
    if not isinstance(estimator, MoleculeClassifier):
        return int(y.isfinite().sum())
    kinds = estimator.classes_by_target[target].tolist()
    return {str(kind): int((y == i).sum()) for i, kind in enumerate(kinds)}


def _lost(part: str, by_class: Mapping[str, int] | None = None) -> str:
    """Name what cannot be computed of a part."""
    if part == "test":
        return "its ROC AUC and PR AUC are not defined" if by_class else "it has no test metrics"
    return "that class is in every set" if by_class else "its intervals or sets are unbounded"


def measure_baselines(
    task: Task, train: Labelled, known: Labelled, seed: int
) -> dict[str, dict[str, float]]:
    """The metrics of the baselines, trained on one part, on another."""
    made = baseline_predictions(train.inputs, train.y, known.inputs, task, seed=seed)
    return {name: measure(task, known.y, mean) for name, mean in made.items()}


def undefined(
    estimator: MoleculeEstimator, parts: Mapping[str, Tensor], intervals: Mapping[str, float]
) -> dict[str, dict[str, str]]:
    """Say why metrics are undefined, or are means that leave out targets.

    Args:
        estimator: a fitted one.
        parts: [k, t] labels of each part that was measured, NaN where there is none.
        intervals: what :func:`measure_intervals` and :func:`constant_width` measured.

    Returns:
        For each part, and for ``"intervals"``, a reason for each such metric; no entry for a part
        whose metrics are all defined for all targets.
    """
    targets, classes = list(map(str, estimator.targets_)), []
    if isinstance(estimator, MoleculeClassifier):
        classes = [kinds.tolist() for kinds in estimator.classes_by_target]
    reasons = {
        part: undefined_metrics(y, estimator.task, targets, classes) for part, y in parts.items()
    }
    infinite = "infinite: a target has too few validation labels for this coverage"
    reasons["intervals"] = {
        name: infinite for name, value in intervals.items() if value == math.inf
    } | {
        name: "undefined: there is no label" for name, value in intervals.items() if value != value
    }
    return {part: told for part, told in reasons.items() if told}


def ridge_rows(learned: int, settings: MoleculeSettings) -> dict[str, int]:
    """How many of the molecules that are learned from a kernel ridge reads at most, by whose it is.

    >>> ridge_rows(3500, MoleculeSettings())
    {'baseline': 3500, 'model': 3000}
    """
    most = {"baseline": BASELINE_ROWS}
    if settings.model in ("stacked", "gp"):
        most["model"] = settings.kernel_rows
    return {whose: min(rows, learned) for whose, rows in most.items()}


def measure_intervals(
    estimator: MoleculeEstimator, y: Tensor, made: Prediction, coverage: float
) -> dict[str, float]:
    """Whether intervals, or sets of classes, hold the truth as often as they promise.

    Args:
        estimator: a fitted one.
        y: [k, t] labels, NaN where there is none.
        made: predictions of the k molecules.
        coverage: the promise.

    Returns:
        ``coverage``, the promise; ``held``, the share of labels that lie in their interval or
        set; ``mean_width``, of the intervals, a mean over targets in their units, or ``mean_size``
        of the sets in classes; NaN where no label is known. ``in_every_set``, how many classes,
        of all targets, had too few validation molecules for that promise.
    """
    known = y.isfinite()
    if isinstance(estimator, MoleculeRegressor):
        lower, upper = estimator.calibrator_.interval(made.mean, made.std, coverage=coverage)
        held, size, more = (lower <= y) & (y <= upper), (upper - lower, "mean_width"), {}
    elif isinstance(estimator, MoleculeClassifier):
        both = torch.stack([1 - made.mean, made.mean], dim=2)
        sets = estimator.calibrator_.sets(both, coverage=coverage)
        label = torch.where(known, y, 0).long()[..., None]
        held, size = sets.gather(2, label)[..., 0], (sets.sum(2).double(), "mean_size")
        more = {"in_every_set": estimator.calibrator_.in_every_set(coverage)}
    else:
        raise TypeError(f"{type(estimator).__name__} has neither intervals nor sets")
    width, name = size
    return {
        "coverage": coverage,
        "held": float(held[known].double().mean()),
        name: float(width.where(known, torch.nan).nanmean(0).nanmean()),
        **more,
    }


def constant_width(
    estimator: MoleculeEstimator, y: Tensor, mean: Tensor, coverage: float
) -> dict[str, float]:
    """How wide intervals would be that are as wide for every molecule: what one has to beat.

    Args:
        estimator: a fitted one.
        y: [k, t] labels of the validation part.
        mean: [k, t] their predictions.
        coverage: the promise.

    Returns:
        ``constant_width``, a mean over targets in their units; nothing for classes.
    """
    if estimator.task == "classification":
        return {}
    one = torch.ones_like(mean)
    lower, upper = IntervalCalibrator.fit(y, mean, one).interval(
        mean[:1], one[:1], coverage=coverage
    )
    return {"constant_width": float((upper - lower).mean())}
