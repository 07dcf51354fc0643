"""Means and standard deviations of columns, by which labels and features are standardised."""

from __future__ import annotations

import torch
from torch import Tensor


def moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean and the standard deviation of each column, ignoring missing values.

    Both are accurate to rounding for any unit and any offset, for example for standard deviations
    of 1e-12 or 1e12, and for a standard deviation of 1e-3 around a mean of 1e6.

    Args:
        values: [k, t] float64 with at least one row; NaN for missing values.

    Returns:
        The means and the standard deviations, both [t] float64. The standard deviation of a column
        of equal values is set to 1, so that dividing by it changes nothing. A column without
        values has the mean NaN and the standard deviation 1.

    Example:
        >>> mean, scale = moments(torch.tensor([[1.0, 5.0], [3.0, 5.0]], dtype=torch.float64))
        >>> mean.tolist(), scale.tolist()
        ([2.0, 5.0], [1.0, 1.0])
    """
    labelled = ~values.isnan()
    # Subtract the minimum first. The mean of equal values may differ from them by rounding, but
    # their minimum is exact.
    lowest = values.where(labelled, torch.inf).amin(0)
    above = values - lowest
    centre = above.nanmean(0)
    deviation = above - centre
    # The squares of very small and very large numbers exceed the range of float64.
    largest = deviation.abs().nan_to_num(0.0).amax(0)
    unit = torch.where(largest > 0, largest, 1.0)
    scale = (deviation / unit).square().nanmean(0).sqrt() * unit
    return lowest + centre, torch.where(largest > 0, scale, 1.0)
