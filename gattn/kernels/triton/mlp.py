"""MLP attention: out_i = sum_j softmax_j(w . act(q_i + k_j + W a_ij)) v_j.

Bytes moved, for numbers of s bytes, sums of w = 4 (8 in fp64), int32 indices and F = h c; the
values add F s per edge where they are not the keys; W and w stay in cache:

    forward   per edge          F s + 4               k_j; col
              with features     d s + 4               a_ij; perm
              per row           2 F s + 2 h w + 4     q_i, out, statistics
    backward, by destination
              per edge          F s + 2 h w + 4       k_j; alpha and ds handed over
              with features     d s + 8               a_ij; perm, destination handed over
              per row           4 F s + 2 h w + 4     q_i, dO_i, O_i -> dq_i
              per program       F w                   a share of dw
    backward, by source
              per edge          2 F s + 2 h w + 8     q_i, dO_i; alpha, ds; row, csr2csc
              with features     d s + 4               a_ij; perm
              per row           2 F s + 4             k_j -> dk_j (dv_j)
    backward, by edge, with features
              per edge          2 F s + d s + h w + 12  q_i, k_j, a_ij, ds -> shares of dW
              for da_ij         the same and d s      a pass of its own

The gradient by source needs act'(q_i + k_j + W a_ij), so it gathers q_i in any case; alpha and ds
are handed over so that neither the score nor <dO_i, v_j> is computed again.
"""

from __future__ import annotations

from typing import Any

import torch
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
    tanh,
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

STACK = 4
"""Edges that share one reading of W, where there are edge features; half as many in fp64."""
WEIGHT_PROGRAMS = 16384
"""Programs that share the sums for dw, at most."""
EDGES = 32
"""Edges of a tile in the passes by edge; half as many in fp64, or beyond 128 channels."""
EDGE_PROGRAMS = 512
"""Programs that share the sums for dW, at most."""


def mlp_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Return out [n, h, c_v], row_max and row_sum [n, h], and out before rounding.

    value None means key.
    """
    rowptr, col, perm, *_ = layout
    n, heads, channels = query.shape
    value_channels = channels if value is None else value.shape[2]
    row_max = query.new_empty(n, heads, dtype=wide(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    found = room(query, needs_backward, n, heads, value_channels)
    cut = graph_ptr_of(layout) is None
    walk = _walk(
        rowptr,
        col,
        query,
        value_channels,
        edge_attr,
        unroll=4,
        cut=cut,
        max_degree=max_degree_of(layout, False),
    )
    sums = [row_max, row_sum, found, None, None]
    parts = walk.parts(*sums)
    drop = dropping(seed, dropout)
    walk.run(
        _forward, col, perm, *contiguous(query, key, value, weight, edge_attr, _turned(edge_proj)),
        *sums[:3], *parts[:3], slope=negative_slope, **drop,
        **_shape(channels, value_channels, edge_attr, activation),
    )  # fmt: skip
    walk.merge(parts, sums, drop["keep_scale"])
    out, out_acc = rounded(found, query.dtype, needs_backward)
    return out, row_max, row_sum, out_acc


def mlp_score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Return w . act(q_i + k_j + W a_ij) for every edge and head: [e, h]."""
    rowptr, col, perm, *_ = layout
    heads, channels = query.shape[1:]
    out = query.new_empty(col.numel(), heads)
    walk = _walk(
        rowptr, col, query, channels, edge_attr, unroll=4, max_degree=max_degree_of(layout, False)
    )
    walk.run(
        _score, col, perm, *contiguous(query, key, weight, edge_attr, _turned(edge_proj)), out,
        slope=negative_slope, **_shape(channels, None, edge_attr, activation),
    )  # fmt: skip
    return out


