"""Pieces that the kernels share: the division of work, gathers, softmax, dropout, the merge.

**Division of work.** A kernel walks the rows of a compressed layout: destinations with their
incoming edges (CSR) or sources with their outgoing ones (CSC). A row of fewer than SEGMENT edges
is *short*; a program takes ROWS consecutive short rows. A longer row of degree D is cut into
D // SEGMENT segments of SEGMENT edges, the last one with up to SEGMENT - 1 more; a program takes
ROWS segments. The segments of row i are numbered offsets[i] // SEGMENT, ... : two rows never share
a number, all are below e // SEGMENT, and the row of segment number x is the one that holds
position (x + 1) * SEGMENT - 1. So the grid follows from n and e alone, which the host knows, and
no list of long rows is ever built. Each segment leaves a partial result in a workspace at its
number, and `merge` adds those of a row in their order: the same bits in every run.

**Tiles.** The edges of a program stand in a tile [SLOTS, ROWS, H, C]: slot, row, head, channel.
Slots come first so that Triton lays lanes and warps along channels, heads and rows, and the sum
over slots stays within a thread.
"""

import triton
import triton.language as tl

FAN: tl.constexpr = tl.constexpr(32)
"""Candidates that one round of `find_row` tells apart."""


@triton.jit
def find_row(offsets, position, num_rows):
    """The row that holds each of the positions [R]: the last i with offsets[i] <= position."""
    low = tl.zeros_like(position)
    span = num_rows
    while span > 1:
        step = tl.cdiv(span, FAN)
        jump = tl.arange(0, FAN)[:, None].to(position.dtype) * step
        probe = low[None, :] + jump
        value = tl.load(offsets + probe, mask=(jump < span) & (probe < num_rows), other=0)
        inside = (jump < span) & (probe < num_rows) & (value <= position[None, :])
        low += step * (tl.sum(inside.to(position.dtype), 0) - 1)
        span = step
    return low


@triton.jit
def take_rows(offsets, num_rows, num_segments, ROWS: tl.constexpr, SEGMENT: tl.constexpr):
    """What this program works on: ROWS runs of edges, each a short row or a segment.

    Returns (row, first, last, slot, whole, part), all [ROWS]: the edges first to last belong to
    row; `whole` where they are all of its edges; `part` where they are a part, numbered slot.
    """
    index_type = offsets.dtype.element_ty
    lane = tl.arange(0, ROWS).to(index_type)
    program = tl.program_id(0)
    segment_programs = tl.cdiv(num_segments, ROWS)
    if program < segment_programs:
        slot = program.to(index_type) * ROWS + lane
        live = slot < num_segments
        row = find_row(offsets, tl.where(live, slot, 0) * SEGMENT + (SEGMENT - 1), num_rows)
        start, stop = tl.load(offsets + row), tl.load(offsets + row + 1)
        parts = (stop - start) // SEGMENT
        part = slot - start // SEGMENT
        live = live & (part >= 0) & (part < parts)
        first = start + part * SEGMENT
        last = tl.where(part == parts - 1, stop, first + SEGMENT)
    else:
        row = (program - segment_programs).to(index_type) * ROWS + lane
        live = row < num_rows
        first = tl.load(offsets + row, mask=live, other=0)
        last = tl.load(offsets + row + 1, mask=live, other=0)
        live = live & (last - first < SEGMENT)
        slot = tl.zeros_like(row)
        parts = tl.zeros_like(row)
    row = tl.where(live, row, 0)
    first = tl.where(live, first, 0)
    last = tl.where(live, last, 0)
    return row, first, last, slot, live & (parts < 2), live & (parts > 1)


@triton.jit
def head_block(HEADS: tl.constexpr, H: tl.constexpr):
    """The heads of this program and which of them exist: [H]."""
    head = tl.program_id(1) * H + tl.arange(0, H)
    return head, head < HEADS


@triton.jit
def plane(head, real, CHANNELS: tl.constexpr, C: tl.constexpr):
    """Offsets of (head, channel) in a row of heads x CHANNELS numbers, and which exist: [H, C]."""
    channel = tl.arange(0, C)
    offset = head[:, None] * CHANNELS + channel[None, :]
    return offset, real[:, None] & (channel < CHANNELS)[None, :]


@triton.jit
def spread(x):
    """Add a trailing axis."""
    return tl.expand_dims(x, -1)


@triton.jit
def point(table, index, offset, STRIDE: tl.constexpr):
    """Addresses of offset [H] or [H, C] in the rows `index` of a table; 64-bit throughout."""
    base = spread(index.to(tl.int64) * STRIDE)
    if len(offset.shape) == 2:
        base = spread(base)
    return table + (base + offset)


@triton.jit
def within(valid, inside):
    """Which of the rows x offsets exist."""
    valid = spread(valid)
    if len(inside.shape) == 2:
        valid = spread(valid)
    return valid & inside


@triton.jit
def gather(table, index, valid, offset, inside, STRIDE: tl.constexpr, ACC: tl.constexpr):
    """Rows of a table in the accumulation type: [*index, *offset], zero where not valid."""
    pointer = point(table, index, offset, STRIDE)
    return tl.load(pointer, mask=within(valid, inside), other=0.0).to(ACC)


@triton.jit
def scatter(table, index, valid, offset, inside, x, STRIDE: tl.constexpr):
    """Write rows of a table, in its type."""
    tl.store(point(table, index, offset, STRIDE), x, mask=within(valid, inside))


@triton.jit
def soften(score, top, total):
    """One step of the running softmax over slots: scores [K, R, H] on top of (top, total).

    Returns the unnormalised weights, the factor by which older sums shrink, and the new state.
    """
    new_top = tl.maximum(top, tl.max(score, 0))
    level = tl.where(new_top == float("-inf"), 0.0, new_top)
    shrink = tl.exp(top - level)
    weight = tl.exp(score - level[None])
    return weight, shrink, new_top, total * shrink + tl.sum(weight, 0)


@triton.jit
def reciprocal(total):
    """1 / total, and 1 where it is zero: a row without any weight."""
    return 1.0 / tl.where(total == 0, 1.0, total)


@triton.jit
def scalar(x, ACC: tl.constexpr):
    """A number from the host in the accumulation type."""
    return tl.full([], x, ACC)


@triton.jit
def leaky(x, slope):
    """LeakyReLU."""
    return tl.where(x > 0, x, x * slope)


@triton.jit
def kept(seed, position, head, threshold, HEADS: tl.constexpr):
    """Which weights dropout keeps: positions [K, R] x heads [H]; `gattn.kernels.philox`."""
    counter = spread(position.to(tl.int64) * HEADS) + head
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zero = tl.zeros_like(low)
    draw, _, _, _ = tl.philox(tl.load(seed), low, high, zero, zero)
    return draw >= tl.full([], threshold, tl.uint32)
