"""Gathering of table rows into existing memory, and addition of rows to table rows
(scatter-add).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gattn.kernels import cpu
from gattn.kernels.precision import acc_dtype

_REAL = {Tensor, torch.nn.Parameter}
"""Tensor types whose memory the kernels can read. Other tensor types may be wrappers without
memory.
"""


def can_gather(table: Tensor) -> bool:
    """Return True if the kernel can read a table, which must be a plain tensor with contiguous
    rows.
    """
    return type(table) in _REAL and (table.numel() == 0 or table[0].is_contiguous())


def can_add(rows: Tensor, total: Tensor) -> bool:
    """Return True if the kernel can add these rows to this table of sums."""
    return {type(rows), type(total)} <= _REAL and total.dtype in (torch.float32, torch.float64)


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate an uninitialised tensor with the dtype and device of another tensor."""
    if type(like) in _REAL and cpu.serves(like.device):
        return cpu.empty(like, *shape, dtype=dtype)
    return like.new_empty(shape, dtype=dtype)


def gather_rows(table: Tensor, index: Tensor, out: Tensor) -> Tensor:
    """Write the rows ``table[index]``, [b, ...], to a contiguous tensor ``out`` and return it. The
    table is one that :func:`can_gather` accepts; all tensors are on the CPU. The indices, int32 or
    int64, are not checked. Raises ValueError if ``out`` has another shape or dtype.
    """
    shape = (index.numel(), *table.shape[1:])
    if out.shape != shape or out.dtype != table.dtype or not out.is_contiguous():
        actual = f"{tuple(out.shape)} of {out.dtype}"
        raise ValueError(f"out must be contiguous, {shape} of {table.dtype}; got {actual}")
    width, element = math.prod(table.shape[1:]), table.element_size()
    is_int64 = index.dtype == torch.int64
    values = [table, index, out, is_int64, index.numel(), width, element]
    cpu.launcher("gather_rows", "table index out is_int64 count width element")(values)
    return out


def add_rows(
    rows: Tensor,
    index: Tensor,
    total: Tensor,
    hubs: Tensor | None = None,
    hub_sums: Tensor | None = None,
    *,
    is_sorted: bool = False,
) -> None:
    """Add each of b ``rows``, [b, ...], to the row of ``total``, [n, ...], at its index.

    If many rows have the same index, a long fp32 sum would lose the last summands. For such a row
    of ``total``, a hub, the summands of this call are first added in a separate sum: an index ~k
    means the row ``hubs[k]``, whose separate sum is ``hub_sums[k]``. ``hub_sums``, [k, ...], must
    be zero at the call, and is zero afterwards. With ``is_sorted``, rows with the same index are
    adjacent. The sums have the same bits with any number of threads. ``total`` and ``hub_sums`` are
    contiguous CPU tensors in the accumulation dtype of the rows; ``hubs`` has the dtype of
    ``index``. Raises ValueError if ``total`` has another dtype or is not contiguous, or if only one
    of ``hubs`` and ``hub_sums`` is passed; the rest is not checked.
    """
    if total.dtype != acc_dtype(rows.dtype) or not total.is_contiguous():
        raise ValueError(f"total must be contiguous, of {acc_dtype(rows.dtype)}; got {total.dtype}")
    if (hubs is None) != (hub_sums is None):
        raise ValueError("hubs and hub_sums must be passed together")
    count, width = index.numel(), math.prod(rows.shape[1:])
    is_int64, num_hubs = index.dtype == torch.int64, 0 if hubs is None else hubs.shape[0]
    values = [rows, index, total, hubs, hub_sums, is_int64, is_sorted, count, width, num_hubs]
    cpu.launcher(
        "add_rows", "rows index total hubs hub_sums is_int64 is_sorted count width num_hubs",
        ("hubs", "hub_sums"),
    )(values)  # fmt: skip
