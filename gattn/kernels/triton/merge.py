"""Kernel that adds the partial results of rows with several splits (see `work`).

All operators use this kernel. For a row with splits p, whose online softmaxes have the maxima m_p
and the sums l_p, it computes

    m = max_p m_p      f_p = exp(m_p - m)      l = sum_p f_p l_p      a = sum_p f_p a_p / l

Without a softmax, f_p = 1 and l = 1. Bytes read and written per head for each split and row, with
sums of w bytes: w (A_CHANNELS + B_CHANNELS + 3).
"""

import triton
import triton.language as tl

from gattn.kernels.triton.primitives import (
    acc_scalar,
    exp,
    expand_last,
    gather,
    head_channel_offsets,
    reciprocal,
    safe_max,
    scatter,
)
from gattn.kernels.triton.work import edge_positions, find_row, head_block


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def merge_splits_kernel(
    offsets, split_max, split_sum, split_a, split_b, split_c, row_max, row_sum, a, b, c,
    num_rows, num_splits, keep_scale: tl.float64,
    HEADS: tl.constexpr, A_CHANNELS: tl.constexpr, B_CHANNELS: tl.constexpr,
    ACC: tl.constexpr, SPAN: tl.constexpr, SPLITS: tl.constexpr, H: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, SPLIT: tl.constexpr, CENTERED: tl.constexpr,
):  # fmt: skip
    """Add the partial results of each row that has several splits, in the order of the splits.

    The sums are a [n, h, A_CHANNELS], b [n, h, B_CHANNELS] and c [n, h], each optional. If c is
    None but split_c is not, c is used for b and not written. With split_max, the partial sums are
    weighted by an unnormalised softmax, a and b are also multiplied by keep_scale, and the maximum
    and the sum of the softmax are written to row_max and row_sum [n, h]. With CENTERED, b becomes
    b - c a. Program (x, y) processes the rows whose first split has an index from x SPAN to
    (x + 1) SPAN - 1, and block y of heads.
    """
    lane = tl.arange(0, SPAN)
    split = tl.program_id(0).to(offsets.dtype.element_ty) * SPAN + lane
    live = split < num_splits
    row = find_row(offsets, tl.where(live, split, 0) * SPLIT + (SPLIT - 1), num_rows)
    start, stop = tl.load(offsets + row), tl.load(offsets + row + 1)
    row_splits = (stop - start) // SPLIT
    is_first = live & (split == start // SPLIT) & (row_splits > 1)

    leader = tl.min(tl.where(is_first, lane, SPAN))
    while leader < SPAN:
        is_leader = lane == leader
        merge_row(
            select(row, is_leader), select(split, is_leader), select(split + row_splits, is_leader),
            split_max, split_sum, split_a, split_b, split_c, row_max, row_sum, a, b, c, keep_scale,
            HEADS, A_CHANNELS, B_CHANNELS, ACC, SPLITS, H, A, B, CENTERED,
        )  # fmt: skip
        leader = tl.min(tl.where(is_first & (lane > leader), lane, SPAN))


@triton.jit
def select(x, mask):
    """Return the element of an integer vector at the position where the mask is True: [1]."""
    return tl.sum(tl.where(mask, x, 0)).to(x.dtype) + tl.zeros([1], x.dtype)


@triton.jit
def merge_row(
    row, first, last,
    split_max, split_sum, split_a, split_b, split_c, row_max, row_sum, a, b, c, keep_scale,
    HEADS: tl.constexpr, A_CHANNELS: tl.constexpr, B_CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SPLITS: tl.constexpr, H: tl.constexpr, A: tl.constexpr, B: tl.constexpr, CENTERED: tl.constexpr,
):  # fmt: skip
    """Add the partial results of one row, SPLITS splits at a time, and write the sums that
    `merge_splits_kernel` describes.

    The splits of the row have the indices first to last - 1; row, first and last have shape [1].
    """
    steps = tl.max(last - first, 0)
    head, head_mask = head_block(HEADS, H)
    has_splits = last > first

    if split_max is not None:
        m_i = tl.full([SPLITS, 1, H], float("-inf"), ACC)
        step = 0
        while step < steps:
            index, valid = edge_positions(first, last, step, SPLITS)
            m_split = gather(split_max, index, valid, head, head_mask, HEADS, ACC, float("-inf"))
            m_i = tl.maximum(m_i, m_split)
            step += SPLITS
        m_row = tl.max(m_i, 0)
        l_i = tl.zeros([SPLITS, 1, H], ACC)
    if a is not None:
        a_offset, a_mask = head_channel_offsets(head, head_mask, A_CHANNELS, A)
        a_acc = tl.zeros([SPLITS, 1, H, A], ACC)
    if b is not None:
        b_offset, b_mask = head_channel_offsets(head, head_mask, B_CHANNELS, B)
        b_acc = tl.zeros([SPLITS, 1, H, B], ACC)
    if split_c is not None:
        c_acc = tl.zeros([SPLITS, 1, H], ACC)
    step = 0
    while step < steps:
        index, valid = edge_positions(first, last, step, SPLITS)
        factor = tl.full([SPLITS, 1, H], 1.0, ACC)
        if split_max is not None:
            m_split = gather(split_max, index, valid, head, head_mask, HEADS, ACC, float("-inf"))
            factor = exp(m_split - safe_max(m_row)[None])
            l_i += factor * gather(split_sum, index, valid, head, head_mask, HEADS, ACC)
        if a is not None:
            x = gather(split_a, index, valid, a_offset, a_mask, HEADS * A_CHANNELS, ACC)
            a_acc += expand_last(factor) * x
        if b is not None:
            x = gather(split_b, index, valid, b_offset, b_mask, HEADS * B_CHANNELS, ACC)
            b_acc += expand_last(factor) * x
        if split_c is not None:
            c_acc += factor * gather(split_c, index, valid, head, head_mask, HEADS, ACC)
        step += SPLITS

    inv_sum = tl.full([1, H], 1.0, ACC)
    scale = tl.full([1, H], 1.0, ACC)
    if split_max is not None:
        l_row = tl.sum(l_i, 0)
        inv_sum = reciprocal(l_row)
        scale = inv_sum * acc_scalar(keep_scale, ACC)
        scatter(row_max, row, has_splits, head, head_mask, m_row, HEADS)
        scatter(row_sum, row, has_splits, head, head_mask, l_row, HEADS)
    if split_c is not None:
        c_row = tl.sum(c_acc, 0) * inv_sum
    if c is not None:
        scatter(c, row, has_splits, head, head_mask, c_row, HEADS)
    if a is not None:
        a_row = tl.sum(a_acc, 0) * expand_last(scale)
        scatter(a, row, has_splits, a_offset, a_mask, a_row, HEADS * A_CHANNELS)
    if b is not None:
        b_row = tl.sum(b_acc, 0) * expand_last(scale)
        if CENTERED:
            b_row -= expand_last(c_row) * a_row
        scatter(b, row, has_splits, b_offset, b_mask, b_row, HEADS * B_CHANNELS)
