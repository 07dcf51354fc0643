"""Operators that ONNX has, in the place of those that it lacks, while a model is exported to it.

``torch.onnx.export`` traces a model and translates what it recorded, operator by operator. It
knows neither gattn's operators nor a few of torch's that layouts are made of. So while it traces,
every operator runs on the plain PyTorch reference, and layouts are made by the functions below,
which give the same numbers as those that they stand for.
"""

from __future__ import annotations

import torch
from torch import Tensor


def exporting() -> bool:
    """Whether ``torch.onnx.export`` is tracing; eager code pays no more than a flag."""
    return torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()


def stable_argsort(index: Tensor) -> Tensor:
    """The order of ascending values, equal ones as they came: [e].

    ONNX sorts by its TopK, which by its specification puts the first of equal values first.
    """
    return torch.argsort(index)


def offsets(sorted_index: Tensor, size: int) -> Tensor:
    """Where each of the values 0 .. size begins in a sorted index: [size + 1]."""
    ones = torch.ones_like(sorted_index, dtype=torch.int64)
    counts = ones.new_zeros(size + 1).index_add(0, sorted_index.long() + 1, ones)
    return counts.cumsum(0)


def owners(offsets: Tensor, total: int) -> Tensor:
    """The row i with offsets[i] <= p < offsets[i + 1] for each p < total: [total]."""
    ends = offsets[1:].long()
    counts = ends.new_zeros(total + 1).index_add(0, ends, torch.ones_like(ends))
    return counts.cumsum(0)[:total]
