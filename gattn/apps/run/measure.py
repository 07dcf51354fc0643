"""Metrics of predictions, and the coverage of prediction intervals and class sets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

PARTS = ("train", "val", "test")


def interval_metrics(
    y: Tensor, lower: Tensor, upper: Tensor, coverage: float, owners: Tensor | None = None
) -> dict[str, Any]:
    """Compute the fraction of true values inside the prediction intervals, and the mean width of
    the intervals.

    Args:
        y: [k, t] labels, NaN for missing labels.
        lower: [k, t] lower ends of the intervals.
        upper: [k, t] upper ends of the intervals.
        coverage: the requested coverage.
        owners: [k] int64, the owner of each row, such as the molecule of an atom; None if each row
            has its own. The labels of an owner have the same total weight, however many they are.

    Returns:
        ``coverage``, the requested coverage; ``held``, the fraction of labels inside their
        interval; ``mean_width``, the mean width over the targets in their units; and ``rows``, the
        number of owners with a label. ``held`` and ``mean_width`` are NaN without labels.
    """
    covered = (lower <= y) & (y <= upper)
    return _coverage_metrics(y, covered, upper - lower, coverage, "mean_width", owners)


def set_metrics(y: Tensor, sets: Tensor, coverage: float, always: list[str]) -> dict[str, Any]:
    """Compute the fraction of true classes inside the predicted sets of classes, and the mean size
    of the sets.

    Args:
        y: [k, t] classes, numbered from 0, NaN for missing labels.
        sets: [k, t, c] bool, whether each class is in the set.
        coverage: the requested coverage.
        always: names of the classes with too few validation rows for that coverage.

    Returns:
        ``coverage``, the requested coverage; ``held``, the fraction of labels inside their set;
        ``mean_size``, the mean number of classes in a set; ``rows``, the number of rows with a
        label; and ``classes_in_every_set``, which is the argument ``always``. ``held`` and
        ``mean_size`` are NaN without labels.
    """
    label = torch.where(y.isfinite(), y, 0).long()[..., None]
    covered = sets.gather(2, label)[..., 0]
    metrics = _coverage_metrics(y, covered, sets.sum(2).double(), coverage, "mean_size")
    return metrics | {"classes_in_every_set": always}


def _coverage_metrics(
    y: Tensor, covered: Tensor, size: Tensor, coverage: float, name: str,
    owners: Tensor | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the requested and the observed coverage, and the mean size of intervals or sets.

    Args:
        y: [k, t] labels, NaN for missing labels.
        covered: [k, t] booleans, True if the interval or set contains the label.
        size: [k, t] widths of intervals, or sizes of sets.
        coverage: requested coverage.
        name: key of the mean size in the result.
        owners: [k] int64, the owner of each row, as in :func:`interval_metrics`; None if each row
            has its own.

    Returns:
        The metrics, and the number of owners with a label. In ``held``, each owner and target with
        a label has the same weight. Without labels, the means are NaN.
    """
    has_label = y.isfinite()
    owners = torch.arange(len(y)) if owners is None else owners
    labels, hits = (
        torch.zeros(int(owners.max()) + 1 if len(y) else 0, y.shape[1])
        .double()
        .index_add_(0, owners, each.double())
        for each in (has_label, covered & has_label)
    )
    return {
        "coverage": coverage,
        "held": float((hits / labels)[labels > 0].mean()),
        name: float(size.where(has_label, torch.nan).nanmean(0).nanmean()),
        "rows": int((labels > 0).any(1).sum()),
    }
