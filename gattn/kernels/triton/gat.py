"""GAT's attention: out_i = sum_j w_ij softmax_j(LeakyReLU(a_i + b_j + c_ij) + bias_ij) v_j.

These are the forward and backward kernels of GATConv, HANConv, GATEConv and readouts with learned
queries.

Bytes read and written, for values of s bytes, sums of w = 4 bytes (8 in fp64), int32 indices and
F = h c:

    forward   per edge         F s + h s + 4     v_j, b_j; col
              with c_ij        h s + 4           c_ij; perm; as much with bias_ij, s with w_ij
              per row          F s + h s + 2 h w + 8
              for backward     F w               O+ - p+ O
    backward  per row          2 F s + F w + h (2 s + 6 w)    dO, O, O+ - p+ O -> da and four terms
              per edge         F s + 4 h w + 4   dO_i and the terms of i; row
              with c_ij        2 h s + 8         c_ij -> dc_ij; csr2csc, perm; likewise bias, w
              per source       2 F s + 2 h s + 8 v_j -> dv_j, b_j -> db_j

The backward is one pass over the edges, in the order of sources. It needs no pass for da, because
the gradients of a softmax sum to zero over a row: da_i = (1 - negative_slope) <dO_i, O+_i - p+_i
O_i>, where O+ and p+ are the output and the sum of the softmax weights of the edges whose z = a_i +
b_j + c_ij is positive. docs/kernels.md derives this. The forward computes the difference before O_i
is rounded to 16 bits, since the difference of rounded numbers would be inaccurate.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton.launch import (
    ACCUMULATOR,
    LaunchPlan,
    Sums,
    contiguous,
    dropout_args,
    empty_sum,
    head_gradients,
    launch,
    per_head,
    round_out,
    sum_heads,
)
from gattn.kernels.triton.primitives import (
    acc_scalar,
    dropout_factor,
    dropout_keep,
    exp,
    expand_last,
    gather,
    gather_edge_scalar,
    head_channel_offsets,
    leaky_relu,
    online_softmax_step,
    reciprocal,
    safe_max,
    scatter,
    softmax_merge,
    weigh_edge,
)
from gattn.kernels.triton.tiles import has_full_vectors, pad
from gattn.kernels.triton.work import (
    edge_positions,
    head_block,
    longest_run,
    program_rows,
)


def gat_forward(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    save_positive_part: bool,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Compute GAT's attention, and the statistics that the backward pass reads.

    The results are out [n, h, c], row_max and row_sum [n, h], and out_pos_centered and out_acc [n,
    h, c]. The last two are empty if backward does not need them, and out_acc also if it equals out;
    out_pos_centered is O+ - p+ O.
    """
    _, col, perm, *_ = layout
    (n, heads), (_, value_heads, channels) = query_score.shape, value.shape
    row_max = value.new_empty(n, heads, dtype=acc_dtype(value.dtype))
    row_sum = row_max.new_empty(n, heads)
    out_acc = empty_sum(value, needs_backward, n, heads, channels)
    out_pos_centered = row_max.new_empty(n if save_positive_part else 0, heads, channels)

    plan = LaunchPlan(layout, heads, channels, value.dtype, unroll=4)
    sums = Sums(row_max, row_sum, out_acc, out_pos_centered if save_positive_part else None)
    splits = plan.workspaces(sums)
    if save_positive_part:
        # The sum of the softmax weights over edges with a positive score is needed only to merge
        # the parts of a long row. Therefore it is stored in scratch memory and not returned.
        splits = splits._replace(c=plan.workspace(heads))
    drop = dropout_args(seed, dropout)
    plan.run(
        gat_forward_kernel,
        col, perm, *contiguous(query_score, key_score, value, edge_score),
        *contiguous(per_head(attn_bias, heads), edge_weight),
        *sums[:4], *splits,
        negative_slope=negative_slope, **drop,
        VALUE_HEADS=value_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    plan.merge(splits, sums, drop["keep_scale"], centered=save_positive_part)
    out, out_acc = round_out(out_acc, value.dtype)
    return out, row_max, row_sum, out_pos_centered, out_acc


def gat_backward(
    grad_out: Tensor,
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    out_pos_centered: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    wants_attn_bias: bool,
    wants_edge_weight: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of query_score, key_score, value, edge_score, bias and edge_weight; the
    tensor is empty for an input that is absent or whose gradient is not requested.
    """
    _, _, perm, _, row, csr2csc, *_ = layout
    (n, heads), (m, value_heads, channels) = query_score.shape, value.shape
    query_score, key_score, value, edge_score, grad_out = contiguous(
        query_score, key_score, value, edge_score, grad_out
    )
    grad_query = query_score.new_empty(n, heads)
    grad_key = key_score.new_empty(m, heads)
    grad_edge = None if edge_score is None else edge_score.new_empty(edge_score.shape)
    grad_attn_bias = head_gradients(attn_bias, wants_attn_bias, row_sum)
    grad_weight = head_gradients(edge_weight, wants_edge_weight, row_sum)
    is_grouped = value_heads != heads
    grad_value = empty_sum(value, is_grouped, m, heads, channels)
    row_terms = row_max.new_empty(n, heads, 4)

    plan = LaunchPlan(
        layout, heads, channels, value.dtype, unroll=4, transposed=True,
        # If a lane loads one channel at a time, processing more rows at once would need too many
        # registers.
        more_rows=has_full_vectors(channels, value.element_size()),
    )  # fmt: skip
    centered = out_pos_centered if out_pos_centered.shape[0] else None
    launch(
        gat_backward_query_kernel, (-(-n // 4), -(-heads // plan.tile.heads)), 4,
        grad_out, out_acc, centered, query_score, row_max, row_sum, grad_query, row_terms, n,
        negative_slope,
        HEADS=heads, CHANNELS=channels, ACC=ACCUMULATOR[row_max.dtype], ROWS=4,
        H=plan.tile.heads, C=pad(channels),
    )  # fmt: skip
    sums = Sums(a=grad_value, c=grad_key)
    splits = plan.workspaces(sums)
    plan.run(
        gat_backward_key_kernel,
        row, csr2csc, perm, grad_out, row_terms, key_score, value, edge_score,
        *contiguous(per_head(attn_bias, heads), edge_weight),
        grad_value, grad_key, grad_edge, grad_attn_bias, grad_weight,
        splits.a, splits.c,
        negative_slope=negative_slope, **dropout_args(seed, dropout),
        VALUE_HEADS=value_heads, CHANNELS=channels, C=pad(channels),
    )  # fmt: skip
    plan.merge(splits, sums)
    # If value has fewer heads, head h reads head h % value_heads.
    if is_grouped:
        by_value_head = grad_value.unflatten(1, (heads // value_heads, value_heads))
        grad_value = by_value_head.sum(1).to(value.dtype)
    edge_grads = (
        grad_edge,
        sum_heads(grad_attn_bias, attn_bias),
        sum_heads(grad_weight, edge_weight),
    )
    edge_grads = (value.new_empty(0) if grad is None else grad for grad in edge_grads)
    return grad_query, grad_key, grad_value, *edge_grads


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def gat_forward_kernel(
    offsets, col, perm, query_score, key_score, value, edge_score, attn_bias, edge_weight,
    row_max, row_sum, out, out_pos_centered,
    split_max, split_sum, split_out, split_out_pos, split_mass_pos,
    num_rows, num_splits,
    negative_slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the attention output of each destination, and a second sum for the backward pass.
    Writes out and out_pos_centered [n, h, c], row_max and row_sum [n, h] of the rows that a program
    processes as a whole, and the partial results ``split_*`` of the others.
    """
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset = head_channel_offsets(head % VALUE_HEADS, head_mask, CHANNELS, C)[0]
    negative_slope = acc_scalar(negative_slope, ACC)

    a = gather(query_score, row, last > first, head, head_mask, HEADS, ACC)
    m_i = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    l_i = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if out_pos_centered is not None:
        mass_pos = tl.zeros([SLOTS, ROWS, H], ACC)
        acc_pos = tl.zeros([SLOTS, ROWS, H, C], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        zs, scores, values = (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            z = a[None] + gather(key_score, j, valid, head, head_mask, HEADS, ACC)
            if (edge_score is not None) or (attn_bias is not None):
                edge = tl.load(perm + position, mask=valid, other=0)
            if edge_score is not None:
                z += gather(edge_score, edge, valid, head, head_mask, HEADS, ACC)
            v = gather(value, j, valid, value_offset, mask, VALUE_HEADS * CHANNELS, ACC)
            zs += (z,)
            score = leaky_relu(z, negative_slope)
            if attn_bias is not None:
                score += gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC)
            scores += (tl.where(expand_last(valid), score, float("-inf")),)
            values += (v,)
        weights, rescale, m_i = online_softmax_step(scores, m_i)
        l_i *= rescale
        acc *= expand_last(rescale)
        if out_pos_centered is not None:
            mass_pos *= rescale
            acc_pos *= expand_last(rescale)
        for u in tl.static_range(UNROLL):
            weight = weights[u]
            l_i += weight
            if out_pos_centered is not None:
                mass_pos += tl.where(zs[u] > 0, weight, 0.0)
            if seed is not None:
                position = edge_positions(first, last, step + u * SLOTS, SLOTS)[0]
                weight = tl.where(dropout_keep(seed, position, head, threshold, HEADS), weight, 0.0)
            if edge_weight is not None:
                position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
                edge = tl.load(perm + position, mask=valid, other=0)
                weight *= gather_edge_scalar(edge_weight, edge, valid, ACC)
            acc += expand_last(weight) * values[u]
            if out_pos_centered is not None:
                acc_pos += expand_last(tl.where(zs[u] > 0, weight, 0.0)) * values[u]
        step += SLOTS * UNROLL

    factor, m_row, l_row = softmax_merge(m_i, l_i)
    inv_sum = reciprocal(l_row)
    scale = expand_last(inv_sum * acc_scalar(keep_scale, ACC))
    out_sum = tl.sum(acc * expand_last(factor), 0)
    out_row = out_sum * scale
    scatter(row_max, row, is_whole, head, head_mask, m_row, HEADS)
    scatter(row_sum, row, is_whole, head, head_mask, l_row, HEADS)
    scatter(out, row, is_whole, offset, mask, out_row, HEADS * CHANNELS)
    scatter(split_max, split, is_split, head, head_mask, m_row, HEADS)
    scatter(split_sum, split, is_split, head, head_mask, l_row, HEADS)
    scatter(split_out, split, is_split, offset, mask, out_sum, HEADS * CHANNELS)
    if out_pos_centered is not None:
        out_pos = tl.sum(acc_pos * expand_last(factor), 0)
        mass = tl.sum(mass_pos * factor, 0)
        centered = out_pos * scale - expand_last(mass * inv_sum) * out_row
        scatter(out_pos_centered, row, is_whole, offset, mask, centered, HEADS * CHANNELS)
        scatter(split_out_pos, split, is_split, offset, mask, out_pos, HEADS * CHANNELS)
        scatter(split_mass_pos, split, is_split, head, head_mask, mass, HEADS)


@triton.jit(do_not_specialize=["num_rows"])
def gat_backward_query_kernel(
    grad_out, out_acc, out_pos_centered, query_score, row_max, row_sum, grad_query, row_terms,
    num_rows, negative_slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the query scores, and the terms of each row for
    ``gat_backward_key_kernel``.

    Without out_pos_centered (O+ - p+ O), da_i is zero: the negative slope is 1, or the gradient is
    not needed. Writes grad_query [n, h] and row_terms [n, h, 4]: the query score, the maximum and
    the reciprocal of the sum of the softmax, and <dO_i, O_i>.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = row < num_rows
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    g = gather(grad_out, row, live, offset, mask, HEADS * CHANNELS, ACC)
    delta = tl.sum(g * gather(out_acc, row, live, offset, mask, HEADS * CHANNELS, ACC), 2)
    grad_a = tl.zeros_like(delta)
    if out_pos_centered is not None:
        centered = gather(out_pos_centered, row, live, offset, mask, HEADS * CHANNELS, ACC)
        grad_a = (1.0 - acc_scalar(negative_slope, ACC)) * tl.sum(g * centered, 2)
    scatter(grad_query, row, live, head, head_mask, grad_a, HEADS)

    a = gather(query_score, row, live, head, head_mask, HEADS, ACC)
    m_row = safe_max(gather(row_max, row, live, head, head_mask, HEADS, ACC))
    inv_sum = reciprocal(gather(row_sum, row, live, head, head_mask, HEADS, ACC))
    scatter(row_terms, row, live, head * 4, head_mask, a, HEADS * 4)
    scatter(row_terms, row, live, head * 4 + 1, head_mask, m_row, HEADS * 4)
    scatter(row_terms, row, live, head * 4 + 2, head_mask, inv_sum, HEADS * 4)
    scatter(row_terms, row, live, head * 4 + 3, head_mask, delta, HEADS * 4)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def gat_backward_key_kernel(
    offsets, row_index, csr2csc, perm, grad_out, row_terms, key_score, value, edge_score,
    attn_bias, edge_weight,
    grad_value, grad_key, grad_edge, grad_attn_bias, grad_edge_weight,
    split_grad_value, split_grad_key,
    num_rows, num_splits,
    negative_slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, VALUE_HEADS: tl.constexpr, CHANNELS: tl.constexpr, ACC: tl.constexpr,
    SLOTS: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of values, key scores, edge scores, biases and edge weights.

    Rows are sources with their outgoing edges. Writes grad_value [m, h, c], grad_key [m, h] and the
    gradients of the edges [e, h]; ``split_*`` are the partial results of rows that several programs
    process.
    """
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset = head_channel_offsets(head % VALUE_HEADS, head_mask, CHANNELS, C)[0]
    negative_slope, keep_scale = acc_scalar(negative_slope, ACC), acc_scalar(keep_scale, ACC)
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    live = last > first
    b = gather(key_score, row, live, head, head_mask, HEADS, ACC)
    v = gather(value, row, live, value_offset, mask, VALUE_HEADS * CHANNELS, ACC)
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    acc_key = tl.zeros([SLOTS, ROWS, H], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        grads, zs, alphas, deltas = (), (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            i = tl.load(row_index + position, mask=valid, other=0)
            grads += (gather(grad_out, i, valid, offset, mask, HEADS * CHANNELS, ACC),)
            z = b[None] + gather(row_terms, i, valid, head * 4, head_mask, HEADS * 4, ACC)
            if (edge_score is not None) or (attn_bias is not None):
                csr_position = tl.load(csr2csc + position, mask=valid, other=0)
                edge = tl.load(perm + csr_position, mask=valid, other=0)
            if edge_score is not None:
                z += gather(edge_score, edge, valid, head, head_mask, HEADS, ACC)
            score = leaky_relu(z, negative_slope)
            if attn_bias is not None:
                score += gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC)
            m_row = gather(row_terms, i, valid, head * 4 + 1, head_mask, HEADS * 4, ACC)
            inv_sum = gather(row_terms, i, valid, head * 4 + 2, head_mask, HEADS * 4, ACC)
            alpha = exp(score - m_row) * inv_sum
            zs += (z,)
            alphas += (tl.where(expand_last(valid), alpha, 0.0),)
            deltas += (gather(row_terms, i, valid, head * 4 + 3, head_mask, HEADS * 4, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            alpha = alphas[u]
            alpha_drop = alpha
            grad_alpha = tl.sum(grads[u] * v[None], 3)
            if seed is not None:
                csr_position = tl.load(csr2csc + position, mask=valid, other=0)
                factor = dropout_factor(seed, csr_position, head, threshold, keep_scale, HEADS)
                alpha_drop *= factor
                grad_alpha *= factor
            if (edge_score is not None) or (attn_bias is not None) or (edge_weight is not None):
                csr_position = tl.load(csr2csc + position, mask=valid, other=0)
                edge = tl.load(perm + csr_position, mask=valid, other=0)
            if edge_weight is not None:
                alpha_drop, grad_alpha = weigh_edge(
                    edge_weight, grad_edge_weight, edge, valid, head, head_mask,
                    alpha, alpha_drop, grad_alpha, HEADS, ACC,
                )  # fmt: skip
            acc += expand_last(alpha_drop) * grads[u]
            grad_score = alpha * (grad_alpha - deltas[u])
            if grad_attn_bias is not None:
                scatter(grad_attn_bias, edge, valid, head, head_mask, grad_score, HEADS)
            grad_z = grad_score * tl.where(zs[u] > 0, 1.0, negative_slope)
            acc_key += grad_z
            if grad_edge is not None:
                scatter(grad_edge, edge, valid, head, head_mask, grad_z, HEADS)
        step += SLOTS * UNROLL

    grad_v, grad_b = tl.sum(acc, 0), tl.sum(acc_key, 0)
    scatter(grad_value, row, is_whole, offset, mask, grad_v, HEADS * CHANNELS)
    scatter(grad_key, row, is_whole, head, head_mask, grad_b, HEADS)
    scatter(split_grad_value, split, is_split, offset, mask, grad_v, HEADS * CHANNELS)
    scatter(split_grad_key, split, is_split, head, head_mask, grad_b, HEADS)
