"""Operators on edges: softmax of any score, weighted sums, dot products.

Bytes moved, for numbers of s bytes, sums of w = 4 (8 in fp64), int32 indices and F = h c:

    edge_softmax           per edge  3 h s + 8       score twice, the second time from cache; perm
    edge_softmax_backward  per edge  5 h s + 8       weight and gradient twice, likewise; perm
                           per row   4 h w more where rows are cut
    aggregate              per edge  F s + h s + 8   value, weight; col, perm (4 more transposed)
                           per row   F s + 4         the sum
    edge_dot               per edge  F s + h s + 8   key, the product; col, perm
                           per row   F s + 4         query
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.triton.primitives import (
    gather,
    head_block,
    level,
    plane,
    reciprocal,
    scatter,
    settle,
    soften,
    spread,
    take_edges,
    take_rows,
)
from gattn.kernels.triton.tiles import Walk, contiguous, max_degree_of, pad, wide


def edge_softmax(score: Tensor, layout: list[Tensor]) -> Tensor:
    """Return the softmax of [e, h] scores over the edges into each destination."""
    rowptr, _, perm, *_ = layout
    (score,), (e, heads) = contiguous(score), score.shape
    out = score.new_empty(e, heads)
    walk = Walk(rowptr, e, heads, 1, score.dtype, unroll=2, max_degree=max_degree_of(layout, False))
    row_max = score.new_empty(walk.num_rows, heads, dtype=wide(score.dtype))
    sums = [row_max, row_max.new_empty(row_max.shape), None, None, None]
    parts = walk.parts(*sums)
    walk.run(_softmax, perm, score, out, parts[0], parts[1])
    walk.merge(parts, sums)
    if walk.cuts:
        walk.run(_softmax_segments, perm, score, sums[0], sums[1], out, segments=True)
    return out


def edge_softmax_backward(grad: Tensor, alpha: Tensor, layout: list[Tensor]) -> Tensor:
    """Return the gradient of the scores: alpha (grad - mean of grad weighted by alpha).

    The weights are summed, too: rounded to 16 bits they do not quite sum to one, and the gradients
    of a row's scores would not to zero.
    """
    rowptr, _, perm, *_ = layout
    (grad, alpha), (e, heads) = contiguous(grad, alpha), alpha.shape
    out = alpha.new_empty(e, heads)
    walk = Walk(rowptr, e, heads, 1, alpha.dtype, unroll=2, max_degree=max_degree_of(layout, False))
    inner = alpha.new_empty(walk.num_rows, heads, dtype=wide(alpha.dtype))
    mass = inner.new_empty(walk.num_rows, heads, 1)
    sums = [None, None, mass, None, inner]
    parts = walk.parts(*sums)
    walk.run(_softmax_backward, perm, alpha, grad, out, parts[2], parts[4])
    walk.merge(parts, sums)
    if walk.cuts:
        walk.run(_softmax_backward_segments, perm, alpha, grad, mass, inner, out, segments=True)
    return out


def aggregate(weight: Tensor, value: Tensor, layout: list[Tensor], transposed: bool) -> Tensor:
    """Return sum_j w_ij v_j for every destination i or, transposed, sum_i w_ij v_i for source j."""
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    heads = weight.shape[1]
    weight, value = contiguous(weight, value)
    known = {"max_degree": max_degree_of(layout, transposed)}
    if transposed:
        return weighted_sum(colptr, row, csr2csc, perm, heads, weight, value, **known)[0]
    return weighted_sum(rowptr, col, perm, None, heads, weight, value, **known)[0]


def weighted_sum(
    offsets: Tensor,
    index: Tensor,
    name: Tensor,
    rename: Tensor | None,
    heads: int,
    weight: Tensor,
    table: Tensor,
    other_weight: Tensor | None = None,
    other_table: Tensor | None = None,
    max_degree: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Sum rows of one or two tables [., h_v, c] over the edges of each row of a layout.

    The weights of an edge stand at name[position], or at rename[name[position]] where given.
    """
    rows = offsets.numel() - 1
    channels, other_channels = table.shape[2], 0 if other_table is None else other_table.shape[2]
    out = table.new_empty(rows, heads, channels)
    other = None if other_table is None else other_table.new_empty(rows, heads, other_channels)
    width = max(channels, other_channels)
    walk = Walk(offsets, index.numel(), heads, width, table.dtype, unroll=4, max_degree=max_degree)
    sums = [None, None, out, other, None]
    parts = walk.parts(*sums)
    walk.run(
        _weighted_sum, index, name, rename, weight, table, other_weight, other_table,
        out, other, parts[2], parts[3], TABLE_HEADS=table.shape[1],
        CHANNELS=channels, OTHER_CHANNELS=other_channels, C=pad(channels), D=pad(other_channels),
    )  # fmt: skip
    walk.merge(parts, sums)
    return out, other


