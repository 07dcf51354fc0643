"""Dot-product attention: softmax_j(scale (q_i . k_j + u_i . a_ij) + bias_ij) over v_j and a_ij.

The edge term is factored: u = W^T q, [n, h, d], is formed before and W A after the walk, where
A_i = sum_j alpha_ij a_ij is [n, h, d], so that an edge costs d numbers and not h c.

Bytes moved, for numbers of s bytes, sums of w = 4 (8 in fp64), int32 indices, F = h c, G = h d:

    forward   per edge          2 F s + 4             k_j, v_j; col
              with features     d s + 4               a_ij; perm
              with bias         h s + 4               b_ij; perm
              per row           2 F s + 2 h w + 4     q_i, out, statistics
              with features     2 G w                 u_i, A_i
    backward, by destination
              per edge          2 F s + 2 h w + 4     k_j, v_j; alpha and ds handed over
              with features     2 d s + 2 h w + 8     a_ij -> da_ij
              with bias         2 h s + 4             b_ij -> db_ij
              per row           4 F s + 2 h w + 4     q_i, dO_i, O_i -> dq_i
              with features     4 G w                 u_i, dA_i, A_i -> du_i
    backward, by source
              per edge          2 F s + 2 h w + 8     q_i, dO_i; alpha, ds; row, csr2csc
              per row           2 F s + 4             dk_j, dv_j
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.triton import banded
from gattn.kernels.triton.edge import sum_rows, weighted_sum
from gattn.kernels.triton.primitives import (
    gather,
    head_block,
    kept,
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
    Walk,
    contiguous,
    dropping,
    graph_ptr_of,
    max_degree_of,
    pad,
    room,
    rounded,
    wide,
)


def dot_product_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Return out [n, h, c_v], row_max and row_sum [n, h], sum alpha v [n, h, c_v], A [n, h, d].

    The last two are empty where backward does not ask; sum alpha v, too, where it is out.
    """
    features = 0 if edge_attr is None else edge_attr.shape[1]
    if edge_attr is None and banded.serves(layout, query, value, bias, seed):
        found = banded.forward(
            query, key, value, bias, layout, seed, scale, dropout, needs_backward
        )
        return *found, found[1].new_empty(0, query.shape[1], 0)
    rowptr, col, perm, *_ = layout
    (n, heads, channels), value_channels = query.shape, value.shape[2]
    row_max = query.new_empty(n, heads, dtype=wide(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    found = room(value, needs_backward or edge_attr is not None, n, heads, value_channels)
    edge_query = edge_out = None
    if edge_proj is not None:
        edge_query = _to_features(query, edge_proj)
        edge_out = torch.empty_like(edge_query)

    width = max(channels, value_channels)
    cut = graph_ptr_of(layout) is None
    walk = Walk(
        rowptr,
        col.numel(),
        heads,
        width,
        query.dtype,
        unroll=4,
        cut=cut,
        max_degree=max_degree_of(layout, False),
    )
    sums = [row_max, row_sum, found, edge_out, None]
    parts = walk.parts(*sums)
    drop = dropping(seed, dropout)
    walk.run(
        _forward, col, perm, *contiguous(query, key, value, bias, edge_query, edge_attr),
        *sums[:4], *parts[:4], scale=scale, **drop,
        CHANNELS=channels, VALUE_CHANNELS=value_channels, FEATURES=features,
        C=pad(channels), V=pad(value_channels), D=pad(features),
    )  # fmt: skip
    walk.merge(parts, sums, drop["keep_scale"])
    if edge_out is None:
        out, out_acc = rounded(found, value.dtype, needs_backward)
        return out, row_max, row_sum, out_acc, row_max.new_empty(0, heads, 0)
    out = (found + _from_features(edge_out, edge_proj)).to(value.dtype)
    if not needs_backward:
        found, edge_out = found.new_empty(0), edge_out.new_empty(0, heads, features)
    return out, row_max, row_sum, found, edge_out


def dot_product_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    edge_out: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    wants_edge_attr: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of query, key, value, bias, edge_attr and edge_proj."""
    if edge_attr is None and banded.serves(layout, query, value, bias, seed):
        found = banded.backward(
            grad_out,
            query,
            key,
            value,
            bias,
            out_acc,
            row_max,
            row_sum,
            layout,
            seed,
            scale,
            dropout,
        )
        return tuple(query.new_empty(0) if g is None else g for g in (*found, None, None))
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    (_, heads, channels), value_channels = query.shape, value.shape[2]
    features = 0 if edge_attr is None else edge_attr.shape[1]
    grad_out, query, key, value, bias, edge_attr = contiguous(
        grad_out, query, key, value, bias, edge_attr
    )
    edge_query = grad_edge_out = grad_edge_query = None
    if edge_proj is not None:
        edge_query, grad_edge_out = (_to_features(t, edge_proj) for t in (query, grad_out))
        grad_edge_query = torch.empty_like(edge_query)
    grad_query = room(query, edge_proj is not None, *query.shape)
    grad_bias = None if bias is None else bias.new_empty(bias.shape)
    alpha = row_max.new_empty(col.numel(), heads)
    slope = row_max.new_empty(col.numel(), heads)

    width = max(channels, value_channels)
    windows = graph_ptr_of(layout)
    walk = Walk(
        rowptr,
        col.numel(),
        heads,
        width,
        query.dtype,
        unroll=2,
        windows=windows,
        max_degree=max_degree_of(layout, False),
    )
    sums = [None, None, grad_query, grad_edge_query, None]
    parts = walk.parts(*sums)
    grad_key = grad_value = None
    if windows is not None:
        grad_key, grad_value = key.new_empty(key.shape), value.new_empty(value.shape)
    walk.run(
        _backward, windows, col, perm, colptr, row, csr2csc, grad_key, grad_value,
        grad_out, grad_edge_out, query, key, value, bias, edge_query, edge_attr,
        out_acc, edge_out, row_max, row_sum, *sums[2:4], *parts[2:4], grad_bias,
        alpha, slope, scale=scale, **dropping(seed, dropout),
        CHANNELS=channels, VALUE_CHANNELS=value_channels, FEATURES=features,
        C=pad(channels), V=pad(value_channels), D=pad(features),
    )  # fmt: skip
    walk.merge(parts, sums)
    grad_edge_attr = grad_edge_proj = None
    if edge_attr is not None and wants_edge_attr:
        grad_edge_attr = edge_attr.new_empty(edge_attr.shape)
        walk = Walk(
            rowptr,
            col.numel(),
            heads,
            features,
            query.dtype,
            unroll=1,
            all_heads=True,
            max_degree=max_degree_of(layout, False),
        )
        walk.run(
            _backward_edge_attr, perm, grad_edge_out, edge_query, alpha, slope, grad_edge_attr,
            FEATURES=features, D=pad(features),
        )  # fmt: skip
    if windows is None:
        grad_key, grad_value = weighted_sum(
            colptr,
            row,
            csr2csc,
            None,
            heads,
            slope,
            query,
            alpha,
            grad_out,
            max_degree=max_degree_of(layout, True),
        )
    if edge_proj is not None:
        grad_query = (grad_query + _from_features(grad_edge_query, edge_proj)).to(query.dtype)
        grad_edge_proj = _outer(query, grad_edge_query) + _outer(grad_out, edge_out)
        grad_edge_proj = grad_edge_proj.to(edge_proj.dtype)
    grads = grad_query, grad_key, grad_value, grad_bias, grad_edge_attr, grad_edge_proj
    return tuple(query.new_empty(0) if g is None else g for g in grads)


def _to_features(x: Tensor, edge_proj: Tensor) -> Tensor:
    """W^T x, [n, h, d]; products with W are formed in the dtype of the sums."""
    dtype = wide(x.dtype)
    return torch.einsum("nhc,hcd->nhd", x.to(dtype), edge_proj.to(dtype)).contiguous()


def _from_features(x: Tensor, edge_proj: Tensor) -> Tensor:
    """W x, [n, h, c]."""
    return torch.einsum("nhd,hcd->nhc", x, edge_proj.to(x.dtype))


def _outer(x: Tensor, features: Tensor) -> Tensor:
    """Sum over the rows of x and features, [h, c, d]."""
    return torch.einsum("nhc,nhd->hcd", x.to(features.dtype), features)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _forward(
    offsets, col, perm, query, key, value, bias, edge_query, edge_attr,
    row_max, row_sum, out, edge_out, part_max, part_sum, part_out, part_edge_out,
    num_rows, num_segments, scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, V: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations."""
    row, first, last, slot, whole, part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    live = last > first
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, value_inside = plane(head, real, VALUE_CHANNELS, V)
    scale = scalar(scale, ACC)

    q = gather(query, row, live, offset, inside, HEADS * CHANNELS, ACC) * scale
    top = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    total = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, V], ACC)
    if edge_attr is not None:
        feature = tl.arange(0, D)
        edge_offset, edge_inside = plane(head, real, FEATURES, D)
        uq = gather(edge_query, row, live, edge_offset, edge_inside, HEADS * FEATURES, ACC) * scale
        edge_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        scores, values, attrs = (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            k = gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC)
            values += (
                gather(value, j, valid, value_offset, value_inside, HEADS * VALUE_CHANNELS, ACC),
            )
            score = tl.sum(q[None] * k, 3)
            if (edge_attr is not None) or (bias is not None):
                name = tl.load(perm + position, mask=valid, other=0)
            if edge_attr is not None:
                a = gather(edge_attr, name, valid, feature, feature < FEATURES, FEATURES, ACC)
                a = tl.expand_dims(a, 2)
                score += tl.sum(uq[None] * a, 3)
                attrs += (a,)
            if bias is not None:
                score += gather(bias, name, valid, head, real, HEADS, ACC)
            scores += (tl.where(spread(valid), score, float("-inf")),)
        weights, shrink, top = soften(scores, top)
        total *= shrink
        acc *= spread(shrink)
        if edge_attr is not None:
            edge_acc *= spread(shrink)
        for u in tl.static_range(UNROLL):
            weight = weights[u]
            total += weight
            if seed is not None:
                position = take_edges(first, last, step + u * SLOTS, SLOTS)[0]
                weight = tl.where(kept(seed, position, head, threshold, HEADS), weight, 0.0)
            acc += spread(weight) * values[u]
            if edge_attr is not None:
                edge_acc += spread(weight) * attrs[u]
        step += SLOTS * UNROLL

    factor, row_top, row_total = settle(top, total)
    out_scale = spread(reciprocal(row_total) * scalar(keep_scale, ACC))
    summed = tl.sum(acc * spread(factor), 0)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    scatter(row_max, row, whole, head, real, row_top, HEADS)
    scatter(row_sum, row, whole, head, real, row_total, HEADS)
    scatter(out, row, whole, value_offset, value_inside, summed * out_scale, width)
    scatter(part_max, slot, part, head, real, row_top, HEADS)
    scatter(part_sum, slot, part, head, real, row_total, HEADS)
    scatter(part_out, slot, part, value_offset, value_inside, summed, width)
    if edge_attr is not None:
        width_e: tl.constexpr = HEADS * FEATURES
        summed = tl.sum(edge_acc * spread(factor), 0)
        scatter(edge_out, row, whole, edge_offset, edge_inside, summed * out_scale, width_e)
        scatter(part_edge_out, slot, part, edge_offset, edge_inside, summed, width_e)


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _backward(
    offsets, windows, col, perm, colptr, row_index, csr2csc, grad_key, grad_value,
    grad_out, grad_edge_out, query, key, value, bias, edge_query,
    edge_attr, out, edge_out, row_max, row_sum, grad_query, grad_edge_query,
    part_query, part_edge_query, grad_bias, passed_out, slope_out,
    num_rows, num_segments, scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, V: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Rows are destinations: dq_i, du_i, and for every edge what the other passes need.

    That is the weight that passed dropout, and scale times the gradient of the score, [e, h] each
    in CSR order. With windows, dk_j and dv_j follow in the same program.
    """
    head, real = head_block(HEADS, H)
    offset, inside = plane(head, real, CHANNELS, C)
    value_offset, value_inside = plane(head, real, VALUE_CHANNELS, V)
    scale, keep_scale = scalar(scale, ACC), scalar(keep_scale, ACC)

    width: tl.constexpr = HEADS * VALUE_CHANNELS
    width_e: tl.constexpr = HEADS * FEATURES
    begin, end, stride = take_work(windows, ROWS)
    piece = begin
    while piece < end:
        row, first, last, slot, whole, part = take_piece(
            piece, end, windows, offsets, num_rows, num_segments, ROWS, SEGMENT
        )
        live = last > first
        q = gather(query, row, live, offset, inside, HEADS * CHANNELS, ACC) * scale
        g = gather(grad_out, row, live, value_offset, value_inside, width, ACC)
        delta = tl.sum(g * gather(out, row, live, value_offset, value_inside, width, ACC), 2)
        top = level(gather(row_max, row, live, head, real, HEADS, ACC))
        inverse = reciprocal(gather(row_sum, row, live, head, real, HEADS, ACC))
        acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
        if edge_attr is not None:
            feature = tl.arange(0, D)
            edge_offset, edge_inside = plane(head, real, FEATURES, D)
            uq = gather(edge_query, row, live, edge_offset, edge_inside, width_e, ACC) * scale
            edge_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
            ge = gather(grad_edge_out, row, live, edge_offset, edge_inside, width_e, ACC)
            e = gather(edge_out, row, live, edge_offset, edge_inside, width_e, ACC)
            delta += tl.sum(ge * e, 2)
        step, longest = 0, tl.max(last - first, 0)
        while step < longest:
            keys, values, attrs, biases = (), (), (), ()
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                j = tl.load(col + position, mask=valid, other=0)
                keys += (gather(key, j, valid, offset, inside, HEADS * CHANNELS, ACC),)
                values += (gather(value, j, valid, value_offset, value_inside, width, ACC),)
                if (edge_attr is not None) or (bias is not None):
                    name = tl.load(perm + position, mask=valid, other=0)
                if edge_attr is not None:
                    a = gather(edge_attr, name, valid, feature, feature < FEATURES, FEATURES, ACC)
                    attrs += (tl.expand_dims(a, 2),)
                if bias is not None:
                    biases += (gather(bias, name, valid, head, real, HEADS, ACC),)
            for u in tl.static_range(UNROLL):
                position, valid = take_edges(first, last, step + u * SLOTS, SLOTS)
                score = tl.sum(q[None] * keys[u], 3)
                inner = tl.sum(g[None] * values[u], 3)
                if edge_attr is not None:
                    score += tl.sum(uq[None] * attrs[u], 3)
                    inner += tl.sum(ge[None] * attrs[u], 3)
                if bias is not None:
                    score += biases[u]
                weight = tl.where(spread(valid), tl.exp(score - top[None]) * inverse[None], 0.0)
                passed = weight
                if seed is not None:
                    factor = tl.where(kept(seed, position, head, threshold, HEADS), keep_scale, 0.0)
                    passed *= factor
                    inner *= factor
                grad = weight * (inner - delta[None])
                if grad_bias is not None:
                    name = tl.load(perm + position, mask=valid, other=0)
                    scatter(grad_bias, name, valid, head, real, grad, HEADS)
                grad *= scale
                acc += spread(grad) * keys[u]
                if edge_attr is not None:
                    edge_acc += spread(grad) * attrs[u]
                scatter(passed_out, position, valid, head, real, passed, HEADS)
                scatter(slope_out, position, valid, head, real, grad, HEADS)
            step += SLOTS * UNROLL

        summed = tl.sum(acc, 0)
        scatter(grad_query, row, whole, offset, inside, summed, HEADS * CHANNELS)
        scatter(part_query, slot, part, offset, inside, summed, HEADS * CHANNELS)
        if edge_attr is not None:
            summed = tl.sum(edge_acc, 0)
            scatter(grad_edge_query, row, whole, edge_offset, edge_inside, summed, width_e)
            scatter(part_edge_query, slot, part, edge_offset, edge_inside, summed, width_e)
        piece += stride
    if windows is not None:
        tl.debug_barrier()
        piece = begin
        while piece < end:
            row, first, last, slot, whole, part = take_piece(
                piece, end, windows, colptr, num_rows, num_segments, ROWS, SEGMENT
            )
            sum_rows(
                row, first, last, slot, whole, part, row_index, csr2csc, None, slope_out, query,
                passed_out, grad_out, grad_key, grad_value, None, None, HEADS, HEADS, CHANNELS,
                VALUE_CHANNELS, ACC, SLOTS, ROWS, H, C, V, UNROLL,
            )  # fmt: skip
            piece += stride


@triton.jit(do_not_specialize=["num_rows", "num_segments"])
def _backward_edge_attr(
    offsets, perm, grad_edge_out, edge_query, passed, slope, grad_edge_attr,
    num_rows, num_segments,
    HEADS: tl.constexpr, FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """da_ij = sum over heads of ds_ij u_i + alpha_ij dA_i: a program holds all heads."""
    row, first, last, _slot, _whole, _part = take_rows(
        tl.program_id(0), offsets, num_rows, num_segments, ROWS, SEGMENT
    )
    live = last > first
    head, real = head_block(HEADS, H)
    feature = tl.arange(0, D)
    offset, inside = plane(head, real, FEATURES, D)
    uq = gather(edge_query, row, live, offset, inside, HEADS * FEATURES, ACC)
    g = gather(grad_edge_out, row, live, offset, inside, HEADS * FEATURES, ACC)
    step, longest = 0, tl.max(last - first, 0)
    while step < longest:
        position, valid = take_edges(first, last, step, SLOTS)
        grad = spread(gather(slope, position, valid, head, real, HEADS, ACC)) * uq[None]
        grad += spread(gather(passed, position, valid, head, real, HEADS, ACC)) * g[None]
        name = tl.load(perm + position, mask=valid, other=0)
        x = tl.sum(grad, 2)
        scatter(grad_edge_attr, name, valid, feature, feature < FEATURES, x, FEATURES)
        step += SLOTS
