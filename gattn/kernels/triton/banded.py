"""Dot-product attention where every destination attends to a run of consecutive sources.

Complete, causal and band graphs, and batches of them, are such graphs. A program takes 64
destinations (32 in fp32) and one head and walks the rectangle of sources around their runs in
tiles of 32, with matrix products; an edge is known by its place, and its number in CSR order
follows from the start of its row. No index of an edge is read but the first of each row.

Bytes moved for a window of 64 rows with u sources in its rectangle, s bytes a number, F = h c:

    forward               2 u F s + 64 (2 F s + 8 h + 12)
    backward, by window   2 u F s + 64 (4 F s + 12 h + 12)    and h s + 4 an edge for a bias
    backward, by source   2 u F s + 64 (4 F s) + u (12 h + 12), u the destinations around 64 sources

16-bit numbers are multiplied by the tensor cores and added in fp32; fp32 stays fp32. A zero weight
times a NaN is not a zero: `product` takes care that a number of a source reaches no destination
but those that attend to it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels import facts
from gattn.kernels.triton.primitives import kept, level, reciprocal, scalar, spread
from gattn.kernels.triton.tiles import (
    ACCUMULATOR,
    band_density_of,
    contiguous,
    dropping,
    launch,
    pad,
    room,
    rounded,
    wide,
)

LEAST_DENSITY = {torch.float32: 1 / 4, torch.bfloat16: 1 / 8, torch.float16: 1 / 8}
"""Edges per pair of a window's rectangle from which matrix products are used."""
WINDOW = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}
"""Rows of a program; the largest, with TILE and WARPS, whose registers hold without spilling."""
WIDEST = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}
"""Channels up to which they do; twice as many in 16 bits with neither bias nor dropout."""
TILE = 32
WARPS = 8


