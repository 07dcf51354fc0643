"""Dot-product attention on graphs in which the sources of each destination are consecutive nodes.

Complete, causal and band graphs, and batches of these, have this property: self-attention over
sets, and masked or local attention over sequences. A program processes BLOCK_M destinations and one
head. Their *rectangle* contains all sources from the first to the last of these destinations; the
program visits it in tiles of BLOCK_N sources with matrix products. Whether a pair is an edge, and
its CSR position, follow from the row's first source and offset, so that only one column index is
read for each row.

Bytes read and written for M = BLOCK_M rows with u sources in their rectangle, with numbers of s
bytes and F = h c:

    forward               2 u F s + M (2 F s + 8 h + 12)
    backward, by query    2 u F s + M (4 F s + 12 h + 12)    and h s + 4 an edge for a bias
    backward, by key      2 u F s + M (4 F s) + u (12 h + 12), u the destinations around M sources

Tensor cores multiply 16-bit numbers and add in fp32; fp32 inputs are multiplied in fp32. A tile
contains pairs that are not edges, whose weight is zero, but zero times NaN is NaN. `masked_matmul`
ensures that values that are not finite reach only the destinations that attend to them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton.launch import (
    ACCUMULATOR,
    contiguous,
    dropout_args,
    empty_sum,
    launch,
    round_out,
)
from gattn.kernels.triton.primitives import (
    acc_scalar,
    dropout_keep,
    exp,
    expand_last,
    reciprocal,
    safe_max,
)
from gattn.kernels.triton.tiles import band_density_of, has_full_vectors, pad

MIN_DENSITY = {torch.float32: 1 / 4, torch.bfloat16: 1 / 8, torch.float16: 1 / 8}
"""Minimum density for each input dtype: the fraction of the pairs in a rectangle that must be
edges.
"""
BLOCK_M = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}
"""Number of destinations per program. For a larger number, registers would be spilled."""
BLOCK_N, ODD_BLOCK_N = 32, 16
"""Number of sources in a tile, for usual and for odd numbers of channels.

ODD_BLOCK_N is used for more than 16 channels that are not a whole number of 16-byte loads, in
forward with a bias or dropout and in backward by query: their addresses take registers."""
WARPS, FEW_WARPS, FEW_WARPS_CHANNELS = 8, 4, 32
"""Number of warps of a program: WARPS for many channels, and FEW_WARPS for at most
FEW_WARPS_CHANNELS channels.

FEW_WARPS is used for a block of destinations with 16-bit numbers and at most FEW_WARPS_CHANNELS
channels: a warp computes 16 rows on the tensor cores, so 8 warps would compute scores twice."""
MAX_CHANNELS = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}
"""Maximum number of channels for which no registers are spilled.

