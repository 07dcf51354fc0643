"""The shape of a tile, and what a launch may know of a layout.

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
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from gattn.layout import stats
from gattn.layout.layout import Layout

SPLIT = 256
"""Rows of this many edges or more are cut into splits of this many."""
UNCUT = 2**30
"""A SPLIT that no row reaches."""
LANES = 32
LOAD = 16
"""Bytes that a lane loads at once."""
GRAPH_WARPS = 8
"""Warps of a program that takes a whole graph."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """Shape of the work of one program; see `gattn.kernels.triton.work`."""

    heads: int
    """H: heads of a program."""
    slots: int
    """K: edges of one row that one instruction loads."""
    rows: int
    """R: rows of a program."""
    unroll: int
    """Tiles that are loaded before the first is used."""
    warps: int
    split: int = SPLIT
    """Edges of a split."""


tuned: dict[str, dict[str, int]] = {}
"""Tile fields by shape class, for classes where a search found better ones than the rule."""
seen: set[str] = set()
"""Shape classes for which a tile has been chosen."""
_override: dict[str, int] = {}


def load(path: str | Path) -> None:
    """Read tuned tiles from JSON lines with a shape class and fields."""
    for line in Path(path).read_text().splitlines():
        entry = json.loads(line)
        tuned[entry["shape_class"]] = entry["fields"]


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


def in_pieces(width: int, size: int) -> bool:
    """Whether so many channels, of so many bytes each, are whole pieces that a lane loads."""
    return width * size % LOAD == 0


def choose(
    heads: int,
    width: int,
    dtype: torch.dtype,
    degree: float,
    unroll: int,
    min_slots: int = 1,
    all_heads: bool = False,
    more_rows: bool = True,
) -> Tile:
    """The tile of a kernel that gathers rows of heads x width numbers.

    A warp reads about 16 bytes a lane of a gathered row, or, where channels are no whole pieces of
    16 bytes, four numbers. Where a row is shorter than that, the other lanes take further edges of
    the same row (slots) or, at low degree, further rows.
    With `more_rows` and fewer edges a row than `unroll`, a program takes twice as many rows, so
    that as many loads are on their way as in longer rows.
    """
    power = max(int(degree), 1).bit_length() - 1
    size = dtype.itemsize
    full = LANES * (LOAD // size if in_pieces(width, size) else min(LOAD // size, 4))
    tile, shape_class = _rule(
        heads, pad(width), size, full, power, unroll, min_slots, all_heads, more_rows
    )
    seen.add(shape_class)
    if not (tuned or _override):
        return tile
    return dataclasses.replace(tile, **(tuned.get(shape_class, {}) | _override))


@functools.cache
def _rule(
    heads: int,
    width: int,
    size: int,
    full: int,
    power: int,
    unroll: int,
    min_slots: int,
    all_heads: bool,
    more_rows: bool,
) -> tuple[Tile, str]:
    """The tile of a shape class whose warps read `full` numbers at once, and the class's name."""
    degree = 2**power
    block = pad(heads) if all_heads else min(pad(heads), max(1, full // width))
    warps = min(8, max(1, block * width // (2 * full)))
    spare = max(1, full // (block * width))
    slots = min(spare, pad(degree // unroll))
    rows = min(8, spare // slots * (1 + (more_rows and degree < unroll)))
    shape_class = f"{pad(heads)}x{width}x{size}B/2^{power}/unroll{unroll}/slots{min_slots}"
    return Tile(block, max(slots, min_slots), rows, unroll, warps), shape_class


@functools.cache
def uncut(tile: Tile) -> Tile:
    """The same tile where no row is cut."""
    return dataclasses.replace(tile, split=UNCUT)


@functools.cache
def whole_graphs(tile: Tile, width: int, dtype: torch.dtype) -> Tile:
    """The tile of a program that takes all rows of one graph, some at a time.

    As many rows as its lanes load at once, 16 bytes each, so that a warp has rows of its own; where
    channels are no whole pieces of 16 bytes, as many as give each lane two of them.
    """
    size = dtype.itemsize
    piece = LOAD if in_pieces(width, size) else 2 * size
    rows = GRAPH_WARPS * LANES * piece // (tile.heads * pad(width) * size)
    rows = min(32, max(1, rows))
    unroll = 2 if size == 4 else 1
    return dataclasses.replace(
        tile, slots=1, rows=rows, unroll=unroll, warps=GRAPH_WARPS, split=UNCUT
    )


def pad(length: int) -> int:
    """The next power of two: the length of a tile's axis."""
    return 1 << (max(length, 1) - 1).bit_length()


# All that these kernels read of what is known of a layout beyond its six tensors.


def graph_ptr_of(layout: list[Tensor]) -> Tensor | None:
    """Return the node offsets of the small graphs of a batch, [g + 1], or None."""
    graph_ptr = Layout(*layout).graph_ptr
    return graph_ptr if graph_ptr.numel() else None


def max_degree_of(layout: list[Tensor], transposed: bool) -> int | None:
    """Return a bound of the in-degrees or, transposed, of the out-degrees; None if unknown."""
    return stats.max_degree(Layout(*layout), transposed)


def band_density_of(layout: list[Tensor]) -> float | None:
    """Return the edge density of the rectangles of `banded`; None unless sources are consecutive.

    None for sparse graphs, too, because the first measurement of a graph waits for the device.
    """
    if layout[1].numel() < stats.MIN_MEAN_DEGREE * (layout[0].numel() - 1):
        return None
    return stats.band_density(Layout(*layout))
