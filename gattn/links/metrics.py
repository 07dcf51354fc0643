"""Metrics of rankings: the rank of the true target of each link among random targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["HITS", "chance_metrics", "mrr_error", "ranking_metrics", "ranks"]

HITS = (1, 10, 50)
"""Values of k for which the metric hits@k is computed."""


def ranks(scores: NDArray) -> NDArray[np.float64]:
    """Return the rank of the first candidate in each row, counted from 1. Other candidates with the
    same score count half.

    Args:
        scores: [m, 1 + k] scores of the true target, and of k other targets.

    Example:
        >>> ranks(np.array([[2.0, 1.0, 3.0], [0.0, 0.0, 0.0]]))
        array([2., 2.])
    """
    true = scores[:, :1]
    above, equal = (scores[:, 1:] > true).sum(1), (scores[:, 1:] == true).sum(1)
    return 1 + above + 0.5 * equal


def ranking_metrics(scores: NDArray) -> dict[str, float]:
    """Return the metrics of a ranking: the MRR, hits@k and the area under the ROC curve.

    Args:
        scores: [m, 1 + k] scores of the true target, and of k other targets; m is at least 1.

    Returns:
        ``mrr``, the mean of 1 / rank; ``hits@1``, ``hits@10`` and ``hits@50``, the fraction of
        links with at most this rank (only for ranks below the number of targets); and ``roc_auc``,
        over all pairs of a link and a pair without a link.

    Example:
        >>> ranking_metrics(np.array([[2.0, 1.0], [0.0, 1.0]]))
        {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5}
    """
    from sklearn.metrics import roc_auc_score

    rank, count = ranks(scores), scores.shape[1]
    metrics = {"mrr": float((1 / rank).mean())}
    metrics |= {f"hits@{k}": float((rank <= k).mean()) for k in HITS if k < count}
    is_link = np.zeros(scores.shape, bool)
    is_link[:, 0] = True
    metrics["roc_auc"] = float(roc_auc_score(is_link.ravel(), scores.ravel()))
    return metrics


def chance_metrics(count: int) -> dict[str, float]:
    """Return the expected values of the metrics if ``count`` candidates are in random order.

    >>> chance_metrics(2)
    {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5}
    """
    metrics = {"mrr": float((1 / np.arange(1, count + 1)).mean())}
    return metrics | {f"hits@{k}": k / count for k in HITS if k < count} | {"roc_auc": 0.5}


def mrr_error(scores: NDArray) -> float:
    """Return the standard error of the mean reciprocal rank; 0 for a single link."""
    inverse = 1 / ranks(scores)
    return float(inverse.std(ddof=1) / len(inverse) ** 0.5) if len(inverse) > 1 else 0.0
