"""Attention with GAT's score, which is a sum of scalars of the two nodes and of the edge."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels.precision import to_acc
from gattn.ops.edges import edge_softmax, sources_to_edges, to_edges
from gattn.ops.registration import checks
from gattn.ops.registration.family import Family
from gattn.ops.registration.operator import wants_grad
from gattn.ops.registration.shapes import Out, acc, out_acc


def _score(
    query_score: Tensor, key_score: Tensor, edge_score: Tensor | None, negative_slope: float
) -> Tensor:
    """Compute LeakyReLU(a_i + b_j + c_ij) of every edge and head: [e, h], like all arguments."""
    score = query_score + key_score
    score = score if edge_score is None else score + edge_score
    return F.leaky_relu(score, negative_slope)


GAT = Family(
    "gat",
    inputs={
        "query_score": "n h", "key_score": "m h", "value": "m u c", "edge_score": "e h?",
        "attn_bias": "e b?", "edge_weight": "e?",
    },
    settings={"negative_slope": float, "dropout": float},
    flags=["save_positive_part"],
    outputs={
        "out": Out("n h c"),
        "row_max": acc("n h"),
        "row_sum": acc("n h"),
        "out_pos_centered": acc("n h c", "save_positive_part"),
        "out_acc": out_acc("n h c"),
    },
    score=_score,
    optional_grads=["attn_bias", "edge_weight"],
)  # fmt: skip


def gat_attention(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    edge_score: Tensor | None = None,
    attn_bias: Tensor | None = None,
    edge_weight: Tensor | None = None,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    backend: str | None = None,
) -> Tensor:
    r"""Compute attention over the incoming edges of each node with GAT's score.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} w_{ij}\, \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\mathrm{LeakyReLU}(a_i + b_j + c_{ij}) + \beta_{ij}\bigr)

    Args:
        query_score: a, [n, h]. All tensors have the same dtype: fp32, fp64, bf16 or fp16.
        key_score: b, [m, h].
        value: v, [m, h_v, c]; h_v divides h, and head i uses the values of head i modulo h_v.
        graph: the edges, from m sources to n destinations.
        edge_score: c, [e, h] in the caller's edge order, or None for zero.
        attn_bias: beta, [e, h] in the caller's edge order, or [e, 1] for all heads;
            -inf drops an edge. A boolean mask keeps the edges that are True.
        edge_weight: w, [e] in the caller's edge order, or None if all weights are 1; multiplies the
            weights after the softmax.
        negative_slope: slope of the LeakyReLU below zero; 1 makes it the identity.
        dropout: probability of dropping a weight after the softmax; there is no evaluation mode.
            torch's generator draws the key of the mask.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            negative_slope that is not a number.
        ValueError: for a wrong shape, device, dropout or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> a, b, v = torch.randn(3, 8), torch.randn(3, 8), torch.randn(3, 8, 16)
        >>> gattn.functional.gat_attention(a, b, v, graph).shape
        torch.Size([3, 8, 16])
    """
    attn_bias = checks.as_bias(attn_bias, value)
    terms = edge_score, attn_bias, edge_weight
    GAT.check(graph, (query_score, key_score, value, *terms))
    checks.check_number("negative_slope", negative_slope)
    checks.check_probability("dropout", dropout)
    graph, (key_score, value) = graph.fetch_source_rows(key_score, value)
    seed = checks.new_seed(dropout, value.device, graph.edge_offset)
    inputs = query_score, key_score, value, *terms
    # To compute the gradient of query_score, backward needs this statistic in addition to the
    # output. If the slope is 1, this gradient is zero, because adding a constant to all scores of a
    # row does not change the softmax.
    save_positive_part = wants_grad(query_score) and negative_slope != 1
    settings, flags = (negative_slope, dropout), (save_positive_part,)
    return GAT.run(inputs, graph.layout, seed, settings, backend, flags)


def attend_by_score(
    score: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    edge_weight: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Sum the values with weights that are the softmax of scores [e, h]: [n, h, c]. The scores and
    ``edge_weight`` [e] are in the caller's edge order.

    This is GAT's attention with zero scores of the nodes. Dropout draws from torch's generator. If
    score and value have different dtypes, as under autocast, the computation runs in the wider one
    and returns the value's dtype. Raises TypeError or ValueError for inputs whose dtype, device or
    shape does not fit.
    """
    if score.dtype != value.dtype:
        checks.check_floats(graph, value=value)
        dtype = torch.promote_types(score.dtype, value.dtype)
        weight = None if edge_weight is None else edge_weight.to(dtype)
        promoted = score.to(dtype), value.to(dtype)
        out = attend_by_score(*promoted, graph, edge_weight=weight, dropout=dropout)
        return out.to(value.dtype)
    graph, (value,) = graph.fetch_source_rows(value)
    zeros = score.new_zeros(1, score.shape[1])
    query_score, key_score = (zeros.expand(count, -1) for count in (graph.num_dst, graph.num_src))
    return gat_attention(
        query_score, key_score, value, graph, edge_score=score, edge_weight=edge_weight,
        negative_slope=1.0, dropout=dropout,
    )  # fmt: skip


def gat_attention_weights(
    query_score: Tensor,
    key_score: Tensor,
    graph: Graph,
    *,
    edge_score: Tensor | None = None,
    attn_bias: Tensor | None = None,
    negative_slope: float = 0.2,
    backend: str | None = None,
) -> Tensor:
    r"""Compute the attention weights of :func:`gat_attention`, before dropout.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\mathrm{LeakyReLU}(a_i + b_j + c_{ij}) + \beta_{ij}\bigr)

    Args:
        query_score: a, [n, h].
        key_score: b, [m, h].
        graph: the edges.
        edge_score: c, [e, h] in the caller's edge order, or None for zero.
        attn_bias: beta, [e, h] or [e, 1] in the caller's edge order.
        negative_slope: slope of the LeakyReLU below zero.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order and the dtype of query_score; no rows without edges.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            negative_slope that is not a number.
        ValueError: for a wrong shape, device or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> a, b = torch.zeros(3, 1), torch.zeros(3, 1)
        >>> gattn.functional.gat_attention_weights(a, b, graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    attn_bias = checks.as_bias(attn_bias, query_score)
    GAT.check(graph, (query_score, key_score, None, edge_score, attn_bias, None), False)
    checks.check_number("negative_slope", negative_slope)
    graph, (key_score,) = graph.fetch_source_rows(key_score)
    query, key, edge, attn_bias = to_acc(query_score, key_score, edge_score, attn_bias)
    query, key = to_edges(query, graph), sources_to_edges(key, graph)
    score = _score(query, key, edge, negative_slope)
    score = score if attn_bias is None else score + attn_bias
    return edge_softmax(score, graph, backend=backend).to(query_score.dtype)
