"""Metrics and baselines for models of atoms and bonds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gattn.apps.fitting.metrics import class_agreement
from gattn.apps.molecules.atoms.environments import EnvironmentMeans, environment_codes
from gattn.apps.molecules.atoms.estimators import AtomEstimator
from gattn.apps.molecules.atoms.predictor import AtomPrediction
from gattn.apps.molecules.atoms.training import one_hot_labels
from gattn.apps.molecules.atoms.values import LabelledAtoms, Values, padded
from gattn.apps.run.measure import measure

__all__ = [
    "baseline_means", "count_labels", "measure_coverage", "measure_means", "measure_targets",
    "side_by_side",
]  # fmt: skip

RIDGE = 1.0
"""Penalty of the ridge regression on the features of atoms and bonds."""


def measure_targets(
    model: AtomEstimator, y: Values, mean: Mapping[str, Tensor]
) -> dict[str, dict[str, float]]:
    """Return a dictionary from each target to its metrics, computed over its atoms, bonds or
    molecules.

    Args:
        model: the model, with the targets and their classes.
        y: labels [r, t] by kind.
        mean: predictions [r, t, d] by kind.
    """
    results = {}
    for number, (kind, column, name) in enumerate(model.targets_):
        label, predicted = y.rows[kind][:, column], mean[kind][:, column]
        if model.task != "multiclass":
            results[name] = measure(model.task, label, predicted[:, 0])
            continue
        labelled = label.isfinite()
        count = len(model.coding_.classes[number])
        label, chances = label[labelled].long(), predicted[labelled, :count].clamp(0, 1)
        results[name] = measure("multiclass", label, chances) | class_agreement(label, chances)
    return results


def measure_means(model: AtomEstimator, y: Values, mean: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the mean of each metric over the targets for which it is defined."""
    by_target = list(measure_targets(model, y, mean).values())
    names = by_target[0]
    return {name: _mean([one[name] for one in by_target]) for name in names}


def measure_coverage(
    model: AtomEstimator, y: Values, predicted: AtomPrediction, coverage: float
) -> dict[str, Any]:
    """Measure how often the prediction intervals contain the value of an atom.

    Returns:
        ``coverage``, the requested coverage; ``held``, the fraction of the atoms of a molecule
        whose value is inside the interval, as a mean over molecules and then over targets;
        ``mean_width``; ``rows``, the number of molecules with a label; ``calibration``, for each
        target the number of validation molecules with a label; and ``validation_rows``, the least
        of these numbers.
    """
    lower, upper = model.predictor_.interval(predicted, coverage)
    shares, widths, rows = [], [], 0
    for kind, column, _ in model.targets_:
        label = y.rows[kind][:, column]
        low, high = lower.rows[kind][:, column], upper.rows[kind][:, column]
        labelled = label.isfinite()
        inside = ((low <= label) & (label <= high))[labelled].double()
        owner = y.owners(kind)[labelled]
        _, place, sizes = owner.unique(return_inverse=True, return_counts=True)
        rows = max(rows, len(sizes))
        shares.append(float((inside / sizes[place]).sum() / max(len(sizes), 1)) if len(sizes) else
                    math.nan)  # fmt: skip
        widths.append(float((high - low)[labelled].mean()) if len(sizes) else math.nan)
    counts = [scores.molecules for scores in model.predictor_.scores]
    return {
        "coverage": coverage,
        "held": _mean(shares),
        "mean_width": _mean(widths),
        "rows": rows,
        "validation_rows": min(counts),
        "calibration": dict(zip(model.targets_.names, counts)),
    }


def baseline_means(
    model: AtomEstimator, train: LabelledAtoms, test: LabelledAtoms
) -> dict[str, dict[str, Tensor]]:
    """Return the predictions of the baselines, [r, t, d], as a dictionary by kind.

    Args:
        model: the model, with the targets.
        train: molecules on which the baselines are fitted.
        test: molecules that are predicted.

    Returns:
        ``mean``, the mean of all labels; ``features``, ridge regression on the features of the
        atom, or of the bond and the sums of those of its atoms, without attention; and
        ``environments``, the means of environments. For targets of molecules, all three baselines
        are the mean of all labels.
    """
    width = model.predictor_.width
    means: dict[str, dict[str, Tensor]] = {"mean": {}, "features": {}, "environments": {}}
    graphs = [part.inputs.molecules.arrays for part in (train, test)]
    codes, features = map(environment_codes, graphs), [_features(each) for each in graphs]
    train_codes, test_codes = codes
    for kind in model.targets_.kinds:
        y = one_hot_labels(train.y.rows[kind], width)
        count = len(test.y.rows[kind])
        overall = y.nanmean(0).expand(count, *y.shape[1:])
        means["mean"][kind] = means["features"][kind] = means["environments"][kind] = overall
        if kind == "molecule":
            continue
        x, x_test = (each[kind] for each in features)
        means["features"][kind] = _ridge(x, y, x_test)
        fitted = EnvironmentMeans.fit(train_codes[kind], y)
        means["environments"][kind] = fitted.predict(test_codes[kind])[0]
    if model.task != "regression":
        means["features"] = {k: v.clamp(0, 1) for k, v in means["features"].items()}
    return means


def count_labels(
    model: AtomEstimator, parts: Mapping[str, LabelledAtoms]
) -> dict[str, dict[str, Any]]:
    """Return the number of labels of each target in each part."""
    return {
        name: {
            part: int(molecules.y.rows[kind][:, column].isfinite().sum())
            for part, molecules in parts.items()
        }
        for kind, column, name in model.targets_
    }


def side_by_side(
    model: AtomEstimator, y: Values, predicted: AtomPrediction
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels, means and standard deviations of all targets as adjacent columns, [r,
    outputs].

    For several classes the outputs are the classes of all targets, otherwise the targets.
    """
    targets, width = model.targets_, model.predictor_.width
    labels = padded({k: one_hot_labels(v, width) for k, v in y.rows.items()}, targets)
    mean, std = padded(predicted.mean.rows, targets), padded(predicted.std.rows, targets)
    if width == 1:
        return labels[..., 0], mean[..., 0], std
    counts = [len(kinds) for kinds in model.coding_.classes]
    chosen = torch.arange(width) < torch.tensor(counts)[:, None]
    return labels[:, chosen], mean[:, chosen], std[..., None].expand_as(mean)[:, chosen]


def _features(arrays: Any) -> dict[str, Tensor]:
    """Return the features of atoms, and those of bonds, which include the features of their
    atoms: [r, d].
    """
    edges = arrays.edge_ptr.diff()
    first = arrays.ptr[:-1].repeat_interleave(edges)
    one, other = (arrays.edge_index + first)[:, ::2]
    x = arrays.x.double()
    ends = torch.cat([x[one] + x[other], (x[one] - x[other]).abs()], 1)
    return {"atom": x, "bond": torch.cat([arrays.edge_attr[::2].double(), ends], 1)}


def _ridge(x: Tensor, y: Tensor, x_test: Tensor) -> Tensor:
    """Fit a ridge regression for each target; return the predictions [r, t, d]."""
    predicted = x.new_empty(len(x_test), *y.shape[1:])
    for t in range(y.shape[1]):
        labelled = ~y[:, t].isnan().any(1)
        features, labels = x[labelled], y[labelled, t]
        center, mean = features.mean(0), labels.mean(0)
        features = features - center
        gram = features.t() @ features + RIDGE * torch.eye(x.shape[1]).double()
        weights = torch.linalg.solve(gram, features.t() @ (labels - mean))
        predicted[:, t] = (x_test - center) @ weights + mean
    return predicted


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).nanmean())
