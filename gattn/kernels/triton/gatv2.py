"""Forward pass of GATv2: out_i = sum_j w_ij softmax_j(w . act(q_i + k_j + W a_ij) + bias_ij) v_j.

These are the kernels of GATv2Conv and GraphAttention(score="additive"), which is Bahdanau's score.
The backward is in `gatv2_backward`.

Bytes read and written, for numbers of s bytes, sums of w = 4 bytes (8 in fp64), int32 indices and
F = h c. Values that differ from the keys add F s per edge; W and w stay in the cache.

    forward   per edge          F s + 4               k_j; col
              with features     d s + 4               a_ij; perm
              with bias         h s + 4               bias_ij; perm; s + 4 with w_ij
              per row           2 F s + 2 h w + 4     q_i, out, statistics
    score     per edge          F s + h s + 8         k_j, the score; col, perm
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.precision import acc_dtype
from gattn.kernels.triton.launch import (
    LaunchPlan,
    Sums,
    contiguous,
    dropout_args,
    empty_sum,
    per_head,
    round_out,
)
from gattn.kernels.triton.primitives import (
    acc_scalar,
    dropout_keep,
    expand_last,
    gather,
    gather_edge_scalar,
    head_channel_offsets,
    leaky_relu,
    online_softmax_step,
    reciprocal,
    scatter,
    softmax_merge,
    tanh,
)
from gattn.kernels.triton.tiles import pad
from gattn.kernels.triton.work import edge_positions, head_block, longest_run, program_rows

FEATURE_SLOTS = 4
"""Minimum number of edges in a tile that share one read of W. In fp64 it is half of this number."""


def gatv2_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Compute the attention, and the statistics that the backward pass reads.

    The results are out [n, h, c_v], row_max and row_sum [n, h], and out_acc [n, h, c_v]. The last
    one is empty if backward does not need it or it equals out. If value is None, the keys are the
    values.
    """
    _, col, perm, *_ = layout
    n, heads, channels = query.shape
    value_channels = channels if value is None else value.shape[2]
    row_max = query.new_empty(n, heads, dtype=acc_dtype(query.dtype))
    row_sum = row_max.new_empty(n, heads)
    out_acc = empty_sum(query, needs_backward, n, heads, value_channels)
    plan = gatv2_plan(layout, query, value_channels, edge_attr, unroll=4)
    sums = Sums(row_max, row_sum, out_acc)
    splits = plan.workspaces(sums)
    drop = dropout_args(seed, dropout)
    plan.run(
        gatv2_forward_kernel,
        col, perm, *contiguous(query, key, value, weight, edge_attr, features_first(edge_proj)),
        *contiguous(per_head(attn_bias, heads), edge_weight),
        *sums[:3], *splits[:3],
        negative_slope=negative_slope, **drop,
        **gatv2_constants(channels, value_channels, edge_attr, activation),
    )  # fmt: skip
    plan.merge(splits, sums, drop["keep_scale"])
    out, out_acc = round_out(out_acc, query.dtype)
    return out, row_max, row_sum, out_acc


def gatv2_score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Return w . act(q_i + k_j + W a_ij) for every edge and head: [e, h] in the caller's order of
    edges.
    """
    _, col, perm, *_ = layout
    heads, channels = query.shape[1:]
    out = query.new_empty(col.numel(), heads)
    plan = gatv2_plan(layout, query, channels, edge_attr, unroll=4)
    plan.run(
        gatv2_score_kernel,
        col, perm, *contiguous(query, key, weight, edge_attr, features_first(edge_proj)), out,
        negative_slope=negative_slope, **gatv2_constants(channels, None, edge_attr, activation),
    )  # fmt: skip
    return out


def gatv2_plan(
    layout: list[Tensor],
    query: Tensor,
    value_channels: int,
    edge_attr: Tensor | None,
    unroll: int,
    transposed: bool = False,
) -> LaunchPlan:
    """Return the tile of a kernel that passes over the edges, and the assignment of rows to
    programs.

    With edge features, a tile contains several edges of a row, which share one read of W.
    """
    heads, channels = query.shape[1:]
    min_slots = 1
    if edge_attr is not None:
        min_slots, unroll = FEATURE_SLOTS // (1 + (query.dtype == torch.float64)), 1
    return LaunchPlan(
        layout, heads, max(channels, value_channels), query.dtype, unroll,
        transposed=transposed, min_slots=min_slots,
        # With 16-bit inputs, processing more rows at once would need too many registers.
        more_rows=query.dtype.itemsize > 2,
    )  # fmt: skip


def gatv2_constants(
    channels: int, value_channels: int | None, edge_attr: Tensor | None, activation: str
) -> dict[str, Any]:
    """Return the compile-time constants, by name, for a kernel that computes the GATv2 score; those
    of the values only if ``value_channels`` is not None.
    """
    features = 0 if edge_attr is None else edge_attr.shape[1]
    constants = {"CHANNELS": channels, "FEATURES": features, "C": pad(channels)}
    if value_channels is not None:
        constants |= {"VALUE_CHANNELS": value_channels, "V": pad(value_channels)}
    return {**constants, "ACTIVATION": activation}


def features_first(edge_proj: Tensor | None) -> Tensor | None:
    """Permute W to [d, h, c], so that the numbers of each feature are contiguous."""
    return None if edge_proj is None else edge_proj.permute(2, 0, 1).contiguous()


@triton.jit
def activation_and_grad(z, negative_slope, ACTIVATION: tl.constexpr):
    """Return the activation act(z), which is tanh or LeakyReLU, and its derivative act'(z)."""
    if ACTIVATION == "tanh":
        y = tanh(z)
        return y, 1.0 - y * y
    else:
        return leaky_relu(z, negative_slope), tl.where(z > 0, 1.0, negative_slope)


