"""Additive attention: out_i = sum_j softmax_j(LeakyReLU(a_i + b_j + c_ij)) v_j.

Bytes moved, for numbers of s bytes, sums of w = 4 (8 in fp64), int32 indices and F = h c:

    forward   per edge         F s + h s + 4     v_j, b_j; col
              with c_ij        h s + 4           c_ij; perm
              per row          F s + h s + 2 h w + 8
              for backward     F w + h w         D, p+
    backward  per row          2 F s + F w + h (2 s + 6 w)    dO, O, D -> da and four terms
              per edge         F s + 4 h w + 4   dO_i and the terms of i; row
              with c_ij        2 h s + 8         c_ij -> dc_ij; csr2csc, perm
              per source       2 F s + 2 h s + 8 v_j -> dv_j, b_j -> db_j

The backward is one pass over the edges, by source. The gradient of a softmax sums to zero over a
row; so, with O+ and p+ the output and the mass of the edges whose z = a_i + b_j + c_ij is
positive, da_i = (1 - slope) <dO_i, D_i> with D_i = O+_i - p+_i O_i: no pass over edges at all. The
forward takes that difference before O_i is rounded to 16 bits, where it would lose its digits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.triton.primitives import (
    gather,
    head_block,
    kept,
    leaky,
    level,
    plane,
    reciprocal,
    scalar,
    scatter,
    settle,
    soften,
    spread,
    take_edges,
    take_piece,
    take_rows,
    take_work,
)
from gattn.kernels.triton.tiles import (
    ACCUMULATOR,
    Walk,
    contiguous,
    dropping,
    graph_ptr_of,
    launch,
    max_degree_of,
    pad,
    room,
    rounded,
    wide,
)


def additive_forward(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    save_positive_part: bool,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Return out [n, h, c], row_max and row_sum [n, h]; D and p+; out before rounding."""
    rowptr, col, perm, *_ = layout
    (n, heads), (_, value_heads, channels) = query_score.shape, value.shape
    like = value.new_empty(0, dtype=wide(value.dtype))
    found = room(value, needs_backward, n, heads, channels)
    row_max, row_sum = like.new_empty(n, heads), like.new_empty(n, heads)
    kept_rows = n if save_positive_part else 0
    out_pos_centered = like.new_empty(kept_rows, heads, channels)
    mass_pos = like.new_empty(kept_rows, heads)

    cut = graph_ptr_of(layout) is None
    walk = Walk(
        rowptr,
        col.numel(),
        heads,
        channels,
        value.dtype,
        unroll=4,
        cut=cut,
        max_degree=max_degree_of(layout, False),
    )
    sums = [row_max, row_sum, found]
    sums += [out_pos_centered, mass_pos] if save_positive_part else [None, None]
    parts = walk.parts(*sums)
    drop = dropping(seed, dropout)
    walk.run(
        _forward, col, perm, *contiguous(query_score, key_score, value, edge_score), *sums, *parts,
        slope=negative_slope, **drop, VALUE_HEADS=value_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    walk.merge(parts, sums, drop["keep_scale"], centred=True)
    out, out_acc = rounded(found, value.dtype, needs_backward)
    return out, row_max, row_sum, out_pos_centered, out_acc


def additive_backward(
    grad_out: Tensor,
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    out_pos_centered: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of query_score, key_score, value and, where given, edge_score."""
    _, _, perm, colptr, row, csr2csc, *_ = layout
    (n, heads), (m, value_heads, channels) = query_score.shape, value.shape
    query_score, key_score, value, edge_score, grad_out = contiguous(
        query_score, key_score, value, edge_score, grad_out
    )
    grad_query = query_score.new_empty(n, heads)
    grad_key = key_score.new_empty(m, heads)
    grad_edge = (
        value.new_empty(0) if edge_score is None else edge_score.new_empty(*edge_score.shape)
    )
    shared = value_heads != heads
    grad_value = value.new_empty(m, heads, channels, dtype=wide(value.dtype) if shared else None)
    terms = row_max.new_empty(n, heads, 4)

    windows = graph_ptr_of(layout)
    walk = Walk(
        colptr,
        row.numel(),
        heads,
        channels,
        value.dtype,
        unroll=4,
        windows=windows,
        max_degree=max_degree_of(layout, True),
    )
    tile = walk.tile
    centered = out_pos_centered if out_pos_centered.shape[0] else None
    rows = grad_out, out_acc, centered, query_score, row_max, row_sum, grad_query, terms
    if windows is None:
        launch(
            _row_terms, (-(-n // 4), -(-heads // tile.heads)), 4, *rows, n, negative_slope,
            HEADS=heads, CHANNELS=channels, ACC=ACCUMULATOR[row_max.dtype], ROWS=4, H=tile.heads,
            C=pad(channels),
        )  # fmt: skip
    sums = [None, None, grad_value, None, grad_key]
    parts = walk.parts(*sums)
    walk.run(
        _backward, windows, row, csr2csc, perm, *rows, key_score, value, edge_score,
        grad_value, grad_key, None if edge_score is None else grad_edge, parts[2], parts[4],
        slope=negative_slope, **dropping(seed, dropout),
        VALUE_HEADS=value_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    walk.merge(parts, sums)
    if shared:
        split = grad_value.unflatten(1, (heads // value_heads, value_heads))
        grad_value = split.sum(1).to(value.dtype)
    return grad_query, grad_key, grad_value, grad_edge


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _forward(
    offsets, col, perm, query_score, key_score, value, edge_score,
    row_max, row_sum, out, out_pos_centered, mass_pos,
    part_max, part_sum, part_out, part_plus, part_mass,
    num_rows, num_segments, slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations; D and p+ are kept where out_pos_centered is given."""
    row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset = plane(head % VALUE_HEADS, real, CHANNELS, C)[0]
    slope = scalar(slope, ACC)

    a = gather(query_score, row, last > first, head, real, HEADS, ACC)
    top = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    total = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if out_pos_centered is not None:
        mass = tl.zeros([SLOTS, ROWS, H], ACC)
        plus = tl.zeros([SLOTS, ROWS, H, C], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        zs, scores, values = (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            z = a[None] + gather(key_score, j, valid, head, real, HEADS, ACC)
            if edge_score is not None:
                name = tl.load(perm + position, mask=valid, other=0)
                z += gather(edge_score, name, valid, head, real, HEADS, ACC)
            v = gather(value, j, valid, value_offset, inside, VALUE_HEADS * CHANNELS, ACC)
            zs += (z,)
            scores += (tl.where(spread(valid), leaky(z, slope), float("-inf")),)
            values += (v,)
        weights, shrink, top = soften(scores, top)
        total *= shrink
        acc *= spread(shrink)
        if out_pos_centered is not None:
            mass *= shrink
            plus *= spread(shrink)
        for u in tl.static_range(UNROLL):
            weight = weights[u]
            total += weight
            if out_pos_centered is not None:
                mass += tl.where(zs[u] > 0, weight, 0.0)
            if seed is not None:
                position = take_edges(first, last, step + u * SLOTS, SLOTS)[0]
                weight = tl.where(kept(seed, position, head, threshold, HEADS), weight, 0.0)
            acc += spread(weight) * values[u]
            if out_pos_centered is not None:
                plus += spread(tl.where(zs[u] > 0, weight, 0.0)) * values[u]
        step += SLOTS * UNROLL

    factor, row_top, row_total = settle(top, total)
    inverse = reciprocal(row_total)
    scale = spread(inverse * scalar(keep_scale, ACC))
    summed = tl.sum(acc * spread(factor), 0)
    mean = summed * scale
    scatter(row_max, row, whole, head, real, row_top, HEADS)
    scatter(row_sum, row, whole, head, real, row_total, HEADS)
    scatter(out, row, whole, offset, inside, mean, HEADS * CHANNELS)
    scatter(part_max, slot, part, head, real, row_top, HEADS)
    scatter(part_sum, slot, part, head, real, row_total, HEADS)
    scatter(part_out, slot, part, offset, inside, summed, HEADS * CHANNELS)
    if out_pos_centered is not None:
        summed = tl.sum(plus * spread(factor), 0)
        row_mass = tl.sum(mass * factor, 0)
        apart = summed * scale - spread(row_mass * inverse) * mean
        scatter(out_pos_centered, row, whole, offset, inside, apart, HEADS * CHANNELS)
        scatter(mass_pos, row, whole, head, real, row_mass * inverse, HEADS)
        scatter(part_plus, slot, part, offset, inside, summed, HEADS * CHANNELS)
        scatter(part_mass, slot, part, head, real, row_mass, HEADS)


@triton.jit(do_not_specialize=["num_rows"])
def _row_terms(
    grad_out, out, out_pos_centered, query_score, row_max, row_sum, grad_query, terms,
    num_rows, slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """What `write_row_terms` writes, for all rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    write_row_terms(
        row, row < num_rows, grad_out, out, out_pos_centered, query_score, row_max, row_sum,
        grad_query, terms, slope, HEADS, CHANNELS, ACC, H, C,
    )  # fmt: skip


@triton.jit
def write_row_terms(
    row, live, grad_out, out, out_pos_centered, query_score, row_max, row_sum, grad_query, terms,
    slope, HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr, H: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """da_i, and what an edge needs of its destination: a_i, maximum, 1 / sum and <dO_i, O_i>.

    Without D, da_i is zero: the slope is 1, or nobody asks.
    """
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    g = gather(grad_out, row, live, offset, inside, HEADS * CHANNELS, ACC)
    delta = tl.sum(g * gather(out, row, live, offset, inside, HEADS * CHANNELS, ACC), 2)
    grad = tl.zeros_like(delta)
    if out_pos_centered is not None:
        apart = gather(out_pos_centered, row, live, offset, inside, HEADS * CHANNELS, ACC)
        grad = (1.0 - scalar(slope, ACC)) * tl.sum(g * apart, 2)
    scatter(grad_query, row, live, head, real, grad, HEADS)

    a = gather(query_score, row, live, head, real, HEADS, ACC)
    top = level(gather(row_max, row, live, head, real, HEADS, ACC))
    inverse = reciprocal(gather(row_sum, row, live, head, real, HEADS, ACC))
    scatter(terms, row, live, head * 4, real, a, HEADS * 4)
    scatter(terms, row, live, head * 4 + 1, real, top, HEADS * 4)
    scatter(terms, row, live, head * 4 + 2, real, inverse, HEADS * 4)
    scatter(terms, row, live, head * 4 + 3, real, delta, HEADS * 4)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _backward(
    offsets, windows, row_index, csr2csc, perm, grad_out, out, out_pos_centered, query_score,
    row_max, row_sum, grad_query, terms, key_score, value, edge_score,
    grad_value, grad_key, grad_edge, part_value, part_key,
    num_rows, num_segments, slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are sources: dv_j and db_j are sums over the edges out of j; dc_ij is written.

    With windows, the terms of their rows come first, in the same program.
    """
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset = plane(head % VALUE_HEADS, real, CHANNELS, C)[0]
    begin, end, stride = take_work(windows, ROWS)
    if windows is not None:
        piece = begin
        while piece < end:
            i = piece + tl.arange(0, ROWS)
            write_row_terms(
                i, i < end, grad_out, out, out_pos_centered, query_score, row_max, row_sum,
                grad_query, terms, slope, HEADS, CHANNELS, ACC, H, C,
            )  # fmt: skip
            piece += stride
        tl.debug_barrier()
    slope, keep_scale = scalar(slope, ACC), scalar(keep_scale, ACC)
    piece = begin
    while piece < end:
        row, first, last, slot, whole, part = take_piece(
            piece, end, windows, offsets, num_rows, num_segments, ROWS, SEGMENT
        )
        live = last > first
        b = gather(key_score, row, live, head, real, HEADS, ACC)
        v = gather(value, row, live, value_offset, inside, VALUE_HEADS * CHANNELS, ACC)
        acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
        acc_key = tl.zeros([SLOTS, ROWS, H], ACC)
        step, longest = 0, tl.max(last - first, 0)
        while step < longest:
            grads, zs, weights, deltas = (), (), (), ()
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                i = tl.load(row_index + position, mask=valid, other=0)
                grads += (gather(grad_out, i, valid, offset, inside, HEADS * CHANNELS, ACC),)
                z = b[None] + gather(terms, i, valid, head * 4, real, HEADS * 4, ACC)
                if edge_score is not None:
                    at = tl.load(csr2csc + position, mask=valid, other=0)
                    name = tl.load(perm + at, mask=valid, other=0)
                    z += gather(edge_score, name, valid, head, real, HEADS, ACC)
                top = gather(terms, i, valid, head * 4 + 1, real, HEADS * 4, ACC)
                inverse = gather(terms, i, valid, head * 4 + 2, real, HEADS * 4, ACC)
                weight = tl.exp(leaky(z, slope) - top) * inverse
                zs += (z,)
                weights += (tl.where(spread(valid), weight, 0.0),)
                deltas += (gather(terms, i, valid, head * 4 + 3, real, HEADS * 4, ACC),)
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                weight = weights[u]
                passed = weight
                inner = tl.sum(grads[u] * v[None], 3)
                if seed is not None:
                    at = tl.load(csr2csc + position, mask=valid, other=0)
                    factor = tl.where(kept(seed, at, head, threshold, HEADS), keep_scale, 0.0)
                    passed *= factor
                    inner *= factor
                acc += spread(passed) * grads[u]
                grad = weight * (inner - deltas[u]) * tl.where(zs[u] > 0, 1.0, slope)
                acc_key += grad
                if grad_edge is not None:
                    at = tl.load(csr2csc + position, mask=valid, other=0)
                    name = tl.load(perm + at, mask=valid, other=0)
                    scatter(grad_edge, name, valid, head, real, grad, HEADS)
            step += SLOTS * UNROLL

        summed, summed_key = tl.sum(acc, 0), tl.sum(acc_key, 0)
        scatter(grad_value, row, whole, offset, inside, summed, HEADS * CHANNELS)
        scatter(grad_key, row, whole, head, real, summed_key, HEADS)
        scatter(part_value, slot, part, offset, inside, summed, HEADS * CHANNELS)
        scatter(part_key, slot, part, head, real, summed_key, HEADS)
        piece += stride
