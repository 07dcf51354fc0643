"""Metrics of rankings: the rank of the true target of each link among random targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "HITS",
    "candidate_counts",
    "chance_metrics",
    "is_noise",
    "mrr_error",
    "negatives_text",
    "ranking_metrics",
    "ranks",
]

HITS = (1, 10, 50)
"""Values of k for which the metric hits@k is computed."""


def ranks(scores: NDArray) -> NDArray[np.float64]:
    """Return the rank of the first candidate in each row, counted from 1. Other candidates with the
    same score count half.

    Args:
        scores: [m, 1 + k] scores of the true target, and of k other targets; minus infinity for a
            missing target.

    Example:
        >>> ranks(np.array([[2.0, 1.0, 3.0], [0.0, 0.0, 0.0]]))
        array([2., 2.])
    """
    true = scores[:, :1]
    above, equal = (scores[:, 1:] > true).sum(1), (scores[:, 1:] == true).sum(1)
    return 1 + above + 0.5 * equal


def candidate_counts(scores: NDArray) -> NDArray[np.int64]:
    """Return the number of candidates [m] of each link, with the true target."""
    return np.isfinite(scores).sum(1)


def ranking_metrics(scores: NDArray) -> dict[str, float]:
    """Return the metrics of a ranking: the MRR, hits@k and the area under the ROC curve.

    Args:
        scores: [m, 1 + k] scores of the true target, and of k other targets; minus infinity for a
            missing target. m is at least 1.

    Returns:
        ``mrr``, the mean of 1 / rank; ``hits@1``, ``hits@10`` and ``hits@50``, the fraction of
        links with at most this rank (only for ranks below the largest number of targets); and
        ``roc_auc``, over all pairs of a link and a pair without a link.

    Example:
        >>> ranking_metrics(np.array([[2.0, 1.0], [0.0, 1.0]]))
        {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5}
    """
    from sklearn.metrics import roc_auc_score

    rank, valid = ranks(scores), np.isfinite(scores)
    metrics = {"mrr": float((1 / rank).mean())}
    metrics |= {f"hits@{k}": float((rank <= k).mean()) for k in HITS if k < valid.sum(1).max()}
    is_link = np.zeros(scores.shape, bool)
    is_link[:, 0] = True
    metrics["roc_auc"] = float(roc_auc_score(is_link[valid], scores[valid]))
    return metrics


def chance_metrics(counts: NDArray) -> dict[str, float]:
    """Return the expected values of the metrics if the candidates are in random order.

    Args:
        counts: [m] number of candidates of each link.

    >>> chance_metrics(np.array([2, 2]))
    {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5}
    """
    metrics = {"mrr": float(_chance_mrr(counts).mean())}
    for k in HITS:
        if k < counts.max():
            metrics[f"hits@{k}"] = float(np.minimum(k / counts, 1).mean())
    return metrics | {"roc_auc": 0.5}


def is_noise(scores: NDArray) -> bool:
    """Return True if the mean reciprocal rank is not above that of a random order by more than two
    standard errors.
    """
    apart = 1 / ranks(scores) - _chance_mrr(candidate_counts(scores))
    error = apart.std(ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else np.inf
    return bool(apart.mean() <= 2 * error)


def _chance_mrr(counts: NDArray) -> NDArray[np.float64]:
    """Return the expected reciprocal rank of one of ``counts`` candidates in random order."""
    return np.cumsum(1 / np.arange(1, counts.max() + 1))[counts - 1] / counts


def mrr_error(scores: NDArray) -> float:
    """Return the standard error of the mean reciprocal rank; 0 for a single link."""
    inverse = 1 / ranks(scores)
    return float(inverse.std(ddof=1) / len(inverse) ** 0.5) if len(inverse) > 1 else 0.0


def negatives_text(metrics: Mapping[str, Any]) -> str:
    """Return the number of negatives of a run's ranked links as text.

    Args:
        metrics: content of the ``metrics.json`` of the run.

    >>> negatives_text({"negatives": 500, "fewest_negatives": 2})
    '2 to 500'
    """
    most, fewest = metrics["negatives"], metrics["fewest_negatives"]
    return f"{most:,}" if most == fewest else f"{fewest:,} to {most:,}"