def edge_dot(query: Tensor, key: Tensor, layout: list[Tensor]) -> Tensor:
    """Return q_i . k_j for every edge and head: [e, h]."""
    rowptr, col, perm, *_ = layout
    (_, heads, channels), key_heads = query.shape, key.shape[1]
    query, key = contiguous(query, key)
    out = query.new_empty(col.numel(), heads)
    walk = Walk(
        rowptr,
        col.numel(),
        heads,
        channels,
        query.dtype,
        unroll=4,
        max_degree=max_degree_of(layout, False),
    )
    walk.run(
        _edge_dot, col, perm, query, key, out,
        KEY_HEADS=key_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _softmax(
    offsets, perm, score, out, part_max, part_sum, num_rows, num_segments,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Softmax of whole rows; maximum and sum of parts."""
    _row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    top = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    total = tl.zeros([SLOTS, ROWS, H], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        scores = ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            name = tl.load(perm + position, mask=valid, other=0)
            scores += (gather(score, name, valid, head, real, HEADS, ACC, float("-inf")),)
        weights, shrink, top = soften(scores, top)
        total *= shrink
        for u in tl.static_range(UNROLL):
            total += weights[u]
        step += SLOTS * UNROLL
    _factor, row_top, row_total = settle(top, total)
    scatter(part_max, slot, part, head, real, row_top, HEADS)
    scatter(part_sum, slot, part, head, real, row_total, HEADS)
    _write_softmax(
        perm, score, out, first, tl.where(whole, last, first), level(row_top),
        reciprocal(row_total), head, real, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _softmax_segments(
    offsets, perm, score, row_max, row_sum, out, num_rows, num_segments,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Softmax of the parts of cut rows, from the statistics of those rows."""
    row, first, last, _slot, _whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    top = gather(row_max, row, part, head, real, HEADS, ACC)
    total = gather(row_sum, row, part, head, real, HEADS, ACC)
    _write_softmax(
        perm, score, out, first, tl.where(part, last, first), level(top), reciprocal(total),
        head, real, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit
def _write_softmax(
    perm, score, out, first, last, top, inverse, head, real,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        position, valid = take_edges(first, last, step, SLOTS)
        name = tl.load(perm + position, mask=valid, other=0)
        x = gather(score, name, valid, head, real, HEADS, ACC)
        scatter(out, name, valid, head, real, tl.exp(x - top[None]) * inverse[None], HEADS)
        step += SLOTS


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _softmax_backward(
    offsets, perm, alpha, grad, out, part_mass, part_inner, num_rows, num_segments,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Gradient of whole rows; the sums of alpha and of alpha grad of parts."""
    _row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    inner = tl.zeros([SLOTS, ROWS, H], ACC)
    mass = tl.zeros([SLOTS, ROWS, H], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            name = tl.load(perm + position, mask=valid, other=0)
            x = gather(alpha, name, valid, head, real, HEADS, ACC)
            mass += x
            inner += x * gather(grad, name, valid, head, real, HEADS, ACC)
        step += SLOTS * UNROLL
    row_mass, row_inner = tl.sum(mass, 0), tl.sum(inner, 0)
    scatter(part_mass, slot, part, head, real, row_mass, HEADS)
    scatter(part_inner, slot, part, head, real, row_inner, HEADS)
    _write_softmax_backward(
        perm, alpha, grad, out, first, tl.where(whole, last, first),
        row_inner * reciprocal(row_mass), head, real, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _softmax_backward_segments(
    offsets, perm, alpha, grad, row_mass, row_inner, out, num_rows, num_segments,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Gradient of the parts of cut rows, from the sums over those rows."""
    row, first, last, _slot, _whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    mass = gather(row_mass, row, part, head, real, HEADS, ACC)
    mean = gather(row_inner, row, part, head, real, HEADS, ACC) * reciprocal(mass)
    _write_softmax_backward(
        perm, alpha, grad, out, first, tl.where(part, last, first), mean,
        head, real, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit
def _write_softmax_backward(
    perm, alpha, grad, out, first, last, mean, head, real,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        position, valid = take_edges(first, last, step, SLOTS)
        name = tl.load(perm + position, mask=valid, other=0)
        weight = gather(alpha, name, valid, head, real, HEADS, ACC)
        g = gather(grad, name, valid, head, real, HEADS, ACC)
        scatter(out, name, valid, head, real, weight * (g - mean[None]), HEADS)
        step += SLOTS


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _weighted_sum(
    offsets, index, name, rename, weight, table, other_weight, other_table,
    out, other_out, part, other_part, num_rows, num_segments,
    HEADS: tl.constexpr, TABLE_HEADS: tl.constexpr, CHANNELS: tl.constexpr,
    OTHER_CHANNELS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, D: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """out = sum of weight x table and, where given, other_out likewise, in one pass."""
    row, first, last, slot, whole, cut = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    sum_rows(
        row, first, last, slot, whole, cut, index, name, rename, weight, table, other_weight,
        other_table, out, other_out, part, other_part, HEADS, TABLE_HEADS, CHANNELS,
        OTHER_CHANNELS, ACC, SLOTS, ROWS, H, C, D, UNROLL,
    )  # fmt: skip


@triton.jit
def sum_rows(
    row, first, last, slot, whole, cut, index, name, rename, weight, table, other_weight,
    other_table, out, other_out, part, other_part,
    HEADS: tl.constexpr, TABLE_HEADS: tl.constexpr, CHANNELS: tl.constexpr,
    OTHER_CHANNELS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, D: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The same for the rows [R] and edges of one piece of work."""
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    table_offset = plane(head % TABLE_HEADS, real, CHANNELS, C)[0]
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if other_table is not None:
        other_offset, other_inside = plane(head, real, OTHER_CHANNELS, D)
        other_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(index + position, mask=valid, other=0)
            at = tl.load(name + position, mask=valid, other=0)
            if rename is not None:
                at = tl.load(rename + at, mask=valid, other=0)
            x = gather(table, j, valid, table_offset, inside, TABLE_HEADS * CHANNELS, ACC)
            acc += spread(gather(weight, at, valid, head, real, HEADS, ACC)) * x
            if other_table is not None:
                x = gather(
                    other_table, j, valid, other_offset, other_inside, HEADS * OTHER_CHANNELS, ACC
                )
                other_acc += spread(gather(other_weight, at, valid, head, real, HEADS, ACC)) * x
        step += SLOTS * UNROLL
    summed = tl.sum(acc, 0)
    scatter(out, row, whole, offset, inside, summed, HEADS * CHANNELS)
    if part is not None:
        scatter(part, slot, cut, offset, inside, summed, HEADS * CHANNELS)
    if other_table is not None:
        summed = tl.sum(other_acc, 0)
        width: tl.constexpr = HEADS * OTHER_CHANNELS
        scatter(other_out, row, whole, other_offset, other_inside, summed, width)
        if other_part is not None:
            scatter(other_part, slot, cut, other_offset, other_inside, summed, width)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _edge_dot(
    offsets, col, perm, query, key, out, num_rows, num_segments,
    HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations: the query is read once."""
    row, first, last, _slot, _whole, _part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    key_offset = plane(head % KEY_HEADS, real, CHANNELS, C)[0]
    q = gather(query, row, last > first, offset, inside, HEADS * CHANNELS, ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        keys = ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            keys += (gather(key, j, valid, key_offset, inside, KEY_HEADS * CHANNELS, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            name = tl.load(perm + position, mask=valid, other=0)
            scatter(out, name, valid, head, real, tl.sum(q[None] * keys[u], 3), HEADS)
        step += SLOTS * UNROLL
