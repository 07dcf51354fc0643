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
def head_block(HEADS: tl.constexpr, H: tl.constexpr):
    """Return the heads of this program, [H], and the mask of those that exist."""
    head = tl.program_id(1) * H + tl.arange(0, H)
    return head, head < HEADS