With 16-bit numbers and without bias and dropout, the maximum is twice this number."""


def serves(
    layout: list[Tensor],
    query: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    seed: Tensor | None,
) -> bool:
    """Return True if these kernels can compute the inputs and are faster.

    The sources of every destination must be consecutive, the edges dense enough for matrix
    products, and the dtype and the number of channels supported.
    """
    dtype = query.dtype
    if dtype not in MAX_CHANNELS:
        return False
    is_plain = attn_bias is None and seed is None and dtype.itemsize == 2
    if max(query.shape[2], value.shape[2]) > MAX_CHANNELS[dtype] * (1 + is_plain):
        return False
    density = band_density_of(layout)
    return density is not None and density >= MIN_DENSITY[dtype]


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Compute the attention, and the statistics that the backward pass reads.

    The results are out [n, h, c_v], row_max and row_sum [n, h], and out_acc [n, h, c_v]. The last
    one is empty if backward does not need it, or if it equals out.
    """
    n, heads, _ = query.shape
    out_acc = empty_sum(value, needs_backward, n, heads, value.shape[2])
    row_max = query.new_empty(n, heads, dtype=acc_dtype(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    constants = _constants(query, value)
    if attn_bias is not None or seed is not None:
        constants["BLOCK_N"] = _block_n(query, value)
    launch(
        dot_product_banded_forward_kernel,
        (-(-n // BLOCK_M[query.dtype]), heads), _row_warps(query, value),
        *layout[:3], *contiguous(query, key, value, attn_bias), out_acc, row_max, row_sum, n,
        scale=scale, **dropout_args(seed, dropout), **constants,
    )  # fmt: skip
    out, out_acc = round_out(out_acc, value.dtype)
    return out, row_max, row_sum, out_acc


def backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    grad_attn_bias: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value.

    The gradient of the bias is written to ``grad_attn_bias`` unless this is None.
    """
    rowptr, col, perm, colptr, row, *_ = layout
    n, m, heads = query.shape[0], key.shape[0], query.shape[1]
    block_m = BLOCK_M[query.dtype]
    grad_out, query, key, value, attn_bias = contiguous(grad_out, query, key, value, attn_bias)
    grad_query, grad_key, grad_value = (t.new_empty(t.shape) for t in (query, key, value))
    delta = row_max.new_empty(n, heads)
    inputs = grad_out, query, key, value, attn_bias, row_max, row_sum, delta
    options = dropout_args(seed, dropout) | _constants(query, value) | {"scale": scale}
    launch(
        dot_product_banded_backward_query_kernel,
        (-(-n // block_m), heads), _row_warps(query, value),
        rowptr, col, perm, *inputs, out_acc, grad_query, grad_attn_bias, n,
        **options | {"BLOCK_N": _block_n(query, value)},
    )  # fmt: skip
    launch(
        dot_product_banded_backward_key_kernel, (-(-m // block_m), heads), WARPS,
        rowptr, col, perm, colptr, row, *inputs, grad_key, grad_value, n, m, **options,
    )  # fmt: skip
    return grad_query, grad_key, grad_value


def _row_warps(query: Tensor, value: Tensor) -> int:
    """Return the number of warps per program for a block of destinations."""
    is_narrow = max(query.shape[2], value.shape[2]) <= FEW_WARPS_CHANNELS
    return FEW_WARPS if is_narrow and query.dtype.itemsize == 2 else WARPS


def _block_n(query: Tensor, value: Tensor) -> int:
    """Return the number of sources per tile for the kernels that use many registers."""
    widths = query.shape[2], value.shape[2]
    is_even = all(has_full_vectors(width, query.element_size()) for width in widths)
    return BLOCK_N if is_even or max(widths) <= 16 else ODD_BLOCK_N


def _constants(query: Tensor, value: Tensor) -> dict[str, object]:
    """Return the compile-time constants of the forward kernel and of both backward kernels."""
    heads, channels = query.shape[1:]
    return {
        "HEADS": heads, "CHANNELS": channels, "VALUE_CHANNELS": value.shape[2],
        "ACC": ACCUMULATOR[acc_dtype(query.dtype)],
        "C": max(16, pad(channels)), "V": max(16, pad(value.shape[2])),
        "BLOCK_M": BLOCK_M[query.dtype], "BLOCK_N": BLOCK_N,
    }  # fmt: skip


@triton.jit
def load_runs(offsets, index, row, num_rows):
    """Return for each of M rows the position of its first edge, its first source and its end
    source: [M] each.

    The sources of a row are consecutive; the end source is the one after the last.
    """
    is_row = row < num_rows
    start = tl.load(offsets + row, mask=is_row, other=0)
    stop = tl.load(offsets + row + 1, mask=is_row, other=0)
    first = tl.load(index + start, mask=stop > start, other=0)
    return start, first, first + (stop - start)


@triton.jit
def node_range(first, last):
    """Return the smallest first source and the largest end source among the rows that have
    edges.
    """
    low = tl.min(tl.where(last > first, first, 2147483647))
    return low, tl.max(tl.where(last > first, last, 0))


@triton.jit
def load_tile(
    table, row, is_row, head, HEADS: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr
):
    """Load rows of a table for one head, [M, C], in the dtype of the table."""
    channel = tl.arange(0, C)
    offset = (row.to(tl.int64) * HEADS + head) * CHANNELS
    mask = is_row[:, None] & (channel < CHANNELS)[None, :]
    return tl.load(table + offset[:, None] + channel[None, :], mask=mask, other=0.0)


@triton.jit
def store_tile(
    table, row, is_row, head, x, HEADS: tl.constexpr, CHANNELS: tl.constexpr, C: tl.constexpr
):
    """Store rows x [M, C] into a table for one head."""
    channel = tl.arange(0, C)
    offset = (row.to(tl.int64) * HEADS + head) * CHANNELS
    mask = is_row[:, None] & (channel < CHANNELS)[None, :]
    tl.store(table + offset[:, None] + channel[None, :], x, mask=mask)


@triton.jit
def masked_matmul(weight, table, mask, ACC: tl.constexpr):
    """Multiply weight [I, J] by table [J, C]. NaN is propagated only for pairs in the mask [I, J].

    If row j of the table has a value that is NaN or infinite, row i of the result is NaN where
    mask[i, j] is True.
    """
    is_finite = (table - table) == 0
    finite = tl.where(is_finite, table, tl.zeros_like(table))
    out = tl.dot(weight.to(table.dtype), finite, input_precision="ieee", out_dtype=ACC)
    invalid = (~is_finite).to(tl.int32)
    if tl.max(tl.max(invalid, 1), 0) > 0:
        num_invalid = tl.dot(
            mask.to(table.dtype), invalid.to(table.dtype), input_precision="ieee", out_dtype=ACC
        )
        out = tl.where(num_invalid > 0, float("nan"), out)
    return out


@triton.jit
def score_tile(
    q,
    k,
    start,
    first,
    last,
    j,
    perm,
    attn_bias,
    head,
    scale,
    HEADS: tl.constexpr,
    ACC: tl.constexpr,
):
    """Compute the scores of a tile of pairs, [I, J]. Pairs that are not edges have the score -inf.

    Also return the mask of the pairs that are edges, and their CSR positions, both [I, J].
    """
    mask = (j[None, :] >= first[:, None]) & (j[None, :] < last[:, None])
    position = start[:, None] + (j[None, :] - first[:, None])
    score = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=ACC) * scale
    if attn_bias is not None:
        edge = tl.load(perm + position, mask=mask, other=0).to(tl.int64)
        score += tl.load(attn_bias + edge * HEADS + head, mask=mask, other=0.0).to(ACC)
    return tl.where(mask, score, float("-inf")), mask, position


@triton.jit
def dropout_keep_tile(seed, position, head, threshold, HEADS: tl.constexpr):
    """Return the dropout mask of the attention weights of one head, [I, J], at CSR positions [I,
    J].
    """
    keep = dropout_keep(seed, position, head + tl.arange(0, 1), threshold, HEADS)
    return tl.reshape(keep, position.shape)


@triton.jit
def load_per_row(table, row, is_row, head, other, HEADS: tl.constexpr):
    """Load the numbers of one head from the given rows of a table [n, h]: [M]."""
    return tl.load(table + row.to(tl.int64) * HEADS + head, mask=is_row, other=other)


@triton.jit(do_not_specialize=["num_rows"])
def dot_product_banded_forward_kernel(
    offsets, col, perm, query, key, value, attn_bias, out, row_max, row_sum, num_rows,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the attention output for a block of destinations and one head."""
    row, head = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1)
    is_row = row < num_rows
    start, first, last = load_runs(offsets, col, row, num_rows)
    low, high = node_range(first, last)
    scale = acc_scalar(scale, ACC)
    q = load_tile(query, row, is_row, head, HEADS, CHANNELS, C)
    m_i = tl.full([BLOCK_M], float("-inf"), ACC)
    l_i = tl.zeros([BLOCK_M], ACC)
    acc = tl.zeros([BLOCK_M, V], ACC)
    while low < high:
        j = low + tl.arange(0, BLOCK_N)
        is_source = j < high
        k = load_tile(key, j, is_source, head, HEADS, CHANNELS, C)
        v = load_tile(value, j, is_source, head, HEADS, VALUE_CHANNELS, V)
        score, mask, position = score_tile(
            q, k, start, first, last, j, perm, attn_bias, head, scale, HEADS, ACC
        )
        highest = tl.maximum(m_i, tl.max(score, 1))
        rescale = exp(m_i - safe_max(highest))
        weight = exp(score - expand_last(safe_max(highest)))
        l_i = l_i * rescale + tl.sum(weight, 1)
        if seed is not None:
            keep = dropout_keep_tile(seed, position, head, threshold, HEADS)
            weight = tl.where(keep, weight, 0.0)
        acc = acc * expand_last(rescale) + masked_matmul(weight, v, mask, ACC)
        m_i = highest
        low += BLOCK_N
    inv_sum = reciprocal(l_i) * acc_scalar(keep_scale, ACC)
    store_tile(out, row, is_row, head, acc * expand_last(inv_sum), HEADS, VALUE_CHANNELS, V)
    offset = row.to(tl.int64) * HEADS + head
    tl.store(row_max + offset, m_i, mask=is_row)
    tl.store(row_sum + offset, l_i, mask=is_row)


@triton.jit
def gradient_tile(
    q, k, g, v, start, first, last, j, perm, attn_bias, m_row, inv_sum, delta, head, scale,
    seed, threshold, keep_scale, HEADS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Compute the attention weights and the score gradients for a tile of pairs, [I, J]."""
    score, is_edge, position = score_tile(
        q, k, start, first, last, j, perm, attn_bias, head, scale, HEADS, ACC
    )
    alpha = tl.where(is_edge, exp(score - expand_last(m_row)) * expand_last(inv_sum), 0.0)
    grad_alpha = tl.dot(g, tl.trans(v), input_precision="ieee", out_dtype=ACC)
    alpha_drop = alpha
    if seed is not None:
        keep = dropout_keep_tile(seed, position, head, threshold, HEADS)
        factor = tl.where(keep, keep_scale, 0.0)
        alpha_drop *= factor
        grad_alpha *= factor
    grad_score = tl.where(is_edge, alpha * (grad_alpha - expand_last(delta)), 0.0)
    return alpha_drop, grad_score, is_edge, position


@triton.jit(do_not_specialize=["num_rows"])
def dot_product_banded_backward_query_kernel(
    offsets, col, perm, grad_out, query, key, value, attn_bias, row_max, row_sum, row_delta,
    out_acc, grad_query, grad_attn_bias, num_rows,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of queries and biases for a block of destinations and one head.

    The kernel also writes <dO_i, O_i>, which the kernel for keys reads.
    """
    row, head = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1)
    is_row = row < num_rows
    start, first, last = load_runs(offsets, col, row, num_rows)
    low, high = node_range(first, last)
    scale, keep_scale = acc_scalar(scale, ACC), acc_scalar(keep_scale, ACC)
    q = load_tile(query, row, is_row, head, HEADS, CHANNELS, C)
    g = load_tile(grad_out, row, is_row, head, HEADS, VALUE_CHANNELS, V)
    o = load_tile(out_acc, row, is_row, head, HEADS, VALUE_CHANNELS, V)
    delta = tl.sum(g.to(ACC) * o.to(ACC), 1)
    tl.store(row_delta + row.to(tl.int64) * HEADS + head, delta, mask=is_row)
    m_row = safe_max(load_per_row(row_max, row, is_row, head, 0.0, HEADS))
    inv_sum = reciprocal(load_per_row(row_sum, row, is_row, head, 1.0, HEADS))
    acc = tl.zeros([BLOCK_M, C], ACC)
    while low < high:
        j = low + tl.arange(0, BLOCK_N)
        is_source = j < high
        k = load_tile(key, j, is_source, head, HEADS, CHANNELS, C)
        v = load_tile(value, j, is_source, head, HEADS, VALUE_CHANNELS, V)
        _alpha_drop, grad_score, is_edge, position = gradient_tile(
            q, k, g, v, start, first, last, j, perm, attn_bias, m_row, inv_sum, delta, head, scale,
            seed, threshold, keep_scale, HEADS, ACC,
        )  # fmt: skip
        if grad_attn_bias is not None:
            edge = tl.load(perm + position, mask=is_edge, other=0).to(tl.int64)
            tl.store(grad_attn_bias + edge * HEADS + head, grad_score, mask=is_edge)
        acc += masked_matmul(grad_score * scale, k, is_edge, ACC)
        low += BLOCK_N
    store_tile(grad_query, row, is_row, head, acc, HEADS, CHANNELS, C)


@triton.jit(do_not_specialize=["num_rows", "num_columns"])
def dot_product_banded_backward_key_kernel(
    offsets, col, perm, colptr, row_index, grad_out, query, key, value, attn_bias, row_max, row_sum,
    row_delta, grad_key, grad_value, num_rows, num_columns,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    C: tl.constexpr, V: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of keys and values for a block of sources and one head."""
    j, head = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1)
    is_source = j < num_columns
    _start, first_row, last_row = load_runs(colptr, row_index, j, num_columns)
    low, high = node_range(first_row, last_row)
    scale, keep_scale = acc_scalar(scale, ACC), acc_scalar(keep_scale, ACC)
    k = load_tile(key, j, is_source, head, HEADS, CHANNELS, C)
    v = load_tile(value, j, is_source, head, HEADS, VALUE_CHANNELS, V)
    acc_key = tl.zeros([BLOCK_M, C], ACC)
    acc_value = tl.zeros([BLOCK_M, V], ACC)
    while low < high:
        row = low + tl.arange(0, BLOCK_N)
        is_row = row < high
        start, first, last = load_runs(offsets, col, row, num_rows)
        q = load_tile(query, row, is_row, head, HEADS, CHANNELS, C)
        g = load_tile(grad_out, row, is_row, head, HEADS, VALUE_CHANNELS, V)
        m_row = safe_max(load_per_row(row_max, row, is_row, head, 0.0, HEADS))
        inv_sum = reciprocal(load_per_row(row_sum, row, is_row, head, 1.0, HEADS))
        delta = load_per_row(row_delta, row, is_row, head, 0.0, HEADS)
        alpha_drop, grad_score, is_edge, _position = gradient_tile(
            q, k, g, v, start, first, last, j, perm, attn_bias, m_row, inv_sum, delta, head, scale,
            seed, threshold, keep_scale, HEADS, ACC,
        )  # fmt: skip
        is_edge = tl.trans(is_edge)
        acc_key += masked_matmul(tl.trans(grad_score * scale), q, is_edge, ACC)
        acc_value += masked_matmul(tl.trans(alpha_drop), g, is_edge, ACC)
        low += BLOCK_N
    store_tile(grad_key, j, is_source, head, acc_key, HEADS, CHANNELS, C)
    store_tile(grad_value, j, is_source, head, acc_value, HEADS, VALUE_CHANNELS, V)
