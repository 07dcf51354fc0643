"""Metrics of predicted numbers and probabilities, computed from the rows with a label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

CONTRAST = {"r2", "roc_auc", "pr_auc"}
"""Names of the metrics that are undefined if all labels are equal."""
NAMED = 3
"""Maximum number of targets that a message names. If there are more, it only contains their
number.
"""
NAN = float("nan")


def regression_metrics(y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Compute RMSE, MAE and R² of predicted numbers, each a mean over the targets.

        rmse = sqrt(mean (y - p)²)      mae = mean |y - p|      r2 = 1 - Σ (y - p)² / Σ (y - ȳ)²

    R² does not depend on the unit of y: very small and very large values do not under- or overflow.

    Args:
        y: [k] or [k, t] in the targets' units; NaN for a target that was not measured.
        predicted: predictions of the same shape and in the same units.

    Returns:
        ``rmse``, ``mae`` and ``r2``, computed in float64. The means exclude targets without
        measured values; the mean of ``r2`` also excludes targets with one value or with equal
        values. A metric that is undefined for all targets is NaN, and :func:`undefined_metrics`
        returns the reason.

    Raises:
        ValueError: the shapes differ, t is 0, a measured value is infinite, or a prediction of a
            measured value is not finite.

    Example:
        >>> y = torch.tensor([[1.0], [2.0], [3.0], [float("nan")]])
        >>> regression_metrics(y, torch.tensor([[1.0], [2.0], [2.0], [9.0]]))["mae"]
        0.3333333333333333
    """
    return _means(y, predicted, _errors)


