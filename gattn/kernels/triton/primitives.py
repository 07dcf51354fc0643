"""Pieces that the kernels share: the division of work, gathers, softmax, dropout, the merge.

**Division of work.** A kernel walks the rows of a compressed layout: destinations with their
incoming edges (CSR) or sources with their outgoing ones (CSC). A row of fewer than SEGMENT edges
is *short*; a program takes ROWS consecutive short rows. A longer row of D edges is cut into
D // SEGMENT segments of SEGMENT edges, the last one with up to SEGMENT - 1 more; a program takes
ROWS segments. The segments of row i are numbered offsets[i] // SEGMENT and on: two rows never
share a number, all are below e // SEGMENT, and the row of segment x is the one that holds position
(x + 1) * SEGMENT - 1. So the grid follows from n and e alone, which the host knows, and no list of
long rows is ever built. Each segment of a row cut in two or more leaves a partial result in a
workspace at its number, and `merge` adds those of a row in their order: the same bits every run.

**Whole graphs.** Where the nodes of a batch of small graphs are known to fall into windows that no
edge crosses (`Layout.graph_ptr`), no row is cut, and one program does both passes of a
backward for the nodes of its window, with a barrier between them: one kernel.

**Tiles.** The edges of a program stand in tiles [K, R, H, C]: slot, row, head, channel. Slots are
the slowest axis, so that Triton lays lanes along channels, heads and rows first. Every slot keeps
its own running softmax and sums; they are added up once, at the end of the row: no shuffle and no
barrier in the loop over edges. UNROLL tiles are loaded before the first is used.
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
        exists = (jump < span) & (probe < num_rows)
        below = exists & (tl.load(offsets + probe, mask=exists, other=0) <= position[None, :])
        low += step * (tl.sum(below.to(position.dtype), 0) - 1)
        span = step
    return low


@triton.jit
def take_rows(program, offsets, num_rows, num_segments, ROWS: tl.constexpr, SEGMENT: tl.constexpr):
    """What a program works on: ROWS runs of edges, each a short row or a segment.

    Returns (row, first, last, slot, whole, part), all [R]: the edges first to last belong to row;
    `whole` where they are all of its edges; `part` where they are a part, numbered slot.
    """
    index_type = offsets.dtype.element_ty
    lane = tl.arange(0, ROWS).to(index_type)
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
    row, first, last = tl.where(live, row, 0), tl.where(live, first, 0), tl.where(live, last, 0)
    return row, first, last, slot, live & (parts < 2), live & (parts > 1)


@triton.jit
def take_work(windows, ROWS: tl.constexpr):
    """First piece of work of this program, the end, and the step from one to the next.

    A piece is the number of a program of `take_rows`, one for each program; where whole graphs
    are given to a program, the node offsets of which are `windows`, it is a node.
    """
    program = tl.program_id(0)
    if windows is None:
        return program, program + 1, 1
    else:
        return tl.load(windows + program), tl.load(windows + program + 1), ROWS


@triton.jit
def take_piece(
    piece, end, windows, offsets, num_rows, num_segments, ROWS: tl.constexpr, SEGMENT: tl.constexpr
):
    """The rows of a piece of work, as `take_rows` returns them."""
    if windows is None:
        return take_rows(piece, offsets, num_rows, num_segments, ROWS, SEGMENT)
    else:
        row = (piece + tl.arange(0, ROWS)).to(offsets.dtype.element_ty)
        live = row < end
        row = tl.where(live, row, 0)
        first = tl.load(offsets + row, mask=live, other=0)
        last = tl.load(offsets + row + 1, mask=live, other=0)
        return row, first, last, row, live, row < 0


@triton.jit
def take_edges(first, last, step, SLOTS: tl.constexpr):
    """Positions of the edges of one tile and which exist: [K, R]."""
    position = first[None, :] + step + tl.arange(0, SLOTS)[:, None]
    return position, position < last[None, :]


@triton.jit
def head_block(HEADS: tl.constexpr, H: tl.constexpr):
    """The heads of this program and which exist: [H]."""
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
    """Addresses of offset [H] or [H, C] in the rows `index` of a table, in 64 bits."""
    base = spread(index.to(tl.int64) * STRIDE)
    if len(offset.shape) == 2:
        base = spread(base)
    return table + (base + offset)


@triton.jit
def within(valid, inside):
    """Which (row, offset) exist."""
    valid = spread(valid)
    if len(inside.shape) == 2:
        valid = spread(valid)
    return valid & inside


@triton.jit
def gather(table, index, valid, offset, inside, STRIDE: tl.constexpr, ACC: tl.constexpr, other=0.0):
    """Rows of a table in the accumulation type: [*index, *offset], `other` where not valid."""
    mask = within(valid, inside)
    return tl.load(point(table, index, offset, STRIDE), mask=mask, other=other).to(ACC)


@triton.jit
def scatter(table, index, valid, offset, inside, x, STRIDE: tl.constexpr):
    """Write rows of a table, in its type."""
    tl.store(point(table, index, offset, STRIDE), x, mask=within(valid, inside))


@triton.jit
def scalar(x, ACC: tl.constexpr):
    """A number from the host in the accumulation type."""
    return tl.full([], x, ACC)


@triton.jit
def reciprocal(total):
    """1 / total, and 1 where it is zero: a row without any weight."""
    return 1.0 / tl.where(total == 0, 1.0, total)


@triton.jit
def level(top):
    """What to subtract from the scores of a row before exp: the maximum, or 0 where it is -inf."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def soften(scores, top):
    """One step of the running softmax of every slot, over a tuple of scores [K, R, H].

    Returns the unnormalised weights, the factor by which older sums shrink, and the new maximum.
    """
    highest = top
    for u in tl.static_range(len(scores)):
        highest = tl.maximum(highest, scores[u])
    weights = ()
    for u in tl.static_range(len(scores)):
        weights += (tl.exp(scores[u] - level(highest)),)
    return weights, tl.exp(top - level(highest)), highest


