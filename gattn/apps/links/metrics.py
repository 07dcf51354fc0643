"""Metrics of links, and weights for combining several scores that rank candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.stack.weights import listwise_weights, prior_weights

MISSING = -1e9
"""Score of a missing candidate, in the place of minus infinity, while weights are fitted."""


def listwise_loss(scores: NDArray) -> NDArray[np.float64]:
    r"""Return the cross entropy of each link's true target among its candidates, [m].

    .. math:: L_i = \log \sum_j e^{s_{ij}} - s_{i0}

    Args:
        scores: [m, 1 + k] scores, that of the true target first; minus infinity for a missing
            candidate.
    """
    top = scores.max(1)
    return np.log(np.exp(scores - top[:, None]).sum(1)) + top - scores[:, 0]


def fit_scale(scores: NDArray) -> float:
    """Return the factor of the scores [m, 1 + k] for which the mean listwise loss is lowest."""
    from scipy.optimize import minimize_scalar

    spread = float(scores[np.isfinite(scores)].std()) or 1.0

    def loss(log_factor: float) -> float:
        return float(listwise_loss(scores * (np.exp(log_factor) / spread)).mean())

    best = minimize_scalar(loss, bounds=(-6.0, 4.0), method="bounded")
    return float(np.exp(float(np.asarray(best.x))) / spread)


def fit_weights(parts: Sequence[NDArray]) -> NDArray[np.float64]:
    r"""Fit nonnegative weights of several scores, so that the true targets of links are ranked
    first.

    The weights minimise the listwise loss of the weighted sum, with a penalty on deviations from
    prior weights. The prior weight of a score decreases with the difference between its loss and
    the lowest loss, in standard errors of the paired difference.

    .. math:: \min_{w \ge 0} \sum_i L_i\Bigl(\sum_k w_k s_k\Bigr) + \frac{\lambda}{2} \sum_k
        (w_k / c_k - \pi_k)^2

    :math:`c_k` is the factor that minimises the loss of score k alone, and :math:`\pi` are the
    prior weights.

    Args:
        parts: K arrays [m, 1 + k] of scores, the true target first; minus infinity for a missing
            candidate.

    Returns:
        [K] weights of the scores in their own units.

    Example:
        >>> good = np.tile([2.0, 0.0, 1.0], (50, 1))
        >>> (fit_weights([0 * good, good]) > 0).tolist()
        [False, True]
    """
    factors = np.array([fit_scale(part) for part in parts])
    scores = np.stack([part * f for part, f in zip(parts, factors)], 2).astype(np.float64)
    prior = prior_weights(np.stack([listwise_loss(scores[..., k]) for k in range(len(parts))], 1))
    # The loss depends only on the differences from the score of the true target.
    return listwise_weights(np.maximum(scores - scores[:, :1], MISSING), prior) * factors


HITS = (1, 10, 50)
"""Values of k for which the metric hits@k is computed."""


def ranks(scores: NDArray) -> NDArray[np.float64]:
    """Return the rank of the first candidate in each row, counted from 1. Other candidates with the
    same score count half.

    Args:
        scores: [m, 1 + k] scores of the true target, and of k other targets; minus infinity for a
            missing target.

    Returns:
        [m] float64, multiples of one half.

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