def classification_metrics(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Compute metrics of predicted probabilities of class 1, each a mean over the targets.

    Args:
        y: [k] or [k, t] labels 0 and 1; NaN for a missing label.
        probability: the predicted probability of class 1 in [0, 1], of the same shape.

    Returns:
        ``roc_auc``, ``pr_auc`` (average precision) and ``accuracy`` (with the threshold 0.5),
        computed in float64. The means exclude targets without labels; the means of ``roc_auc`` and
        ``pr_auc`` also exclude targets whose labels are all of the same class. A metric that is
        undefined for all targets is NaN, and :func:`undefined_metrics` returns the reason.

    Raises:
        ValueError: the shapes differ, t is 0, a label is neither 0 nor 1, or a probability of a
            labelled row is not in [0, 1].

    Example:
        >>> y = torch.tensor([0.0, 0.0, 1.0, 1.0])
        >>> scores = classification_metrics(y, torch.tensor([0.1, 0.6, 0.4, 0.9]))
        >>> {name: round(value, 4) for name, value in scores.items()}
        {'roc_auc': 0.75, 'pr_auc': 0.8333, 'accuracy': 0.5}
    """
    return _means(y, probability, _class_scores)


def multiclass_metrics(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Compute metrics of predicted probabilities of several exclusive classes.

    Args:
        y: [k] the true classes, numbered from 0.
        probability: [k, c] the predicted probability of each class.

    Returns:
        ``accuracy``, the fraction of rows whose most probable class is the true one; ``f1``, the
        mean of the F1 scores over classes that occur in the labels or in the predictions; and
        ``roc_auc`` and ``pr_auc``, means over the classes, each against all others; for two
        classes, those of the second class. The last two exclude classes that no row or every row
        has; :func:`undefined_class_metrics` lists these. All metrics are NaN without rows.

    Raises:
        ValueError: the shapes do not fit, a label is not the number of a class, or a probability
            is not in [0, 1].

    Example:
        >>> p = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.3, 0.4, 0.3]])
        >>> multiclass_metrics(torch.tensor([0, 1, 2]), p)["accuracy"]
        0.6666666666666666
    """
    if y.dim() != 1 or probability.dim() != 2 or len(y) != len(probability):
        raise ValueError(
            f"y must be [k] and the probabilities [k, c]; got {(*y.shape,)} and "
            f"{(*probability.shape,)}"
        )
    if not len(y):
        return dict.fromkeys(("accuracy", "f1", "roc_auc", "pr_auc"), NAN)
    # The metrics of scikit-learn take long to import, and predictions do not need them.
    from sklearn.metrics import f1_score

    classes, label = probability.shape[1], y.long().cpu()
    if not 0 <= int(label.min()) <= int(label.max()) < classes:
        raise ValueError(
            f"labels must be classes from 0 to {classes - 1}; got {label.unique().tolist()[:9]}"
        )
    truth = torch.nn.functional.one_hot(label, classes)
    # Of two classes, the second is the positive one, as in scikit-learn.
    first = 1 if classes == 2 else 0
    scores = classification_metrics(truth[:, first:], probability[:, first:])
    guess = probability.argmax(1).cpu()
    return {
        "accuracy": float((guess == label).double().mean()),
        "f1": float(f1_score(label, guess, average="macro")),
        "roc_auc": scores["roc_auc"],
        "pr_auc": scores["pr_auc"],
    }


def class_agreement(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Compute the Matthews correlation coefficient and the log loss of several exclusive classes.

    Args:
        y: [k] the true classes, numbered from 0.
        probability: [k, c] the predicted probability of each class.

    Returns:
        ``mcc``, which is 0 if all labels or all predictions are of one class, and ``log_loss``,
        with probabilities that are divided by their sum and at least 2.2e-16. Both are NaN without
        rows.

    Reference:
        Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient"
        (Computational Biology and Chemistry 2004).

    Example:
        >>> p = torch.tensor([[0.7, 0.3], [0.4, 0.6], [0.6, 0.4]])
        >>> round(class_agreement(torch.tensor([0, 1, 1]), p)["mcc"], 4)
        0.5
    """
    from sklearn.metrics import log_loss, matthews_corrcoef

    label, p = y.long().cpu(), probability.detach().cpu().double()
    if not len(label):
        return {"mcc": NAN, "log_loss": NAN}
    guess = p.argmax(1)
    # scikit-learn warns of sums that differ from 1 by a rounding error of float32.
    p = p / p.sum(1, keepdim=True)
    # It also warns of a single class.
    is_constant = len(torch.cat([label, guess]).unique()) == 1
    return {
        "mcc": 0.0 if is_constant else float(matthews_corrcoef(label, guess)),
        "log_loss": float(log_loss(label, p, labels=range(p.shape[1]))),
    }


def undefined_metrics(
    y: Tensor,
    metrics: Sequence[str],
    names: Sequence[object] = (),
    classes: Sequence[Sequence[object]] = (),
) -> dict[str, str]:
    """Return the reasons why some metrics are undefined, for all or for some targets. Raises
    ValueError if there are names, but not one for each target.

    Args:
        y: [k] or [k, t] labels in the format of :func:`regression_metrics` or
            :func:`classification_metrics`, NaN for missing labels.
        metrics: names of the metrics that are checked.
        names: names of the t targets; empty to name them by their indices.
        classes: the two labels of each target; empty for numbers.

    Returns:
        A reason for each metric that is NaN, which begins with "undefined", or that is a mean over
        only some of the targets.

    Example:
        >>> undefined_metrics(torch.tensor([0.5, 0.5]), ["r2"])["r2"]
        'undefined: all 2 labels are 0.5'
        >>> y = torch.tensor([[0.1, 0.5], [0.2, float("nan")]])
        >>> undefined_metrics(y, ["r2"], ["a", "b"])["r2"]
        "a mean over 1 of 2 targets, undefined for 'b' (there is one label)"
    """
    y = y.detach().cpu().double()
    columns = [column[~column.isnan()] for column in (y[:, None] if y.dim() == 1 else y).T]
    reasons: dict[str, str] = {}
    for metric in metrics:
        lost = {}
        for i, (name, column) in enumerate(zip(names or range(len(columns)), columns, strict=True)):
            if not len(column):
                lost[name] = "there is no label"
            elif metric in CONTRAST and len(column) == 1:
                lost[name] = "there is one label"
            elif metric in CONTRAST and bool((column == column[0]).all()):
                label = f"{float(column[0]):.12g}"
                if classes:
                    label = f"of class {classes[i][int(column[0])]!r}"
                lost[name] = f"all {len(column):,} labels are {label}"
        if lost:
            reasons[metric] = _reason(lost, len(columns), "targets")
    return reasons


def undefined_class_metrics(
    y: Tensor, metrics: Sequence[str], names: Sequence[object]
) -> dict[str, str]:
    """Return the reasons why some metrics are undefined, for all or for some classes.

    Args:
        y: [k] classes, numbered from 0.
        metrics: names of the metrics that are checked.
        names: names of the classes.

    Returns:
        A reason for each metric that is NaN, which begins with "undefined", or that is a mean over
        only some of the classes.
    """
    if not len(y):
        return dict.fromkeys(metrics, "undefined: there is no label")
    counts = torch.bincount(y.long(), minlength=len(names)).tolist()
    none = {0: "no row has this class", len(y): "every row has this class"}
    lost = {name: none[rows] for name, rows in zip(names, counts) if rows in none}
    reason = _reason(lost, len(counts), "classes") if lost else ""
    return {metric: reason for metric in metrics if lost and metric in CONTRAST}


def _reason(lost: Mapping[object, str], count: int, items: str) -> str:
    """Return a sentence about a metric that is undefined for some or all of ``count`` targets or
    classes (``items`` is this noun). ``lost`` has the reason for each of them by name, at least
    one.
    """
    if count == 1:
        return f"undefined: {', '.join(lost.values())}"
    listed = ", ".join(f"{name!r} ({reason})" for name, reason in list(lost.items())[:NAMED])
    if len(lost) > NAMED:
        listed += f", {len(lost) - NAMED:,} more"
    if len(lost) == count:
        return f"undefined for all {count:,} {items}: {listed}"
    return f"a mean over {count - len(lost):,} of {count:,} {items}, undefined for {listed}"


def _means(
    y: Tensor, predicted: Tensor, measure: Callable[[Tensor, Tensor], Mapping[str, float]]
) -> dict[str, float]:
    """Return the mean of each metric over the targets for which this metric is defined. ``measure``
    gets the labels and the predictions of the rows in which a target has a label, float64 on the
    CPU. Raises ValueError for shapes that differ, and if there is no target.
    """
    if y.shape != predicted.shape or y.dim() not in (1, 2):
        raise ValueError(
            "y and the predictions must have the same shape, [k] or [k, t]; got "
            f"{(*y.shape,)} and {(*predicted.shape,)}"
        )
    y, predicted = y.detach().cpu().double(), predicted.detach().cpu().double()
    if y.dim() == 1:
        y, predicted = y[:, None], predicted[:, None]
    by_target = [measure(a[~a.isnan()], p[~a.isnan()]) for a, p in zip(y.T, predicted.T)]
    if not by_target:
        raise ValueError(f"y must have one target or more; got {(*y.shape,)}")
    return {name: _mean(one[name] for one in by_target) for name in by_target[0]}


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if all values are NaN."""
    return float(torch.tensor(list(values), dtype=torch.float64).nanmean())


def _errors(y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Return the root mean squared error, the mean absolute error and R² of one target.

    Args:
        y: [k] float64, measured values without NaN.
        predicted: [k] float64, predictions.

    Returns:
        ``rmse``, ``mae`` and ``r2``; all are NaN if k is 0, and ``r2`` if all values are equal.

    Raises:
        ValueError: a measured value or a prediction is not finite.
    """
    if not y.isfinite().all():
        raise ValueError("a measured value is infinite")
    if not predicted.isfinite().all():
        raise ValueError("a prediction of a measured value is not finite")
    if not len(y):
        return {"rmse": NAN, "mae": NAN, "r2": NAN}
    # If all values are equal, y - y[0] is exactly 0, whereas y - mean(y) may have rounding errors.
    deviation = y - y[0]
    deviation = deviation - deviation.mean()
    squares, unit = _squares(y - predicted)
    of_mean, unit_of_mean = _squares(deviation)
    varies = bool((y != y[0]).any())
    return {
        "rmse": unit * math.sqrt(squares / len(y)),
        "mae": float((y - predicted).abs().mean()),
        "r2": 1 - squares / of_mean * (unit / unit_of_mean) ** 2 if varies else NAN,
    }


def _squares(values: Tensor) -> tuple[float, float]:
    """Divide one or more values by their largest magnitude; return the sum of their squares, and
    this magnitude, or 1 if all values are 0.

    Without the division, squares of very small and very large numbers would leave the range of
    float64.
    """
    unit = float(values.abs().max()) or 1.0
    return float((values / unit).square().sum()), unit


def _class_scores(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Return the areas under the ROC and precision-recall curves and the accuracy of one target.

    Args:
        y: [k] float64, labels 0 and 1 without NaN.
        probability: [k] float64, probabilities of label 1; above 0.5, label 1 is predicted.

    Returns:
        ``roc_auc``, ``pr_auc`` and ``accuracy``; all are NaN if k is 0, and the two areas if all
        labels are equal.

    Raises:
        ValueError: a label is not 0 or 1, or a probability is not in [0, 1].
    """
    if not ((y == 0) | (y == 1)).all():
        raise ValueError(f"labels must be 0, 1 or NaN; got {y.unique()[:5].tolist()}")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError("a probability of a labelled row is not in [0, 1]")
    if not len(y):
        return {"roc_auc": NAN, "pr_auc": NAN, "accuracy": NAN}
    right = float(((probability > 0.5) == (y == 1)).double().mean())
    positives = int(y.sum())
    if positives in (0, len(y)):
        return {"roc_auc": NAN, "pr_auc": NAN, "accuracy": right}
    from sklearn.metrics import average_precision_score, roc_auc_score

    return {
        "roc_auc": float(roc_auc_score(y, probability)),
        "pr_auc": float(average_precision_score(y, probability)),
        "accuracy": right,
    }
