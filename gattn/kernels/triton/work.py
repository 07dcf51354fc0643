"""The division of work: which rows and edges a program of a kernel takes.

A kernel walks the rows of a compressed layout: destinations with their incoming edges (CSR) or
sources with their outgoing ones (CSC). `offsets` is rowptr or colptr.

**Rows and splits.** A program takes ROWS consecutive rows of fewer than SPLIT edges. A longer row
of D edges is cut into D // SPLIT splits of SPLIT edges, the last one with up to SPLIT - 1 more; a
program takes ROWS splits. The splits of row i have the numbers offsets[i] // SPLIT and on: two rows
never share a number, all numbers are below e // SPLIT, and split x belongs to the row that holds
position (x + 1) * SPLIT - 1. So the grid follows from n and e alone, which the host knows, and no
list of long rows is built. A split of a row that has two or more leaves a partial result in a
workspace at its number, and `merge_splits_kernel` adds those of a row in their order: the same bits
in every run.

**Whole graphs.** For a batch of small graphs whose node offsets `graph_ptr` are known, no row is
cut, and one program does both passes of a backward for the nodes of one graph, with a barrier
between them.

**Tiles.** The edges of a program stand in tiles [K, R, H, C]: slot, row, head, channel. Slots are
the slowest axis, so that Triton lays lanes along channels, heads and rows first. Every slot keeps
its own running softmax and sums over its edges; they are merged once, at the end of the row. UNROLL
tiles are loaded before the first is used. The sums over channels in the loop still exchange numbers
between the lanes of a warp, and, for some widths, between warps.
"""

import triton
import triton.language as tl

FANOUT: tl.constexpr = tl.constexpr(32)
"""Candidates that one round of `find_row` compares."""


@triton.jit
def find_row(offsets, position, num_rows):
    """The row that holds each of the positions [R]: the last i with offsets[i] <= position."""
    low = tl.zeros_like(position)
    span = num_rows
    while span > 1:
        step = tl.cdiv(span, FANOUT)
        jump = tl.arange(0, FANOUT)[:, None].to(position.dtype) * step
        probe = low[None, :] + jump
        exists = (jump < span) & (jump < num_rows - low[None, :])  # low + jump may overflow
        below = exists & (tl.load(offsets + probe, mask=exists, other=0) <= position[None, :])
        low += step * (tl.sum(below.to(position.dtype), 0) - 1)
        span = step
    return low


@triton.jit
def program_rows(program, offsets, num_rows, num_splits, ROWS: tl.constexpr, SPLIT: tl.constexpr):
    """The rows or splits of a program: ROWS runs of edges.

    Returns (row, first, last, split, is_whole, is_split), all [R]: the edges of a run are the
    positions first to last - 1 of row. Where `is_whole`, they are all edges of the row; where
    `is_split`, they are its split of that number; where neither, the run is empty.
    """
    index_type = offsets.dtype.element_ty
    lane = tl.arange(0, ROWS).to(index_type)
    split_programs = tl.cdiv(num_splits, ROWS)
    if program < split_programs:
        split = program.to(index_type) * ROWS + lane
        live = split < num_splits
        row = find_row(offsets, tl.where(live, split, 0) * SPLIT + (SPLIT - 1), num_rows)
        start, stop = tl.load(offsets + row), tl.load(offsets + row + 1)
        row_splits = (stop - start) // SPLIT
        nth = split - start // SPLIT
        live = live & (nth >= 0) & (nth < row_splits)
        first = start + nth * SPLIT
        last = tl.where(nth == row_splits - 1, stop, first + SPLIT)
    else:
        row = (program - split_programs).to(index_type) * ROWS + lane
        live = row < num_rows
        first = tl.load(offsets + row, mask=live, other=0)
        last = tl.load(offsets + row + 1, mask=live, other=0)
        live = live & (last - first < SPLIT)
        split = tl.zeros_like(row)
        row_splits = tl.zeros_like(row)
    row, first, last = tl.where(live, row, 0), tl.where(live, first, 0), tl.where(live, last, 0)
    return row, first, last, split, live & (row_splits < 2), live & (row_splits > 1)


@triton.jit
def work_items(graph_ptr, ROWS: tl.constexpr):
    """The first work item of this program, the end, and the step from one to the next.

    An item is a program number for `program_rows`, one for each program. With graph_ptr, it is the
    first of ROWS nodes, and the program takes those of its graph.
    """
    program = tl.program_id(0)
    if graph_ptr is None:
        return program, program + 1, 1
    else:
        return tl.load(graph_ptr + program), tl.load(graph_ptr + program + 1), ROWS