@triton.jit
def settle(top, total):
    """The softmax of a row from those of its slots: factors [K, R, H], maximum and sum [R, H]."""
    highest = tl.max(top, 0)
    factor = tl.exp(top - level(highest)[None])
    return factor, highest, tl.sum(total * factor, 0)


@triton.jit
def kept(seed, position, head, threshold, HEADS: tl.constexpr):
    """Which weights dropout keeps: positions [K, R] x heads [H]; see gattn.kernels.philox."""
    counter = spread(position.to(tl.int64) * HEADS) + head
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zero = tl.zeros_like(low)
    draw = tl.philox(tl.load(seed), low, high, zero, zero)[0]
    return draw >= tl.full([], threshold, tl.uint32)


@triton.jit
def leaky(x, slope):
    """LeakyReLU."""
    return tl.where(x > 0, x, x * slope)


@triton.jit
def tanh(x):
    """Hyperbolic tangent: a ratio of polynomials near zero, exponentials elsewhere."""
    square = x * x
    top = x * (135135.0 + square * (17325.0 + square * (378.0 + square)))
    bottom = 135135.0 + square * (62370.0 + square * (3150.0 + square * 28.0))
    fall = tl.exp(-2.0 * tl.abs(x))
    far = (1.0 - fall) / (1.0 + fall)
    return tl.where(tl.abs(x) < 0.5, top / bottom, tl.where(x < 0, -far, far))


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def merge(
    offsets, part_max, part_sum, part_a, part_b, part_c, row_max, row_sum, a, b, c,
    num_rows, num_segments, keep_scale: tl.float64,
    HEADS: tl.constexpr, A_CHANNELS: tl.constexpr, B_CHANNELS: tl.constexpr,
    ACC: tl.constexpr, SPAN: tl.constexpr, PARTS: tl.constexpr, H: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, SEGMENT: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    """Add the partial results of each row that was cut, in their order.

    Accumulators a [n, h, A_CHANNELS], b [n, h, B_CHANNELS] and c [n, h], each optional. With
    part_max they are unnormalised sums under softmax; then a and b are scaled by keep_scale too.
    CENTRED: c x a is subtracted from b.
    Program (x, y): the rows whose first segments have numbers from x SPAN on, and a block of heads.
    Reads and writes s(A_CHANNELS + B_CHANNELS + 3) bytes per head for each segment and row.
    """
    lane = tl.arange(0, SPAN)
    slot = tl.program_id(0).to(offsets.dtype.element_ty) * SPAN + lane
    live = slot < num_segments
    row = find_row(offsets, tl.where(live, slot, 0) * SEGMENT + (SEGMENT - 1), num_rows)
    start, stop = tl.load(offsets + row), tl.load(offsets + row + 1)
    parts = (stop - start) // SEGMENT
    leads = live & (slot == start // SEGMENT) & (parts > 1)

    found = tl.min(tl.where(leads, lane, SPAN))
    while found < SPAN:
        here = lane == found
        merge_row(
            pick(row, here), pick(slot, here), pick(slot + parts, here),
            part_max, part_sum, part_a, part_b, part_c, row_max, row_sum, a, b, c, keep_scale,
            HEADS, A_CHANNELS, B_CHANNELS, ACC, PARTS, H, A, B, CENTRED,
        )  # fmt: skip
        found = tl.min(tl.where(leads & (lane > found), lane, SPAN))


@triton.jit
def pick(x, here):
    """The one element of a vector of integers that is told: [1]."""
    return tl.sum(tl.where(here, x, 0)).to(x.dtype) + tl.zeros([1], x.dtype)


@triton.jit
def merge_row(
    row, first, last, part_max, part_sum, part_a, part_b, part_c, row_max, row_sum, a, b, c,
    keep_scale,
    HEADS: tl.constexpr, A_CHANNELS: tl.constexpr, B_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    PARTS: tl.constexpr, H: tl.constexpr, A: tl.constexpr, B: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    """Add the partial results number first to last of a row, all [1]."""
    steps = tl.max(last - first, 0)
    head, real = head_block(HEADS, H)
    whole = last > first

    if part_max is not None:
        top = tl.full([PARTS, 1, H], float("-inf"), ACC)
        step = 0
        while step < steps:
            index, valid = take_edges(first, last, step, PARTS)
            found = gather(part_max, index, valid, head, real, HEADS, ACC, float("-inf"))
            top = tl.maximum(top, found)
            step += PARTS
        highest = tl.max(top, 0)
        total = tl.zeros([PARTS, 1, H], ACC)
    if a is not None:
        a_offset, a_inside = plane(head, real, A_CHANNELS, A)
        a_acc = tl.zeros([PARTS, 1, H, A], ACC)
    if b is not None:
        b_offset, b_inside = plane(head, real, B_CHANNELS, B)
        b_acc = tl.zeros([PARTS, 1, H, B], ACC)
    if c is not None:
        c_acc = tl.zeros([PARTS, 1, H], ACC)
    step = 0
    while step < steps:
        index, valid = take_edges(first, last, step, PARTS)
        factor = tl.full([PARTS, 1, H], 1.0, ACC)
        if part_max is not None:
            found = gather(part_max, index, valid, head, real, HEADS, ACC, float("-inf"))
            factor = tl.exp(found - level(highest)[None])
            total += factor * gather(part_sum, index, valid, head, real, HEADS, ACC)
        if a is not None:
            x = gather(part_a, index, valid, a_offset, a_inside, HEADS * A_CHANNELS, ACC)
            a_acc += spread(factor) * x
        if b is not None:
            x = gather(part_b, index, valid, b_offset, b_inside, HEADS * B_CHANNELS, ACC)
            b_acc += spread(factor) * x
        if c is not None:
            c_acc += factor * gather(part_c, index, valid, head, real, HEADS, ACC)
        step += PARTS

    inverse = tl.full([1, H], 1.0, ACC)
    scale = tl.full([1, H], 1.0, ACC)
    if part_max is not None:
        summed = tl.sum(total, 0)
        inverse = reciprocal(summed)
        scale = inverse * scalar(keep_scale, ACC)
        scatter(row_max, row, whole, head, real, highest, HEADS)
        scatter(row_sum, row, whole, head, real, summed, HEADS)
    if c is not None:
        mass = tl.sum(c_acc, 0) * inverse
        scatter(c, row, whole, head, real, mass, HEADS)
    if a is not None:
        mean = tl.sum(a_acc, 0) * spread(scale)
        scatter(a, row, whole, a_offset, a_inside, mean, HEADS * A_CHANNELS)
    if b is not None:
        x = tl.sum(b_acc, 0) * spread(scale)
        if CENTRED:
            x -= spread(mass) * mean
        scatter(b, row, whole, b_offset, b_inside, x, HEADS * B_CHANNELS)
