"""Metrics of predictions, and how often intervals or label sets contain the true values."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gattn.training.metrics import classification_metrics, multiclass_metrics, regression_metrics

__all__ = ["PARTS", "interval_metrics", "measure", "set_metrics"]

PARTS = ("train", "val", "test")


def measure(
    task: Literal["regression", "classification", "multiclass"], y: Tensor, predicted: Tensor
) -> dict[str, float]:
    """Compute the metrics of a task, each a mean over targets.

    Args:
        task: ``"classification"`` has two classes for each target.
        y: [k, t] labels, NaN where there is none; of ``"multiclass"`` [k], none missing.
        predicted: [k, t] numbers or probabilities of class 1; of ``"multiclass"`` [k, classes].

    Returns:
        ``rmse``, ``mae`` and ``r2``; ``roc_auc``, ``pr_auc`` and ``accuracy``; or those of
        :func:`gattn.training.metrics.multiclass_metrics`.
    """
    if task == "multiclass":
        return multiclass_metrics(y.long(), predicted)
    return (regression_metrics if task == "regression" else classification_metrics)(y, predicted)


def interval_metrics(y: Tensor, lower: Tensor, upper: Tensor, coverage: float) -> dict[str, float]:
    """Compare the coverage of intervals with the requested one.

    Args:
        y: [k, t] labels, NaN where there is none.
        lower: [k, t] lower ends.
        upper: [k, t] upper ends.
        coverage: the requested coverage.

    Returns:
        ``coverage``; ``held``, the share of labels inside their interval; and ``mean_width``, a
        mean over targets in their units; NaN without labels.
    """
    covered = (lower <= y) & (y <= upper)
    return _coverage_metrics(y, covered, upper - lower, coverage, "mean_width")


def set_metrics(y: Tensor, sets: Tensor, coverage: float, *, in_every_set: int) -> dict[str, float]:
    """Compare the coverage of label sets with the requested one.

    Args:
        y: [k, t] classes from 0, NaN where there is none.
        sets: [k, t, c] bool, the classes in each set.
        coverage: the requested coverage.
        in_every_set: number of classes with too few validation rows for that coverage.

    Returns:
        ``coverage``; ``held``, the share of labels inside their set; ``mean_size``, a mean over
        targets, NaN without labels; and ``in_every_set``.
    """
    label = torch.where(y.isfinite(), y, 0).long()[..., None]
    covered = sets.gather(2, label)[..., 0]
    metrics = _coverage_metrics(y, covered, sets.sum(2).double(), coverage, "mean_size")
    return metrics | {"in_every_set": in_every_set}


def _coverage_metrics(
    y: Tensor, covered: Tensor, size: Tensor, coverage: float, name: str
) -> dict[str, float]:
    has_label = y.isfinite()
    return {
        "coverage": coverage,
        "held": float(covered[has_label].double().mean()),
        name: float(size.where(has_label, torch.nan).nanmean(0).nanmean()),
    }
