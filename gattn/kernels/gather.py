"""Rows of a table by an index, read into memory that is there, and rows added to a table's."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from gattn.kernels import cpu
from gattn.kernels.precision import acc_dtype

_REAL = {Tensor, torch.nn.Parameter}
"""Other types may wrap a tensor, whose memory is elsewhere."""


def can_gather(table: Tensor) -> bool:
    """Whether the kernel reads rows of this tensor: its own memory, each row in one piece."""
    return type(table) in _REAL and (table.numel() == 0 or table[0].is_contiguous())


def can_add(rows: Tensor, total: Tensor) -> bool:
    """Whether the kernel adds these rows to this total."""
    return {type(rows), type(total)} <= _REAL and total.dtype in (torch.float32, torch.float64)


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised memory; where it is real and a kernel's, large in huge pages."""
    if type(like) in _REAL and cpu.serves(like.device):
        return cpu.empty(like, *shape, dtype=dtype)
    return like.new_empty(shape, dtype=dtype)


def gather_rows(table: Tensor, index: Tensor, out: Tensor) -> Tensor:
    """Write ``table[index]``, [b, ...] of [n, ...], to the contiguous ``out``, by the kernel."""
    shape = (index.numel(), *table.shape[1:])
    if out.shape != shape or out.dtype != table.dtype or not out.is_contiguous():
        came = f"{tuple(out.shape)} of {out.dtype}"
        raise ValueError(f"out must be contiguous, {shape} of {table.dtype}; got {came}")
    width, element = math.prod(table.shape[1:]), table.element_size()
    wide = index.dtype == torch.int64
    values = [table, index, out, wide, index.numel(), width, element]
    _launcher("gather_rows", "table index out is_int64 count width element")(values)
    return out


def add_rows(
    rows: Tensor,
    index: Tensor,
    total: Tensor,
    hubs: Tensor | None = None,
    apart: Tensor | None = None,
    *,
    is_sorted: bool = False,
) -> None:
    """Add each of ``rows``, [b, ...], to its row ``index`` of ``total``, [n, ...], in their order.

    Of many rows for one place some are summed apart, or a long sum of fp32 would lose what comes
    last: an index ~k stands for the row ``hubs[k]``, to which these are added together, by way of
    ``apart[k]``: [k, ...] zeros before and after. With ``is_sorted`` the rows for one place follow
    one another. The sums have the same bits with any number of threads. ``total`` is contiguous, on
    a CPU, and of the dtype that sums of rows are taken in, as is ``apart``; ``hubs`` has the dtype
    of ``index``.
    """
    if total.dtype != acc_dtype(rows.dtype) or not total.is_contiguous():
        raise ValueError(f"total must be contiguous, of {acc_dtype(rows.dtype)}; got {total.dtype}")
    if (hubs is None) != (apart is None):
        raise ValueError("hubs and apart must be given together")
    count, width = index.numel(), math.prod(rows.shape[1:])
    wide, num_hubs = index.dtype == torch.int64, 0 if hubs is None else hubs.shape[0]
    values = [rows, index, total, hubs, apart, wide, is_sorted, count, width, num_hubs]
    _launcher(
        "add_rows", "rows index total hubs apart is_int64 is_sorted count width num_hubs",
        ("hubs", "apart"),
    )(values)  # fmt: skip


@functools.cache
def _launcher(kernel: str, fields: str, absent: tuple[str, ...] = ()) -> cpu.Launcher:
    return cpu.Launcher(kernel, {name: at for at, name in enumerate(fields.split())}, absent)
