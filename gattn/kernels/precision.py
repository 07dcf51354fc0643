"""Accumulation dtypes (fp32 for 16-bit floats, otherwise the dtype of the values), and infinite
scores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def acc_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which sums are computed: fp64 for fp64, otherwise fp32, or the
    corresponding complex dtype.
    """
    wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    return wide.to_complex() if dtype.is_complex else wide


def to_acc(*tensors: Tensor | None) -> tuple[Any, ...]:
    """Convert tensors to their accumulation dtype. None is returned unchanged."""
    return tuple(None if t is None else t.to(acc_dtype(t.dtype)) for t in tensors)


def is_rounded(dtype: torch.dtype) -> bool:
    """Return True if storing a sum in this dtype rounds it."""
    return dtype != acc_dtype(dtype)


def infinite_as_nan(score: Tensor) -> Tensor:
    """Replace infinite scores by NaN, in place, and return the tensor.

    A score of -inf removes its edge from the softmax, which only a bias of the caller may do. A
    score that is computed from features is infinite only if the features are infinite. PyG's layers
    then return NaN, because they add infinite products of both signs. Here the products are summed
    in another order, so that the sum may be infinite instead of NaN.
    """
    with torch.no_grad():
        # The method add_ has the same result, but Inductor in PyTorch 2.13 ignores its argument
        # alpha if the score is a matrix product.
        return score.sub_(score, alpha=0)
