"""Calibration curves, which compare predicted probabilities, or requested coverages, with
observed frequencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator

__all__ = [
    "Reliability", "coverage_reliability", "interval_reliability", "probability_reliability",
]  # fmt: skip

COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Coverages at which intervals are compared by default."""


@dataclass(frozen=True)
class Reliability:
    """Calibration curve: for each point, an expected frequency, an observed frequency, and the
    number of values.

    Attributes:
        expected: the expected frequency of each point, ascending.
        observed: the observed frequency of each point.
        count: the number of values from which each observed frequency was computed.
    """

    expected: tuple[float, ...]
    observed: tuple[float, ...]
    count: tuple[int, ...]

    @property
    def error(self) -> float:
        """Mean of |observed - expected|, weighted by the counts; NaN if there are no points.

        For probabilities this is the expected calibration error (Naeini et al., AAAI 2015).
        """
        total = sum(self.count)
        rows = zip(self.expected, self.observed, self.count)
        return sum(abs(o - e) * n for e, o, n in rows) / total if total else float("nan")

    def state(self) -> dict[str, list[float] | list[int]]:
        """Convert the attributes to lists that can be stored in JSON."""
        return {
            "expected": list(self.expected),
            "observed": list(self.observed),
            "count": list(self.count),
        }


def probability_reliability(y: Tensor, probability: Tensor, *, bins: int = 10) -> Reliability:
    """Compare the predicted probabilities of class 1 with the observed frequencies of class 1.

    The labelled values of all targets are sorted into bins of equal width by their predicted
    probability. The expected frequency of a bin is its mean probability, and the observed frequency
    is the fraction of class 1 in the bin.

    Args:
        y: [k] or [k, t] labels 0 and 1; NaN for a missing label.
        probability: the predicted probability of class 1, of the same shape.
        bins: number of bins.

    Returns:
        A curve with a point for each nonempty bin; no points without labels.

    Raises:
        ValueError: the shapes differ.

    References:
        Niculescu-Mizil and Caruana, "Predicting Good Probabilities with Supervised Learning"
        (ICML 2005).

    Example:
        >>> y = torch.tensor([0.0, 0.0, 1.0, 1.0])
        >>> probability_reliability(y, torch.tensor([0.1, 0.1, 0.1, 0.9]), bins=2).count
        (3, 1)
    """
    if y.shape != probability.shape:
        raise ValueError(
            f"y and probability must have equal shapes; got {(*y.shape,)} and "
            f"{(*probability.shape,)}"
        )
    labelled = ~y.isnan()
    label, predicted = y[labelled].double(), probability[labelled].double()
    place = (predicted * bins).long().clamp(max=bins - 1)
    count = torch.bincount(place, minlength=bins)
    occupied = count > 0
    expected, observed = (
        (torch.bincount(place, values, bins) / count)[occupied].tolist()
        for values in (predicted, label)
    )
    return Reliability(tuple(expected), tuple(observed), tuple(count[occupied].tolist()))


def interval_reliability(
    y: Tensor,
    mean: Tensor,
    std: Tensor,
    calibrator: IntervalCalibrator,
    *,
    coverages: Sequence[float] = COVERAGES,
) -> Reliability:
    """Compare the requested coverages of prediction intervals with the observed coverages.

    Args:
        y: [k, t] labels that were not used to fit the calibrator; NaN for missing labels.
        mean: [k, t] predictions.
        std: [k, t] standard deviations of the predictions' errors.
        calibrator: the calibrator of the intervals.
        coverages: requested coverages, each in (0, 1).

    Returns:
        A curve with a point for each coverage, over the labels of all targets; no points without
        labels.

    Raises:
        ValueError: the shapes do not fit, or a coverage is not in (0, 1).

    References:
        Kuleshov et al., "Accurate Uncertainties for Deep Learning Using Calibrated Regression"
        (ICML 2018).

    Example:
        >>> y, zero, one = torch.linspace(-1, 1, 99)[:, None], torch.zeros(99, 1), torch.ones(99, 1)
        >>> calibrator = IntervalCalibrator.fit(y, zero, one)
        >>> result = interval_reliability(y, zero, one, calibrator, coverages=[0.5])
        >>> round(result.observed[0], 1)
        0.5
    """
    return coverage_reliability(
        y, lambda coverage: calibrator.interval(mean, std, coverage=coverage), coverages=coverages
    )


def coverage_reliability(
    y: Tensor,
    interval: Callable[[float], tuple[Tensor, Tensor]],
    *,
    coverages: Sequence[float] = COVERAGES,
) -> Reliability:
    """Compare requested and observed coverages, as :func:`interval_reliability`, for any function
    that returns the lower and the upper ends [k, t] of the intervals for a coverage.
    """
    labelled = ~y.isnan()
    total = int(labelled.sum())
    if not total:
        return Reliability((), (), ())
    observed: list[float] = []
    for coverage in coverages:
        low, high = interval(coverage)
        inside = ((low <= y) & (y <= high))[labelled]
        observed.append(inside.double().mean().item())
    return Reliability(tuple(coverages), tuple(observed), (total,) * len(coverages))
