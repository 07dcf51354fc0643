"""Metrics for targets with missing labels, and the number of labels in each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator
from gattn.apps.fitting.metrics import class_agreement, undefined_metrics
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.baselines import BASELINE_ROWS, baseline_predictions
from gattn.apps.molecules.fitted import ClassificationModel, RegressionModel
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.quantiles import quantile_metrics
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.run.measure import interval_metrics, measure, set_metrics

__all__ = [
    "constant_width",
    "count_labels",
    "distance_note",
    "label_notes",
    "label_sets",
    "measure_baselines",
    "measure_intervals",
    "measure_part",
    "measure_targets",
    "ridge_rows",
    "target_coverage_note",
    "tuning_metric",
    "undefined",
]

FAR = 0.05
"""Minimum difference of two mean similarities that is reported."""
ERRORS = 3.0
"""Minimum difference of two mean similarities that is reported, in standard errors."""
MOST_SHOWN = 5
"""Maximum number of targets whose coverages are shown in one sentence."""


def measure_targets(
    estimator: MoleculeEstimator, y: Tensor, mean: Tensor
) -> dict[str, dict[str, float]]:
    """Return a dictionary from the name of each target to its metrics."""
    columns = estimator.probabilities(mean) if estimator.class_counts else mean.T[:, :, None]
    return {
        target: _measure_target(estimator, y[:, i], column)
        for i, (target, column) in enumerate(zip(estimator.targets_, columns))
    }


def measure_part(estimator: MoleculeEstimator, y: Tensor, mean: Tensor) -> dict[str, float]:
    """Return the metrics of a part. Each metric is the mean over the targets for which it is
    defined.

    Args:
        estimator: estimator with the targets and their classes.
        y: [k, t] labels, NaN for a missing label.
        mean: [k, O] predicted means.

    Returns:
        The metrics of :func:`gattn.apps.run.measure.measure`; for several classes also the MCC and
        the log loss.
    """
    if not estimator.class_counts:
        return measure(estimator.task, y, mean)
    by_target = list(measure_targets(estimator, y, mean).values())
    return {name: _mean([one[name] for one in by_target]) for name in by_target[0]}


def _measure_target(estimator: MoleculeEstimator, y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Return the metrics of one target for labels [k] and predictions [k, 1] or [k, c]."""
    if not estimator.class_counts:
        return measure(estimator.task, y, predicted[:, 0])
    labelled = y.isfinite()
    label, chances = y[labelled].long(), predicted[labelled].clamp(0, 1)
    return measure("multiclass", label, chances) | class_agreement(label, chances)


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).nanmean())


def count_labels(
    estimator: MoleculeEstimator, parts: Mapping[str, Tensor]
) -> dict[str, dict[str, int | dict[str, int]]]:
    """Count the labels of each target in each part. For classes, count the labels of each class.

    Args:
        estimator: estimator with the targets and their classes.
        parts: labels [k, t] by the name of the part, NaN for a missing label.

    Returns:
        For each target and part a count, or a count for each class; 0 for a part without rows.
    """
    return {
        target: {part: _count(estimator, i, y[:, i]) for part, y in parts.items()}
        for i, target in enumerate(estimator.targets_)
    }


def label_notes(estimator: MoleculeEstimator, parts: Mapping[str, Tensor]) -> list[str]:
    """Return notes on parts that have no label of a target or of one of its classes.

    Args:
        estimator: estimator with the targets and their classes.
        parts: labels [k, t] by the name of the part, NaN for a missing label.

    Returns:
        A sentence for each such part and target; empty if every part has all labels.
    """
    notes = []
    for target, counts in count_labels(estimator, parts).items():
        for part, count in counts.items():
            by_class = count if isinstance(count, dict) else {}
            if not (sum(by_class.values()) if by_class else count):
                notes.append(f"The {part} part has no label of {target!r}: {_effect(part)}.")
                continue
            notes += [
                f"The {part} part has no label of class {name!r} of {target!r}: "
                f"{_effect(part, by_class)}."
                for name, labels in by_class.items()
                if not labels
            ]
    return notes


def _count(estimator: MoleculeEstimator, target: int, y: Tensor) -> int | dict[str, int]:
    if not isinstance(estimator, ClassificationModel):
        return int(y.isfinite().sum())
    kinds = estimator.classes_by_target[target].tolist()
    return {str(kind): int((y == i).sum()) for i, kind in enumerate(kinds)}


def _effect(part: str, by_class: Mapping[str, int] | None = None) -> str:
    """Describe the consequence of a part without labels of a target or of a class."""
    if part == "test":
        if by_class and len(by_class) > 2:
            return "ROC AUC and PR AUC leave out that class"
        return "its ROC AUC and PR AUC are not defined" if by_class else "it has no test metrics"
    if part == "training":
        return "that class is never predicted"
    return "that class is in every set" if by_class else "its intervals or sets are unbounded"


