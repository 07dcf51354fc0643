"""Building blocks of the kernels: addresses, loads and stores, the online softmax, dropout.

Tables are [rows, h, c] or [rows, h], rows side by side. A gather reads the rows `index` [K, R] of a
table at the offsets [H] or [H, C] of this program's heads, as a tile [K, R, H] or [K, R, H, C].
"""

import triton
import triton.language as tl


@triton.jit
def head_channel_offsets(head, head_mask, CHANNELS: tl.constexpr, C: tl.constexpr):
    """Offsets of (head, channel) in a row [h, CHANNELS], and which exist: [H, C]."""
    channel = tl.arange(0, C)
    offset = head[:, None] * CHANNELS + channel[None, :]
    return offset, head_mask[:, None] & (channel < CHANNELS)[None, :]


@triton.jit
def expand_last(x):
    """Add a trailing axis."""
    return tl.expand_dims(x, -1)


@triton.jit
def element_ptrs(table, index, offset, STRIDE: tl.constexpr):
    """Addresses of the offsets [H] or [H, C] in the rows `index` of a table, in 64 bits."""
    base = expand_last(index)
    if len(offset.shape) == 2:
        base = expand_last(base)
    # spread over the lanes in its own width, and widened there
    return table + (base.to(tl.int64) * STRIDE + offset)


@triton.jit
def element_mask(valid, mask):
    """Combine the masks of rows and of offsets to a mask of (row, offset)."""
    valid = expand_last(valid)
    if len(mask.shape) == 2:
        valid = expand_last(valid)
    return valid & mask


@triton.jit
def gather(table, index, valid, offset, mask, STRIDE: tl.constexpr, ACC: tl.constexpr, other=0.0):
    """Read rows of a table, in the accumulator's type; `other` where a row is not valid."""
    exists = element_mask(valid, mask)
    return tl.load(element_ptrs(table, index, offset, STRIDE), mask=exists, other=other).to(ACC)


@triton.jit
def edge_number(table, edge, valid, ACC: tl.constexpr):
    """One number of each edge, for all heads: [K, R, 1]."""
    return expand_last(tl.load(table + edge.to(tl.int64), mask=valid, other=0.0).to(ACC))


@triton.jit
def scatter(table, index, valid, offset, mask, x, STRIDE: tl.constexpr):
    """Write rows of a table, in its type."""
    tl.store(element_ptrs(table, index, offset, STRIDE), x, mask=element_mask(valid, mask))


@triton.jit
def acc_scalar(x, ACC: tl.constexpr):
    """A number from the host in the accumulator's type."""
    return tl.full([], x, ACC)


@triton.jit
def reciprocal(row_sum):
    """1 / row_sum, and 1 where it is zero: a row without any weight."""
    return 1.0 / tl.where(row_sum == 0, 1.0, row_sum)


@triton.jit
def safe_max(row_max):
    """Return the value to subtract before exp: the maximum of the scores, or 0 if it is -inf."""
    return tl.where(row_max == float("-inf"), 0.0, row_max)


@triton.jit
def exp(x):
    """exp(x), by the hardware's power of two in fp32: a result below 1.2e-38 is zero."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        return tl.math.exp2(x * 1.4426950408889634)


@triton.jit
def online_softmax_step(scores, m_i):
    """One step of the running softmax of every slot, over a tuple of scores [K, R, H].

    Returns the unnormalised weights exp(s - m'), the factor exp(m - m') by which older sums are
    rescaled, and the new maximum m'.
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
    """Merge the softmaxes of a row's slots, from their maxima m_i and sums l_i [K, R, H].

    Returns the factors [K, R, H] of the slots' sums, and the row's maximum and sum [R, H].
    """
    highest = tl.max(m_i, 0)
    factor = exp(m_i - safe_max(highest)[None])
    return factor, highest, tl.sum(l_i * factor, 0)


@triton.jit
def dropout_keep(seed, position, head, threshold, HEADS: tl.constexpr):
    """Return the dropout mask of CSR positions [K, R] x heads [H]; see gattn.kernels.philox."""
    edge = position.to(tl.int64) + tl.load(seed + 1)
    counter = expand_last(edge * HEADS) + head
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    zero = tl.zeros_like(low)
    draw = tl.philox(tl.load(seed), low, high, zero, zero)[0]
    return draw >= tl.full([], threshold, tl.uint32)


@triton.jit
def dropout_factor(seed, position, head, threshold, keep_scale, HEADS: tl.constexpr):
    """Return the factor of dropout for a weight: keep_scale = 1 / (1 - p), or 0."""
    return tl.where(dropout_keep(seed, position, head, threshold, HEADS), keep_scale, 0.0)


@triton.jit
def weigh_edge(
    edge_weight, grad_edge_weight, edge, valid, head, head_mask, alpha, alpha_drop, grad_alpha,
    HEADS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Multiply alpha_drop and grad_alpha of edges by w_ij, and write dw_ij where there is room.

    The gradient is that of one head, alpha_ij <dO_i, v_j>, before the weight multiplies it.
    """
    if grad_edge_weight is not None:
        scatter(grad_edge_weight, edge, valid, head, head_mask, alpha * grad_alpha, HEADS)
    weight = edge_number(edge_weight, edge, valid, ACC)
    return alpha_drop * weight, grad_alpha * weight


@triton.jit
def leaky_relu(x, negative_slope):
    """LeakyReLU."""
    return tl.where(x > 0, x, x * negative_slope)


@triton.jit
def tanh(x):
    """Hyperbolic tangent: a ratio of polynomials near zero, exponentials elsewhere."""
    square = x * x
    numerator = x * (135135.0 + square * (17325.0 + square * (378.0 + square)))
    denominator = 135135.0 + square * (62370.0 + square * (3150.0 + square * 28.0))
    decay = exp(-2.0 * tl.abs(x))
    far = (1.0 - decay) / (1.0 + decay)
    return tl.where(tl.abs(x) < 0.5, numerator / denominator, tl.where(x < 0, -far, far))
