"""Metrics for targets with missing labels, and the number of labels in each part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.tasks import Task
from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.gaussian_process import draw
from gattn.apps.molecules.inputs import in_pieces
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.labels import Labels
from gattn.apps.run.measure import interval_metrics, set_metrics
from gattn.data.molecules.fingerprints import tanimoto_ridges

if TYPE_CHECKING:
    from gattn.apps.molecules.atoms.estimators import AtomEstimator
    from gattn.apps.molecules.model_inputs import MoleculeInputs

AnyEstimator: TypeAlias = "MoleculeEstimator | AtomEstimator"
FAR = 0.05
"""Minimum difference of two mean similarities that is reported."""
ERRORS = 3.0
"""Minimum difference of two mean similarities that is reported, in standard errors."""
MOST_SHOWN = 5
"""Maximum number of targets whose coverages are shown in one sentence."""


def measure_targets(model: AnyEstimator, y: Tensor, mean: Tensor) -> dict[str, dict[str, float]]:
    """Return a dictionary from the name of each target to its metrics.

    Args:
        model: the estimator that made the predictions.
        y: [k, t] labels.
        mean: [k, o] predicted means.

    Returns:
        For each target the metrics of its task by name, NaN where a metric is undefined. For
        several classes these include Matthews' correlation coefficient and the log loss.
    """
    columns = mean.split(list(model.class_counts) or 1, 1)
    targets = zip(model.targets_, y.T, columns)
    return {name: model.task.measure(label, predicted) for name, label, predicted in targets}


def measure_part(model: AnyEstimator, y: Tensor, mean: Tensor) -> dict[str, float]:
    """Return the metrics of a part. Each metric is the mean over the targets for which it is
    defined. The arguments are those of :func:`measure_targets`.
    """
    by_target = list(measure_targets(model, y, mean).values())
    return {
        name: float(torch.tensor([one[name] for one in by_target], dtype=torch.float64).nanmean())
        for name in by_target[0]
    }


def count_labels(
    model: AnyEstimator, parts: Mapping[str, LabelledMolecules]
) -> dict[str, dict[str, int | dict[str, int]]]:
    """Count the labels of each target in each part. For classes, count the labels of each class.

    Args:
        model: estimator with the targets and their classes.
        parts: molecules by the name of the part.

    Returns:
        For each target and part a count, or a count for each class; 0 for a part without rows.
    """
    classes = model.classes_by_target or [None] * len(model.targets_)
    return {
        target: {name: _count(part.y[:, i], kinds) for name, part in parts.items()}
        for i, (target, kinds) in enumerate(zip(model.targets_, classes))
    }


def _count(labels: Tensor, kinds: np.ndarray | None) -> int | dict[str, int]:
    """Return the number of labels; for classes, the number of labels of each class."""
    if kinds is None:
        return int(labels.isfinite().sum())
    return {str(kind): int((labels == i).sum()) for i, kind in enumerate(kinds.tolist())}


def run_metrics(
    model: Any,
    molecules: Mapping[str, LabelledMolecules],
    predictions: Mapping[str, Any],
    coverage: float,
    labels: Labels,
) -> dict[str, Any]:
    """Return the metrics of the predictions for a table.

    Args:
        model: a fitted estimator.
        molecules: the molecules of each part.
        predictions: the predictions for the test part, and possibly for other parts.
        coverage: the coverage of intervals or sets.
        labels: labels of the table. Its columns may have other names than the targets of the model,
            so they are matched by position.

    Returns:
        ``task``, ``item`` (the plural noun of a row's content), and the metrics of each predicted
        part by its name; of the test part ``targets`` (the metrics of each target) and
        ``intervals``, which classes of atoms and bonds do not have; ``labels`` (the numbers of
        labels of each target in the table and in the parts) and ``undefined`` (the reasons why
        metrics are undefined).
    """
    test, predicted = molecules["test"], predictions["test"]
    intervals = measure_intervals(model, test.y, predicted, coverage, test.owners)
    counts = list(labels.counts.values()) or [{}] * len(model.targets_)
    by_target = count_labels(model, molecules).items()
    return {
        "task": model.task.name,
        "item": model.row_format.rows_noun,
        **{
            part: measure_part(model, molecules[part].y, each.mean)
            for part, each in predictions.items()
        },
        "targets": measure_targets(model, test.y, predicted.mean),
        "labels": {
            name: of_table | of_parts for of_table, (name, of_parts) in zip(counts, by_target)
        },
        "undefined": undefined(model, {part: molecules[part].y for part in predictions}, intervals),
        **({"intervals": intervals} if intervals else {}),
    }


def measure_baselines(
    estimator: Any, train: LabelledMolecules, test: LabelledMolecules, predicted: Any, seed: int
) -> dict[str, dict[str, float]]:
    """Train the baselines on ``train`` and return their metrics on ``test``.

    The baselines are trained on the transformed targets, and their metrics are computed in the
    targets' units. The baselines of a model of atoms and bonds are the mean of all labels, and the
    components of the model, except a network that is the whole model.

    Args:
        estimator: the fitted estimator.
        train: labelled molecules of the training and validation parts.
        test: labelled molecules of the test part.
        predicted: its predictions of ``test``, which are read for atoms and bonds only.
        seed: seed that samples the molecules of the kernel ridge regression.
    """
    y = estimator.outputs_of(train.y)
    if estimator.level_:
        parts = dict(predicted.component_means)
        if estimator.settings().model == "attention":
            del parts["attention"]
        means = {"mean": y.nanmean(0).expand_as(predicted.mean), **parts}
        return {name: measure_part(estimator, test.y, mean) for name, mean in means.items()}
    transform = estimator.predictor_.transform
    baselines = baseline_predictions(
        train.inputs, transform(y), train.weights, test.inputs, estimator.task, seed=seed,
        classes=estimator.class_counts,
    )  # fmt: skip
    return {
        name: measure_part(estimator, test.y, transform.restored(mean))
        for name, mean in baselines.items()
    }


def undefined(
    model: AnyEstimator, parts: Mapping[str, Tensor], intervals: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return the reasons why some metrics are undefined, or are averaged over fewer targets.

    Args:
        model: a fitted estimator.
        parts: labels of each measured part, NaN for a missing label.
        intervals: the metrics of the intervals or sets.

    Returns:
        For each part, and for ``"intervals"``, the reason for each such metric. A part has no entry
        if all its metrics are defined for all targets.
    """
    names, classes = model.targets_, [kinds.tolist() for kinds in model.classes_by_target]
    reasons = {part: model.task.undefined(y, names, classes) for part, y in parts.items()}
    infinite = "infinite: a target has too few calibration labels for this coverage"
    reasons["intervals"] = {
        name: infinite if value == math.inf else "undefined: there is no label"
        for name, value in intervals.items()
        if value == math.inf or value != value
    }
    return {part: by_metric for part, by_metric in reasons.items() if by_metric}


def measure_intervals(
    model: Any, y: Tensor, predicted: Any, coverage: float, owners: Tensor | None = None
) -> dict[str, Any]:
    """Measure how often intervals, or sets of classes, contain the true value.

    Args:
        model: a fitted estimator.
        y: [k, t] labels, NaN for a missing label.
        predicted: predictions of the k molecules, atoms or bonds.
        coverage: the requested coverage.
        owners: [k] int64, the molecule of each label; None for labels of molecules.

    Returns:
        The result of :func:`gattn.apps.run.measure.interval_metrics`, or of ``set_metrics`` for
        classes; and ``calibration_rows``, the number of calibration labels of the target that has
        the fewest. For classes ``least_class_rows`` is this number for the class that has the
        fewest. For several targets, ``by_target`` contains ``held`` for each of them. For numbers
        ``calibration`` contains the number of calibration molecules with a label of each target.
        Empty for classes of atoms and bonds, which have no sets.
    """
    if model.level_ and model.task.is_class:
        return {}
    more: dict[str, Any] = {}
    if not model.task.is_class:
        low, high = model.intervals(predicted, coverage)
        rows = model.calibration_rows
        more["calibration"] = dict(zip(model.targets_, rows))

        def metrics_of(places: list[int]) -> dict[str, Any]:
            lower, upper = low[:, places], high[:, places]
            return interval_metrics(y[:, places], lower, upper, coverage, owners)
    else:
        sets, by_class = model.sets_of(predicted.mean, coverage), model.calibrator_.scores
        kinds = dict(zip(model.targets_, model.classes_by_target))
        always = model.calibrator_.in_every_set(coverage, kinds)
        rows = [sum(map(len, scores)) for scores in by_class]
        more["least_class_rows"] = min(len(each) for scores in by_class for each in scores)

        def metrics_of(places: list[int]) -> dict[str, Any]:
            return set_metrics(y[:, places], sets[:, places], coverage, always)

    names = model.targets_
    if len(names) > 1:
        more["by_target"] = {name: metrics_of([i])["held"] for i, name in enumerate(names)}
    return {**metrics_of([*range(len(names))]), "calibration_rows": min(rows), **more}


def target_coverage_note(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with a sentence on the coverages of the targets that have the lowest ones; an
    empty list without coverages of several targets.

    >>> intervals = {"coverage": 0.9, "by_target": {"a": 0.95, "b": 0.585}}
    >>> target_coverage_note({"intervals": intervals})
    ['For 90%, the intervals or sets contain of each target: b 58.5%, a 95.0% of the labels.']
    """
    intervals = metrics.get("intervals", {})
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
    """Return a list with a sentence if the test molecules are clearly farther from the training
    molecules than the validation molecules are; otherwise, or with fewer than two molecules in a
    part, an empty list.

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


BASELINE_ROWS = 4000
"""Maximum number of training molecules for kernel ridge regression. Its memory grows with the
square of this number.
"""


def baseline_predictions(
    train: MoleculeInputs, y: Tensor, weights: Tensor, inputs: MoleculeInputs, task: Task, *,
    seed: int = 0, classes: Sequence[int] = (),
) -> dict[str, Tensor]:  # fmt: skip
    """Train the baselines on molecules and return their predictions for other molecules.

    Args:
        train: k training molecules.
        y: [k, t] float64; NaN for a missing label; 0 and 1 for classes. Each target is fitted to
            the molecules that have a label. For several classes a column for each class.
        weights: [k] weights of the training molecules.
        inputs: m molecules to predict.
        task: the type of the labels, which the ridge reads as numbers.
        seed: seed that samples the training molecules if there are more than ``BASELINE_ROWS``.
        classes: for the task multiclass, the number of classes of each target.

    Returns:
        ``"kernel_ridge"`` (:func:`gattn.data.tanimoto_ridge` on Morgan bits) and ``"mean"``,
        each [m, t] float64.
    """
    ridge = torch.stack([_ridge(train, column, weights, inputs, seed) for column in y.unbind(1)], 1)
    factors = weights[:, None] * y.isfinite()
    mean = (factors * y.nan_to_num(0.0)).sum(0) / factors.sum(0)
    return {
        "kernel_ridge": task.clip(ridge, classes),
        "mean": mean.expand(len(inputs), -1).clone(),
    }


def _ridge(
    train: MoleculeInputs, y: Tensor, weights: Tensor, inputs: MoleculeInputs, seed: int
) -> Tensor:
    """Return predictions of a Tanimoto ridge regression for the molecules ``inputs``: [m] float64.
    It is fitted to at most :data:`BASELINE_ROWS` of the labels y [k], which ``seed`` samples.
    """
    labelled = y.isfinite().nonzero().flatten()
    labelled = labelled[draw(len(labelled), BASELINE_ROWS, seed)]
    bits = (train[labelled].counts > 0).float()
    queries = ((piece.counts > 0).float() for piece in in_pieces(inputs))
    ridges = tanimoto_ridges(bits, y[labelled], queries, weights=weights[labelled])
    return torch.cat(list(ridges))
