"""Dot-product attention with optional edge features, biases and edge weights.

These are the forward and backward kernels of TransformerConv, AGNNConv, HGTConv, GPSConv,
GraphAttention, self-attention over sets, causal and band attention. They compute sum_j w_ij
softmax_j(scale (q_i . k_j + u_i . a_ij) + bias_ij) v_j, and the same sum of the edge features a_ij.

The edge term is factored: u = W^T q, [n, h, d], is computed before the pass over the edges, and W E
after it, where E_i = sum_j alpha_ij a_ij is [n, h, d]. The kernels then read d numbers for each
edge instead of h c.

Bytes read and written, for values of s bytes, sums of w = 4 bytes (8 in fp64), int32 indices,
F = h c and G = h d:

    forward   per edge          2 F s + 4             k_j, v_j; col
              with features     d s + 4               a_ij; perm
              with bias         h s + 4               b_ij; perm; s + 4 with w_ij
              per row           2 F s + 2 h w + 4     q_i, out, statistics
              with features     2 G w                 u_i, E_i
    backward, by destination
              per edge          2 F s + 2 h w + 4     k_j, v_j; alpha and scale ds written; col
              with features     2 d s + 2 h w + 8     a_ij -> da_ij
              with bias         2 h s + 4             b_ij -> db_ij; s + h w + 4 with w_ij -> dw_ij
              per row           4 F s + 2 h w + 4     q_i, dO_i, O_i -> dq_i
              with features     4 G w                 u_i, dE_i, E_i -> du_i
    backward, by source (`edge.weighted_sum_kernel`)
              per edge          2 F s + 2 h w + 8     q_i, dO_i; alpha, scale ds; row, csr2csc
              per row           2 F s + 4             dk_j, dv_j
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton.edge import weighted_sum
from gattn.kernels.triton.launch import (
    LaunchPlan,
    Sums,
    contiguous,
    dropout_args,
    empty_sum,
    head_gradients,
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
    online_softmax_step,
    reciprocal,
    safe_max,
    scatter,
    softmax_merge,
    weigh_edge,
)
from gattn.kernels.triton.tiles import pad
from gattn.kernels.triton.work import (
    edge_positions,
    head_block,
    longest_run,
    program_rows,
)


def dot_product_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    edge_weight: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Compute dot-product attention, and the statistics that the backward pass reads.

    The results are out [n, h, c_v], row_max and row_sum [n, h], out_acc [n, h, c_v] and edge_out
    [n, h, d]. out_acc is sum_j alpha_ij v_j and edge_out is E_i. Both are empty if backward does
    not need them; out_acc is also empty if it equals out, and edge_out without edge features.
    """
    attn_bias = per_head(attn_bias, query.shape[1])
    _, col, perm, *_ = layout
    (n, heads, channels), value_channels = query.shape, value.shape[2]
    features = 0 if edge_attr is None else edge_attr.shape[1]
    row_max = query.new_empty(n, heads, dtype=acc_dtype(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    in_acc_dtype = needs_backward or edge_attr is not None
    out_acc = empty_sum(value, in_acc_dtype, n, heads, value_channels)
    edge_query = edge_out = None
    if edge_proj is not None:
        edge_query = _to_features(query, edge_proj)
        edge_out = torch.empty_like(edge_query)

    width = max(channels, value_channels)
    plan = LaunchPlan(layout, heads, width, query.dtype, unroll=4)
    sums = Sums(row_max, row_sum, out_acc, edge_out)
    splits = plan.workspaces(sums)
    drop = dropout_args(seed, dropout)
    plan.run(
        dot_product_forward_kernel,
        col, perm, *contiguous(query, key, value, attn_bias, edge_query, edge_attr, edge_weight),
        *sums[:4], *splits[:4],
        scale=scale, **drop,
        CHANNELS=channels, VALUE_CHANNELS=value_channels, FEATURES=features,
        C=pad(channels), V=pad(value_channels), D=pad(features),
    )  # fmt: skip
    plan.merge(splits, sums, drop["keep_scale"])
    if edge_out is None:
        out, out_acc = round_out(out_acc, value.dtype)
        return out, row_max, row_sum, out_acc, row_max.new_empty(0, heads, 0)
    out = (out_acc + _from_features(edge_out, edge_proj)).to(value.dtype)
    if not needs_backward:
        out_acc, edge_out = out_acc.new_empty(0), edge_out.new_empty(0, heads, features)
    return out, row_max, row_sum, out_acc, edge_out


def dot_product_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    edge_weight: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    edge_out: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    wants_attn_bias: bool,
    wants_edge_attr: bool,
    wants_edge_weight: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients of query, key, value, bias, edge_attr, edge_proj and edge_weight; the
    tensor is empty for an input that is absent or whose gradient is not requested.
    """
    input_bias, attn_bias = attn_bias, per_head(attn_bias, query.shape[1])
    grad_attn_bias = head_gradients(attn_bias, wants_attn_bias, row_sum)
    grad_weight = head_gradients(edge_weight, wants_edge_weight, row_sum)
    _, col, perm, *_ = layout
    (_, heads, channels), value_channels = query.shape, value.shape[2]
    features = 0 if edge_attr is None else edge_attr.shape[1]
    grad_out, query, key, value, attn_bias, edge_attr, edge_weight = contiguous(
        grad_out, query, key, value, attn_bias, edge_attr, edge_weight
    )
    edge_query = grad_edge_out = grad_edge_query = None
    if edge_proj is not None:
        edge_query, grad_edge_out = (_to_features(t, edge_proj) for t in (query, grad_out))
        grad_edge_query = torch.empty_like(edge_query)
    grad_query = empty_sum(query, edge_proj is not None, *query.shape)
    edge_terms = row_max.new_empty(col.numel(), heads, 2)

    width = max(channels, value_channels)
    plan = LaunchPlan(layout, heads, width, query.dtype, unroll=2)
    sums = Sums(a=grad_query, b=grad_edge_query)
    splits = plan.workspaces(sums)
    plan.run(
        dot_product_backward_query_kernel,
        col, perm, grad_out, grad_edge_out, query, key, value, attn_bias, edge_query, edge_attr,
        edge_weight, out_acc, edge_out, row_max, row_sum,
        grad_query, grad_edge_query, splits.a, splits.b, grad_attn_bias, grad_weight,
        edge_terms,
        scale=scale, **dropout_args(seed, dropout),
        CHANNELS=channels, VALUE_CHANNELS=value_channels, FEATURES=features,
        C=pad(channels), V=pad(value_channels), D=pad(features),
    )  # fmt: skip
    plan.merge(splits, sums)
    grad_edge_attr = grad_edge_proj = None
    if edge_attr is not None and wants_edge_attr:
        grad_edge_attr = edge_attr.new_empty(edge_attr.shape)
        plan = LaunchPlan(layout, heads, features, query.dtype, unroll=1, all_heads=True)
        plan.run(
            dot_product_backward_edge_attr_kernel,
            perm, grad_edge_out, edge_query, edge_terms, grad_edge_attr,
            FEATURES=features, D=pad(features),
        )  # fmt: skip
    grad_key, grad_value = weighted_sum(
        layout, edge_terms[..., 1], query, edge_terms[..., 0], grad_out,
        transposed=True, csr_order=True,
    )  # fmt: skip
    if edge_proj is not None:
        grad_query = (grad_query + _from_features(grad_edge_query, edge_proj)).to(query.dtype)
        grad_edge_proj = _outer(query, grad_edge_query) + _outer(grad_out, edge_out)
        grad_edge_proj = grad_edge_proj.to(edge_proj.dtype)
    grad_attn_bias, grad_weight = (
        sum_heads(grad_attn_bias, input_bias),
        sum_heads(grad_weight, edge_weight),
    )
    edge_grads = grad_attn_bias, grad_edge_attr, grad_edge_proj, grad_weight
    grads = grad_query, grad_key, grad_value, *edge_grads
    return tuple(query.new_empty(0) if g is None else g for g in grads)


def _to_features(x: Tensor, edge_proj: Tensor) -> Tensor:
    """Compute W^T x, [n, h, d], for rows x [n, h, c], in the accumulation dtype."""
    dtype = acc_dtype(x.dtype)
    return torch.einsum("nhc,hcd->nhd", x.to(dtype), edge_proj.to(dtype)).contiguous()


def _from_features(x: Tensor, edge_proj: Tensor) -> Tensor:
    """Return W x, [n, h, c], for rows of edge features x [n, h, d]."""
    return torch.einsum("nhd,hcd->nhc", x, edge_proj.to(x.dtype))


def _outer(x: Tensor, features: Tensor) -> Tensor:
    """Sum the outer products of x [n, h, c] and features [n, h, d] over all rows: [h, c, d]."""
    return torch.einsum("nhc,nhd->hcd", x.to(features.dtype), features)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def dot_product_forward_kernel(
    offsets, col, perm, query, key, value, attn_bias, edge_query, edge_attr, edge_weight,
    row_max, row_sum, out, edge_out, split_max, split_sum, split_out, split_edge_out,
    num_rows, num_splits,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, V: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the output of each destination. If there are edge features, also compute their
    weighted sum. Writes out [n, h, c_v], row_max and row_sum [n, h] and edge_out [n, h, d] of the
    rows that a program processes as a whole, and the partial results ``split_*`` of the others.
    """
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    live = last > first
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset, value_mask = head_channel_offsets(head, head_mask, VALUE_CHANNELS, V)
    scale = acc_scalar(scale, ACC)

    q = gather(query, row, live, offset, mask, HEADS * CHANNELS, ACC) * scale
    m_i = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    l_i = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, V], ACC)
    if edge_attr is not None:
        feature = tl.arange(0, D)
        edge_offset, edge_mask = head_channel_offsets(head, head_mask, FEATURES, D)
        uq = gather(edge_query, row, live, edge_offset, edge_mask, HEADS * FEATURES, ACC) * scale
        edge_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        scores, values, attrs = (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            k = gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC)
            values += (
                gather(value, j, valid, value_offset, value_mask, HEADS * VALUE_CHANNELS, ACC),
            )
            score = tl.sum(q[None] * k, 3)
            if (edge_attr is not None) or (attn_bias is not None):
                edge = tl.load(perm + position, mask=valid, other=0)
            if edge_attr is not None:
                a = gather(edge_attr, edge, valid, feature, feature < FEATURES, FEATURES, ACC)
                a = tl.expand_dims(a, 2)
                score += tl.sum(uq[None] * a, 3)
                attrs += (a,)
            if attn_bias is not None:
                score += gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC)
            scores += (tl.where(expand_last(valid), score, float("-inf")),)
        weights, rescale, m_i = online_softmax_step(scores, m_i)
        l_i *= rescale
        acc *= expand_last(rescale)
        if edge_attr is not None:
            edge_acc *= expand_last(rescale)
        for u in tl.static_range(UNROLL):
            weight = weights[u]
            l_i += weight
            if seed is not None:
                position = edge_positions(first, last, step + u * SLOTS, SLOTS)[0]
                weight = tl.where(dropout_keep(seed, position, head, threshold, HEADS), weight, 0.0)
            if edge_weight is not None:
                position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
                edge = tl.load(perm + position, mask=valid, other=0)
                weight *= gather_edge_scalar(edge_weight, edge, valid, ACC)
            acc += expand_last(weight) * values[u]
            if edge_attr is not None:
                edge_acc += expand_last(weight) * attrs[u]
        step += SLOTS * UNROLL

    factor, m_row, l_row = softmax_merge(m_i, l_i)
    out_scale = expand_last(reciprocal(l_row) * acc_scalar(keep_scale, ACC))
    out_sum = tl.sum(acc * expand_last(factor), 0)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    scatter(row_max, row, is_whole, head, head_mask, m_row, HEADS)
    scatter(row_sum, row, is_whole, head, head_mask, l_row, HEADS)
    scatter(out, row, is_whole, value_offset, value_mask, out_sum * out_scale, width)
    scatter(split_max, split, is_split, head, head_mask, m_row, HEADS)
    scatter(split_sum, split, is_split, head, head_mask, l_row, HEADS)
    scatter(split_out, split, is_split, value_offset, value_mask, out_sum, width)
    if edge_attr is not None:
        width_e: tl.constexpr = HEADS * FEATURES
        edge_sum = tl.sum(edge_acc * expand_last(factor), 0)
        scatter(edge_out, row, is_whole, edge_offset, edge_mask, edge_sum * out_scale, width_e)
        scatter(split_edge_out, split, is_split, edge_offset, edge_mask, edge_sum, width_e)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def dot_product_backward_query_kernel(
    offsets, col, perm, grad_out, grad_edge_out, query, key, value, attn_bias, edge_query,
    edge_attr, edge_weight, out_acc, edge_out, row_max, row_sum,
    grad_query, grad_edge_query, split_grad_query, split_grad_edge_query, grad_attn_bias,
    grad_edge_weight, edge_terms,
    num_rows, num_splits,
    scale: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, V: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the queries, and two numbers per edge and head that other kernels
    read.

    Rows are destinations. The terms are alpha_ij after dropout times w_ij, and the gradient of the
    dot product, scale ds_ij. They are stored as edge_terms [e, h, 2] in CSR order. Also writes
    grad_query [n, h, c]; grad_edge_query du_i [n, h, d] with edge features; and, if they are
    requested, grad_attn_bias and grad_edge_weight [e, h] in the caller's order. ``split_*`` are the
    partial results of rows that several programs process.
    """
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset, value_mask = head_channel_offsets(head, head_mask, VALUE_CHANNELS, V)
    scale, keep_scale = acc_scalar(scale, ACC), acc_scalar(keep_scale, ACC)

    width: tl.constexpr = HEADS * VALUE_CHANNELS
    width_e: tl.constexpr = HEADS * FEATURES
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    live = last > first
    q = gather(query, row, live, offset, mask, HEADS * CHANNELS, ACC) * scale
    g = gather(grad_out, row, live, value_offset, value_mask, width, ACC)
    delta = tl.sum(g * gather(out_acc, row, live, value_offset, value_mask, width, ACC), 2)
    m_row = safe_max(gather(row_max, row, live, head, head_mask, HEADS, ACC))
    inv_sum = reciprocal(gather(row_sum, row, live, head, head_mask, HEADS, ACC))
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if edge_attr is not None:
        feature = tl.arange(0, D)
        edge_offset, edge_mask = head_channel_offsets(head, head_mask, FEATURES, D)
        uq = gather(edge_query, row, live, edge_offset, edge_mask, width_e, ACC) * scale
        edge_acc = tl.zeros([SLOTS, ROWS, H, D], ACC)
        ge = gather(grad_edge_out, row, live, edge_offset, edge_mask, width_e, ACC)
        e = gather(edge_out, row, live, edge_offset, edge_mask, width_e, ACC)
        delta += tl.sum(ge * e, 2)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        keys, values, attrs, biases = (), (), (), ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            keys += (gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC),)
            values += (gather(value, j, valid, value_offset, value_mask, width, ACC),)
            if (edge_attr is not None) or (attn_bias is not None):
                edge = tl.load(perm + position, mask=valid, other=0)
            if edge_attr is not None:
                a = gather(edge_attr, edge, valid, feature, feature < FEATURES, FEATURES, ACC)
                attrs += (tl.expand_dims(a, 2),)
            if attn_bias is not None:
                biases += (gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            score = tl.sum(q[None] * keys[u], 3)
            grad_alpha = tl.sum(g[None] * values[u], 3)
            if edge_attr is not None:
                score += tl.sum(uq[None] * attrs[u], 3)
                grad_alpha += tl.sum(ge[None] * attrs[u], 3)
            if attn_bias is not None:
                score += biases[u]
            alpha = exp(score - m_row[None]) * inv_sum[None]
            alpha = tl.where(expand_last(valid), alpha, 0.0)
            alpha_drop = alpha
            if seed is not None:
                factor = dropout_factor(seed, position, head, threshold, keep_scale, HEADS)
                alpha_drop *= factor
                grad_alpha *= factor
            if (grad_attn_bias is not None) or (edge_weight is not None):
                edge = tl.load(perm + position, mask=valid, other=0)
            if edge_weight is not None:
                alpha_drop, grad_alpha = weigh_edge(
                    edge_weight, grad_edge_weight, edge, valid, head, head_mask,
                    alpha, alpha_drop, grad_alpha, HEADS, ACC,
                )  # fmt: skip
            grad_score = alpha * (grad_alpha - delta[None])
            if grad_attn_bias is not None:
                scatter(grad_attn_bias, edge, valid, head, head_mask, grad_score, HEADS)
            grad_dot = grad_score * scale
            acc += expand_last(grad_dot) * keys[u]
            if edge_attr is not None:
                edge_acc += expand_last(grad_dot) * attrs[u]
            scatter(edge_terms, position, valid, head * 2, head_mask, alpha_drop, HEADS * 2)
            scatter(edge_terms, position, valid, head * 2 + 1, head_mask, grad_dot, HEADS * 2)
        step += SLOTS * UNROLL

    grad_q = tl.sum(acc, 0)
    scatter(grad_query, row, is_whole, offset, mask, grad_q, HEADS * CHANNELS)
    scatter(split_grad_query, split, is_split, offset, mask, grad_q, HEADS * CHANNELS)
    if edge_attr is not None:
        grad_u = tl.sum(edge_acc, 0)
        scatter(grad_edge_query, row, is_whole, edge_offset, edge_mask, grad_u, width_e)
        scatter(split_grad_edge_query, split, is_split, edge_offset, edge_mask, grad_u, width_e)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def dot_product_backward_edge_attr_kernel(
    offsets, perm, grad_edge_out, edge_query, edge_terms, grad_edge_attr,
    num_rows, num_splits,
    HEADS: tl.constexpr, FEATURES: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the edge features.

    It is da_ij = sum over heads of scale ds_ij u_i + alpha_ij dE_i. Rows are destinations, and a
    program processes all heads. Writes grad_edge_attr [e, d].
    """
    row, first, last, _split, _is_whole, _is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    live = last > first
    head, head_mask = head_block(HEADS, H)
    feature = tl.arange(0, D)
    offset, mask = head_channel_offsets(head, head_mask, FEATURES, D)
    uq = gather(edge_query, row, live, offset, mask, HEADS * FEATURES, ACC)
    ge = gather(grad_edge_out, row, live, offset, mask, HEADS * FEATURES, ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        position, valid = edge_positions(first, last, step, SLOTS)
        grad_dot = gather(edge_terms, position, valid, head * 2 + 1, head_mask, HEADS * 2, ACC)
        grad = expand_last(grad_dot) * uq[None]
        alpha_drop = gather(edge_terms, position, valid, head * 2, head_mask, HEADS * 2, ACC)
        grad += expand_last(alpha_drop) * ge[None]
        edge = tl.load(perm + position, mask=valid, other=0)
        grad_a = tl.sum(grad, 2)
        scatter(grad_edge_attr, edge, valid, feature, feature < FEATURES, grad_a, FEATURES)
        step += SLOTS
