"""Choice of the tile of a kernel, and access to the statistics of a layout.

A tile depends on the shape class of a call: heads, channels, size of the dtype, and the mean degree
rounded to a power of two. It does not depend on n or e, so that a new graph needs no compilation.
There is no search at the first call, because `choose` has a rule for every shape class.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator

import torch
from torch import Tensor

from gattn.layout import stats
from gattn.layout.layout import Layout

SPLIT = 256
"""Number of edges in a split. The edges of a row with at least this number of edges are divided
into splits, which different programs process.
"""
LANES = 32
"""Number of lanes (threads) in a warp."""
LOAD_BYTES = 16
"""Number of bytes that a lane loads with one instruction."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """Tile shape and number of warps of a program; see `gattn.kernels.triton.work`."""

    heads: int
    """Number of heads per program, H."""
    slots: int
    """Number of edges of a row that a tile contains, K (slots)."""
    rows: int
    """Number of rows per program, R."""
    unroll: int
    """Number of tiles that are loaded before the first of them is used."""
    warps: int
    """Number of warps per program."""
    split: int = SPLIT
    """Number of edges in a split."""


_override: dict[str, int] = {}


@contextlib.contextmanager
def override(**fields: int) -> Iterator[None]:
    """Use the given fields for every tile that is chosen inside the ``with`` block, for tests."""
    before = dict(_override)
    _override.update(fields)
    try:
        yield
    finally:
        _override.clear()
        _override.update(before)


def has_full_vectors(width: int, size: int) -> bool:
    """Return True if ``width`` channels of ``size`` bytes are a multiple of 16 bytes, which are
    one full load.
    """
    return width * size % LOAD_BYTES == 0


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
    """Choose the tile of a kernel that gathers rows with heads x width numbers.

    Each lane of a warp reads about 16 bytes of a gathered row, or up to four numbers if the
    channels are not a whole number of 16-byte loads. If a gathered row is too short for all lanes,
    the other lanes read more edges of the same row (slots) or, at a low degree, more rows.

    With `more_rows`, and with fewer edges per row than `unroll`, a program gets twice the number of
    rows, so that its number of loads in flight is the same as for longer rows. ``degree`` is the
    mean number of edges of a row, and ``unroll`` the number of tiles in flight. The tile has at
    least ``min_slots`` slots and, with ``all_heads``, all heads. Fields that :func:`override` sets
    replace those of the rule.
    """
    power = max(int(degree), 1).bit_length() - 1
    size = dtype.itemsize
    full = LANES * (
        LOAD_BYTES // size if has_full_vectors(width, size) else min(LOAD_BYTES // size, 4)
    )
    tile = _rule(heads, pad(width), size, full, power, unroll, min_slots, all_heads, more_rows)
    return dataclasses.replace(tile, **_override) if _override else tile


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
) -> Tile:
    """Return the tile that the rule chooses for a shape class.

    `full` is the number of elements that a warp loads with one instruction, and the mean degree is
    2^`power`.
    """
    degree = 2**power
    block = pad(heads) if all_heads else min(pad(heads), max(1, full // width))
    warps = min(8, max(1, block * width // (2 * full)))
    spare = max(1, full // (block * width))
    slots = min(spare, pad(degree // unroll))
    rows = min(8, spare // slots * (1 + (more_rows and degree < unroll)))
    return Tile(block, max(slots, min_slots), rows, unroll, warps)


def pad(length: int) -> int:
    """Round a length up to a power of two. Triton requires this for the axes of a tile."""
    return 1 << (max(length, 1) - 1).bit_length()


def max_degree_of(layout: list[Tensor], transposed: bool) -> int | None:
    """Return an upper bound of the in-degrees, or of the out-degrees if transposed; None if it
    is unknown.
    """
    return stats.max_degree(Layout(*layout), transposed)