@triton.jit
def item_rows(
    item, end, graph_ptr, offsets, num_rows, num_splits, ROWS: tl.constexpr, SPLIT: tl.constexpr
):
    """The rows of a work item, as `program_rows` returns them."""
    if graph_ptr is None:
        return program_rows(item, offsets, num_rows, num_splits, ROWS, SPLIT)
    else:
        row = (item + tl.arange(0, ROWS)).to(offsets.dtype.element_ty)
        live = row < end
        row = tl.where(live, row, 0)
        first = tl.load(offsets + row, mask=live, other=0)
        last = tl.load(offsets + row + 1, mask=live, other=0)
        return row, first, last, row, live, row < 0


@triton.jit
def longest_run(first, last):
    """Edges of the longest of a program's runs [R], up to which a loop over their tiles goes.

    Every lane of a warp takes part in the maximum, so that it stands in a uniform register: the
    compiler takes a loop up to a shuffled number for one that diverges, and waits for each load.
    """
    ROWS: tl.constexpr = first.shape[0]
    length = (last - first).to(tl.int32)
    if ROWS == 1:
        return tl.max(length, 0)
    else:
        copies: tl.constexpr = 32 // ROWS
        return tl.max(tl.broadcast_to(length[None, :], [copies, ROWS]))


@triton.jit
def edge_positions(first, last, step, SLOTS: tl.constexpr):
    """Positions of the edges of one tile, and which exist: [K, R]."""
    position = first[None, :] + step + tl.arange(0, SLOTS)[:, None]
    return position, position < last[None, :]


@triton.jit
def scatter_pairs(
    table, xs, ys, first, last, step, head, head_mask, HEADS: tl.constexpr, SLOTS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """Write two numbers of each edge and head to a table [e, h, 2], by the edges' positions.

    xs and ys hold a tile [K, R, H] each for the tiles from `step` on. Two are written at once, so
    that of the LANES which hold the same sum over channels each selects a number to write; those
    that are left over select a copy of one, and write nothing: a narrower store would be spread
    over the warps of a program, behind barriers.
    """
    TILES: tl.constexpr = 2 - len(xs) % 2
    COPIES: tl.constexpr = LANES // (2 * TILES) if LANES > 2 * TILES else 1
    slot = tl.arange(0, SLOTS)[:, None, None, None, None, None]
    tile = tl.arange(0, TILES)[:, None, None]
    copy = tl.arange(0, COPIES)[:, None]
    is_first = (tl.arange(0, 2) == 0)[None, None, None, None, None, :]
    for u in tl.static_range(0, len(xs), TILES):
        pair = select_pair(is_first, xs[u], ys[u])
        if TILES == 2:
            other = select_pair(is_first, xs[u + 1], ys[u + 1])
            pair = tl.where((tile == 0)[None, None, None], pair, other)
        position = first[:, None, None, None, None] + step + slot + (tile + u) * SLOTS
        exists = (position < last[:, None, None, None, None]) & head_mask[:, None, None, None]
        at = (position.to(tl.int64) * HEADS + head[:, None, None, None]) * 2 + tl.arange(0, 2)
        at, is_written = tl.broadcast(at, exists & (copy == 0))
        tl.store(table + at, pair, mask=is_written)


@triton.constexpr_function
def writing_lanes(channels, bits):
    """Lanes that `scatter_pairs` has for a head: as many as hold its channels, 16 bytes each.

    Where they hold one channel each, twice as many: each then writes both numbers of a pair.
    """
    if channels * bits % 128 == 0:
        return min(32, triton.next_power_of_2(channels * bits // 128))
    return 2 * min(32, triton.next_power_of_2(channels))


@triton.jit
def select_pair(is_first, x, y):
    """Select from two tiles [K, R, H] the one that each lane writes."""
    x, y = x[:, :, :, None, None, None], y[:, :, :, None, None, None]
    return tl.where(is_first, x, y)


@triton.jit
def head_block(HEADS: tl.constexpr, H: tl.constexpr):
    """The heads of this program, and which exist: [H]."""
    head = tl.program_id(1) * H + tl.arange(0, H)
    return head, head < HEADS
