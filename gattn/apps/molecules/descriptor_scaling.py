"""Scale and range of the user's descriptor columns in the training part.

The tensors of this module are saved with a model, under the names of ``SCALE`` and ``RANGE``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules.inputs import DescribedInputs
from gattn.apps.molecules.kernel_function import FARTHEST

if TYPE_CHECKING:
    from gattn.apps.molecules.inputs import MoleculeInputs

__all__ = ["SCALE", "column_tensors", "with_standard_columns"]

SCALE = ("extra_mean", "extra_scale")
"""Keys of the saved tensors with the mean and the standard deviation of each of the user's
descriptor columns.
"""


def column_tensors(columns: Tensor) -> dict[str, Tensor]:
    """Return the mean and the standard deviation of each descriptor column.

    Args:
        columns: [k, f] float64, the columns of the training part; NaN for missing values.

    Returns:
        Tensors [f] by their keys.
    """
    return dict(zip(SCALE, moments(columns)))


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