def serves(
    layout: list[Tensor], query: Tensor, value: Tensor, bias: Tensor | None, seed: Tensor | None
) -> bool:
    """Whether the graph is made of runs, densely enough for matrix products in this type."""
    dtype, edges, rows = query.dtype, layout[1].numel(), query.shape[0]
    if dtype not in WIDEST or edges < facts.LEAST_DEGREE * rows:
        return False
    plain = bias is None and seed is None and dtype.itemsize == 2
    if max(query.shape[2], value.shape[2]) > WIDEST[dtype] * (1 + plain):
        return False
    density = band_density_of(layout)
    return density is not None and density >= LEAST_DENSITY[dtype]


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Return out [n, h, c_v], row_max and row_sum [n, h], and out before rounding."""
    n, heads, _ = query.shape
    found = room(value, needs_backward, n, heads, value.shape[2])
    row_max = query.new_empty(n, heads, dtype=wide(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    launch(
        _forward, (-(-n // WINDOW[query.dtype]), heads), WARPS,
        *layout[:3], *contiguous(query, key, value, bias), found, row_max, row_sum, n,
        scale=scale, **dropping(seed, dropout), **_shape(query, value),
    )  # fmt: skip
    out, out_acc = rounded(found, value.dtype, needs_backward)
    return out, row_max, row_sum, out_acc


def backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the gradients of query, key, value and, where given, bias."""
    rowptr, col, perm, colptr, row, *_ = layout
    n, m, heads = query.shape[0], key.shape[0], query.shape[1]
    window = WINDOW[query.dtype]
    grad_out, query, key, value, bias = contiguous(grad_out, query, key, value, bias)
    grad_query, grad_key, grad_value, grad_bias = (
        None if t is None else t.new_empty(t.shape) for t in (query, key, value, bias)
    )
    delta = row_max.new_empty(n, heads)
    inputs = grad_out, query, key, value, bias, row_max, row_sum, delta
    options = dropping(seed, dropout) | _shape(query, value) | {"scale": scale}
    launch(
        _backward_query, (-(-n // window), heads), WARPS,
        rowptr, col, perm, *inputs, out_acc, grad_query, grad_bias, n, **options,
    )  # fmt: skip
    launch(
        _backward_key, (-(-m // window), heads), WARPS,
        rowptr, col, perm, colptr, row, *inputs, grad_key, grad_value, n, m, **options,
    )  # fmt: skip
    return grad_query, grad_key, grad_value, grad_bias


def _shape(query: Tensor, value: Tensor) -> dict[str, object]:
    heads, channels = query.shape[1:]
    return {
        "HEADS": heads, "CHANNELS": channels, "VALUE_CHANNELS": value.shape[2],
        "ACC": ACCUMULATOR[wide(query.dtype)],
        "C": max(16, pad(channels)), "V": max(16, pad(value.shape[2])),
        "WINDOW": WINDOW[query.dtype], "TILE": TILE,
    }  # fmt: skip


@triton.jit
def rows_of(offsets, index, row, num_rows):
    """The runs of rows [W]: start of the row, first node and the node after the last."""
    live = row < num_rows
    start = tl.load(offsets + row, mask=live, other=0)
    stop = tl.load(offsets + row + 1, mask=live, other=0)
    full = stop > start
    first = tl.load(index + start, mask=full, other=0)
    return start, first, first + (stop - start)


@triton.jit
def around(first, last):
    """The nodes from the first to the last of any of the runs that are not empty."""
    low = tl.min(tl.where(last > first, first, 2147483647))
    return low, tl.max(tl.where(last > first, last, 0))


@triton.jit
def table_tile(
    table, row, live, head, HEADS: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr
):
    """Rows of one head of a table in its own type: [W, C]."""
    channel = tl.arange(0, C)
    at = (row.to(tl.int64) * HEADS + head) * CHANNELS
    mask = live[:, None] & (channel < CHANNELS)[None, :]
    return tl.load(table + at[:, None] + channel[None, :], mask=mask, other=0.0)


@triton.jit
def write_tile(
    table, row, live, head, x, HEADS: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr
):
    """Write rows of one head of a table."""
    channel = tl.arange(0, C)
    at = (row.to(tl.int64) * HEADS + head) * CHANNELS
    mask = live[:, None] & (channel < CHANNELS)[None, :]
    tl.store(table + at[:, None] + channel[None, :], x, mask=mask)


@triton.jit
def product(weight, table, mask, ACC: tl.constexpr):
    """weight [I, J] x table [J, C], where what is not finite in row j reaches but mask [I, J]."""
    finite = (table - table) == 0
    clean = tl.where(finite, table, tl.zeros_like(table))
    out = tl.dot(weight.to(table.dtype), clean, input_precision="ieee", out_dtype=ACC)
    bad = (~finite).to(tl.int32)
    if tl.max(tl.max(bad, 1), 0) > 0:
        touched = tl.dot(
            mask.to(table.dtype), bad.to(table.dtype), input_precision="ieee", out_dtype=ACC
        )
        out = tl.where(touched > 0, float("nan"), out)
    return out


@triton.jit
def score_tile(
    q, k, start, first, last, j, perm, bias, head, scale, HEADS: tl.constexpr, ACC: tl.constexpr
):
    """Scores [I, J], -inf off the edges; which pairs are edges; the numbers of those."""
    mask = (j[None, :] >= first[:, None]) & (j[None, :] < last[:, None])
    position = start[:, None] + (j[None, :] - first[:, None])
    score = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=ACC) * scale
    if bias is not None:
        name = tl.load(perm + position, mask=mask, other=0).to(tl.int64)
        score += tl.load(bias + name * HEADS + head, mask=mask, other=0.0).to(ACC)
    return tl.where(mask, score, float("-inf")), mask, position


@triton.jit
def kept_tile(seed, position, head, threshold, HEADS: tl.constexpr):
    """Which weights dropout keeps: [I, J]."""
    one = kept(seed, position, head + tl.arange(0, 1), threshold, HEADS)
    return tl.reshape(one, position.shape)


@triton.jit
def head_terms(table, row, live, head, other, HEADS: tl.constexpr):
    """A number of each row and head: [W]."""
    return tl.load(table + row.to(tl.int64) * HEADS + head, mask=live, other=other)


@triton.jit(do_not_specialize=["num_rows"])
def _forward(
    offsets, col, perm, query, key, value, bias, out, row_max, row_sum, num_rows,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, WINDOW: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0) * WINDOW + tl.arange(0, WINDOW), tl.program_id(1)
    live = row < num_rows
    start, first, last = rows_of(offsets, col, row, num_rows)
    low, high = around(first, last)
    scale = scalar(scale, ACC)
    q = table_tile(query, row, live, head, HEADS, CHANNELS, C)
    top = tl.full([WINDOW], float("-inf"), ACC)
    total = tl.zeros([WINDOW], ACC)
    acc = tl.zeros([WINDOW, V], ACC)
    while low < high:
        j = low + tl.arange(0, TILE)
        near = j < high
        k = table_tile(key, j, near, head, HEADS, CHANNELS, C)
        v = table_tile(value, j, near, head, HEADS, VALUE_CHANNELS, V)
        score, mask, position = score_tile(
            q, k, start, first, last, j, perm, bias, head, scale, HEADS, ACC
        )
        highest = tl.maximum(top, tl.max(score, 1))
        shrink = tl.exp(top - level(highest))
        weight = tl.exp(score - spread(level(highest)))
        total = total * shrink + tl.sum(weight, 1)
        if seed is not None:
            weight = tl.where(kept_tile(seed, position, head, threshold, HEADS), weight, 0.0)
        acc = acc * spread(shrink) + product(weight, v, mask, ACC)
        top = highest
        low += TILE
    inverse = reciprocal(total) * scalar(keep_scale, ACC)
    write_tile(out, row, live, head, acc * spread(inverse), HEADS, VALUE_CHANNELS, V)
    at = row.to(tl.int64) * HEADS + head
    tl.store(row_max + at, top, mask=live)
    tl.store(row_sum + at, total, mask=live)


@triton.jit
def gradient_tile(
    q, k, g, v, start, first, last, j, perm, bias, top, inverse, delta, head, scale,
    seed, threshold, keep_scale, HEADS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Weights that passed dropout and gradients of the scores, [I, J]; the edges and numbers."""
    score, mask, position = score_tile(
        q, k, start, first, last, j, perm, bias, head, scale, HEADS, ACC
    )
    weight = tl.where(mask, tl.exp(score - spread(top)) * spread(inverse), 0.0)
    inner = tl.dot(g, tl.trans(v), input_precision="ieee", out_dtype=ACC)
    passed = weight
    if seed is not None:
        factor = tl.where(kept_tile(seed, position, head, threshold, HEADS), keep_scale, 0.0)
        passed *= factor
        inner *= factor
    grad = tl.where(mask, weight * (inner - spread(delta)), 0.0)
    return passed, grad, mask, position


@triton.jit(do_not_specialize=["num_rows"])
def _backward_query(
    offsets, col, perm, grad_out, query, key, value, bias, row_max, row_sum, delta_out, out,
    grad_query, grad_bias, num_rows,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, WINDOW: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """dq_i and db_ij of a window of destinations; <dO_i, O_i> is kept for the pass by source."""
    row, head = tl.program_id(0) * WINDOW + tl.arange(0, WINDOW), tl.program_id(1)
    live = row < num_rows
    start, first, last = rows_of(offsets, col, row, num_rows)
    low, high = around(first, last)
    scale, keep_scale = scalar(scale, ACC), scalar(keep_scale, ACC)
    q = table_tile(query, row, live, head, HEADS, CHANNELS, C)
    g = table_tile(grad_out, row, live, head, HEADS, VALUE_CHANNELS, V)
    o = table_tile(out, row, live, head, HEADS, VALUE_CHANNELS, V)
    delta = tl.sum(g.to(ACC) * o.to(ACC), 1)
    tl.store(delta_out + row.to(tl.int64) * HEADS + head, delta, mask=live)
    top = level(head_terms(row_max, row, live, head, 0.0, HEADS))
    inverse = reciprocal(head_terms(row_sum, row, live, head, 1.0, HEADS))
    acc = tl.zeros([WINDOW, C], ACC)
    while low < high:
        j = low + tl.arange(0, TILE)
        near = j < high
        k = table_tile(key, j, near, head, HEADS, CHANNELS, C)
        v = table_tile(value, j, near, head, HEADS, VALUE_CHANNELS, V)
        _passed, grad, mask, position = gradient_tile(
            q, k, g, v, start, first, last, j, perm, bias, top, inverse, delta, head, scale,
            seed, threshold, keep_scale, HEADS, ACC,
        )  # fmt: skip
        if grad_bias is not None:
            name = tl.load(perm + position, mask=mask, other=0).to(tl.int64)
            tl.store(grad_bias + name * HEADS + head, grad, mask=mask)
        acc += product(grad * scale, k, mask, ACC)
        low += TILE
    write_tile(grad_query, row, live, head, acc, HEADS, CHANNELS, C)


@triton.jit(do_not_specialize=["num_rows", "num_columns"])
def _backward_key(
    offsets, col, perm, colptr, row_index, grad_out, query, key, value, bias, row_max, row_sum,
    delta_in, grad_key, grad_value, num_rows, num_columns,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, WINDOW: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """dk_j and dv_j of a window of sources."""
    j, head = tl.program_id(0) * WINDOW + tl.arange(0, WINDOW), tl.program_id(1)
    near = j < num_columns
    _start, first_row, last_row = rows_of(colptr, row_index, j, num_columns)
    low, high = around(first_row, last_row)
    scale, keep_scale = scalar(scale, ACC), scalar(keep_scale, ACC)
    k = table_tile(key, j, near, head, HEADS, CHANNELS, C)
    v = table_tile(value, j, near, head, HEADS, VALUE_CHANNELS, V)
    acc_key = tl.zeros([WINDOW, C], ACC)
    acc_value = tl.zeros([WINDOW, V], ACC)
    while low < high:
        row = low + tl.arange(0, TILE)
        live = row < high
        start, first, last = rows_of(offsets, col, row, num_rows)
        q = table_tile(query, row, live, head, HEADS, CHANNELS, C)
        g = table_tile(grad_out, row, live, head, HEADS, VALUE_CHANNELS, V)
        top = level(head_terms(row_max, row, live, head, 0.0, HEADS))
        inverse = reciprocal(head_terms(row_sum, row, live, head, 1.0, HEADS))
        delta = head_terms(delta_in, row, live, head, 0.0, HEADS)
        passed, grad, mask, _position = gradient_tile(
            q, k, g, v, start, first, last, j, perm, bias, top, inverse, delta, head, scale,
            seed, threshold, keep_scale, HEADS, ACC,
        )  # fmt: skip
        mask = tl.trans(mask)
        acc_key += product(tl.trans(grad * scale), q, mask, ACC)
        acc_value += product(tl.trans(passed), g, mask, ACC)
        low += TILE
    write_tile(grad_key, j, near, head, acc_key, HEADS, CHANNELS, C)
    write_tile(grad_value, j, near, head, acc_value, HEADS, VALUE_CHANNELS, V)
