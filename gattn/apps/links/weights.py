"""Weights for combining several scores that rank candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gattn.apps.links.metrics import ranks
from gattn.apps.nodes.stack.weights import prior_weights

PRIOR_ROWS = 4.0
"""Strength of the penalty on deviations from the best single score, as a number of additional
links.
"""


def listwise_loss(scores: NDArray) -> NDArray[np.float64]:
    r"""Return the cross entropy of each link's true target among its candidates, [m].

    .. math:: L_i = \log \sum_j e^{s_{ij}} - s_{i0}

    Args:
        scores: [m, 1 + k].
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


def fit_weights(parts: Sequence[NDArray], metric: str = "mrr") -> NDArray[np.float64]:
    r"""Fit nonnegative weights of several scores, so that the true targets of links are ranked
    first.

    The weights minimise the listwise loss of the weighted sum, with a penalty on deviations from
    prior weights. The prior weight of a score decreases with the difference between its loss and
    the lowest loss, in standard errors of the paired difference. If the metric of the sum is worse
    than that of the best score on the same links by more than one standard error, the best score
    alone is used.

    .. math:: \min_{w \ge 0} \sum_i L_i\Bigl(\sum_k w_k s_k\Bigr) + \frac{\lambda}{2} \sum_k
        (w_k / c_k - \pi_k)^2

    :math:`c_k` is the factor that minimises the loss of score k alone, and :math:`\pi` are the
    prior weights.

    Args:
        parts: K arrays [m, 1 + k] of scores, the true target first; minus infinity for a missing
            candidate.
        metric: ``mrr`` for the mean reciprocal rank, ``roc_auc`` for the mean rank.

    Returns:
        [K] weights.

    Example:
        >>> good = np.tile([2.0, 0.0, 1.0], (50, 1))
        >>> (fit_weights([0 * good, good]) > 0).tolist()
        [False, True]
    """
    from scipy.optimize import minimize

    factors = np.array([fit_scale(part) for part in parts])
    scores = np.stack([part * f for part, f in zip(parts, factors)], 2).astype(np.float64)
    power = -1 if metric == "mrr" else 1
    values = np.stack([-power * ranks(part) ** power for part in parts])
    best = int(values.mean(1).argmax())
    prior = prior_weights(np.stack([listwise_loss(scores[..., k]) for k in range(len(parts))], 1))
    # The loss depends only on the differences from the score of the true target.
    scores -= scores[:, :1]
    missing = np.isinf(scores[..., 0])
    scores[missing] = 0

    def total_of(weights: NDArray) -> NDArray[np.float64]:
        return np.where(missing, -np.inf, scores @ weights)

    def loss(weights: NDArray) -> tuple[float, NDArray]:
        total = total_of(weights)
        top = total.max(1, keepdims=True)
        odds = np.exp(total - top)
        norm = odds.sum(1, keepdims=True)
        value = (np.log(norm[:, 0]) + top[:, 0]).sum()
        slope = np.einsum("mck,mc->k", scores, odds / norm)
        apart = PRIOR_ROWS * (weights - prior)
        return float(value + 0.5 * apart @ (weights - prior)), slope + apart

    bounds = [(0, None)] * len(parts)
    result = minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = np.where(result.x < 1e-3, 0.0, result.x)
    apart = -power * ranks(total_of(weights)) ** power - values[best]
    if apart.mean() < -apart.std() / len(apart) ** 0.5:
        weights = np.eye(len(parts))[best]
    return weights * factors
