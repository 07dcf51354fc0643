"""Reference implementation of every operator in plain PyTorch. It is also the fallback, and is used
for exports.

Autograd can differentiate each function to any order. The functions read and write tensors of size
edges x channels, which the fused kernels avoid. Edge inputs and outputs are in the caller's order;
inside, edges are in CSR order. 16-bit inputs are computed in fp32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.kernels import philox
from gattn.kernels.precision import acc_dtype
from gattn.layout.layout import Layout, num_rows


def gat_attention(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    layout: Layout,
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> Tensor:
    """Compute out_i = sum_j w_ij softmax_j(LeakyReLU(a_i + b_j + c_ij) + bias_ij) v_j: [n, h, c].

    a, b and c are scalars per head, w_ij is one number per edge.
    """
    score = _gat_score(query_score, key_score, edge_score, layout, negative_slope)
    return _attend(_biased(score, attn_bias, layout), value, edge_weight, layout, seed, dropout)


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    edge_weight: Tensor | None,
    layout: Layout,
    seed: Tensor | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """Compute out_i = sum_j w_ij softmax_j(scale q_i . (k_j + W a_ij) + bias_ij) (v_j + W a_ij).

    The result is [n, h, c_v].
    """
    score = _dot_product_score(query, key, edge_attr, edge_proj, layout, scale)
    score, projected = _biased(score, attn_bias, layout), _project(edge_attr, edge_proj, layout)
    return _attend(score, value, edge_weight, layout, seed, dropout, projected)


def gatv2_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    layout: Layout,
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
) -> Tensor:
    """Compute out_i = sum_j w_ij softmax_j(u . act(q_i + k_j + W a_ij) + bias_ij) v_j: [n, h, c_v].

    u is the ``weight`` of the score and w_ij the ``edge_weight``. If value is None, v is k.
    """
    edges = edge_attr, edge_proj
    score = _gatv2_score(query, key, weight, *edges, layout, activation, negative_slope)
    value = key if value is None else value
    return _attend(_biased(score, attn_bias, layout), value, edge_weight, layout, seed, dropout)


def gatv2_score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: Layout,
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Compute w . act(q_i + k_j + W a_ij) for every edge and head: [e, h], in the caller's order of
    edges.

    w is the ``weight``.
    """
    edges = edge_attr, edge_proj
    score = _gatv2_score(query, key, weight, *edges, layout, activation, negative_slope)
    return _to_caller(score, layout).to(query.dtype)


def edge_softmax(score: Tensor, layout: Layout) -> Tensor:
    """Compute the softmax of scores [e, h] over the edges into each destination: [e, h].

    Scores and result are in the caller's order.
    """
    alpha = _softmax(_to_acc(score)[layout.perm.long()], layout)
    return _to_caller(alpha, layout).to(score.dtype)


def aggregate(weight: Tensor, value: Tensor, layout: Layout, transposed: bool = False) -> Tensor:
    """Compute out_i = sum_j w_ij v_j: [n, h, c]. The weights are [e, h] in the caller's order of
    edges.

    If ``transposed``, the sum runs over the edges out of each source: out_j = sum_i w_ij v_i.
    """
    layout = layout.transpose() if transposed else layout
    return _sum(_to_acc(weight)[layout.perm.long()], value, layout)


def edge_dot(query: Tensor, key: Tensor, layout: Layout) -> Tensor:
    """Compute q_i . k_j for every edge and head: [e, h], in the caller's order of edges."""
    score = _dot_product_score(query, key, None, None, layout, 1.0)
    return _to_caller(score, layout).to(query.dtype)


def node_scores(value: Tensor, vectors: Tensor) -> Tensor:
    """Compute s_tjh = v_jh . a_th for features v [m, h, c] and vectors a [t, h, c]: [t, m, h]."""
    return torch.einsum("mhc,thc->tmh", value, vectors)


def dropout(x: Tensor, seed: Tensor | None, dropout: float) -> Tensor:
    """Apply dropout to x, [k]: set dropped values to zero, and multiply the others by 1 / (1 -
    dropout).
    """
    if seed is None:
        return x
    mask = philox.keep_numbers(seed, x.shape[0], dropout)
    scale = 1 / (1 - dropout) if dropout < 1 else 0.0
    return (_to_acc(x) * mask * scale).to(x.dtype)


def _to_caller(edges: Tensor, layout: Layout) -> Tensor:
    """Reorder rows from CSR order to the caller's order of edges."""
    return torch.empty_like(edges).index_copy(0, layout.perm.long(), edges)


