"""Accumulation dtypes: fp32 for 16-bit floats, otherwise the dtype of the values."""

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
