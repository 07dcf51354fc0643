"""Kernels on edges: softmax of scores, weighted sums and dot products.

They are used for custom scores, SuperGATConv, RGATConv, FAConv and the readouts that score nodes.
The weighted sum is also the pass by source in the backward of dot-product attention.

Bytes read and written, for values of s bytes, sums of w = 4 bytes (8 in fp64), int32 indices and
F = h c:

    edge_softmax           per edge  3 h s + 8       score twice, the second time from cache; perm
    edge_softmax_backward  per edge  5 h s + 8       alpha and gradient twice (cache); perm
                           per row   4 h w more for rows with several splits
    aggregate              per edge  F s + h s + 8   value, weight; col, perm (4 more transposed)
                           per row   F s + 4         the sum
    edge_dot               per edge  F s + h s + 8   key, the product; col, perm
                           per row   F s + 4         query
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton.launch import LaunchPlan, Sums, contiguous
from gattn.kernels.triton.primitives import (
    exp,
    expand_last,
    gather,
    head_channel_offsets,
    online_softmax_step,
    reciprocal,
    safe_max,
    scatter,
    softmax_merge,
)
from gattn.kernels.triton.tiles import pad
from gattn.kernels.triton.work import edge_positions, head_block, longest_run, program_rows


def edge_softmax(score: Tensor, layout: list[Tensor]) -> Tensor:
    """Compute the softmax of scores over the edges into each destination. Scores and results are
    [e, h] in the caller's order of edges.
    """
    perm = layout[2]
    (score,), (e, heads) = contiguous(score), score.shape
    out = score.new_empty(e, heads)
    plan = LaunchPlan(layout, heads, 1, score.dtype, unroll=2)
    row_max = score.new_empty(plan.num_rows, heads, dtype=acc_dtype(score.dtype))
    row_sum = row_max.new_empty(row_max.shape)
    sums = Sums(row_max, row_sum)
    splits = plan.workspaces(sums)
    plan.run(edge_softmax_kernel, perm, score, out, splits.row_max, splits.row_sum)
    plan.merge(splits, sums)
    if plan.has_splits:
        plan.run(edge_softmax_splits_kernel, perm, score, row_max, row_sum, out, only_splits=True)
    return out


def edge_softmax_backward(grad: Tensor, alpha: Tensor, layout: list[Tensor]) -> Tensor:
    """Differentiate the softmax over the edges into each destination with respect to the scores:
    [e, h], like the arguments in the caller's order of edges.

    It is alpha (grad - mean), where the mean of grad is weighted by alpha. The mean is divided by
    the sum of alpha: weights that were rounded to 16 bits do not sum exactly to one, and without
    the division the gradients of a row would not sum to zero.
    """
    perm = layout[2]
    (grad, alpha), (e, heads) = contiguous(grad, alpha), alpha.shape
    out = alpha.new_empty(e, heads)
    plan = LaunchPlan(layout, heads, 1, alpha.dtype, unroll=2)
    grad_sum = alpha.new_empty(plan.num_rows, heads, dtype=acc_dtype(alpha.dtype))
    alpha_sum = grad_sum.new_empty(plan.num_rows, heads, 1)
    sums = Sums(a=alpha_sum, c=grad_sum)
    splits = plan.workspaces(sums)
    plan.run(edge_softmax_backward_kernel, perm, alpha, grad, out, splits.a, splits.c)
    plan.merge(splits, sums)
    if plan.has_splits:
        plan.run(
            edge_softmax_backward_splits_kernel, perm, alpha, grad, alpha_sum, grad_sum, out,
            only_splits=True,
        )  # fmt: skip
    return out


def aggregate(weight: Tensor, value: Tensor, layout: list[Tensor], transposed: bool) -> Tensor:
    """Compute sum_j w_ij v_j for every destination i, [n, h, c], or, if transposed, sum_i w_ij v_i
    for every source j, [m, h, c]. The weights are [e, h] in the caller's order of edges.
    """
    weight, value = contiguous(weight, value)
    return weighted_sum(layout, weight, value, transposed=transposed)[0]


def weighted_sum(
    layout: list[Tensor],
    weight: Tensor,
    table: Tensor,
    other_weight: Tensor | None = None,
    other_table: Tensor | None = None,
    *,
    transposed: bool = False,
    csr_order: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute weighted sums of the rows of one or two tables over the edges of each row: [., h, c]
    for a table [., h_v, c]. The second table must have all h heads.

    The weights [e, h] are in the caller's edge order. With ``csr_order``, which is only supported
    for transposed sums, they are in CSR order. The second sum is None without a second table. The
    weights for two tables are adjacent in memory: they are the two slices of a tensor [e, h, 2].
    """
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    offsets, index, order, reorder = rowptr, col, perm, None
    if transposed:
        offsets, index, order = colptr, row, csr2csc
        reorder = None if csr_order else perm
    num_rows, heads = offsets.numel() - 1, weight.shape[1]
    channels, other_channels = table.shape[2], 0 if other_table is None else other_table.shape[2]
    out = table.new_empty(num_rows, heads, channels)
    other = None if other_table is None else other_table.new_empty(num_rows, heads, other_channels)
    width = max(channels, other_channels)
    plan = LaunchPlan(layout, heads, width, table.dtype, unroll=4, transposed=transposed)
    sums = Sums(a=out, b=other)
    splits = plan.workspaces(sums)
    plan.run(
        weighted_sum_kernel,
        index, order, reorder, weight, table, other_weight, other_table,
        out, other, splits.a, splits.b,
        WEIGHTS=1 if other_weight is None else 2, TABLE_HEADS=table.shape[1], CHANNELS=channels,
        OTHER_CHANNELS=other_channels,
        C=pad(channels), D=pad(other_channels),
    )  # fmt: skip
    plan.merge(splits, sums)
    return out, other


