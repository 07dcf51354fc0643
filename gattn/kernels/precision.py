"""The dtype that sums run in: fp32 for 16-bit floats, otherwise that of the numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def acc_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that an operator sums in: fp64 for fp64, otherwise fp32, or complex as they are."""
    wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    return wide.to_complex() if dtype.is_complex else wide


def to_acc(*tensors: Tensor | None) -> tuple[Any, ...]:
    """The tensors in the dtype that an operator sums in; None stays None."""
    return tuple(None if t is None else t.to(acc_dtype(t.dtype)) for t in tensors)


def is_rounded(dtype: torch.dtype) -> bool:
    """Whether a sum is rounded as it is written in this dtype."""
    return dtype != acc_dtype(dtype)
