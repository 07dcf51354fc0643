"""Standardisation of labels and features."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["moments"]


def moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean and the standard deviation of each column without missing values.

    Both are exact to rounding for any unit and any offset: a spread of 1e-12 counts as much as one
    of 1e12, and so does one of 1e-3 around 1e6.

    Args:
        values: [k, t] float64; NaN where a value is missing.

    Returns:
        Two [t] float64. The standard deviation of a constant column, whose values are all equal, is
        1, so that dividing by it changes nothing. A column without a value has NaN and 1.

    Example:
        >>> mean, scale = moments(torch.tensor([[1.0, 5.0], [3.0, 5.0]], dtype=torch.float64))
        >>> mean.tolist(), scale.tolist()
        ([2.0, 5.0], [1.0, 1.0])
    """
    labelled = ~values.isnan()
    # The mean of equal values is rounded and would differ from them; their minimum is exact.
    lowest = values.where(labelled, torch.inf).amin(0)
    above = values - lowest
    centre = above.nanmean(0)
    deviation = above - centre
    # The squares of very small and very large numbers are outside the range of float64.
    largest = deviation.abs().nan_to_num(0.0).amax(0)
    unit = torch.where(largest > 0, largest, 1.0)
    scale = (deviation / unit).square().nanmean(0).sqrt() * unit
    return lowest + centre, torch.where(largest > 0, scale, 1.0)
