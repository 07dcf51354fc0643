"""Reference implementation of every operator in plain PyTorch. It is also the fallback, and is used
for exports.

Autograd can differentiate each function to any order. The functions read and write tensors of size
edges x channels, which the fused kernels avoid. Edge inputs and outputs are in the caller's order;
inside, edges are in CSR order. 16-bit inputs are computed in fp32.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from gattn.kernels import philox
from gattn.kernels.precision import acc_dtype
from gattn.layout.layout import Layout, num_rows


def rows_of_edges(
    tensors: Mapping[str, Tensor | None], shapes: Mapping[str, str], layout: Layout
) -> dict[str, Tensor | None]:
    """Return, for each tensor, its row for every edge, in CSR order and in the accumulation dtype.

    ``shapes`` are strings such as "n h c" (see :mod:`gattn.ops.registration.shapes`). The first
    letter of the shape decides which row an edge reads: n the row of its destination, m the row of
    its source, and e its own row. Other tensors have no rows of edges, and are only converted, and
    None remains None.
    """

    def of_edges(x: Tensor, letter: str) -> Tensor:
        """Return the row of x for every edge by the first letter of its shape."""
        x = _to_acc(x)
        if letter == "n":
            return x[layout.destinations()]
        if letter == "m":
            return x[layout.col.long()]
        return x[layout.perm.long()] if letter == "e" else x

    return {n: None if x is None else of_edges(x, shapes[n][0]) for n, x in tensors.items()}


def project(edge_attr: Tensor | None, edge_proj: Tensor | None) -> Tensor | None:
    """Compute the edge term W a_ij of every edge, [e, h, c], where a is [e, d] and W is [h, c, d].

    The result is None without edge features.
    """
    if edge_attr is None or edge_proj is None:
        return None
    return torch.einsum("ed,hcd->ehc", edge_attr, edge_proj)


def to_caller(edges: Tensor, layout: Layout) -> Tensor:
    """Reorder rows from CSR order to the caller's order of edges."""
    return torch.empty_like(edges).index_copy(0, layout.perm.long(), edges)


def attend(
    score: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    edge_weight: Tensor | None,
    layout: Layout,
    seed: Tensor | None,
    dropout: float,
    edge_value: Tensor | None = None,
) -> Tensor:
    """Compute out_i = sum_j w_ij softmax_j(score_ij + bias_ij) (v_j + x_ij): [n, h, c].

    The score [e, h] and the optional ``edge_value`` x [e, h, c] are in CSR order, the bias [e, h]
    or [e, 1] and w_ij, which is the ``edge_weight`` [e], in the caller's order. Dropout with the
    seed [2] is applied to the softmax, unless the seed is None. The result has the dtype of the
    value, and zeros for a node without edges.
    """
    if attn_bias is not None:
        score = score + _to_acc(attn_bias)[layout.perm.long()]
    alpha = _drop(_softmax(score, layout), seed, dropout)
    if edge_weight is not None:
        alpha = alpha * _to_acc(edge_weight)[layout.perm.long()].unsqueeze(1)
    return _sum(alpha, value, layout, edge_value)


def edge_softmax(score: Tensor, layout: Layout) -> Tensor:
    """Compute the softmax of scores [e, h] over the edges into each destination: [e, h].

    Scores and result are in the caller's order.
    """
    alpha = _softmax(_to_acc(score)[layout.perm.long()], layout)
    return to_caller(alpha, layout).to(score.dtype)


def aggregate(weight: Tensor, value: Tensor, layout: Layout, transposed: bool = False) -> Tensor:
    """Compute out_i = sum_j w_ij v_j: [n, h, c]. The weights are [e, h] in the caller's order of
    edges, and the values [m, h_v, c], where h_v divides h.

    The result has the dtype of the value. If ``transposed``, the values are [n, h_v, c], and the
    sum runs over the edges out of each source: out_j = sum_i w_ij v_i, [m, h, c].
    """
    layout = layout.transpose() if transposed else layout
    return _sum(_to_acc(weight)[layout.perm.long()], value, layout)


def edge_dot(query: Tensor, key: Tensor, layout: Layout) -> Tensor:
    """Compute q_i . k_j for every edge and head, [e, h] in the caller's order of edges, from
    queries [n, h, c] and keys [m, h_k, c], where h_k divides h.
    """
    keys = _repeat_heads(_to_acc(key)[layout.col.long()], query.shape[1])
    score = (_to_acc(query)[layout.destinations()] * keys).sum(-1)
    return to_caller(score, layout).to(query.dtype)


def node_scores(value: Tensor, vectors: Tensor) -> Tensor:
    """Compute s_tjh = v_jh . a_th for features v [m, h, c] and vectors a [t, h, c]: [t, m, h]."""
    return torch.einsum("mhc,thc->tmh", value, vectors)


def dropout(x: Tensor, seed: Tensor | None, dropout: float) -> Tensor:
    """Apply dropout to x, [k]: set dropped values to zero, and multiply the others by 1 / (1 -
    dropout). Without a seed, x is returned unchanged.
    """
    if seed is None:
        return x
    mask = philox.keep_numbers(seed, x.shape[0], dropout)
    scale = 1 / (1 - dropout) if dropout < 1 else 0.0
    return (_to_acc(x) * mask * scale).to(x.dtype)


def _to_acc(x: Tensor) -> Tensor:
    """Convert a tensor to its accumulation dtype."""
    return x.to(acc_dtype(x.dtype))


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


def _drop(alpha: Tensor, seed: Tensor | None, dropout: float) -> Tensor:
    """Apply dropout to weights [e, h] in CSR order: set dropped weights to zero and multiply the
    others by 1 / (1 - dropout). Without a seed, nothing is dropped.
    """
    if seed is None:
        return alpha
    if dropout >= 1:
        return alpha * 0
    return alpha * philox.keep(seed, alpha.shape[0], alpha.shape[1], dropout) / (1 - dropout)


def _sum(alpha: Tensor, value: Tensor, layout: Layout, edge_value: Tensor | None = None) -> Tensor:
    """Compute out_i = sum_j alpha_ij (v_j + x_ij), where x_ij is the optional ``edge_value``: [n,
    h, c] in the dtype of the value. The weights alpha [e, h] and x [e, h, c] are in CSR order.

    The h_v heads of the value [m, h_v, c] are repeated for the h heads of alpha.
    """
    values = _repeat_heads(_to_acc(value)[layout.col.long()], alpha.shape[1])
    if edge_value is not None:
        values = values + edge_value
    out = values.new_zeros(num_rows(layout.rowptr), *values.shape[1:])
    return out.index_add(0, layout.destinations(), alpha.unsqueeze(-1) * values).to(value.dtype)