@triton.jit
def add_edge_term(z, edge_attr, edge_proj_t, edge, valid, offset, mask, FEATURES: tl.constexpr,
                  STRIDE: tl.constexpr, ACC: tl.constexpr):  # fmt: skip
    """Add the edge term W a_ij to z, [..., H, C]. `edge` [...] contains the indices of the edges
    in the caller's order.
    """
    for d in range(FEATURES):
        a = tl.load(edge_attr + edge.to(tl.int64) * FEATURES + d, mask=valid, other=0.0).to(ACC)
        column = tl.load(edge_proj_t + d * STRIDE + offset, mask=mask, other=0.0).to(ACC)
        z += expand_last(expand_last(a)) * column
    return z


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def gatv2_forward_kernel(
    offsets, col, perm, query, key, value, weight, edge_attr, edge_proj_t, attn_bias, edge_weight,
    row_max, row_sum, out, split_max, split_sum, split_out,
    num_rows, num_splits,
    negative_slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the attention output of each destination. Writes out [n, h, c_v], row_max and row_sum
    [n, h] of the rows that a program processes as a whole, and the partial results ``split_*`` of
    the others.
    """
    row, first, last, split, is_whole, is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset, value_mask = head_channel_offsets(head, head_mask, VALUE_CHANNELS, V)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    negative_slope = acc_scalar(negative_slope, ACC)
    w = tl.load(weight + offset, mask=mask, other=0.0).to(ACC)
    q = gather(query, row, last > first, offset, mask, HEADS * CHANNELS, ACC)
    m_i = tl.full([SLOTS, ROWS, H], float("-inf"), ACC)
    l_i = tl.zeros([SLOTS, ROWS, H], ACC)
    acc = tl.zeros([SLOTS, ROWS, H, V], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        scores, values = (), ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            k = gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC)
            if value is None:
                values += (k,)
            else:
                values += (gather(value, j, valid, value_offset, value_mask, width, ACC),)
            z = q[None] + k
            if (edge_attr is not None) or (attn_bias is not None):
                edge = tl.load(perm + position, mask=valid, other=0)
            if edge_attr is not None:
                z = add_edge_term(
                    z, edge_attr, edge_proj_t, edge, valid, offset, mask,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            y = activation_and_grad(z, negative_slope, ACTIVATION)[0]
            score = tl.sum(w * y, 3)
            if attn_bias is not None:
                score += gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC)
            scores += (tl.where(expand_last(valid), score, float("-inf")),)
        exp_scores, rescale, m_i = online_softmax_step(scores, m_i)
        l_i *= rescale
        acc *= expand_last(rescale)
        for u in tl.static_range(UNROLL):
            exp_score = exp_scores[u]
            l_i += exp_score
            if seed is not None:
                position = edge_positions(first, last, step + u * SLOTS, SLOTS)[0]
                keep = dropout_keep(seed, position, head, threshold, HEADS)
                exp_score = tl.where(keep, exp_score, 0.0)
            if edge_weight is not None:
                position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
                edge = tl.load(perm + position, mask=valid, other=0)
                exp_score *= gather_edge_scalar(edge_weight, edge, valid, ACC)
            acc += expand_last(exp_score) * values[u]
        step += SLOTS * UNROLL

    factor, m_row, l_row = softmax_merge(m_i, l_i)
    out_scale = expand_last(reciprocal(l_row) * acc_scalar(keep_scale, ACC))
    out_sum = tl.sum(acc * expand_last(factor), 0)
    scatter(row_max, row, is_whole, head, head_mask, m_row, HEADS)
    scatter(row_sum, row, is_whole, head, head_mask, l_row, HEADS)
    scatter(out, row, is_whole, value_offset, value_mask, out_sum * out_scale, width)
    scatter(split_max, split, is_split, head, head_mask, m_row, HEADS)
    scatter(split_sum, split, is_split, head, head_mask, l_row, HEADS)
    scatter(split_out, split, is_split, value_offset, value_mask, out_sum, width)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def gatv2_score_kernel(
    offsets, col, perm, query, key, weight, edge_attr, edge_proj_t, out,
    num_rows, num_splits, negative_slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr,
    H: tl.constexpr, C: tl.constexpr, UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the score s_ij of every edge. Writes out [e, h] in the caller's order of edges."""
    row, first, last, _split, _is_whole, _is_split = program_rows(
        tl.program_id(0), offsets, num_rows, num_splits, ROWS, SPLIT
    )
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    negative_slope = acc_scalar(negative_slope, ACC)
    w = tl.load(weight + offset, mask=mask, other=0.0).to(ACC)
    q = gather(query, row, last > first, offset, mask, HEADS * CHANNELS, ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        keys = ()
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            j = tl.load(col + position, mask=valid, other=0)
            keys += (gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC),)
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            edge = tl.load(perm + position, mask=valid, other=0)
            z = q[None] + keys[u]
            if edge_attr is not None:
                z = add_edge_term(
                    z, edge_attr, edge_proj_t, edge, valid, offset, mask,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            y = activation_and_grad(z, negative_slope, ACTIVATION)[0]
            scatter(out, edge, valid, head, head_mask, tl.sum(w * y, 3), HEADS)
        step += SLOTS * UNROLL