def mlp_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    wants_edge_attr: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of query, key, value, weight, edge_attr and edge_proj.

    That of value is empty where value is None: the key's holds both.
    """
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    (_, heads, channels), e = query.shape, col.numel()
    value_channels = channels if value is None else value.shape[2]
    turned = _turned(edge_proj)
    grad_out, query, key, value, weight, edge_attr, edge_proj = contiguous(
        grad_out, query, key, value, weight, edge_attr, edge_proj
    )
    grad_query, grad_key, grad_value = (
        None if t is None else t.new_empty(t.shape) for t in (query, key, value)
    )
    alpha, slope = row_max.new_empty(e, heads), row_max.new_empty(e, heads)
    destination = None if edge_attr is None else col.new_empty(e)
    shape = _shape(channels, value_channels, edge_attr, activation)

    windows = graph_ptr_of(layout)
    walk = _walk(
        rowptr,
        col,
        query,
        value_channels,
        edge_attr,
        unroll=2,
        windows=windows,
        max_degree=max_degree_of(layout, False),
    )
    sums = [None, None, grad_query, None, None]
    parts = walk.parts(*sums)
    programs = min(walk.programs, WEIGHT_PROGRAMS) if windows is None else walk.programs
    part_weight = row_max.new_empty(programs, heads, channels)
    walk.run(
        _backward_query, windows, col, perm, colptr, row, csr2csc, grad_key, grad_value,
        grad_out, query, key, value, weight, edge_attr, turned,
        out_acc, row_max, row_sum, grad_query, parts[2], part_weight, alpha, slope, destination,
        walk.programs, slope=negative_slope, **dropping(seed, dropout), **shape, programs=programs,
    )  # fmt: skip
    walk.merge(parts, sums)
    grad_weight = part_weight.sum(0).to(weight.dtype)

    if windows is None:
        walk = _walk(
            colptr,
            row,
            query,
            value_channels,
            edge_attr,
            unroll=2,
            max_degree=max_degree_of(layout, True),
        )
        sums = [None, None, grad_key, grad_value, None]
        parts = walk.parts(*sums)
        walk.run(
            _backward_key, row, csr2csc, perm, grad_out, query, key, weight, edge_attr, turned,
            alpha, slope, *sums[2:4], *parts[2:4], slope=negative_slope, **shape,
        )  # fmt: skip
        walk.merge(parts, sums)
    grads = [grad_query, grad_key, grad_value, grad_weight, None, None]
    if edge_attr is not None:
        grads[4:] = _by_edge(
            query, key, weight, edge_attr, edge_proj, turned, slope, destination, col, perm,
            negative_slope, activation, wants_edge_attr,
        )  # fmt: skip
    return tuple(query.new_empty(0) if g is None else g for g in grads)


def _by_edge(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor,
    edge_proj: Tensor,
    turned: Tensor,
    slope: Tensor,
    destination: Tensor,
    col: Tensor,
    perm: Tensor,
    negative_slope: float,
    activation: str,
    wants_edge_attr: bool,
) -> tuple[Tensor | None, Tensor]:
    """Return the gradients of edge_attr, if wanted, and of edge_proj."""
    (heads, channels, features), e = edge_proj.shape, col.numel()
    width = max(16, pad(channels))
    parts = 2 if slope.dtype == torch.float64 else 1
    block = max(1, min(pad(heads), 128 // parts // width))
    head_blocks = -(-heads // block)
    edges = max(16, EDGES // parts // max(1, width // 128))
    tiles = -(-e // edges)
    inputs = destination, col, perm, query, key, weight, edge_attr, edge_proj, turned, slope
    constants = {
        "HEADS": heads, "CHANNELS": channels, "FEATURES": features, "ACTIVATION": activation,
        "ACC": ACCUMULATOR[slope.dtype], "E": edges, "H": block, "C": width,
        "D": max(16, pad(features)),
    }  # fmt: skip
    grad_attr = None
    if wants_edge_attr:
        grad_attr = edge_attr.new_empty(edge_attr.shape)
        launch(
            _backward_edge_attr, (tiles,), 4, *inputs, grad_attr, e, head_blocks, negative_slope,
            **constants,
        )  # fmt: skip
    programs = min(tiles, EDGE_PROGRAMS)
    part = slope.new_empty(programs, heads, channels, features)
    launch(
        _backward_edge_proj, (programs, head_blocks), 4, *inputs, part, e, programs, negative_slope,
        **constants,
    )  # fmt: skip
    return grad_attr, part.sum(0).to(edge_proj.dtype)


def _walk(
    offsets: Tensor,
    index: Tensor,
    query: Tensor,
    width: int,
    edge_attr: Tensor | None,
    unroll: int,
    **options: Any,
) -> Walk:
    """With edge features, edges are stacked in one tile, so that they share each reading of W."""
    heads, channels = query.shape[1:]
    stack = 1
    if edge_attr is not None:
        stack, unroll = STACK // (1 + (query.dtype == torch.float64)), 1
    width = max(channels, width)
    return Walk(offsets, index.numel(), heads, width, query.dtype, unroll, stack=stack, **options)


def _shape(
    channels: int, value_channels: int | None, edge_attr: Tensor | None, activation: str
) -> dict[str, Any]:
    features = 0 if edge_attr is None else edge_attr.shape[1]
    shape = {"CHANNELS": channels, "FEATURES": features, "C": pad(channels)}
    if value_channels is not None:
        shape |= {"VALUE_CHANNELS": value_channels, "V": pad(value_channels)}
    return {**shape, "ACTIVATION": activation}


def _turned(edge_proj: Tensor | None) -> Tensor | None:
    """W with its features first, [d, h, c]: a feature's column lies in one piece."""
    return None if edge_proj is None else edge_proj.permute(2, 0, 1).contiguous()


