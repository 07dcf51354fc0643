"""Calibration curves, which compare predicted probabilities, or requested coverages, with
observed frequencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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


def probability_reliability(y: Tensor, probability: Tensor, *, bins: int = 10) -> Reliability:
    """Compare the predicted probabilities of class 1 with the observed frequencies of class 1.

    The labelled values of all targets are sorted into bins of equal width by their predicted
    probability. The expected frequency of a bin is its mean probability, and the observed frequency
    is the fraction of class 1 in the bin.

    Args:
        y: [k] or [k, t] labels 0 and 1; NaN for a missing label.
        probability: the predicted probability of class 1 in [0, 1], of the same shape.
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


def coverage_reliability(
    y: Tensor,
    interval: Callable[[float], tuple[Tensor, Tensor]],
    *,
    coverages: Sequence[float] = COVERAGES,
) -> Reliability:
    """Compare the requested coverages of prediction intervals with the observed coverages.

    Args:
        y: [k, t] labels that were not used to calibrate the intervals; NaN for missing labels.
        interval: function that returns the lower and the upper ends [k, t] for a coverage.
        coverages: requested coverages, each in (0, 1).

    Returns:
        A curve with a point for each coverage, over the labels of all targets; no points without
        labels.

    Raises:
        ValueError: ``interval`` refuses a coverage.

    References:
        Kuleshov et al., "Accurate Uncertainties for Deep Learning Using Calibrated Regression"
        (ICML 2018).
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
