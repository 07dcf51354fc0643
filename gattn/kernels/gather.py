"""Rows of a table by an index, read into memory that is there, and rows added to a table's."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from gattn.kernels import cpu
from gattn.kernels.precision import acc_dtype


def gather_rows(table: Tensor, index: Tensor, out: Tensor) -> Tensor:
    """Write ``table[index]``, [b, ...] of [n, ...], to the contiguous ``out``, by the C++ kernel.

    Where ``table`` is no rows of contiguous elements it is copied first.
    """
    width, element = math.prod(table.shape[1:]), table.element_size()
    wide = index.dtype == torch.int64
    values = [table, index, out, wide, index.numel(), width, element]
    _launcher("gather_rows", "table index out is_int64 count width element")(values)
    return out


def add_rows(rows: Tensor, index: Tensor, total: Tensor) -> None:
    """Add each of ``rows``, [b, ...], to its row ``index`` of ``total``, [n, ...], in their order.

    The sums have the same bits with any number of threads. ``total`` is contiguous, on a CPU, and
    of the dtype that sums of rows are taken in.
    """
    if total.dtype != acc_dtype(rows.dtype) or not total.is_contiguous():
        raise ValueError(f"total must be contiguous, of {acc_dtype(rows.dtype)}; got {total.dtype}")
    width = math.prod(rows.shape[1:])
    values = [rows, index, total, index.dtype == torch.int64, index.numel(), width]
    _launcher("add_rows", "rows index total is_int64 count width")(values)


@functools.cache
def _launcher(kernel: str, fields: str) -> cpu.Launcher:
    return cpu.Launcher(kernel, {name: at for at, name in enumerate(fields.split())})
