"""Backward pass of GATv2: gradients of out_i = sum_j w_ij softmax_j(s_ij + bias_ij) v_j.

These are the kernels of GATv2Conv and GraphAttention(score="additive"). The score is s_ij = w .
act(z_ij) with z_ij = q_i + k_j + W a_ij. Its gradient is ds_ij = alpha_ij (w_ij <dO_i, v_j> -
<dO_i, O_i>), the gradient of z is dz_ij = ds_ij w act'(z_ij), and

    dq_i = sum_j dz_ij      dk_j = sum_i dz_ij      dv_j = sum_i w_ij alpha_ij dO_i
    dw = sum_ij ds_ij act(z_ij)      dW = sum_ij dz_ij a_ij^T      da_ij = W^T dz_ij
    dbias_ij = ds_ij      dw_ij = sum over heads of alpha_ij <dO_i, v_j>

Bytes read and written, for numbers of s bytes, sums of w = 4 bytes (8 in fp64), int32 indices and
F = h c. Values that differ from the keys add F s per edge; W and w stay in the cache.

    by destination
              per edge          F s + 2 h w + 4       k_j; alpha and ds written; col
              with features     d s + 8               a_ij; perm, destination written
              with bias         h s + h w + 4         bias_ij -> dbias_ij; perm; likewise w_ij
              per row           4 F s + 2 h w + 4     q_i, dO_i, O_i -> dq_i
              per program       F w                   partial dw
    by source
              per edge          2 F s + 2 h w + 8     q_i, dO_i; alpha, ds; row, csr2csc
              with features     d s + 4               a_ij; perm
              per row           2 F s + 4             k_j -> dk_j (dv_j)
    by edge, with features
              per edge          2 F s + d s + h w + 12  q_i, k_j, a_ij, ds -> partial dW
              for da_ij         the same and d s      a separate pass

The pass by source computes act'(z_ij), so it must gather q_i. It reads alpha and ds, which the pass
by destination wrote, instead of computing the score and <dO_i, v_j> again.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gattn.kernels.triton.gatv2 import (
    activation_and_grad,
    add_edge_term,
    features_first,
    gatv2_constants,
    gatv2_plan,
)
from gattn.kernels.triton.launch import (
    ACCUMULATOR,
    Sums,
    contiguous,
    dropout_args,
    head_gradients,
    launch,
    per_head,
    sum_heads,
)
from gattn.kernels.triton.primitives import (
    acc_scalar,
    dropout_factor,
    exp,
    expand_last,
    gather,
    head_channel_offsets,
    reciprocal,
    safe_max,
    scatter,
    weigh_edge,
)
from gattn.kernels.triton.tiles import has_full_vectors, pad
from gattn.kernels.triton.work import (
    edge_positions,
    head_block,
    longest_run,
    program_rows,
)

WEIGHT_PROGRAMS = 16384
"""Maximum number of programs that compute the gradient of the score's weight."""
PROJ_PROGRAMS = 512
"""Maximum number of programs that compute the gradient of the edge projection."""
EDGES = 32
"""Number of edges in a tile of the passes over edges. In fp64, or above 128 channels, it is half
of this number.
"""