def measure_baselines(
    estimator: MoleculeEstimator, train: LabelledMolecules, test: LabelledMolecules, seed: int
) -> dict[str, dict[str, float]]:
    """Train the baselines on ``train`` and return their metrics on ``test``.

    The baselines are trained on the transformed targets, and their metrics are computed in the
    targets' units.
    """
    transform = estimator.predictor_.transform
    predicted = baseline_predictions(
        train.inputs, transform(estimator.outputs_of(train.y)), test.inputs, estimator.task,
        seed=seed, classes=estimator.class_counts, weights=train.weights,
    )  # fmt: skip
    return {
        name: measure_part(estimator, test.y, transform.restored(mean))
        for name, mean in predicted.items()
    }


def undefined(
    estimator: MoleculeEstimator, parts: Mapping[str, Tensor], intervals: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return the reasons why some metrics are undefined, or are averaged over fewer targets.

    Args:
        estimator: a fitted estimator.
        parts: labels [k, t] of each measured part, NaN for a missing label.
        intervals: results of :func:`measure_intervals` and :func:`constant_width`.

    Returns:
        For each part, and for ``"intervals"``, the reason for each such metric. A part has no entry
        if all its metrics are defined for all targets.
    """
    targets, classes = list(map(str, estimator.targets_)), []
    if isinstance(estimator, ClassificationModel):
        classes = [kinds.tolist() for kinds in estimator.classes_by_target]
    reasons = {part: _undefined(estimator, y, targets, classes) for part, y in parts.items()}
    infinite = "infinite: a target has too few validation labels for this coverage"
    reasons["intervals"] = {
        name: infinite for name, value in intervals.items() if value == math.inf
    } | {
        name: "undefined: there is no label" for name, value in intervals.items() if value != value
    }
    return {part: by_metric for part, by_metric in reasons.items() if by_metric}


def _undefined(
    estimator: MoleculeEstimator, y: Tensor, targets: list[str], classes: list[list[object]]
) -> dict[str, str]:
    """Return the reasons why metrics of one part are undefined. For several classes, each target
    has its own reasons.
    """
    if not estimator.class_counts:
        lost = undefined_metrics(y, estimator.task, targets, classes)
        return {metric: one.reason for metric, one in lost.items()}
    reasons: dict[str, list[str]] = {}
    for target, kinds, column in zip(targets, classes, y.T):
        labelled = column[column.isfinite()].long()
        name = f"{target!r}: " if len(targets) > 1 else ""
        for metric, one in undefined_metrics(labelled, "multiclass", kinds).items():
            reasons.setdefault(metric, []).append(name + one.reason)
    return {metric: "; ".join(each) for metric, each in reasons.items()}


def tuning_metric(estimator: MoleculeEstimator, y: Tensor) -> tuple[str, str]:
    """Return the metric by which a search compares settings, and a reason if this metric is
    undefined (otherwise "").

    Args:
        estimator: estimator with the targets and their classes.
        y: [k, t] labels of the validation part.
    """
    if estimator.class_counts:
        return "log_loss", "" if y.isfinite().any() else "undefined: there is no label"
    metric = "rmse" if estimator.task == "regression" else "roc_auc"
    lost = undefined_metrics(y, estimator.task, list(map(str, estimator.targets_))).get(metric)
    return metric, lost.reason if lost is not None and lost.for_all else ""


def ridge_rows(rows: int, settings: MoleculeSettings) -> dict[str, int]:
    """Return the number of training molecules for the baseline and the Gaussian process.

    >>> ridge_rows(3500, MoleculeSettings())
    {'baseline': 3500, 'model': 3000}
    """
    most = {"baseline": BASELINE_ROWS}
    if settings.model in ("stacked", "gp"):
        most["model"] = settings.kernel_rows
    return {whose: min(limit, rows) for whose, limit in most.items()}


def label_sets(estimator: ClassificationModel, predicted: Prediction, coverage: float) -> Tensor:
    """Return a mask [k, t, c] bool of the possible classes of each molecule and target."""
    return estimator.sets_of(predicted.mean, coverage)


def measure_intervals(
    estimator: MoleculeEstimator, y: Tensor, predicted: Prediction, coverage: float
) -> dict[str, Any]:
    """Measure how often intervals, or sets of classes, contain the true value.

    Args:
        estimator: a fitted estimator.
        y: [k, t] labels, NaN for a missing label.
        predicted: predictions of the k molecules.
        coverage: the requested coverage.

    Returns:
        The result of :func:`gattn.apps.run.measure.interval_metrics`, or of ``set_metrics`` for
        classes; and ``validation_rows``, the number of calibration labels of the target that has
        the fewest. For classes ``least_class_rows`` is this number for the class that has the
        fewest. For several targets, ``by_target`` contains ``held`` for each of them. If the model
        predicts quantiles, ``quantiles`` is the result of
        :func:`gattn.apps.molecules.quantiles.quantile_metrics`.
    """
    if isinstance(estimator, RegressionModel):
        scores = [len(each) for each in estimator.calibrator_.scores]
        ends = estimator.intervals(predicted, coverage)
        measured = interval_metrics(y, *ends, coverage)
        measured |= _by_target(
            estimator,
            lambda i: interval_metrics(y[:, i], ends[0][:, i], ends[1][:, i], coverage),
        )
        measured["validation_rows"] = min(scores)
        if predicted.quantiles is None:
            return measured
        levels = estimator.quantile_levels
        return {**measured, "quantiles": quantile_metrics(y, predicted.quantiles, levels)}
    if isinstance(estimator, ClassificationModel):
        sets = label_sets(estimator, predicted, coverage)
        always = estimator.calibrator_.in_every_set(coverage)
        measured = set_metrics(y, sets, coverage, in_every_set=always)
        measured |= _by_target(
            estimator, lambda i: set_metrics(y[:, i], sets[:, i], coverage, in_every_set=0)
        )
        scores = [sum(map(len, by_class)) for by_class in estimator.calibrator_.scores]
        least = min(len(each) for by_class in estimator.calibrator_.scores for each in by_class)
        return {**measured, "validation_rows": min(scores), "least_class_rows": least}
    raise TypeError(f"{type(estimator).__name__} has neither intervals nor sets")


def _by_target(
    estimator: MoleculeEstimator, measure_one: Callable[[list[int]], Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """Return the coverage of each target as the entry ``by_target``, if there are several."""
    names = estimator.targets_
    if len(names) < 2:
        return {}
    return {"by_target": {name: measure_one([i])["held"] for i, name in enumerate(names)}}


def target_coverage_note(intervals: Mapping[str, Any]) -> list[str]:
    """Return a sentence with the coverages of the targets that have the lowest ones.

    >>> target_coverage_note({"coverage": 0.9, "by_target": {"a": 0.95, "b": 0.585}})
    ['For 90%, the intervals or sets contain of each target: b 58.5%, a 95.0% of the labels.']
    """
    shares = intervals.get("by_target", {})
    ordered = sorted((share, name) for name, share in shares.items() if share == share)
    if not ordered:
        return []
    shown = ", ".join(f"{name} {share:.1%}" for share, name in ordered[:MOST_SHOWN])
    lowest = f" (the lowest of {len(shares)})" * (len(shares) > MOST_SHOWN)
    return [
        f"For {intervals['coverage']:.0%}, the intervals or sets contain of each target: {shown}"
        f"{lowest} of the labels."
    ]


def distance_note(test: Tensor, validation: Tensor) -> list[str]:
    """Return a sentence if the test molecules are farther from the training molecules than the
    validation molecules are.

    Args:
        test: [k] similarity of each test molecule to the most similar training or validation
            molecule.
        validation: [v] similarity of each validation molecule to the most similar training
            molecule.

    >>> near, far = torch.linspace(0.7, 0.9, 50), torch.linspace(0.5, 0.7, 50)
    >>> len(distance_note(far, near)), distance_note(near, near)
    (1, [])
    """
    if min(len(test), len(validation)) < 2:
        return []
    difference = float(validation.mean() - test.mean())
    error = math.sqrt(float(test.var() / len(test) + validation.var() / len(validation)))
    if difference < max(FAR, ERRORS * error):
        return []
    return [
        f"The test molecules are farther from the training molecules (mean similarity "
        f"{float(test.mean()):.2f}) than the validation molecules are "
        f"({float(validation.mean()):.2f}): their errors are larger than those of the validation "
        "part, and their intervals may be too narrow."
    ]


def constant_width(
    estimator: MoleculeEstimator, y: Tensor, mean: Tensor, coverage: float
) -> dict[str, float]:
    """Compute the width of intervals of constant width that have the requested coverage, as a
    baseline.

    Args:
        estimator: a fitted estimator.
        y: [k, t] labels of the validation part.
        mean: [k, t] predictions of the validation part.
        coverage: the requested coverage.

    Returns:
        ``constant_width``, a mean over targets in their units; nothing for classes.
    """
    if estimator.task != "regression":
        return {}
    one = torch.ones_like(mean)
    lower, upper = IntervalCalibrator.fit(y, mean, one).interval(
        mean[:1], one[:1], coverage=coverage
    )
    return {"constant_width": float((upper - lower).mean())}
