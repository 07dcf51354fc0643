"""How good predictions are: errors of numbers, scores of probabilities, gaps left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torchmetrics.functional import mean_absolute_error, mean_squared_error, r2_score
from torchmetrics.functional.classification import (
    binary_auroc,
    binary_average_precision,
    multiclass_f1_score,
)

__all__ = ["classification_metrics", "multiclass_metrics", "regression_metrics"]


def regression_metrics(y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Measure the errors of predicted numbers: RMSE, MAE and R², each a mean over the targets.

        rmse = sqrt(mean (y - p)²)      mae = mean |y - p|      r2 = 1 - Σ (y - p)² / Σ (y - ȳ)²

    Args:
        y: [k] or [k, t] in the targets' units; NaN where a target was not measured.
        predicted: of the same shape and in the same units.

    Returns:
        ``rmse``, ``mae`` and ``r2``, computed in float64. A target without a measured value adds
        nothing to the means; one of fewer than two, or of equal ones, nothing to that of ``r2``.
        A metric that no target has is NaN.

    Raises:
        ValueError: the shapes differ, or a prediction of a measured value is not finite.

    Example:
        >>> y = torch.tensor([[1.0], [2.0], [3.0], [float("nan")]])
        >>> regression_metrics(y, torch.tensor([[1.0], [2.0], [2.0], [9.0]]))["mae"]
        0.3333333333333333
    """
    return _means(y, predicted, _errors)


def classification_metrics(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Measure predicted probabilities of class 1, each metric a mean over the targets.

    Args:
        y: [k] or [k, t] of 0 and 1; NaN where a label is missing.
        probability: of class 1, of the same shape, in [0, 1].

    Returns:
        ``roc_auc``, ``pr_auc`` (average precision) and ``accuracy`` (at 0.5). A target without
        a label adds nothing to the means; one whose labels are all of one class adds only to
        that of ``accuracy``. A metric that no target has is NaN.

    Raises:
        ValueError: the shapes differ, a label is neither 0 nor 1, or a probability of a labelled
            row is not in [0, 1].

    Example:
        >>> y = torch.tensor([0.0, 0.0, 1.0, 1.0])
        >>> found = classification_metrics(y, torch.tensor([0.1, 0.6, 0.4, 0.9]))
        >>> {name: round(value, 4) for name, value in found.items()}
        {'roc_auc': 0.75, 'pr_auc': 0.8333, 'accuracy': 0.5}
    """
    return _means(y, probability, _class_scores)


def multiclass_metrics(y: Tensor, probability: Tensor) -> dict[str, float]:
    """Measure predicted probabilities of several classes, of which one is true.

    Args:
        y: [k] classes from 0.
        probability: [k, c] of each class.

    Returns:
        ``accuracy``, of the most probable class; ``f1``, the mean of the classes' F1 scores; and
        ``roc_auc`` and ``pr_auc``, means over the classes, each against all others. A class
        without a row adds nothing to these two. NaN without a row.

    Raises:
        ValueError: the shapes do not fit.

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
        return dict.fromkeys(("accuracy", "f1", "roc_auc", "pr_auc"), float("nan"))
    classes, label = probability.shape[1], y.long()
    alone = classification_metrics(torch.nn.functional.one_hot(label, classes), probability)
    guess = probability.argmax(1)
    return {
        "accuracy": float((guess == label).double().mean()),
        "f1": float(multiclass_f1_score(guess, label, classes, average="macro")),
        "roc_auc": alone["roc_auc"],
        "pr_auc": alone["pr_auc"],
    }


def _means(
    y: Tensor, predicted: Tensor, measure: Callable[[Tensor, Tensor], Mapping[str, Tensor]]
) -> dict[str, float]:
    """The mean over the targets of each metric, of the targets for which it is defined."""
    if y.shape != predicted.shape or y.dim() not in (1, 2):
        raise ValueError(
            f"y and the predictions must be [k] or [k, t] alike; got {(*y.shape,)} and "
            f"{(*predicted.shape,)}"
        )
    y, predicted = y.detach().cpu().double(), predicted.detach().cpu().double()
    if y.dim() == 1:
        y, predicted = y[:, None], predicted[:, None]
    columns = zip(y.T, predicted.T)
    found = [measure(a[~a.isnan()], p[~a.isnan()]) for a, p in columns]
    return {name: float(torch.stack([one[name] for one in found]).nanmean()) for name in found[0]}


def _errors(y: Tensor, predicted: Tensor) -> dict[str, Tensor]:
    if not predicted.isfinite().all():
        raise ValueError("a prediction of a measured value is not finite")
    none = y.new_tensor(float("nan"))
    if not len(y):
        return {"rmse": none, "mae": none, "r2": none}
    varies = len(y) > 1 and bool((y != y[0]).any())
    return {
        "rmse": mean_squared_error(predicted, y, squared=False),
        "mae": mean_absolute_error(predicted, y),
        "r2": r2_score(predicted, y) if varies else none,
    }


def _class_scores(y: Tensor, probability: Tensor) -> dict[str, Tensor]:
    if not ((y == 0) | (y == 1)).all():
        raise ValueError(f"labels must be 0, 1 or NaN; got {y.unique()[:5].tolist()}")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError("a probability of a labelled row is not in [0, 1]")
    none, label = y.new_tensor(float("nan")), y.long()
    both = len(label.unique()) == 2
    return {
        "roc_auc": binary_auroc(probability, label).double() if both else none,
        "pr_auc": binary_average_precision(probability, label).double() if both else none,
        "accuracy": ((probability > 0.5) == (label == 1)).double().mean(),
    }
