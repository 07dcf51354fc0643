"""Device functions that several kernels use: addresses, gather and scatter, online softmax,
dropout.

Tables are contiguous tensors [rows, h, c] or [rows, h]. A gather reads the rows `index`, [K, R], of
a table at the offsets, [H] or [H, C], of this program's heads. The result is a tile [K, R, H] or
[K, R, H, C]: slots, rows, heads and channels.
"""

import triton
import triton.language as tl


@triton.jit
def head_channel_offsets(head, head_mask, CHANNELS: tl.constexpr, C: tl.constexpr):
    """Return the offsets of the heads and channels in a row [h, CHANNELS], as [H, C], and their
    mask.
    """
    channel = tl.arange(0, C)
    offset = head[:, None] * CHANNELS + channel[None, :]
    return offset, head_mask[:, None] & (channel < CHANNELS)[None, :]


@triton.jit
def expand_last(x):
    """Add a trailing axis of length one."""
    return tl.expand_dims(x, -1)


@triton.jit
def element_ptrs(table, index, offset, STRIDE: tl.constexpr):
    """Return pointers to the elements at the offsets, [H] or [H, C], in rows `index` of a table."""
    base = expand_last(index)
    if len(offset.shape) == 2:
        base = expand_last(base)
    # The index is converted to 64 bits only after it was broadcast, because it is cheaper to
    # exchange 32-bit numbers between lanes.
    return table + (base.to(tl.int64) * STRIDE + offset)


@triton.jit
def element_mask(valid, mask):
    """Combine a mask of rows and a mask of offsets into one mask for all their pairs."""
    valid = expand_last(valid)
    if len(mask.shape) == 2:
        valid = expand_last(valid)
    return valid & mask


@triton.jit
def gather(table, index, valid, offset, mask, STRIDE: tl.constexpr, ACC: tl.constexpr, other=0.0):
    """Load rows of a table, and convert them to the accumulation dtype.

    The shapes of `index`, `offset` and the result are those of `element_ptrs`; `valid` has the
    shape of `index`, and `mask` that of `offset`. Elements of rows that are not valid, or outside
    of `mask`, get the value `other`.
    """
    exists = element_mask(valid, mask)
    return tl.load(element_ptrs(table, index, offset, STRIDE), mask=exists, other=other).to(ACC)


@triton.jit
def gather_edge_scalar(table, edge, valid, ACC: tl.constexpr):
    """Load one number for each edge, [K, R, 1]. It is the same for all heads."""
    return expand_last(tl.load(table + edge.to(tl.int64), mask=valid, other=0.0).to(ACC))


@triton.jit
def scatter(table, index, valid, offset, mask, x, STRIDE: tl.constexpr):
    """Convert a tile to the dtype of a table, and store it in rows of the table."""
    tl.store(element_ptrs(table, index, offset, STRIDE), x, mask=element_mask(valid, mask))


@triton.jit
def acc_scalar(x, ACC: tl.constexpr):
    """Convert a scalar argument to the accumulation dtype."""
    return tl.full([], x, ACC)


@triton.jit
def reciprocal(row_sum):
    """Return 1 / row_sum; return 1 if the sum is zero because a row has no edges."""
    return 1.0 / tl.where(row_sum == 0, 1.0, row_sum)


@triton.jit
def safe_max(row_max):
    """Return the number that is subtracted before exp: the maximum of the scores, or 0 if the
    maximum is -inf.
    """
    return tl.where(row_max == float("-inf"), 0.0, row_max)


@triton.jit
def exp(x):
    """Return exp(x). In fp32, results below 1.2e-38 become 0."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        return tl.math.exp2(x * 1.4426950408889634)


@triton.jit
def online_softmax_step(scores, m_i):
    """Add a tuple of score tiles [K, R, H] to the online softmax of every slot.

    `m_i` is the previous maximum m. The function returns a tuple of the unnormalised weights
    exp(s - m') of each tile, the factor exp(m - m') for the previous sums, and the new maximum m'.
    """
    highest = m_i
    for u in tl.static_range(len(scores)):
        highest = tl.maximum(highest, scores[u])
    weights = ()
    for u in tl.static_range(len(scores)):
        weights += (exp(scores[u] - safe_max(highest)),)
    return weights, exp(m_i - safe_max(highest)), highest


@triton.jit
def softmax_merge(m_i, l_i):
    """Merge the online softmaxes of the slots of each row, given their maxima m_i and their sums
    l_i [K, R, H].

    Returns the factors [K, R, H] for the sums of the slots, and the maximum and the sum of each
    row, [R, H].
    """
    highest = tl.max(m_i, 0)
    factor = exp(m_i - safe_max(highest)[None])
    return factor, highest, tl.sum(l_i * factor, 0)


@triton.jit
def dropout_keep(seed, position, head, threshold, HEADS: tl.constexpr):
    """Return the dropout mask [K, R, H] for edges at CSR positions [K, R] and for heads [H]: True
    for weights that remain.

    It has the same bits as `gattn.kernels.philox.keep`.
    """
    edge = position.to(tl.int64) + tl.load(seed + 1)
    counter = expand_last(edge * HEADS) + head
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zero = tl.zeros_like(low)
    draw = tl.philox(tl.load(seed), low, high, zero, zero)[0]
    return draw >= tl.full([], threshold, tl.uint32)


@triton.jit
def dropout_factor(seed, position, head, threshold, keep_scale, HEADS: tl.constexpr):
    """Return the dropout factor of each attention weight: 0 if it is dropped, otherwise
    keep_scale = 1 / (1 - p).
    """
    return tl.where(dropout_keep(seed, position, head, threshold, HEADS), keep_scale, 0.0)


@triton.jit
def weigh_edge(
    edge_weight, grad_edge_weight, edge, valid, head, head_mask, alpha, alpha_drop, grad_alpha,
    HEADS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Return `alpha_drop` and `grad_alpha` multiplied by the edge weight; write the gradient of the
    edge weight.

    dw_ij is written for each head as alpha_ij <dO_i, v_j>, unless `grad_edge_weight` is None.
    """
    if grad_edge_weight is not None:
        scatter(grad_edge_weight, edge, valid, head, head_mask, alpha * grad_alpha, HEADS)
    weight = gather_edge_scalar(edge_weight, edge, valid, ACC)
    return alpha_drop * weight, grad_alpha * weight


@triton.jit
def leaky_relu(x, negative_slope):
    """Return LeakyReLU(x), which is x if x is positive, otherwise negative_slope x."""
    return tl.where(x > 0, x, x * negative_slope)


@triton.jit
def tanh(x):
    """Return tanh(x). For |x| < 0.5 it is computed by a rational function, otherwise by exp."""
    square = x * x
    numerator = x * (135135.0 + square * (17325.0 + square * (378.0 + square)))
    denominator = 135135.0 + square * (62370.0 + square * (3150.0 + square * 28.0))
    decay = exp(-2.0 * tl.abs(x))
    saturated = (1.0 - decay) / (1.0 + decay)
    return tl.where(
        tl.abs(x) < 0.5, numerator / denominator, tl.where(x < 0, -saturated, saturated)
    )
