"""The host's side of a launch: the grid, the workspaces of cut rows, and the arguments.

A launcher passes a kernel's pointers by position, in the order and the lines of the kernel's
signature, and numbers and compile-time constants by name.
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
"""Registers that a thread may have. Left without a bound, ptxas aims at full occupancy and would
rather spill a few registers than have one warp less."""
MERGE_SPAN = 32
"""Splits among which a program of the merge looks for the first ones of rows."""
MERGE_BYTES = 128
"""Bytes of a partial result that a program of the merge reads of one split, if a head has them."""
MERGE_TILE, MERGE_SPLITS = 8192, 128
"""Bytes and splits that it reads at once, at most: a hub has thousands of splits."""
ACCUMULATOR = {torch.float32: tl.float32, torch.float64: tl.float64}


class Sums(NamedTuple):
    """Optional sums of a pass over each row, or the partial sums of its splits."""

    row_max: Tensor | None = None
    """[n, h]: with it, a, b and c are sums under softmax."""
    row_sum: Tensor | None = None
    """[n, h]"""
    a: Tensor | None = None
    """[n, h, any]"""
    b: Tensor | None = None
    """[n, h, any]"""
    c: Tensor | None = None
    """[n, h]"""


class LaunchPlan:
    """Division of one pass over the rows of a layout among programs.

    Args:
        layout: the tensors of a Layout.
        heads: h.
        width: numbers of a gathered row per head.
        dtype: their type.
        unroll: tiles that are loaded before the first is used.
        transposed: whether rows are sources with their outgoing edges.
        min_slots: edges of one row that a tile holds at least.
        all_heads: whether a program takes all heads.
        graph_ptr: where the nodes of small graphs begin, for one program a graph.
        cut: whether long rows are cut into splits.
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
        graph_ptr: Tensor | None = None,
        cut: bool = True,
        more_rows: bool = True,
    ) -> None:
        self.offsets, num_edges = layout[3 if transposed else 0], layout[1].numel()
        self.num_rows = self.offsets.numel() - 1
        degree = num_edges / max(self.num_rows, 1)
        tile = tiles.choose(heads, width, dtype, degree, unroll, min_slots, all_heads, more_rows)
        if graph_ptr is not None:
            tile = tiles.whole_graphs(tile, width, dtype)
        elif not cut:
            tile = tiles.uncut(tile)
        self.heads, self.acc_dtype, self.tile = heads, acc_dtype(dtype), tile
        self.num_splits = num_edges // tile.split
        self.has_splits = False
        """Whether a row may be cut: it takes two splits."""
        if self.num_splits > 1:
            max_degree = max_degree_of(layout, transposed)
            self.has_splits = (math.inf if max_degree is None else max_degree) >= 2 * tile.split
        self.programs = -(-self.num_splits // tile.rows) + -(-self.num_rows // tile.rows)
        if graph_ptr is not None:
            self.programs = graph_ptr.numel() - 1
        self.head_blocks = 1 if all_heads else -(-heads // tile.heads)

    def workspace(self, *shape: int) -> Tensor:
        """Allocate partial results of this shape for every split; empty if no row is split."""
        size = (self.num_splits, *shape) if self.has_splits else (0,)
        return self.offsets.new_empty(size, dtype=self.acc_dtype)

    def workspaces(self, sums: Sums) -> Sums:
        """Allocate the partial results of these sums; None stays None."""
        if not self.has_splits:
            nothing = self.workspace()
            return Sums(*[None if x is None else nothing for x in sums])
        return Sums(*[None if x is None else self.workspace(*x.shape[1:]) for x in sums])

    def run(
        self,
        kernel: Any,
        *args: Any,
        only_splits: bool = False,
        programs: int | None = None,
        **constants: Any,
    ) -> None:
        """Launch a kernel over rows and blocks of heads.

        With ``only_splits``, over the splits alone; with ``programs``, in so many programs that
        share the work items.
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
        """Add the partial results of cut rows; with ``centered``, b becomes b - c a."""
        if not self.has_splits:
            return
        a, b = (0 if x is None else x.shape[2] for x in (sums.a, sums.b))
        head_bytes = pad(max(a, b)) * self.acc_dtype.itemsize
        heads = min(pad(self.heads), max(1, MERGE_BYTES // head_bytes))
        at_once = min(MERGE_SPLITS, max(1, MERGE_TILE // (heads * head_bytes)))
        launch(
            merge_splits_kernel, (-(-self.num_splits // MERGE_SPAN), -(-self.heads // heads)), 4,
            self.offsets, *splits, *sums, self.num_rows, self.num_splits, keep_scale,
            HEADS=self.heads, A_CHANNELS=a, B_CHANNELS=b, ACC=ACCUMULATOR[self.acc_dtype],
            SPAN=MERGE_SPAN, SPLITS=at_once, H=heads, A=pad(a), B=pad(b), SPLIT=self.tile.split,
            CENTERED=centered,
        )  # fmt: skip


def launch(kernel: Any, grid: tuple[int, ...], warps: int, *args: Any, **constants: Any) -> None:
    """Run a kernel on the device of its first tensor; an empty grid runs nothing."""
    if 0 in grid:
        return
    if grid[0] >= 2**31:
        raise ValueError(f"a launch may have fewer than 2**31 programs in a row; got {grid[0]}")
    device = args[0].device
    elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
    with torch.cuda.device(device) if elsewhere else contextlib.nullcontext():
        kernel[grid](
            *args, **constants, num_warps=warps, maxnreg=REGISTERS, enable_fp_fusion=True
        )  # fmt: skip


def dropout_args(seed: Tensor | None, dropout: float) -> dict[str, Any]:
    """The arguments of a kernel that drops weights."""
    if seed is None:
        return {"seed": None, "threshold": 0, "keep_scale": 1.0}
    scale = 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0
    return {"seed": seed, "threshold": philox.threshold(dropout), "keep_scale": scale}


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """The same with rows that lie side by side."""
    return [None if t is None else t.contiguous() for t in tensors]


def per_head(attn_bias: Tensor | None, heads: int) -> Tensor | None:
    """The bias of each edge in every head, [e, h], of one [e, h] or [e, 1]."""
    return None if attn_bias is None else attn_bias.expand(-1, heads)


def head_gradients(term: Tensor | None, is_wanted: bool, like: Tensor) -> Tensor | None:
    """Allocate the gradient of an edge bias or weight for every head of ``like`` [n, h]."""
    return None if term is None or not is_wanted else like.new_empty(len(term), like.shape[1])


def sum_heads(grad: Tensor | None, term: Tensor | None) -> Tensor | None:
    """Reduce the gradient for every head to that of a bias [e, h] or [e, 1], or of weights [e]."""
    if grad is None or term is None:
        return None
    heads = term.shape[1] if term.dim() == 2 else 1
    return grad.sum_to_size(len(term), heads).view(term.shape).to(term.dtype)


def empty_sum(like: Tensor, in_acc_dtype: bool, *shape: int) -> Tensor:
    """Allocate a sum in the accumulation dtype or in the dtype of ``like``."""
    return like.new_empty(shape, dtype=acc_dtype(like.dtype) if in_acc_dtype else like.dtype)


def round_out(out_acc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return out and out_acc: the sum in ``dtype``, and the sum itself where that rounds it.

    A launcher has the output summed into ``empty_sum(value, needs_backward, ...)``. So out_acc is
    kept where backward may follow and rounding would show in its <dO, O>, that is in 16 bits.
    """
    if out_acc.dtype == dtype:
        return out_acc, out_acc.new_empty(0, dtype=acc_dtype(dtype))
    return out_acc.to(dtype), out_acc