def gatv2_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    wants_edge_attr: bool,
    wants_attn_bias: bool,
    wants_edge_weight: bool,
) -> tuple[Tensor, ...]:
    """Compute the gradients of query, key, value, weight, edge_attr, edge_proj, attn_bias and
    edge_weight, in this order.

    If value is None, the keys are also the values: the gradient of value is empty, and the gradient
    of key includes it. The other tensors are empty for an input that is absent or whose gradient is
    not requested.
    """
    _, col, perm, _, row, csr2csc, *_ = layout
    (_, heads, channels), e = query.shape, col.numel()
    value_channels = channels if value is None else value.shape[2]
    edge_proj_t = features_first(edge_proj)
    grad_out, query, key, value, weight, edge_attr, edge_proj = contiguous(
        grad_out, query, key, value, weight, edge_attr, edge_proj
    )
    grad_query, grad_key, grad_value = (
        None if t is None else t.new_empty(t.shape) for t in (query, key, value)
    )
    edge_terms = row_max.new_empty(e, heads, 2)
    destination = None if edge_attr is None else col.new_empty(e)
    grad_attn_bias = head_gradients(attn_bias, wants_attn_bias, row_sum)
    grad_edge_weight = head_gradients(edge_weight, wants_edge_weight, row_sum)
    constants = gatv2_constants(channels, value_channels, edge_attr, activation)

    plan = gatv2_plan(layout, query, value_channels, edge_attr, unroll=2)
    sums = Sums(a=grad_query)
    splits = plan.workspaces(sums)
    programs = min(plan.programs, WEIGHT_PROGRAMS)
    partial_grad_weight = row_max.new_empty(programs, heads, channels)
    plan.run(
        gatv2_backward_query_kernel,
        col, perm, grad_out, query, key, value, weight, edge_attr, edge_proj_t,
        *contiguous(per_head(attn_bias, heads), edge_weight), out_acc, row_max, row_sum,
        grad_query, splits.a, partial_grad_weight, grad_attn_bias, grad_edge_weight,
        edge_terms, destination,
        plan.programs,
        negative_slope=negative_slope, **dropout_args(seed, dropout), **constants,
        programs=programs,
    )  # fmt: skip
    plan.merge(splits, sums)
    grad_weight = partial_grad_weight.sum(0).to(weight.dtype)

    plan = gatv2_plan(layout, query, value_channels, edge_attr, unroll=2, transposed=True)
    sums = Sums(a=grad_key, b=grad_value)
    splits = plan.workspaces(sums)
    plan.run(
        gatv2_backward_key_kernel,
        row, csr2csc, perm, grad_out, query, key, weight, edge_attr, edge_proj_t,
        edge_terms, grad_key, grad_value, splits.a, splits.b,
        negative_slope=negative_slope, **constants,
    )  # fmt: skip
    plan.merge(splits, sums)
    term_grads = sum_heads(grad_attn_bias, attn_bias), sum_heads(grad_edge_weight, edge_weight)
    grads = [grad_query, grad_key, grad_value, grad_weight, None, None, *term_grads]
    if edge_attr is not None:
        grads[4:6] = _edge_gradients(
            destination, col, perm, query, key, weight, edge_attr, edge_proj, edge_proj_t,
            edge_terms, negative_slope, activation, wants_edge_attr,
        )  # fmt: skip
    return tuple(query.new_empty(0) if g is None else g for g in grads)