@triton.jit
def _activate(t, slope, ACTIVATION: tl.constexpr):
    """act(t) and act'(t)."""
    if ACTIVATION == "tanh":
        y = tanh(t)
        return y, 1.0 - y * y
    else:
        return leaky(t, slope), tl.where(t > 0, 1.0, slope)


@triton.jit
def _project(edge_attr, turned, name, valid, offset, inside, t, FEATURES: tl.constexpr,
             STRIDE: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """t + W a_ij for the edges `name`: [*name, H, C]."""
    for d in range(FEATURES):
        a = tl.load(edge_attr + name.to(tl.int64) * FEATURES + d, mask=valid, other=0.0).to(ACC)
        column = tl.load(turned + d * STRIDE + offset, mask=inside, other=0.0).to(ACC)
        t += spread(spread(a)) * column
    return t


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _forward(
    offsets, col, perm, query, key, value, weight, edge_attr, turned,
    row_max, row_sum, out, part_max, part_sum, part_out,
    num_rows, num_segments, slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations."""
    row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, value_inside = plane(head, real, VALUE_CHANNELS, V)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    slope = scalar(slope, ACC)
    w = tl.load(weight + offset, mask=inside, other=0.0).to(ACC)
    q = gather(query, row, last > first, offset, inside, HEADS * CHANNELS, ACC)
    top = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    total = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, V], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        scores, values = (), ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            k = gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC)
            if value is None:
                values += (k,)
            else:
                values += (gather(value, j, valid, value_offset, value_inside, width, ACC),)
            t = q[None] + k
            if edge_attr is not None:
                name = tl.load(perm + position, mask=valid, other=0)
                t = _project(
                    edge_attr, turned, name, valid, offset, inside, t,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            y = _activate(t, slope, ACTIVATION)[0]
            scores += (tl.where(spread(valid), tl.sum(w * y, 3), float("-inf")),)
        weights, shrink, top = soften(scores, top)
        total *= shrink
        acc *= spread(shrink)
        for u in tl.static_range(UNROLL):
            share = weights[u]
            total += share
            if seed is not None:
                position = take_edges(first, last, step + u * SLOTS, SLOTS)[0]
                share = tl.where(kept(seed, position, head, threshold, HEADS), share, 0.0)
            acc += spread(share) * values[u]
        step += SLOTS * UNROLL

    factor, row_top, row_total = settle(top, total)
    out_scale = spread(reciprocal(row_total) * scalar(keep_scale, ACC))
    summed = tl.sum(acc * spread(factor), 0)
    scatter(row_max, row, whole, head, real, row_top, HEADS)
    scatter(row_sum, row, whole, head, real, row_total, HEADS)
    scatter(out, row, whole, value_offset, value_inside, summed * out_scale, width)
    scatter(part_max, slot, part, head, real, row_top, HEADS)
    scatter(part_sum, slot, part, head, real, row_total, HEADS)
    scatter(part_out, slot, part, value_offset, value_inside, summed, width)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _score(
    offsets, col, perm, query, key, weight, edge_attr, turned, out,
    num_rows, num_segments, slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations; the score of every edge is written."""
    row, first, last, _slot, _whole, _part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    slope = scalar(slope, ACC)
    w = tl.load(weight + offset, mask=inside, other=0.0).to(ACC)
    q = gather(query, row, last > first, offset, inside, HEADS * CHANNELS, ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        keys = ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            keys += (gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            name = tl.load(perm + position, mask=valid, other=0)
            t = q[None] + keys[u]
            if edge_attr is not None:
                t = _project(
                    edge_attr, turned, name, valid, offset, inside, t,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            y = _activate(t, slope, ACTIVATION)[0]
            scatter(out, name, valid, head, real, tl.sum(w * y, 3), HEADS)
        step += SLOTS * UNROLL


@triton.jit(do_not_specialize=["num_rows", "num_segments", "num_programs"])
def _backward_query(
    offsets, windows, col, perm, colptr, row_index, csr2csc, grad_key, grad_value,
    grad_out, query, key, value, weight, edge_attr, turned,
    out, row_max, row_sum, grad_query, part_query, part_weight, passed_out, slope_out, destination,
    num_programs, num_rows, num_segments, slope: tl.float64, seed, threshold: tl.uint32,
    keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations: dq_i, a share of dw, and for every edge what the other passes need.

    That is the weight that passed dropout and the gradient of the score, [e, h] in CSR order. A
    program takes every num_programs(0)-th piece of work, so that few shares of dw are written.
    With windows, dk_j and dv_j follow in the same program.
    """
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, value_inside = plane(head, real, VALUE_CHANNELS, V)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    slope, keep_scale = scalar(slope, ACC), scalar(keep_scale, ACC)
    w = tl.load(weight + offset, mask=inside, other=0.0).to(ACC)
    acc_weight = tl.zeros([SLOTS, ROWS, H, C], ACC)
    begin, end, stride = take_work(windows, ROWS)
    if windows is None:
        end, stride = num_programs, tl.num_programs(0)
    piece = begin
    while piece < end:
        row, first, last, slot, whole, part = take_piece(
            piece, end, windows, offsets, num_rows, num_segments, ROWS, SEGMENT
        )
        live = last > first
        q = gather(query, row, live, offset, inside, HEADS * CHANNELS, ACC)
        g = gather(grad_out, row, live, value_offset, value_inside, width, ACC)
        delta = tl.sum(g * gather(out, row, live, value_offset, value_inside, width, ACC), 2)
        top = level(gather(row_max, row, live, head, real, HEADS, ACC))
        inverse = reciprocal(gather(row_sum, row, live, head, real, HEADS, ACC))
        acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
        step, longest = 0, tl.max(last - first, 0)
        while step < longest:
            keys, values = (), ()
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                j = tl.load(col + position, mask=valid, other=0)
                k = gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC)
                keys += (k,)
                if value is None:
                    values += (k,)
                else:
                    values += (gather(value, j, valid, value_offset, value_inside, width, ACC),)
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                t = q[None] + keys[u]
                if edge_attr is not None:
                    name = tl.load(perm + position, mask=valid, other=0)
                    t = _project(
                        edge_attr, turned, name, valid, offset, inside, t,
                        FEATURES, HEADS * CHANNELS, ACC,
                    )  # fmt: skip
                    tl.store(destination + position, row[None] + position * 0, mask=valid)
                y, rise = _activate(t, slope, ACTIVATION)
                score = tl.sum(w * y, 3)
                inner = tl.sum(g[None] * values[u], 3)
                share = tl.where(spread(valid), tl.exp(score - top[None]) * inverse[None], 0.0)
                passed = share
                if seed is not None:
                    factor = tl.where(kept(seed, position, head, threshold, HEADS), keep_scale, 0.0)
                    passed *= factor
                    inner *= factor
                grad = share * (inner - delta[None])
                acc += spread(grad) * w * rise
                acc_weight += spread(grad) * y
                scatter(passed_out, position, valid, head, real, passed, HEADS)
                scatter(slope_out, position, valid, head, real, grad, HEADS)
            step += SLOTS * UNROLL
        summed = tl.sum(acc, 0)
        scatter(grad_query, row, whole, offset, inside, summed, HEADS * CHANNELS)
        scatter(part_query, slot, part, offset, inside, summed, HEADS * CHANNELS)
        piece += stride
    share = part_weight + tl.program_id(0).to(tl.int64) * (HEADS * CHANNELS) + offset
    tl.store(share, tl.sum(tl.sum(acc_weight, 0), 0), mask=inside)
    if windows is not None:
        tl.debug_barrier()
        piece = begin
        while piece < end:
            row, first, last, slot, whole, part = take_piece(
                piece, end, windows, colptr, num_rows, num_segments, ROWS, SEGMENT
            )
            write_key_grads(
                row, first, last, slot, whole, part, row_index, csr2csc, perm, grad_out, query, key,
                weight, edge_attr, turned, passed_out, slope_out, grad_key, grad_value, None, None,
                slope, HEADS, CHANNELS, VALUE_CHANNELS, FEATURES, ACTIVATION, ACC, SLOTS, ROWS,
                H, C, V, UNROLL,
            )  # fmt: skip
            piece += stride


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _backward_key(
    offsets, row_index, csr2csc, perm, grad_out, query, key, weight, edge_attr, turned,
    passed, slopes, grad_key, grad_value, part_key, part_value,
    num_rows, num_segments, slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are sources."""
    row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    write_key_grads(
        row, first, last, slot, whole, part, row_index, csr2csc, perm, grad_out, query, key, weight,
        edge_attr, turned, passed, slopes, grad_key, grad_value, part_key, part_value,
        scalar(slope, ACC), HEADS, CHANNELS, VALUE_CHANNELS, FEATURES, ACTIVATION, ACC, SLOTS,
        ROWS, H, C, V, UNROLL,
    )  # fmt: skip


@triton.jit
def write_key_grads(
    row, first, last, slot, whole, part, row_index, csr2csc, perm, grad_out, query, key, weight,
    edge_attr, turned, passed, slopes, grad_key, grad_value, part_key, part_value, slope,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """dk_j for rows [R] of sources, and dv_j apart or in dk_j where the values are the keys."""
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, value_inside = plane(head, real, VALUE_CHANNELS, V)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    w = tl.load(weight + offset, mask=inside, other=0.0).to(ACC)
    k = gather(key, row, last > first, offset, inside, HEADS * CHANNELS, ACC)
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if grad_value is not None:
        acc_value = tl.zeros([SLOTS, ROWS, H, V], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            i = tl.load(row_index + position, mask=valid, other=0)
            at = tl.load(csr2csc + position, mask=valid, other=0)
            t = k[None] + gather(query, i, valid, offset, inside, HEADS * CHANNELS, ACC)
            g = gather(grad_out, i, valid, value_offset, value_inside, width, ACC)
            if edge_attr is not None:
                name = tl.load(perm + at, mask=valid, other=0)
                t = _project(
                    edge_attr, turned, name, valid, offset, inside, t,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            rise = _activate(t, slope, ACTIVATION)[1]
            grad = gather(slopes, at, valid, head, real, HEADS, ACC)
            share = gather(passed, at, valid, head, real, HEADS, ACC)
            acc += spread(grad) * w * rise
            if grad_value is None:
                acc += spread(share) * g
            else:
                acc_value += spread(share) * g
        step += SLOTS * UNROLL
    summed = tl.sum(acc, 0)
    scatter(grad_key, row, whole, offset, inside, summed, HEADS * CHANNELS)
    if part_key is not None:
        scatter(part_key, slot, part, offset, inside, summed, HEADS * CHANNELS)
    if grad_value is not None:
        summed = tl.sum(acc_value, 0)
        scatter(grad_value, row, whole, value_offset, value_inside, summed, width)
        if part_value is not None:
            scatter(part_value, slot, part, value_offset, value_inside, summed, width)


@triton.jit
def _hidden_grad(
    position, num_edges, head, real, destination, col, perm, query, key, weight, edge_attr,
    turned, slopes, slope,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Gradient of q_i + k_j + W a_ij for edges at CSR positions [E]: [E, H, C]; their names."""
    valid = position < num_edges
    offset, inside = plane(head, real, CHANNELS, C)
    i = tl.load(destination + position, mask=valid, other=0)
    j = tl.load(col + position, mask=valid, other=0)
    name = tl.load(perm + position, mask=valid, other=0)
    w = tl.load(weight + offset, mask=inside, other=0.0).to(ACC)
    t = gather(query, i, valid, offset, inside, HEADS * CHANNELS, ACC)
    t += gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC)
    t = _project(edge_attr, turned, name, valid, offset, inside, t, FEATURES, HEADS * CHANNELS, ACC)
    rise = _activate(t, slope, ACTIVATION)[1]
    grad = gather(slopes, position, valid, head, real, HEADS, ACC)
    return spread(grad) * w * rise, name, valid


@triton.jit(do_not_specialize=["num_edges", "head_blocks"])
def _backward_edge_attr(
    destination, col, perm, query, key, weight, edge_attr, edge_proj, turned, slopes,
    grad_edge_attr, num_edges, head_blocks, slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, E: tl.constexpr, H: tl.constexpr,
    C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """da_ij = W^T applied to the gradient of the hidden layer, over all heads."""
    position = tl.program_id(0).to(tl.int64) * E + tl.arange(0, E)
    feature = tl.arange(0, D)
    slope = scalar(slope, ACC)
    acc = tl.zeros([E, D], ACC)
    block = 0
    while block < head_blocks:
        head = block * H + tl.arange(0, H)
        real = head < HEADS
        grad, name, valid = _hidden_grad(
            position, num_edges, head, real, destination, col, perm, query, key, weight,
            edge_attr, turned, slopes, slope, HEADS, CHANNELS, FEATURES, ACTIVATION, ACC, C,
        )  # fmt: skip
        offset, inside = plane(head, real, CHANNELS, C)
        column = spread(tl.reshape(offset, [H * C])) * FEATURES + feature
        exists = spread(tl.reshape(inside, [H * C])) & (feature < FEATURES)
        proj = tl.load(edge_proj + column, mask=exists, other=0.0).to(ACC)
        acc += tl.dot(tl.reshape(grad, [E, H * C]), proj, input_precision="ieee", out_dtype=ACC)
        block += 1
    valid = position < num_edges
    name = tl.load(perm + position, mask=valid, other=0)
    scatter(grad_edge_attr, name, valid, feature, feature < FEATURES, acc, FEATURES)


@triton.jit(do_not_specialize=["num_edges", "programs"])
def _backward_edge_proj(
    destination, col, perm, query, key, weight, edge_attr, edge_proj, turned, slopes,
    part, num_edges, programs, slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, E: tl.constexpr, H: tl.constexpr,
    C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A share of dW = sum over edges of the gradient of the hidden layer times a_ij."""
    head, real = head_block(HEADS, H)
    feature = tl.arange(0, D)
    slope = scalar(slope, ACC)
    acc = tl.zeros([H * C, D], ACC)
    start = tl.program_id(0).to(tl.int64) * E
    while start < num_edges:
        position = start + tl.arange(0, E)
        grad, name, valid = _hidden_grad(
            position, num_edges, head, real, destination, col, perm, query, key, weight,
            edge_attr, turned, slopes, slope, HEADS, CHANNELS, FEATURES, ACTIVATION, ACC, C,
        )  # fmt: skip
        a = gather(edge_attr, name, valid, feature, feature < FEATURES, FEATURES, ACC)
        grad = tl.trans(tl.reshape(grad, [E, H * C]))
        acc += tl.dot(grad, a, input_precision="ieee", out_dtype=ACC)
        start += programs * E
    offset, inside = plane(head, real, CHANNELS, C)
    column = spread(tl.reshape(offset, [H * C])) * FEATURES + feature
    exists = spread(tl.reshape(inside, [H * C])) & (feature < FEATURES)
    share = part + tl.program_id(0).to(tl.int64) * (HEADS * CHANNELS * FEATURES)
    tl.store(share + column, acc, mask=exists)