def _gat_score(
    query_score: Tensor,
    key_score: Tensor,
    edge_score: Tensor | None,
    layout: Layout,
    negative_slope: float,
) -> Tensor:
    """Compute LeakyReLU(a_i + b_j + c_ij) for every edge in CSR order: [e, h]."""
    score = _to_acc(query_score)[layout.destinations()] + _to_acc(key_score)[layout.col.long()]
    if edge_score is not None:
        score = score + _to_acc(edge_score)[layout.perm.long()]
    return F.leaky_relu(score, negative_slope)


def _dot_product_score(
    query: Tensor,
    key: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: Layout,
    scale: float,
) -> Tensor:
    """Compute scale q_i . (k_j + W a_ij) for every edge in CSR order: [e, h]."""
    keys = _repeat_heads(_to_acc(key)[layout.col.long()], query.shape[1])
    projected = _project(edge_attr, edge_proj, layout)
    if projected is not None:
        keys = keys + projected
    return scale * (_to_acc(query)[layout.destinations()] * keys).sum(-1)


def _gatv2_score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: Layout,
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Compute w . act(q_i + k_j + W a_ij) for every edge in CSR order, [e, h], where w is [h,
    c].
    """
    hidden = _to_acc(query)[layout.destinations()] + _to_acc(key)[layout.col.long()]
    projected = _project(edge_attr, edge_proj, layout)
    if projected is not None:
        hidden = hidden + projected
    hidden = hidden.tanh() if activation == "tanh" else F.leaky_relu(hidden, negative_slope)
    return (_to_acc(weight) * hidden).sum(-1)


def _biased(score: Tensor, attn_bias: Tensor | None, layout: Layout) -> Tensor:
    """Add the bias of each edge, [e, h] or [e, 1], to scores in CSR order."""
    return score if attn_bias is None else score + _to_acc(attn_bias)[layout.perm.long()]


def _to_acc(x: Tensor) -> Tensor:
    """Convert a tensor to its accumulation dtype."""
    return x.to(acc_dtype(x.dtype))


def _project(edge_attr: Tensor | None, edge_proj: Tensor | None, layout: Layout) -> Tensor | None:
    """Compute the edge term W a_ij of every edge in CSR order, [e, h, c], where a is [e, d] and
    W is [h, c, d].
    """
    if edge_attr is None or edge_proj is None:
        return None
    return torch.einsum("ed,hcd->ehc", _to_acc(edge_attr)[layout.perm.long()], _to_acc(edge_proj))


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat the heads of x until it has ``heads`` heads: [e, heads, c]."""
    return x if x.shape[1] == heads else x.repeat(1, heads // x.shape[1], 1)


def _softmax(score: Tensor, layout: Layout) -> Tensor:
    """Compute the softmax over each row of scores in CSR order: [e, h].

    If all scores of a row are -inf, the result is zero; NaN stays NaN.
    """
    row = layout.destinations()
    index = row[:, None].expand_as(score)
    empty = score.new_full((num_rows(layout.rowptr), score.shape[1]), -torch.inf)
    largest = empty.scatter_reduce(0, index, score.detach(), "amax")
    largest = largest.masked_fill(largest == -torch.inf, 0.0)
    exp = (score - largest[row]).exp()
    total = torch.zeros_like(empty).index_add(0, row, exp)
    return exp / total.masked_fill(total == 0, 1.0)[row]


def _attend(
    score: Tensor,
    value: Tensor,
    edge_weight: Tensor | None,
    layout: Layout,
    seed: Tensor | None,
    dropout: float,
    edge_value: Tensor | None = None,
) -> Tensor:
    """Sum the values of neighbours with weights from softmax, dropout and edge weights."""
    alpha = _drop(_softmax(score, layout), seed, dropout)
    if edge_weight is not None:
        alpha = alpha * _to_acc(edge_weight)[layout.perm.long()].unsqueeze(1)
    return _sum(alpha, value, layout, edge_value)


def _drop(alpha: Tensor, seed: Tensor | None, dropout: float) -> Tensor:
    """Apply dropout: set dropped weights to zero and multiply the others by 1 / (1 - dropout)."""
    if seed is None:
        return alpha
    if dropout >= 1:
        return alpha * 0
    return alpha * philox.keep(seed, alpha.shape[0], alpha.shape[1], dropout) / (1 - dropout)


def _sum(alpha: Tensor, value: Tensor, layout: Layout, edge_value: Tensor | None = None) -> Tensor:
    """Compute out_i = sum_j alpha_ij (v_j + x_ij), where x_ij is the optional ``edge_value``.

    The h_v heads of value are repeated for the h heads of alpha.
    """
    values = _repeat_heads(_to_acc(value)[layout.col.long()], alpha.shape[1])
    if edge_value is not None:
        values = values + edge_value
    out = values.new_zeros(num_rows(layout.rowptr), *values.shape[1:])
    return out.index_add(0, layout.destinations(), alpha.unsqueeze(-1) * values).to(value.dtype)