def _edge_gradients(
    destination: Tensor,
    col: Tensor,
    perm: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor,
    edge_proj: Tensor,
    edge_proj_t: Tensor,
    edge_terms: Tensor,
    negative_slope: float,
    activation: str,
    wants_edge_attr: bool,
) -> tuple[Tensor | None, Tensor]:
    """Return the gradients of edge_attr, [e, d] (None unless requested), and of edge_proj,
    [h, c, d].
    """
    (heads, channels, features), e = edge_proj.shape, col.numel()
    width = max(16, pad(channels))
    reduction = 2 if edge_terms.dtype == torch.float64 else 1
    # If a lane loads one channel at a time, wide tiles would need too many registers.
    max_channels = 128 if has_full_vectors(channels, query.element_size()) else 32
    block = max(1, min(pad(heads), max_channels // reduction // width))
    head_blocks = -(-heads // block)
    edges = max(16, EDGES // reduction // max(1, width // 128))
    tiles = -(-e // edges)
    inputs = (
        destination, col, perm, query, key, weight, edge_attr, edge_proj, edge_proj_t,
        edge_terms,
    )  # fmt: skip
    constants = {
        "HEADS": heads, "CHANNELS": channels, "FEATURES": features, "ACTIVATION": activation,
        "ACC": ACCUMULATOR[edge_terms.dtype], "E": edges, "H": block, "C": width,
        "D": max(16, pad(features)),
    }  # fmt: skip
    grad_edge_attr = None
    if wants_edge_attr:
        grad_edge_attr = edge_attr.new_empty(edge_attr.shape)
        launch(
            gatv2_backward_edge_attr_kernel, (tiles,), 4,
            *inputs, grad_edge_attr, e, head_blocks, negative_slope, **constants,
        )  # fmt: skip
    programs = min(tiles, PROJ_PROGRAMS)
    partial_grad_proj = edge_terms.new_empty(programs, heads, channels, features)
    launch(
        gatv2_backward_edge_proj_kernel, (programs, head_blocks), 4,
        *inputs, partial_grad_proj, e, programs, negative_slope, **constants,
    )  # fmt: skip
    return grad_edge_attr, partial_grad_proj.sum(0).to(edge_proj.dtype)


@triton.jit(do_not_specialize=["num_rows", "num_splits", "num_programs"])
def gatv2_backward_query_kernel(
    offsets, col, perm, grad_out, query, key, value, weight, edge_attr, edge_proj_t, attn_bias,
    edge_weight, out_acc, row_max, row_sum,
    grad_query, split_grad_query, partial_grad_weight, grad_attn_bias, grad_edge_weight,
    edge_terms, destination,
    num_programs, num_rows, num_splits,
    negative_slope: tl.float64, seed, threshold: tl.uint32, keep_scale: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of the queries and of the weight, and two numbers for each edge and
    head.

    Rows are destinations. The terms are alpha_ij after dropout times w_ij, and ds_ij, which the
    other passes read. They are stored as [e, h, 2] in CSR order. A program processes every
    num_programs(0)-th group of rows, so that there are only few partial sums of dw. Writes
    grad_query [n, h, c], the partial sums of dw, the terms, the gradients of the bias and of the
    edge weight and, with edge features, the destination of each edge in CSR order; ``split_*`` are
    the partial results of rows that several programs process.
    """
    head, head_mask = head_block(HEADS, H)
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    value_offset, value_mask = head_channel_offsets(head, head_mask, VALUE_CHANNELS, V)
    width: tl.constexpr = HEADS * VALUE_CHANNELS
    negative_slope, keep_scale = acc_scalar(negative_slope, ACC), acc_scalar(keep_scale, ACC)
    w = tl.load(weight + offset, mask=mask, other=0.0).to(ACC)
    acc_weight = tl.zeros([SLOTS, ROWS, H, C], ACC)
    item = tl.program_id(0)
    while item < num_programs:
        row, first, last, split, is_whole, is_split = program_rows(
            item, offsets, num_rows, num_splits, ROWS, SPLIT
        )
        live = last > first
        q = gather(query, row, live, offset, mask, HEADS * CHANNELS, ACC)
        g = gather(grad_out, row, live, value_offset, value_mask, width, ACC)
        delta = tl.sum(g * gather(out_acc, row, live, value_offset, value_mask, width, ACC), 2)
        m_row = safe_max(gather(row_max, row, live, head, head_mask, HEADS, ACC))
        inv_sum = reciprocal(gather(row_sum, row, live, head, head_mask, HEADS, ACC))
        acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
        step, max_degree = 0, longest_run(first, last)
        while step < max_degree:
            keys, values = (), ()
            for u in tl.static_range(UNROLL):
                position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
                j = tl.load(col + position, mask=valid, other=0)
                k = gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC)
                keys += (k,)
                if value is None:
                    values += (k,)
                else:
                    values += (gather(value, j, valid, value_offset, value_mask, width, ACC),)
            for u in tl.static_range(UNROLL):
                position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
                z = q[None] + keys[u]
                if (edge_attr is not None) or (attn_bias is not None) or (edge_weight is not None):
                    edge = tl.load(perm + position, mask=valid, other=0)
                if edge_attr is not None:
                    z = add_edge_term(
                        z, edge_attr, edge_proj_t, edge, valid, offset, mask,
                        FEATURES, HEADS * CHANNELS, ACC,
                    )  # fmt: skip
                    tl.store(destination + position, row[None] + position * 0, mask=valid)
                y, act_grad = activation_and_grad(z, negative_slope, ACTIVATION)
                score = tl.sum(w * y, 3)
                if attn_bias is not None:
                    score += gather(attn_bias, edge, valid, head, head_mask, HEADS, ACC)
                grad_alpha = tl.sum(g[None] * values[u], 3)
                alpha = exp(score - m_row[None]) * inv_sum[None]
                alpha = tl.where(expand_last(valid), alpha, 0.0)
                alpha_drop = alpha
                if seed is not None:
                    factor = dropout_factor(seed, position, head, threshold, keep_scale, HEADS)
                    alpha_drop *= factor
                    grad_alpha *= factor
                if edge_weight is not None:
                    alpha_drop, grad_alpha = weigh_edge(
                        edge_weight, grad_edge_weight, edge, valid, head, head_mask,
                        alpha, alpha_drop, grad_alpha, HEADS, ACC,
                    )  # fmt: skip
                grad_score = alpha * (grad_alpha - delta[None])
                if grad_attn_bias is not None:
                    scatter(grad_attn_bias, edge, valid, head, head_mask, grad_score, HEADS)
                acc += expand_last(grad_score) * w * act_grad
                acc_weight += expand_last(grad_score) * y
                scatter(edge_terms, position, valid, head * 2, head_mask, alpha_drop, HEADS * 2)
                scatter(edge_terms, position, valid, head * 2 + 1, head_mask, grad_score, HEADS * 2)
            step += SLOTS * UNROLL
        grad_q = tl.sum(acc, 0)
        scatter(grad_query, row, is_whole, offset, mask, grad_q, HEADS * CHANNELS)
        scatter(split_grad_query, split, is_split, offset, mask, grad_q, HEADS * CHANNELS)
        item += tl.num_programs(0)
    partial = partial_grad_weight + tl.program_id(0).to(tl.int64) * (HEADS * CHANNELS) + offset
    tl.store(partial, tl.sum(tl.sum(acc_weight, 0), 0), mask=mask)


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def gatv2_backward_key_kernel(
    offsets, row_index, csr2csc, perm, grad_out, query, key, weight, edge_attr, edge_proj_t,
    edge_terms, grad_key, grad_value, split_grad_key, split_grad_value,
    num_rows, num_splits, negative_slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, VALUE_CHANNELS: tl.constexpr,
    FEATURES: tl.constexpr, ACTIVATION: tl.constexpr, ACC: tl.constexpr, SLOTS: tl.constexpr,
    ROWS: tl.constexpr, H: tl.constexpr, C: tl.constexpr, V: tl.constexpr,
    UNROLL: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of keys and values. Rows are sources with their outgoing edges.

    If grad_value is None, the values are the keys, and dv_j is added to dk_j. Writes grad_key
    [m, h, c] and grad_value [m, h, c_v] of the rows that a program processes as a whole, and the
    partial results ``split_*`` of the others.
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
    k = gather(key, row, last > first, offset, mask, HEADS * CHANNELS, ACC)
    acc = tl.zeros([SLOTS, ROWS, H, C], ACC)
    if grad_value is not None:
        acc_value = tl.zeros([SLOTS, ROWS, H, V], ACC)
    step, max_degree = 0, longest_run(first, last)
    while step < max_degree:
        for u in tl.static_range(UNROLL):
            position, valid = edge_positions(first, last, step + u * SLOTS, SLOTS)
            i = tl.load(row_index + position, mask=valid, other=0)
            csr_position = tl.load(csr2csc + position, mask=valid, other=0)
            z = k[None] + gather(query, i, valid, offset, mask, HEADS * CHANNELS, ACC)
            g = gather(grad_out, i, valid, value_offset, value_mask, width, ACC)
            if edge_attr is not None:
                edge = tl.load(perm + csr_position, mask=valid, other=0)
                z = add_edge_term(
                    z, edge_attr, edge_proj_t, edge, valid, offset, mask,
                    FEATURES, HEADS * CHANNELS, ACC,
                )  # fmt: skip
            act_grad = activation_and_grad(z, negative_slope, ACTIVATION)[1]
            grad_score = gather(
                edge_terms, csr_position, valid, head * 2 + 1, head_mask, HEADS * 2, ACC
            )
            alpha_drop = gather(
                edge_terms, csr_position, valid, head * 2, head_mask, HEADS * 2, ACC
            )
            acc += expand_last(grad_score) * w * act_grad
            if grad_value is None:
                acc += expand_last(alpha_drop) * g
            else:
                acc_value += expand_last(alpha_drop) * g
        step += SLOTS * UNROLL
    grad_k = tl.sum(acc, 0)
    scatter(grad_key, row, is_whole, offset, mask, grad_k, HEADS * CHANNELS)
    scatter(split_grad_key, split, is_split, offset, mask, grad_k, HEADS * CHANNELS)
    if grad_value is not None:
        grad_v = tl.sum(acc_value, 0)
        scatter(grad_value, row, is_whole, value_offset, value_mask, grad_v, width)
        scatter(split_grad_value, split, is_split, value_offset, value_mask, grad_v, width)


@triton.jit
def pre_activation_grad(
    position, num_edges, head, head_mask,
    destination, col, perm, query, key, weight, edge_attr, edge_proj_t, edge_terms,
    negative_slope,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the pre-activation, [E, H, C], of the edges at CSR positions [E];
    also return the caller's index of each edge and the mask of positions that exist, [E].
    """
    valid = position < num_edges
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    i = tl.load(destination + position, mask=valid, other=0)
    j = tl.load(col + position, mask=valid, other=0)
    edge = tl.load(perm + position, mask=valid, other=0)
    w = tl.load(weight + offset, mask=mask, other=0.0).to(ACC)
    z = gather(query, i, valid, offset, mask, HEADS * CHANNELS, ACC)
    z += gather(key, j, valid, offset, mask, HEADS * CHANNELS, ACC)
    z = add_edge_term(
        z, edge_attr, edge_proj_t, edge, valid, offset, mask, FEATURES, HEADS * CHANNELS, ACC
    )
    act_grad = activation_and_grad(z, negative_slope, ACTIVATION)[1]
    grad_score = gather(edge_terms, position, valid, head * 2 + 1, head_mask, HEADS * 2, ACC)
    return expand_last(grad_score) * w * act_grad, edge, valid


@triton.jit(do_not_specialize=["num_edges", "head_blocks"])
def gatv2_backward_edge_attr_kernel(
    destination, col, perm, query, key, weight, edge_attr, edge_proj, edge_proj_t, edge_terms,
    grad_edge_attr, num_edges, head_blocks, negative_slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, E: tl.constexpr, H: tl.constexpr,
    C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the edge features, summed over all heads. Writes grad_edge_attr
    [e, d].
    """
    position = tl.program_id(0).to(tl.int64) * E + tl.arange(0, E)
    feature = tl.arange(0, D)
    negative_slope = acc_scalar(negative_slope, ACC)
    acc = tl.zeros([E, D], ACC)
    block = 0
    while block < head_blocks:
        head = block * H + tl.arange(0, H)
        head_mask = head < HEADS
        grad_z, edge, valid = pre_activation_grad(
            position, num_edges, head, head_mask,
            destination, col, perm, query, key, weight, edge_attr, edge_proj_t, edge_terms,
            negative_slope, HEADS, CHANNELS, FEATURES, ACTIVATION, ACC, C,
        )  # fmt: skip
        offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
        column = expand_last(tl.reshape(offset, [H * C])) * FEATURES + feature
        exists = expand_last(tl.reshape(mask, [H * C])) & (feature < FEATURES)
        proj = tl.load(edge_proj + column, mask=exists, other=0.0).to(ACC)
        grad_z = tl.reshape(grad_z, [E, H * C])
        acc += tl.dot(grad_z, proj, input_precision="ieee", out_dtype=ACC)
        block += 1
    valid = position < num_edges
    edge = tl.load(perm + position, mask=valid, other=0)
    scatter(grad_edge_attr, edge, valid, feature, feature < FEATURES, acc, FEATURES)


@triton.jit(do_not_specialize=["num_edges", "programs"])
def gatv2_backward_edge_proj_kernel(
    destination, col, perm, query, key, weight, edge_attr, edge_proj, edge_proj_t, edge_terms,
    partial_grad_proj, num_edges, programs, negative_slope: tl.float64,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, FEATURES: tl.constexpr,
    ACTIVATION: tl.constexpr, ACC: tl.constexpr, E: tl.constexpr, H: tl.constexpr,
    C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the edge projection, summed over the edges of this program. Writes
    it, [h, c, d], to the part of ``partial_grad_proj`` that belongs to the program.
    """
    head, head_mask = head_block(HEADS, H)
    feature = tl.arange(0, D)
    negative_slope = acc_scalar(negative_slope, ACC)
    acc = tl.zeros([H * C, D], ACC)
    start = tl.program_id(0).to(tl.int64) * E
    while start < num_edges:
        position = start + tl.arange(0, E)
        grad_z, edge, valid = pre_activation_grad(
            position, num_edges, head, head_mask,
            destination, col, perm, query, key, weight, edge_attr, edge_proj_t, edge_terms,
            negative_slope, HEADS, CHANNELS, FEATURES, ACTIVATION, ACC, C,
        )  # fmt: skip
        a = gather(edge_attr, edge, valid, feature, feature < FEATURES, FEATURES, ACC)
        grad_z = tl.trans(tl.reshape(grad_z, [E, H * C]))
        acc += tl.dot(grad_z, a, input_precision="ieee", out_dtype=ACC)
        start += programs * E
    offset, mask = head_channel_offsets(head, head_mask, CHANNELS, C)
    column = expand_last(tl.reshape(offset, [H * C])) * FEATURES + feature
    exists = expand_last(tl.reshape(mask, [H * C])) & (feature < FEATURES)
    partial = partial_grad_proj + tl.program_id(0).to(tl.int64) * (HEADS * CHANNELS * FEATURES)
    tl.store(partial + column, acc, mask=exists)
