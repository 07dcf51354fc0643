"""The host's side of a launch: the shape of a tile, the grid that it gives, and workspaces.

Tiles are chosen by shape class: heads, channels, width of the type, and the power of two of the
mean degree. Neither n nor e enters, so that a new graph compiles nothing, and the first call
searches nothing: `choose` has a rule for every class. ``python -m benchmarks.gpu --tune`` searches
a small space around the rule on the card at hand; the environment variable GATTN_TRITON_TILES
names a file of what it found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from gattn.kernels import facts, philox
from gattn.kernels.layout import Layout
from gattn.kernels.triton.primitives import merge

SEGMENT = 256
"""Rows of this many edges or more are cut into segments of this many."""
REGISTERS = 255
"""Registers that a thread may have. Left without a bound, ptxas aims at full occupancy and would
rather spill a few registers than have one warp less."""
SPAN = 32
"""Segments among which a program of `merge` looks for the first ones of rows."""
MERGE_BYTES = 128
"""Bytes of a partial result that a program of `merge` reads of one segment, where a head allows."""
MERGE_TILE, MOST_PARTS = 8192, 128
"""Bytes and partial results that it reads at once: a hub has thousands of segments."""
LANES = 32
LOAD = 16
"""Bytes that a lane loads at once."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """Shape of the work of one program; see `gattn.kernels.triton.primitives`."""

    heads: int
    """H: heads of a program."""
    slots: int
    """K: edges of one row that one instruction loads."""
    rows: int
    """R: rows of a program."""
    unroll: int
    """Tiles that are loaded before the first is used."""
    warps: int
    segment: int = SEGMENT


tuned: dict[str, dict[str, int]] = {}
"""Fields of the tiles of shape classes for which a search found better than the rule."""
seen: set[str] = set()
"""Shape classes that were chosen for."""
_override: dict[str, int] = {}


def load(path: str | Path) -> None:
    """Read tuned tiles: JSON lines that hold a shape class and fields."""
    for line in Path(path).read_text().splitlines():
        found = json.loads(line)
        tuned[found["shape_class"]] = found["fields"]


if "GATTN_TRITON_TILES" in os.environ:
    load(os.environ["GATTN_TRITON_TILES"])


@contextlib.contextmanager
def override(**fields: int) -> Iterator[None]:
    """Use these fields in every tile chosen inside the block: for tests and for tuning."""
    before = dict(_override)
    _override.update(fields)
    try:
        yield
    finally:
        _override.clear()
        _override.update(before)


def choose(
    heads: int,
    width: int,
    dtype: torch.dtype,
    degree: float,
    unroll: int,
    stack: int = 1,
    all_heads: bool = False,
) -> Tile:
    """The tile of a kernel that gathers rows of heads x width numbers.

    A warp reads about 16 bytes a lane of a gathered row. Where a row is shorter than that, the
    other lanes take further edges of the same row (slots) or, at low degree, further rows.
    """
    power = max(int(degree), 1).bit_length() - 1
    tile, shape_class = _rule(heads, pad(width), dtype.itemsize, power, unroll, stack, all_heads)
    seen.add(shape_class)
    if not (tuned or _override):
        return tile
    return dataclasses.replace(tile, **(tuned.get(shape_class, {}) | _override))


@functools.cache
def _rule(
    heads: int, width: int, size: int, power: int, unroll: int, stack: int, all_heads: bool
) -> tuple[Tile, str]:
    """The tile of a shape class, and the name of the class."""
    full = LANES * LOAD // size
    degree = 2**power
    block = pad(heads) if all_heads else min(pad(heads), max(1, full // width))
    warps = min(8, max(1, block * width // (2 * full)))
    spare = max(1, full // (block * width))
    slots = min(spare, pad(degree // unroll))
    rows = min(8, spare // slots)
    if spare == 1 and degree < unroll:
        rows = 2
    shape_class = f"{pad(heads)}x{width}x{size}B/2^{power}/unroll{unroll}/stack{stack}"
    return Tile(block, max(slots, stack), rows, unroll, warps), shape_class


@functools.cache
def _uncut(tile: Tile) -> Tile:
    """The same with no bound on the rows of a program: none is cut."""
    return dataclasses.replace(tile, segment=2**30)


@functools.cache
def _whole(tile: Tile, width: int, dtype: torch.dtype) -> Tile:
    """The tile of a program that takes whole graphs."""
    rows = window_rows(tile.heads * pad(width), dtype)
    return dataclasses.replace(tile, slots=1, rows=rows, unroll=1, warps=8, segment=2**30)


class Walk:
    """One pass over the rows of a compressed layout, and how they are divided among programs.

    Args:
        offsets: rowptr or colptr.
        num_edges: e.
        heads: h.
        width: numbers of a gathered row per head.
        dtype: their type.
        unroll: tiles that are loaded before the first is used.
        stack: edges of one row that a tile holds at least.
        all_heads: whether a program takes all heads.
        windows: where the nodes are divided into whole graphs, one program for each; see
            :func:`graph_ptr_of`.
        cut: whether long rows are cut.
        max_degree: what no row has more edges than, if known.
    """

    def __init__(
        self,
        offsets: Tensor,
        num_edges: int,
        heads: int,
        width: int,
        dtype: torch.dtype,
        unroll: int,
        stack: int = 1,
        all_heads: bool = False,
        windows: Tensor | None = None,
        cut: bool = True,
        max_degree: int | None = None,
    ) -> None:
        self.num_rows = offsets.numel() - 1
        degree = num_edges / max(self.num_rows, 1)
        tile = choose(heads, width, dtype, degree, unroll, stack, all_heads)
        if windows is not None:
            tile = _whole(tile, width, dtype)
        elif not cut:
            tile = _uncut(tile)
        self.offsets, self.heads, self.dtype, self.tile = offsets, heads, dtype, tile
        self.num_segments = num_edges // tile.segment
        known = math.inf if max_degree is None else max_degree
        self.cuts = self.num_segments > 1 and known >= 2 * tile.segment
        """Whether a row may be cut: it takes two segments."""
        self.programs = -(-self.num_segments // tile.rows) + -(-self.num_rows // tile.rows)
        if windows is not None:
            self.programs = windows.numel() - 1
        self.blocks = 1 if all_heads else -(-heads // tile.heads)

    def parts(self, *sums: Tensor | None) -> list[Tensor | None]:
        """Workspaces for the partial results of cut rows, one for each output [rows, ...]."""
        if not self.cuts:
            none = self.offsets.new_empty(0, dtype=wide(self.dtype))
            return [None if x is None else none for x in sums]
        return [
            None if x is None else x.new_empty(self.num_segments, *x.shape[1:], dtype=wide(x.dtype))
            for x in sums
        ]

    def run(
        self,
        kernel: Any,
        *args: Any,
        segments: bool = False,
        programs: int | None = None,
        **constants: Any,
    ) -> None:
        """Launch a kernel over the rows and blocks of heads: over the segments alone, or in a
        given number of programs that share the rows."""
        tile = self.tile
        if programs is None:
            programs = -(-self.num_segments // tile.rows) if segments else self.programs
        launch(
            kernel, (programs, self.blocks), tile.warps,
            self.offsets, *args,
            num_rows=self.num_rows, num_segments=self.num_segments,
            HEADS=self.heads, ACC=ACCUMULATOR[wide(self.dtype)], H=tile.heads, SLOTS=tile.slots,
            ROWS=tile.rows, UNROLL=tile.unroll, SEGMENT=tile.segment, **constants,
        )  # fmt: skip

    def merge(
        self,
        parts: list[Tensor | None],
        sums: list[Tensor | None],
        keep_scale: float = 1.0,
        centred: bool = False,
    ) -> None:
        """Add the partial results of cut rows: of (row_max, row_sum, a, b, c), some absent.

        With ``centred``, c x a is subtracted from b.
        """
        if not self.cuts:
            return
        a, b = (0 if x is None else x.shape[2] for x in sums[2:4])
        head_bytes = pad(max(a, b)) * wide(self.dtype).itemsize
        heads = min(pad(self.heads), max(1, MERGE_BYTES // head_bytes))
        at_once = min(MOST_PARTS, max(1, MERGE_TILE // (heads * head_bytes)))
        launch(
            merge, (-(-self.num_segments // SPAN), -(-self.heads // heads)), 4,
            self.offsets, *parts, *sums, self.num_rows, self.num_segments, keep_scale,
            HEADS=self.heads, A_CHANNELS=a, B_CHANNELS=b, ACC=ACCUMULATOR[wide(self.dtype)],
            SPAN=SPAN, PARTS=at_once, H=heads, A=pad(a), B=pad(b), SEGMENT=self.tile.segment,
            CENTRED=centred and sums[3] is not None,
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


def graph_ptr_of(layout: list[Tensor]) -> Tensor | None:
    """Where the nodes of the small graphs of a batch begin, [g + 1], if the maker has told."""
    ptr = Layout(*layout).graph_ptr
    return ptr if ptr.numel() else None


def max_degree_of(layout: list[Tensor], transposed: bool) -> int | None:
    """Most edges into a destination or, transposed, out of a source; None if unknown."""
    return facts.max_degree(Layout(*layout), transposed)


def band_density_of(layout: list[Tensor]) -> float | None:
    """Edges per pair in the rectangles of `banded`; None unless all sources are consecutive."""
    return facts.band_density(Layout(*layout))


def window_rows(numbers: int, dtype: torch.dtype) -> int:
    """Rows of so many numbers that a program takes at once where whole graphs are given to it.

    As many as every backward holds without spilling (``python -m benchmarks.aot``).
    """
    if numbers <= 128 and wide(dtype) == torch.float32:
        return 32
    return max(1, 8192 // (numbers * wide(dtype).itemsize))


def dropping(seed: Tensor | None, dropout: float) -> dict[str, Any]:
    """The arguments of a kernel that drops weights."""
    if seed is None:
        return {"seed": None, "threshold": 0, "keep_scale": 1.0}
    scale = 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0
    return {"seed": seed, "threshold": philox.threshold(dropout), "keep_scale": scale}


def contiguous(*tensors: Tensor | None) -> list[Tensor | None]:
    """The same with rows that lie side by side."""
    return [None if t is None else t.contiguous() for t in tensors]


def pad(length: int) -> int:
    """The next power of two: the length of a tile's axis."""
    return 1 << (max(length, 1) - 1).bit_length()


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type that sums are kept in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def room(like: Tensor, exact: bool, *shape: int) -> Tensor:
    """Room for an output; with ``exact`` in the dtype that it is summed in."""
    return like.new_empty(shape, dtype=wide(like.dtype) if exact else like.dtype)


def rounded(found: Tensor, dtype: torch.dtype, needs_backward: bool) -> tuple[Tensor, Tensor]:
    """An output in its dtype, and, where that rounds it and backward asks, as it was summed."""
    if found.dtype != dtype:
        return found.to(dtype), found if needs_backward else found.new_empty(0)
    return found, found.new_empty(0, dtype=wide(dtype))


ACCUMULATOR = {torch.float32: tl.float32, torch.float64: tl.float64}