def link_metrics(ranked: NDArray, paired: NDArray) -> dict[str, float]:
    """Return the metrics of scores: the MRR and hits@k of the ranked targets of each source, and
    the areas under the ROC curve and the precision-recall curve of links and random pairs.

    Args:
        ranked: [m, 1 + k] scores of the true target, and of k other targets of the same source;
            minus infinity for a missing target. m is at least 1.
        paired: [m, 1 + j] scores of the link, and of j random pairs; minus infinity for a missing
            pair.

    Returns:
        ``mrr``, the mean of 1 / rank; ``hits@1``, ``hits@10`` and ``hits@50``, the fraction of
        links with at most this rank (only for ranks below the largest number of targets);
        ``roc_auc``; and ``pr_auc``, for which links and pairs have the same total weight.

    Example:
        >>> scores = np.array([[2.0, 1.0], [0.0, 1.0]])
        >>> link_metrics(scores, scores)
        {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5, 'pr_auc': 0.75}
    """
    from sklearn.metrics import average_precision_score

    rank, most = ranks(ranked), candidate_counts(ranked).max()
    metrics = {"mrr": float((1 / rank).mean())}
    metrics |= {f"hits@{k}": float((rank <= k).mean()) for k in HITS if k < most}
    links, pairs = paired[:, 0], paired[:, 1:][np.isfinite(paired[:, 1:])]
    weights = np.repeat([1 / len(links), 1 / max(len(pairs), 1)], [len(links), len(pairs)])
    metrics["roc_auc"] = float(_shares_below(links, pairs).mean())
    precision = average_precision_score(
        np.arange(len(weights)) < len(links), np.append(links, pairs), sample_weight=weights
    )
    return metrics | {"pr_auc": float(precision)}


def _shares_below(scores: NDArray, others: NDArray) -> NDArray[np.float64]:
    """Return, for each score, the fraction of the other scores that are lower; equal scores count
    half. Without other scores, it is one half.
    """
    if not len(others):
        return np.full(len(scores), 0.5)
    ordered = np.sort(others)
    below, above = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    return (below + above) / (2 * len(others))


def chance_metrics(counts: NDArray) -> dict[str, float]:
    """Return the expected values of the metrics of :func:`link_metrics` if the candidates are in
    random order.

    Args:
        counts: [m] number of candidates of each link, with the true target; m is at least 1.

    >>> chance_metrics(np.array([2, 2]))
    {'mrr': 0.75, 'hits@1': 0.5, 'roc_auc': 0.5, 'pr_auc': 0.5}
    """
    metrics = {"mrr": float(_chance_mrr(counts).mean())}
    for k in HITS:
        if k < counts.max():
            metrics[f"hits@{k}"] = float(np.minimum(k / counts, 1).mean())
    return metrics | {"roc_auc": 0.5, "pr_auc": 0.5}


def noise(ranked: NDArray, paired: NDArray) -> tuple[str, ...]:
    """Return which of ``mrr`` and ``roc_auc`` are not above those of a random order by more than
    two standard errors; the arguments are those of :func:`link_metrics`.

    Reference:
        DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated
        receiver operating characteristic curves" (Biometrics 1988), for the error of the area.
    """
    apart = 1 / ranks(ranked) - _chance_mrr(candidate_counts(ranked))
    links, pairs = paired[:, 0], paired[:, 1:][np.isfinite(paired[:, 1:])]
    places = _shares_below(links, pairs)
    error = np.hypot(_error(places), _error(_shares_below(pairs, links)))
    results = {"mrr": apart.mean() > 2 * _error(apart), "roc_auc": places.mean() > 0.5 + 2 * error}
    return tuple(name for name, is_better in results.items() if not is_better)


def _error(values: NDArray) -> float:
    """Return the standard error of a mean; infinity for a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else np.inf


def _chance_mrr(counts: NDArray) -> NDArray[np.float64]:
    """Return the expected reciprocal rank of one of ``counts`` candidates in random order."""
    return np.cumsum(1 / np.arange(1, counts.max() + 1))[counts - 1] / counts


def mrr_error(scores: NDArray) -> float:
    """Return the standard error of the mean reciprocal rank; 0 for a single link."""
    return _error(1 / ranks(scores)) if len(scores) > 1 else 0.0


def negatives_text(metrics: Mapping[str, Any]) -> str:
    """Return the number of negatives of a run's ranked links as text.

    Args:
        metrics: content of the ``metrics.json`` of the run.

    >>> negatives_text({"negatives": 500, "fewest_negatives": 2})
    '2 to 500'
    """
    most, fewest = metrics["negatives"], metrics["fewest_negatives"]
    return f"{most:,}" if most == fewest else f"{fewest:,} to {most:,}"
