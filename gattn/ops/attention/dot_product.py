"""Dot-product attention with optional edge features and an optional bias for each edge."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.precision import to_acc
from gattn.ops.attention import sdpa
from gattn.ops.edges import edge_dot, edge_softmax
from gattn.ops.registration import checks
from gattn.ops.registration.family import Family
from gattn.ops.registration.shapes import Out, acc, out_acc


def _score(
    query: Tensor, key: Tensor, edge_attr: Tensor | None, edge_proj: Tensor | None, scale: float
) -> Tensor:
    """Compute scale q_i . (k_j + W a_ij) of every edge and head, [e, h], from the rows of its ends:
    q and k are [e, h, c], a is [e, d], and W is [h, c, d].
    """
    projected = reference.project(edge_attr, edge_proj)
    return scale * (query * (key if projected is None else key + projected)).sum(-1)


DOT_PRODUCT = Family(
    "dot_product",
    inputs={
        "query": "n h c", "key": "m h c", "value": "m h w", "attn_bias": "e b?",
        "edge_attr": "e d?", "edge_proj": "h c d?", "edge_weight": "e?",
    },
    settings={"scale": float, "dropout": float},
    outputs={
        "out": Out("n h w"),
        "row_max": acc("n h"),
        "row_sum": acc("n h"),
        "out_acc": out_acc("n h w", added="edge_proj"),
        "edge_out": acc("n h d", "edge_proj", "needs_backward"),
    },
    score=_score,
    edges_in_value=True,
    optional_grads=["attn_bias", "edge_attr", "edge_weight"],
)  # fmt: skip


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    scale: float | None = None,
    attn_bias: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    edge_weight: Tensor | None = None,
    dropout: float = 0.0,
    backend: str | None = None,
) -> Tensor:
    r"""Compute attention over the incoming edges of each node, with a dot product as score.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} w_{ij}\, \alpha_{ij} (v_j + W a_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\tau\, q_i \cdot (k_j + W a_{ij}) + b_{ij}\bigr)

    The edge term is factored: :math:`q \cdot W a = (W^\top q) \cdot a` and
    :math:`\sum \alpha W a = W \sum \alpha a`, so that no tensor of size e x h x c is allocated.

    Args:
        query: q, [n, h, c]. All tensors have the same dtype: fp32, fp64, bf16 or fp16.
        key: k, [m, h, c].
        value: v, [m, h, c_v]; with edge features, c_v must be c.
        graph: the edges, from m sources to n destinations.
        scale: tau; None means 1 / sqrt(c), 1 gives the embedded Gaussian.
        attn_bias: b, [e, h] in the caller's edge order, or [e, 1] for all heads; -inf drops an
            edge. A boolean mask keeps the edges that are True.
        edge_attr: a, [e, d] in the caller's edge order; requires edge_proj.
        edge_proj: W, [h, c, d]; requires edge_attr.
        edge_weight: w, [e] in the caller's edge order, or None if all weights are 1; multiplies the
            weights after the softmax.
        dropout: probability of dropping a weight after the softmax; there is no evaluation mode.
            torch's generator draws the key of the mask.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c_v] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            scale that is not a number.
        ValueError: for a wrong shape, device, dropout or backend, or if only one of edge_attr and
            edge_proj is passed.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017); with edge features, Shi et al.,
        "Masked label prediction" (IJCAI 2021).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k, v = torch.randn(3, 3, 8, 16)
        >>> gattn.functional.dot_product_attention(q, k, v, graph).shape
        torch.Size([3, 8, 16])
    """
    attn_bias = checks.as_bias(attn_bias, value)
    edges = attn_bias, edge_attr, edge_proj, edge_weight
    DOT_PRODUCT.check(graph, (query, key, value, *edges))
    heads, channels = query.shape[1:]
    if edge_attr is not None:
        checks.check_shape("value", value, graph.num_src, heads, channels)
    checks.check_probability("dropout", dropout)
    graph, (key, value) = graph.fetch_source_rows(key, value)
    seed = checks.new_seed(dropout, value.device, graph.edge_offset)
    scale = _resolve_scale(scale, channels)
    plan = sdpa.plan_for(graph, query, value, (*edges, seed), backend)
    if plan is not None:
        on_edges = functools.partial(dot_product_attention, scale=scale)
        return sdpa.attend_blocks(query, key, value, graph, scale, plan, on_edges)
    inputs = query, key, value, *edges
    return DOT_PRODUCT.run(inputs, graph.layout, seed, (scale, dropout), backend)


def dot_product_attention_weights(
    query: Tensor,
    key: Tensor,
    graph: Graph,
    *,
    scale: float | None = None,
    attn_bias: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""Compute the attention weights of :func:`dot_product_attention`, before dropout.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\tau\, q_i \cdot (k_j + W a_{ij}) + b_{ij}\bigr)

    Args:
        query: q, [n, h, c].
        key: k, [m, h, c].
        graph: the edges.
        scale: tau; None means 1 / sqrt(c).
        attn_bias: b, [e, h] or [e, 1] in the caller's edge order.
        edge_attr: a, [e, d] in the caller's edge order; requires edge_proj.
        edge_proj: W, [h, c, d]; requires edge_attr.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order and the dtype of query; no rows without edges.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            scale that is not a number.
        ValueError: for a wrong shape, device or backend, or if only one of edge_attr and edge_proj
            is passed.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.zeros(2, 3, 1, 4)
        >>> gattn.functional.dot_product_attention_weights(q, k, graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    attn_bias = checks.as_bias(attn_bias, query)
    DOT_PRODUCT.check(graph, (query, key, None, attn_bias, edge_attr, edge_proj, None), False)
    channels = query.shape[2]
    scale, dtype = _resolve_scale(scale, channels), query.dtype
    query, key, attn_bias, edge_attr, edge_proj = to_acc(
        query, key, attn_bias, edge_attr, edge_proj
    )
    score = edge_dot(query, key, graph, backend=backend)
    if edge_attr is not None and edge_proj is not None:
        edge_query = _project("nhc,hcd->nhd", query, edge_proj)
        score = score + _edge_term(edge_query, edge_attr, graph, backend)
    score = score * scale
    if attn_bias is not None:
        score = score + attn_bias
    return edge_softmax(score, graph, backend=backend).to(dtype)


def _resolve_scale(scale: float | None, channels: int) -> float:
    """Return the factor of the dot product, by default 1 / sqrt(channels). Raises TypeError if it
    is no number.
    """
    if scale is None:
        return max(channels, 1) ** -0.5
    checks.check_number("scale", scale)
    return float(scale)


def _project(equation: str, x: Tensor, weight: Tensor) -> Tensor:
    """Multiply by the weight W with einsum in the dtype of the inputs, without autocast."""
    with torch.autocast(x.device.type, enabled=False):
        return torch.einsum(equation, x, weight)


def _edge_term(edge_query: Tensor, edge_attr: Tensor, graph: Graph, backend: str | None) -> Tensor:
    """Compute the edge term (W^T q_i) . a_ij for every edge and head, [e, h], from ``edge_query``,
    which is W^T q_i, [n, h, d], and ``edge_attr`` [e, d] in the caller's order.

    The incidence graph has one edge from each edge of the graph to its destination. Raises the
    errors of :func:`edge_dot`.
    """
    return edge_dot(edge_query, edge_attr.unsqueeze(1), graph.incidence(), backend=backend)
