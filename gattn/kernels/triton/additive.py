"""Additive."""
import triton
import triton.language as tl
from gattn.kernels.triton.primitives import (
    gather, head_block, kept, leaky, plane, reciprocal, scalar, scatter, soften, spread, take_rows)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _forward(
    query_score, key_score, value, edge_score, offsets, col, edge, seed,
    out, row_max, row_sum, out_plus, mass_plus,
    part_max, part_sum, part_out, part_plus, part_mass,
    num_rows, num_segments, slope: "fp64", threshold: "u32", keep_scale: "fp64",
    HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, CHANNELS: tl.constexpr,
    ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    SEGMENT: tl.constexpr,
):
    row, first, last, slot, whole, part = take_rows(offsets, num_rows, num_segments, ROWS, SEGMENT)
    live = whole | part
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, _ = plane(head % VALUE_HEADS, real, CHANNELS, C)
    slope = scalar(slope, ACC)
    keep_scale = scalar(keep_scale, ACC)

    a = gather(query_score, row, live, head, real, HEADS, ACC)
    top = tl.full([ROWS, H], float("-inf"), ACC)
    total = tl.zeros([ROWS, H], ACC)
    acc = tl.zeros([ROWS, H, C], ACC)
    plus = tl.zeros([ROWS, H, C], ACC)
    mass = tl.zeros([ROWS, H], ACC)
    lane = tl.arange(0, SLOTS)[:, None]
    for step in range(0, tl.max(last - first, 0), SLOTS):
        position = first[None, :] + step + lane
        valid = position < last[None, :]
        source = tl.load(col + position, mask=valid, other=0)
        z = a[None] + gather(key_score, source, valid, head, real, HEADS, ACC)
        if edge_score is not None:
            name = tl.load(edge + position, mask=valid, other=0)
            z += gather(edge_score, name, valid, head, real, HEADS, ACC)
        v = gather(value, source, valid, value_offset, inside, VALUE_HEADS * CHANNELS, ACC)
        score = tl.where(spread(valid), leaky(z, slope), float("-inf"))
        weight, shrink, top, total = soften(score, top, total)
        if out_plus is not None:
            mass = mass * shrink + tl.sum(tl.where(z > 0, weight, 0.0), 0)
        if seed is not None:
            weight = tl.where(kept(seed, position, head, threshold, HEADS), weight, 0.0)
        acc = acc * spread(shrink) + tl.sum(spread(weight) * v, 0)
        if out_plus is not None:
            weight = tl.where(z > 0, weight, 0.0)
            plus = plus * spread(shrink) + tl.sum(spread(weight) * v, 0)

    inverse = reciprocal(total)
    scale = spread(inverse * keep_scale)
    scatter(row_max, row, whole, head, real, top, HEADS)
    scatter(row_sum, row, whole, head, real, total, HEADS)
    scatter(out, row, whole, offset, inside, acc * scale, HEADS * CHANNELS)
    scatter(part_max, slot, part, head, real, top, HEADS)
    scatter(part_sum, slot, part, head, real, total, HEADS)
    scatter(part_out, slot, part, offset, inside, acc, HEADS * CHANNELS)
    if out_plus is not None:
        scatter(out_plus, row, whole, offset, inside, plus * scale, HEADS * CHANNELS)
        scatter(mass_plus, row, whole, head, real, mass * inverse, HEADS)
        scatter(part_plus, slot, part, offset, inside, plus, HEADS * CHANNELS)
        scatter(part_mass, slot, part, head, real, mass, HEADS)
