"""Assignment of the rows and edges of a layout to the programs of a kernel.

A kernel visits the rows of a compressed layout: destinations with their incoming edges (CSR) or
sources with their outgoing edges (CSC). `offsets` is rowptr or colptr.

**Rows and splits.** A program processes ROWS consecutive rows of fewer than SPLIT edges. A longer
row of D edges is divided into D // SPLIT splits of SPLIT edges; the last split has up to SPLIT - 1
edges more. A program processes ROWS splits. The splits of row i have the indices offsets[i] //
SPLIT, offsets[i] // SPLIT + 1, and so on. Two rows never share an index, all indices are below e //
SPLIT, and split x belongs to the row that contains position (x + 1) * SPLIT - 1. So the host can
compute the grid from n and e, without a list of long rows. If a row has two or more splits, each
writes a partial result to a workspace at its index, and `merge_splits_kernel` adds the partial
results of a row in their order, which gives the same bits in every run.

**Whole graphs.** If the node offsets `graph_ptr` of a batch of small graphs are known, rows are not
divided, and one program runs both passes of a backward for the nodes of one graph, with a barrier
between the passes.

**Tiles.** The edges of a program form tiles [K, R, H, C]: slots, rows, heads, channels. Slots are
the first axis, so that Triton assigns lanes to channels, heads and rows first. Every slot has its
own online softmax and its own sums, which are merged once, after the last edge of the row. UNROLL
tiles are loaded before the first is used. The sums over channels in the loop exchange numbers
between the lanes of a warp and, for some widths, between warps.
"""

import triton
import triton.language as tl

FANOUT: tl.constexpr = tl.constexpr(32)
"""Number of candidates that each iteration of `find_row` compares."""


@triton.jit
def find_row(offsets, position, num_rows):
    """Return the row that contains each position, [R]. It is the last i with offsets[i] <=
    position.
    """
    low = tl.zeros_like(position)
    span = num_rows
    while span > 1:
        step = tl.cdiv(span, FANOUT)
        jump = tl.arange(0, FANOUT)[:, None].to(position.dtype) * step
        probe = low[None, :] + jump
        # The code compares jump with num_rows - low, because the sum low + jump could overflow.
        exists = (jump < span) & (jump < num_rows - low[None, :])
        below = exists & (tl.load(offsets + probe, mask=exists, other=0) <= position[None, :])
        low += step * (tl.sum(below.to(position.dtype), 0) - 1)
        span = step
    return low


@triton.jit
def program_rows(program, offsets, num_rows, num_splits, ROWS: tl.constexpr, SPLIT: tl.constexpr):
    """Return the ROWS rows (or splits) that a program processes.

    Returns (row, first, last, split, is_whole, is_split), all [R]. The program processes the edges
    at the positions first to last - 1, which belong to row. If `is_whole`, these are all edges of
    the row; if `is_split`, they are the split with this index; otherwise there are no edges.
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
    """Return the first work item of this program, the end of its work items, and their stride.

    A work item is an index for `program_rows`, and each program has one. With graph_ptr, a work
    item is the first of ROWS nodes, and the program processes all nodes of one graph.
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
    """Return the rows of a work item, in the same form as `program_rows`."""
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
    """Return the largest number of edges, last - first, of the rows [R] of a program.

    It is the bound of the loop over tiles. All lanes of a warp compute the maximum, so that the
    bound is in a uniform register. For a bound from a shuffle, the compiler would assume that lanes
    diverge, and would wait for each load.
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
    """Return the positions of the edges of one tile, [K, R], and the mask of valid positions."""
    position = first[None, :] + step + tl.arange(0, SLOTS)[:, None]
    return position, position < last[None, :]


@triton.jit
def scatter_pairs(
    table, xs, ys, first, last, step, head, head_mask, HEADS: tl.constexpr, SLOTS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """Store two numbers for each edge and head in a table [e, h, 2], at the CSR position of the
    edge.

    xs and ys contain a tile [K, R, H] for each of the tiles from `step` on. Two tiles are written
    by one store. LANES lanes have the same sum over channels; each of them selects one number to
    write. The remaining lanes select a copy and are masked off. Triton would distribute a store of
    fewer numbers over all warps of the program, which needs barriers.
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
    """Return the number of lanes with which `scatter_pairs` stores the numbers of one head.

    These are the lanes that hold the channels of the head, 16 bytes each. If the channels are not a
    whole number of 16-byte loads, each lane holds one channel, and the number is doubled, since
    each lane then writes both numbers of a pair.
    """
    if channels * bits % 128 == 0:
        return min(32, triton.next_power_of_2(channels * bits // 128))
    return 2 * min(32, triton.next_power_of_2(channels))


@triton.jit
def select_pair(is_first, x, y):
    """Return the number that each lane stores. It is selected from the tiles x and y, [K, R, H]."""
    x, y = x[:, :, :, None, None, None], y[:, :, :, None, None, None]
    return tl.where(is_first, x, y)


@triton.jit
def head_block(HEADS: tl.constexpr, H: tl.constexpr):
    """Return the heads of this program, [H], and the mask of those that exist."""
    head = tl.program_id(1) * H + tl.arange(0, H)
    return head, head < HEADS