def edge_dot(query: Tensor, key: Tensor, layout: list[Tensor]) -> Tensor:
    """Compute the dot product q_i . k_j for every edge and head: [e, h] in the caller's order of
    edges.
    """
    _, col, perm, *_ = layout
    (_, heads, channels), key_heads = query.shape, key.shape[1]
    query, key = contiguous(query, key)
    out = query.new_empty(col.numel(), heads)
    plan = LaunchPlan(layout, heads, channels, query.dtype, unroll=4)
    plan.run(
        edge_dot_kernel,
        col, perm, query, key, out,
        KEY_HEADS=key_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def edge_softmax_kernel(
    offsets, perm, score, out, split_max, split_sum, num_rows, num_splits,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the softmax of short rows. The edges of a long row are divided into splits, which
    different programs process; for each split, compute the maximum and the sum. Writes out [e, h],
    split_max and split_sum.
    """
    _row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    m_i = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    l_i = tl.zeros([SLOTS, ROWS, H], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        scores = ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            edge = tl.load(perm + position, mask=valid, other=0)
            scores += (gather(score, edge, valid, head, head_mask, HEADS, ACC, float("-inf")),)
        weights, rescale, m_i = online_softmax_step(scores, m_i)
        l_i *= rescale
        for u in tl.static_range(UNROLL):
            l_i += weights[u]
        step += SLOTS * UNROLL
    _factor, m_row, l_row = softmax_merge(m_i, l_i)
    scatter(split_max, split, is_split, head, head_mask, m_row, HEADS)
    scatter(split_sum, split, is_split, head, head_mask, l_row, HEADS)
    write_softmax(
        perm, score, out, first, tl.where(is_whole, last, first), safe_max(m_row),
        reciprocal(l_row), head, head_mask, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def edge_softmax_splits_kernel(
    offsets, perm, score, row_max, row_sum, out, num_rows, num_splits,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the softmax of long rows, whose edges are divided into splits, given the maximum and
    the sum of each row. Writes out [e, h].
    """
    row, first, last, _split, _is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    m_row = gather(row_max, row, is_split, head, head_mask, HEADS, ACC)
    l_row = gather(row_sum, row, is_split, head, head_mask, HEADS, ACC)
    write_softmax(
        perm, score, out, first, tl.where(is_split, last, first), safe_max(m_row),
        reciprocal(l_row), head, head_mask, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit
def write_softmax(
    perm, score, out, first, last, m_row, inv_sum, head, head_mask,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Write the softmax weights of the edges from first to last - 1, given the maximum ``m_row`` of
    the scores and the reciprocal ``inv_sum`` of the sum in each row.
    """
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        position, valid = edge_positions(first, last, step, SLOTS)
        edge = tl.load(perm + position, mask=valid, other=0)
        x = gather(score, edge, valid, head, head_mask, HEADS, ACC)
        alpha = exp(x - m_row[None]) * inv_sum[None]
        scatter(out, edge, valid, head, head_mask, alpha, HEADS)
        step += SLOTS


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def edge_softmax_backward_kernel(
    offsets, perm, alpha, grad, out, split_alpha_sum, split_grad_sum, num_rows, num_splits,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of short rows. The edges of a long row are divided into splits; for each
    split, compute the sums of alpha and of alpha times its gradient. Writes out [e, h],
    split_alpha_sum and split_grad_sum.
    """
    _row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    acc_grad = tl.zeros([SLOTS, ROWS, H], ACC)
    acc_alpha = tl.zeros([SLOTS, ROWS, H], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            edge = tl.load(perm + position, mask=valid, other=0)
            x = gather(alpha, edge, valid, head, head_mask, HEADS, ACC)
            acc_alpha += x
            acc_grad += x * gather(grad, edge, valid, head, head_mask, HEADS, ACC)
        step += SLOTS * UNROLL
    alpha_sum, grad_sum = tl.sum(acc_alpha, 0), tl.sum(acc_grad, 0)
    scatter(split_alpha_sum, split, is_split, head, head_mask, alpha_sum, HEADS)
    scatter(split_grad_sum, split, is_split, head, head_mask, grad_sum, HEADS)
    write_softmax_backward(
        perm, alpha, grad, out, first, tl.where(is_whole, last, first),
        grad_sum * reciprocal(alpha_sum), head, head_mask, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def edge_softmax_backward_splits_kernel(
    offsets, perm, alpha, grad, row_alpha_sum, row_grad_sum, out, num_rows, num_splits,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of long rows, whose edges are divided into splits, given the sums of
    alpha and of alpha times its gradient for each row. Writes out [e, h].
    """
    row, first, last, _split, _is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    alpha_sum = gather(row_alpha_sum, row, is_split, head, head_mask, HEADS, ACC)
    grad_sum = gather(row_grad_sum, row, is_split, head, head_mask, HEADS, ACC)
    mean = grad_sum * reciprocal(alpha_sum)
    write_softmax_backward(
        perm, alpha, grad, out, first, tl.where(is_split, last, first), mean,
        head, head_mask, HEADS, ACC, SLOTS,
    )  # fmt: skip


@triton.jit
def write_softmax_backward(
    perm, alpha, grad, out, first, last, mean, head, head_mask,
    HEADS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Write the gradients of the scores of the edges from first to last - 1, given the mean of
    ``grad`` in each row, weighted by alpha.
    """
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        position, valid = edge_positions(first, last, step, SLOTS)
        edge = tl.load(perm + position, mask=valid, other=0)
        x = gather(alpha, edge, valid, head, head_mask, HEADS, ACC)
        g = gather(grad, edge, valid, head, head_mask, HEADS, ACC)
        scatter(out, edge, valid, head, head_mask, x * (g - mean[None]), HEADS)
        step += SLOTS


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def weighted_sum_kernel(
    offsets, index, order, reorder, weight, table, other_weight, other_table,
    out, other_out, split_out, split_other_out,
    num_rows, num_splits,
    WEIGHTS: tl.constexpr, HEADS: tl.constexpr, TABLE_HEADS: tl.constexpr, CHANNELS: tl.constexpr,
    OTHER_CHANNELS: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, D: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Sum the weighted rows of a table (and of an optional second table) over the edges of each
    row.

    The weight of the edge at a position has the index order[position], or reorder[order[position]]
    if there is a reorder. Writes out [., h, c] and other_out of the rows that a program processes
    as a whole, and the partial sums ``split_*`` of the others.
    """
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    table_offset = head_channel_offsets(head % TABLE_HEADS, head_mask, CHANNELS, C)[0]
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if other_table is not None:
        other_offset, other_mask = head_channel_offsets(head, head_mask, OTHER_CHANNELS, D)
        other_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(index + position, mask=valid, other=0)
            edge = tl.load(order + position, mask=valid, other=0)
            if reorder is not None:
                edge = tl.load(reorder + edge, mask=valid, other=0)
            x = gather(table, j, valid, table_offset, mask, TABLE_HEADS * CHANNELS, ACC)
            w = gather(weight, edge, valid, head * WEIGHTS, head_mask, HEADS * WEIGHTS, ACC)
            acc += expand_last(w) * x
            if other_table is not None:
                x = gather(
                    other_table, j, valid, other_offset, other_mask, HEADS * OTHER_CHANNELS, ACC
                )
                w = gather(
                    other_weight, edge, valid, head * WEIGHTS, head_mask, HEADS * WEIGHTS, ACC
                )
                other_acc += expand_last(w) * x
        step += SLOTS * UNROLL
    row_sum = tl.sum(acc, 0)
    scatter(out, row, is_whole, offset, mask, row_sum, HEADS * CHANNELS)
    scatter(split_out, split, is_split, offset, mask, row_sum, HEADS * CHANNELS)
    if other_table is not None:
        other_sum = tl.sum(other_acc, 0)
        width: tl.constexpr = HEADS * OTHER_CHANNELS
        scatter(other_out, row, is_whole, other_offset, other_mask, other_sum, width)
        scatter(split_other_out, split, is_split, other_offset, other_mask, other_sum, width)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def edge_dot_kernel(
    offsets, col, perm, query, key, out, num_rows, num_splits,
    HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute q_i . k_j for every edge. Rows are destinations, so each query is read only once.
    Writes out [e, h] in the caller's order of edges.
    """
    row, first, last, _split, _is_whole, _is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    key_offset = head_channel_offsets(head % KEY_HEADS, head_mask, CHANNELS, C)[0]
    q = gather(query, row, last > first, offset, mask, HEADS * CHANNELS, ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        keys = ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            keys += (gather(key, j, valid, key_offset, mask, KEY_HEADS * CHANNELS, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            edge = tl.load(perm + position, mask=valid, other=0)
            scatter(out, edge, valid, head, head_mask, tl.sum(q[None] * keys[u], 3), HEADS)
        step += SLOTS * UNROLL
