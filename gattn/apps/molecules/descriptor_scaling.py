"""Scale and range of the user's descriptor columns in the training part.

The tensors of this module are saved with a model, under the names of ``SCALE`` and ``RANGE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules.inputs import DescribedInputs
from gattn.apps.molecules.kernel_function import FARTHEST

if TYPE_CHECKING:
    from gattn.apps.molecules.inputs import MoleculeInputs

__all__ = ["RANGE", "SCALE", "column_tensors", "outside_range", "with_standard_columns"]

SCALE = ("extra_mean", "extra_scale")
"""Keys of the saved tensors with the mean and the standard deviation of each of the user's
descriptor columns.
"""
RANGE = ("extra_low", "extra_high")
"""Keys of the saved tensors with the smallest and the largest training value of each of the
user's descriptor columns.
"""
MARGIN = 0.1
"""A descriptor is far outside its training range if it is outside by more than this fraction of
the width of the range.
"""


def column_tensors(columns: Tensor) -> dict[str, Tensor]:
    """Return the mean, the standard deviation and the range of each descriptor column.

    Args:
        columns: [k, f] float64, the columns of the training part; NaN for missing values.

    Returns:
        Tensors [f] by their keys; the range of a column without values is NaN.
    """
    return dict(zip(SCALE, moments(columns))) | _ranges(columns)


def with_standard_columns(inputs: MoleculeInputs, tensors: dict[str, Tensor]) -> MoleculeInputs:
    """Return the inputs with standardised descriptor columns.

    A missing value becomes 0, the mean. Values beyond 6 standard deviations are clipped.

    Args:
        inputs: k molecules with f descriptor columns.
        tensors: the tensors of :func:`column_tensors`, and possibly others.

    Returns:
        The same molecules, with columns of mean 0 and standard deviation 1 in the training part.
    """
    mean, scale = (tensors[name] for name in SCALE)
    columns = ((inputs.extra_descriptors - mean) / scale).clamp(-FARTHEST, FARTHEST)
    return DescribedInputs(inputs, columns.nan_to_num(0.0))


def outside_range(values: Tensor, tensors: dict[str, Tensor]) -> Tensor:
    """Return a mask of the descriptor values that are far outside their training range.

    A value is far outside if it is beyond the range by more than a tenth of its width.

    Args:
        values: [k, f] descriptors in their units, NaN for a missing value.
        tensors: the tensors of :func:`column_tensors`, and possibly others.

    Returns:
        [k, f] bool; False for missing values, and for a model that was saved without ranges.
    """
    if RANGE[0] not in tensors:
        return torch.zeros(values.shape, dtype=torch.bool)
    low, high = (tensors[name] for name in RANGE)
    margin = MARGIN * (high - low)
    return (values < low - margin) | (values > high + margin)


def _ranges(columns: Tensor) -> dict[str, Tensor]:
    """Return the smallest and the largest value of each column of [k, f]; NaN for a column
    without values.
    """
    missing = columns.isnan()
    low = columns.masked_fill(missing, torch.inf).amin(0)
    high = columns.masked_fill(missing, -torch.inf).amax(0)
    empty = missing.all(0)
    ends = (low.masked_fill(empty, torch.nan), high.masked_fill(empty, torch.nan))
    return dict(zip(RANGE, ends))
