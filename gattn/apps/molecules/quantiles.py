"""Quantiles of the targets of molecules, and prediction intervals that are computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gattn.apps.fitting.conformal import quantile
from gattn.apps.fitting.losses import quantile_error
from gattn.apps.molecules.target_transform import TargetTransform

__all__ = [
    "QuantileIntervals", "by_level", "level_name", "normal_quantiles", "quantile_metrics",
    "sorted_quantiles",
]  # fmt: skip

NARROWEST = 0.01
"""Minimum distance between the median and the outer quantiles, as a multiple of the standard
deviation of the error. The conformal scores are then finite.
"""


def by_level(outputs: Tensor, levels: int) -> Tensor:
    """Return the outputs of networks, [..., t q], by targets and their q levels: [..., t, q]."""
    return outputs.unflatten(-1, (-1, levels))


def sorted_quantiles(quantiles: Tensor) -> Tensor:
    """Sort quantiles [..., q] by their levels, so that they do not cross.

    Sorting never increases the quantile loss.

    Reference:
        Chernozhukov, Fernández-Val and Galichon, "Quantile and Probability Curves Without Crossing"
        (Econometrica 2010).

    >>> sorted_quantiles(torch.tensor([[0.0, 2.0, 1.0]]))
    tensor([[0., 1., 2.]])
    """
    return quantiles.sort(dim=-1).values


def normal_quantiles(mean: Tensor, variance: Tensor, levels: Sequence[float]) -> Tensor:
    """Return the quantiles of normal distributions, [k, t, q], of means and variances [k, t].

    >>> mean, variance = torch.zeros(1, 1).double(), torch.ones(1, 1).double()
    >>> normal_quantiles(mean, variance, [0.5, 0.975]).flatten()
    tensor([0.0000, 1.9600], dtype=torch.float64)
    """
    steps = torch.special.ndtri(torch.tensor(levels, dtype=mean.dtype))
    return mean[..., None] + variance.sqrt()[..., None] * steps


def level_name(level: float) -> str:
    """Return the name of the column of a quantile.

    >>> level_name(0.05)
    'quantile_0.05'
    """
    return f"quantile_{level}"


@dataclass(frozen=True)
class QuantileIntervals:
    r"""Calibrator of prediction intervals that are computed from predicted quantiles.

    This is split conformal prediction with scores that are scaled by the distance between the
    median m and the lowest and highest quantiles a and b:

    .. math:: r = \max\Bigl(\frac{m - y}{m - a}, \frac{y - m}{b - m}\Bigr), \qquad
        [m - q\,(m - a),\; m + q\,(b - m)]

    q is the :math:`\lceil (n + 1)\, \mathrm{coverage} \rceil`-th smallest of the scores of n
    calibration rows. The interval is therefore not symmetric about the median if the quantiles are
    not. The guarantee is that of :class:`gattn.apps.fitting.conformal.IntervalCalibrator`: on
    average, the interval contains a new value with at least the requested probability, even if the
    predicted quantiles are wrong. The distances are at least a hundredth of the standard deviation
    of the error.

    Attributes:
        scores: for each of t targets the scores of its measured calibration rows, ascending.
        transform: the transforms of the targets; scores and intervals are computed on their scale.

    References:
        Romano, Patterson and Candès, "Conformalized Quantile Regression" (NeurIPS 2019);
        Kivaranovic, Johnson and Leeb, "Adaptive, Distribution-Free Prediction Intervals for Deep
        Networks" (AISTATS 2020), for the scaled scores.
    """

    scores: tuple[tuple[float, ...], ...]
    transform: TargetTransform

    @classmethod
    def fit(
        cls, transform: TargetTransform, y: Tensor, median: Tensor, quantiles: Tensor, std: Tensor
    ) -> QuantileIntervals:
        """Create a calibrator from the predictions of a calibration part.

        Args:
            transform: the transforms of the targets.
            y: [n, t] in the targets' units; NaN for a target that was not measured.
            median: [n, t] predicted medians.
            quantiles: [n, t, q] predicted quantiles, ascending.
            std: [n, t] positive standard deviations of the predictions' errors.

        Returns:
            The calibrator. A target without a measured row has infinite intervals.

        Raises:
            ValueError: a measured row has a quantile that is not finite.
        """
        labelled = ~y.isnan()
        if not quantiles.isfinite().all(-1)[labelled].all():
            raise ValueError("a measured row has a quantile that is not finite")
        middle, below, above = _distances(transform, median, quantiles, std)
        error = transform(y).double() - middle
        scores = torch.maximum(-error / below, error / above)
        ascending = (each[mask].sort().values.tolist() for each, mask in zip(scores.T, labelled.T))
        return cls(tuple(map(tuple, ascending)), transform)

    def interval(
        self, median: Tensor, quantiles: Tensor, std: Tensor, *, coverage: float = 0.9
    ) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper ends of the prediction intervals.

        Args:
            median: [k, t] predicted medians, in the targets' units.
            quantiles: [k, t, q] predicted quantiles, ascending.
            std: [k, t] standard deviations of the predictions' errors.
            coverage: the requested probability, in (0, 1).

        Returns:
            The lower and the upper ends, both [k, t] float64; infinite if the calibration part is
            too small for the coverage.
        """
        factor = torch.tensor([quantile(one, coverage) for one in self.scores]).double()
        middle, below, above = _distances(self.transform, median, quantiles, std)
        low, high = middle - factor * below, middle + factor * above
        return self.transform.inverse(low), self.transform.inverse(high)

    def state(self) -> dict[str, Any]:
        """Return the conformal scores and the names of the transforms as JSON values."""
        return {"scores": self.scores, "transform": list(self.transform.names), "quantiles": True}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> QuantileIntervals:
        """Restore a calibrator from the result of :meth:`state`."""
        scores = tuple(tuple(map(float, one)) for one in state["scores"])
        return cls(scores, TargetTransform(tuple(state["transform"])))


def quantile_metrics(y: Tensor, quantiles: Tensor, levels: Sequence[float]) -> dict[str, Any]:
    """Measure predicted quantiles against labels.

    Args:
        y: [k, t] labels, NaN for a missing value.
        quantiles: [k, t, q] predicted quantiles.
        levels: levels of the quantiles.

    Returns:
        ``loss``, the mean quantile loss over the labels and levels, and ``below``, for each level
        the share of the labels that are at most the quantile; NaN without labels.
    """
    labelled = ~y.isnan()
    loss = quantile_error(levels)(quantiles.flatten(1), y)[labelled].mean()
    shares = (y[..., None] <= quantiles)[labelled].double().mean(0).tolist()
    return {"loss": float(loss), "below": dict(zip(map(str, levels), shares, strict=True))}


def _distances(
    transform: TargetTransform, median: Tensor, quantiles: Tensor, std: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the medians and their distances from the lowest and the highest quantile, on the
    transformed scale: [k, t] each.
    """
    median, std = median.double(), std.double()
    middle, least = transform(median), NARROWEST * std * transform.slope(median)
    low, high = (transform(quantiles[..., place].double()) for place in (0, -1))
    return middle, torch.maximum(middle - low, least), torch.maximum(high - middle, least)
