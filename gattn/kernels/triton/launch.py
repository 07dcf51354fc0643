"""Launching of Triton kernels: the grid, the memory for partial results, and the arguments.

A launcher passes pointers by position, in the order of the kernel's signature, and numbers and
compile-time constants by name.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from gattn.kernels import philox
from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton import tiles
from gattn.kernels.triton.merge import merge_splits_kernel
from gattn.kernels.triton.tiles import max_degree_of, pad

REGISTERS = 255
"""Maximum number of registers per thread.

With this limit, ptxas does not aim at full occupancy, for which it would spill registers."""
MERGE_SPAN = 32
"""Number of splits that one program of the merge kernel examines. The program merges those rows
whose first split is among them.
"""
MERGE_BYTES = 128
"""Number of bytes that a program of the merge kernel reads from one split. It limits the number
of heads.
"""
MERGE_TILE, MERGE_SPLITS = 8192, 128
"""Limits of a tile of the merge kernel: its number of bytes, and its number of splits.

A node of high degree may have thousands of splits, which are processed tile by tile."""
ACCUMULATOR = {torch.float32: tl.float32, torch.float64: tl.float64}


class Sums(NamedTuple):
    """Optional sums that a kernel computes for each row, or partial sums for each split of
    a row.
    """

    row_max: Tensor | None = None
    """Maximum of the scores, [n, h]. If it is present, a, b and c are weighted by the softmax."""
    row_sum: Tensor | None = None
    """Sum of exp(score - row_max), [n, h]."""
    a: Tensor | None = None
    """First sum, [n, h, c], with any number of channels."""
    b: Tensor | None = None
    """Second sum, [n, h, c], with any number of channels."""
    c: Tensor | None = None
    """Third sum, [n, h], with one number for each head."""


class LaunchPlan:
    """Assignment of the rows of a layout to programs of a Triton kernel.

    Args:
        layout: the tensors of a Layout.
        heads: h.
        width: number of channels per head of a gathered row.
        dtype: dtype of a gathered row.
        unroll: number of tiles that are loaded before the first one is used.
        transposed: whether rows are sources with their outgoing edges.
        min_slots: minimum number of edges of one row in a tile.
        all_heads: whether a program processes all heads.
        more_rows: see `tiles.choose`.
    """

    def __init__(
        self,
        layout: list[Tensor],
        heads: int,
        width: int,
        dtype: torch.dtype,
        unroll: int,
        transposed: bool = False,
        min_slots: int = 1,
        all_heads: bool = False,
        more_rows: bool = True,
    ) -> None:
        self.offsets, num_edges = layout[3 if transposed else 0], layout[1].numel()
        self.num_rows = self.offsets.numel() - 1
        degree = num_edges / max(self.num_rows, 1)
        tile = tiles.choose(heads, width, dtype, degree, unroll, min_slots, all_heads, more_rows)
        self.heads, self.acc_dtype, self.tile = heads, acc_dtype(dtype), tile
        self.num_splits = num_edges // tile.split
        self.has_splits = False
        """True if a row may have two or more splits."""
        if self.num_splits > 1:
            max_degree = max_degree_of(layout, transposed)
            self.has_splits = (math.inf if max_degree is None else max_degree) >= 2 * tile.split
        self.programs = -(-self.num_splits // tile.rows) + -(-self.num_rows // tile.rows)
        self.head_blocks = 1 if all_heads else -(-heads // tile.heads)

    def workspace(self, *shape: int) -> Tensor:
        """Allocate partial results of this shape for every split. The tensor is empty if no row
        is split.
        """
        size = (self.num_splits, *shape) if self.has_splits else (0,)
        return self.offsets.new_empty(size, dtype=self.acc_dtype)

    def workspaces(self, sums: Sums) -> Sums:
        """Allocate partial results for these sums. The result is None where a sum is None."""
        if not self.has_splits:
            empty = self.workspace()
            return Sums(*[None if x is None else empty for x in sums])
        return Sums(*[None if x is None else self.workspace(*x.shape[1:]) for x in sums])

    def run(
        self,
        kernel: Any,
        *args: Any,
        only_splits: bool = False,
        programs: int | None = None,
        **constants: Any,
    ) -> None:
        """Launch a kernel with one program for each group of rows and block of heads. Its first
        arguments are the offsets of the rows and ``args``.

        With ``only_splits``, the grid covers only the splits. With ``programs``, the grid has this
        number of programs, each of which processes several groups of rows.
        """
        tile = self.tile
        if programs is None:
            programs = -(-self.num_splits // tile.rows) if only_splits else self.programs
        launch(
            kernel, (programs, self.head_blocks), tile.warps,
            self.offsets, *args,
            num_rows=self.num_rows, num_splits=self.num_splits,
            HEADS=self.heads, ACC=ACCUMULATOR[self.acc_dtype], H=tile.heads, SLOTS=tile.slots,
            ROWS=tile.rows, UNROLL=tile.unroll, SPLIT=tile.split, **constants,
        )  # fmt: skip

    def merge(
        self,
        splits: Sums,
        sums: Sums,
        keep_scale: float = 1.0,
        centered: bool = False,
    ) -> None:
        """Write the sums of the rows with splits into ``sums``, computed from the partial sums
        ``splits``; the other rows are not written.

        The sums a and b of a softmax are multiplied by ``keep_scale``. If ``centered`` is true, b
        becomes b - c a.
        """
        if not self.has_splits:
            return
        a, b = (0 if x is None else x.shape[2] for x in (sums.a, sums.b))
        head_bytes = pad(max(a, b)) * self.acc_dtype.itemsize
        heads = min(pad(self.heads), max(1, MERGE_BYTES // head_bytes))
        tile_splits = min(MERGE_SPLITS, max(1, MERGE_TILE // (heads * head_bytes)))
        launch(
            merge_splits_kernel, (-(-self.num_splits // MERGE_SPAN), -(-self.heads // heads)), 4,
            self.offsets, *splits, *sums, self.num_rows, self.num_splits, keep_scale,
            HEADS=self.heads, A_CHANNELS=a, B_CHANNELS=b, ACC=ACCUMULATOR[self.acc_dtype],
            SPAN=MERGE_SPAN, SPLITS=tile_splits, H=heads, A=pad(a), B=pad(b), SPLIT=self.tile.split,
            CENTERED=centered,
        )  # fmt: skip


def launch(kernel: Any, grid: tuple[int, ...], warps: int, *args: Any, **constants: Any) -> None:
    """Run a kernel on the device of its first tensor. If the grid is empty, nothing is done. Raises
    ValueError if the grid is longer than CUDA allows.
    """
    if 0 in grid:
        return
    if grid[0] >= 2**31:
        raise ValueError(f"the first axis of a grid must be below 2**31 programs; got {grid[0]}")
    device = args[0].device
    is_other = device.type == "cuda" and device.index != torch.cuda.current_device()
    with torch.cuda.device(device) if is_other else contextlib.nullcontext():
        kernel[grid](
            *args, **constants, num_warps=warps, maxnreg=REGISTERS, enable_fp_fusion=True
        )  # fmt: skip


def dropout_args(seed: Tensor | None, dropout: float) -> dict[str, Any]:
    """Return the dropout arguments of a kernel, by name. ``seed`` is None without dropout."""
    if seed is None:
        return {"seed": None, "threshold": 0, "keep_scale": 1.0}
    scale = 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0
    return {"seed": seed, "threshold": philox.threshold(dropout), "keep_scale": scale}


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """Replace tensors that are not contiguous by contiguous copies. None is returned unchanged."""
    return [None if t is None else t.contiguous() for t in tensors]


def per_head(attn_bias: Tensor | None, heads: int) -> Tensor | None:
    """Expand a bias [e, h] or [e, 1] to all heads without a copy: [e, h]."""
    return None if attn_bias is None else attn_bias.expand(-1, heads)


def head_gradients(term: Tensor | None, needs_grad: bool, like: Tensor) -> Tensor | None:
    """Allocate the gradient of an edge bias or edge weight, with one number per edge and head."""
    return None if term is None or not needs_grad else like.new_empty(len(term), like.shape[1])


def sum_heads(grad: Tensor | None, term: Tensor | None) -> Tensor | None:
    """Sum a gradient over the heads to the shape of the bias, [e, h] or [e, 1], or of the weights,
    [e]. Returns None if there is no gradient or no such term.
    """
    if grad is None or term is None:
        return None
    heads = term.shape[1] if term.dim() == 2 else 1
    return grad.sum_to_size(len(term), heads).view(term.shape).to(term.dtype)


def empty_sum(like: Tensor, in_acc_dtype: bool, *shape: int) -> Tensor:
    """Allocate memory for a sum, in the accumulation dtype or in the dtype of ``like``."""
    return like.new_empty(shape, dtype=acc_dtype(like.dtype) if in_acc_dtype else like.dtype)


def round_out(out_acc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the sum converted to ``dtype``. If this rounds the sum, also return the original.

    The second result is empty if the conversion does not round. Launchers allocate the sum by
    ``empty_sum(value, needs_backward, ...)``, so that out_acc exists for 16-bit values if backward
    may follow: its term <dO, O> would lose accuracy with a rounded O.
    """
    if out_acc.dtype == dtype:
        return out_acc, out_acc.new_empty(0, dtype=acc_dtype(dtype))
    return out_acc.to(dtype), out_acc
