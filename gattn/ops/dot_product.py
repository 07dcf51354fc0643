"""Dot-product attention, with low-dimensional edge features and a bias per edge."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.layout import Layout
from gattn.ops import checks, sdpa
from gattn.ops.backend import select
from gattn.ops.edge import edge_dot, edge_softmax
from gattn.ops.library import below_autograd, define, reference_gradients, value_sum, wants_grad


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    dropout: float = 0.0,
    impl: str | None = None,
) -> Tensor:
    r"""Attend over incoming edges with a dot-product score.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} \alpha_{ij} (v_j + W a_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\tau\, q_i \cdot (k_j + W a_{ij}) + b_{ij}\bigr)

    The edge term is factored: :math:`q \cdot W a = (W^\top q) \cdot a` and
    :math:`\sum \alpha W a = W \sum \alpha a`, so that no tensor of size e x h x c is formed.

    Args:
        query: q, [n, h, c]; fp32, fp64, bf16 or fp16, as all that follow.
        key: k, [m, h, c].
        value: v, [m, h, c_v]; c_v = c where there are edge features.
        graph: the edges, from m sources to n destinations.
        scale: tau; None means 1 / sqrt(c), 1 gives the embedded Gaussian.
        bias: b, [e, h] in the caller's edge order; -inf drops an edge.
        edge_attr: a, [e, d] in the caller's edge order; goes with edge_proj.
        edge_proj: W, [h, c, d].
        dropout: probability of dropping a weight after the softmax; applied as given.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c_v] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device, or one of edge_attr and edge_proj alone.

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
    _check(query, key, bias, edge_attr, edge_proj, graph, value)
    heads, channels = query.shape[1:]
    checks.check_shape("value", value, graph.num_src, heads, "c" if edge_attr is None else channels)
    checks.check_probability("dropout", dropout)
    seed = checks.new_seed(dropout, value.device)
    scale = _resolve_scale(scale, channels)
    plan = sdpa.plan_for(graph, query, value, (bias, edge_attr, seed), impl)
    if plan is not None:
        on_edges = functools.partial(dot_product_attention, scale=scale)
        return sdpa.attend(query, key, value, graph, scale, plan, on_edges)
    backend = select(impl, value.device)
    if backend == "reference":
        return reference.dot_product_attention(
            query, key, value, bias, edge_attr, edge_proj, graph.layout, seed, scale, dropout
        )
    inputs = query, key, value, bias, edge_attr, edge_proj
    needs_backward = wants_grad(*inputs)
    return _forward(*inputs, graph.layout, seed, scale, dropout, needs_backward, backend)[0]


def dot_product_attention_weights(
    query: Tensor,
    key: Tensor,
    graph: Graph,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    impl: str | None = None,
) -> Tensor:
    r"""Weights of :func:`dot_product_attention`, before dropout, one per edge and head.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(\tau\, q_i \cdot (k_j + W a_{ij}) + b_{ij}\bigr)

    Args:
        query: q, [n, h, c].
        key: k, [m, h, c].
        graph: the edges.
        scale: tau; None means 1 / sqrt(c).
        bias: b, [e, h] in the caller's edge order.
        edge_attr: a, [e, d] in the caller's edge order; goes with edge_proj.
        edge_proj: W, [h, c, d].
        impl: force a backend.

    Returns:
        [e, h] in the caller's edge order.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device, or one of edge_attr and edge_proj alone.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.zeros(2, 3, 1, 4)
        >>> gattn.functional.dot_product_attention_weights(q, k, graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    _check(query, key, bias, edge_attr, edge_proj, graph)
    channels = query.shape[2]
    scale, dtype = _resolve_scale(scale, channels), query.dtype
    query, key, bias, edge_attr, edge_proj = checks.to_acc(query, key, bias, edge_attr, edge_proj)
    score = edge_dot(query, key, graph, impl=impl)
    if edge_attr is not None and edge_proj is not None:
        edge_query = _project("nhc,hcd->nhd", query, edge_proj)
        score = score + _edge_term(edge_query, edge_attr, graph, impl)
    score = score * scale
    if bias is not None:
        score = score + bias
    return edge_softmax(score, graph, impl=impl).to(dtype)


def _resolve_scale(scale: float | None, channels: int) -> float:
    if scale is None:
        return max(channels, 1) ** -0.5
    checks.check_number("scale", scale)
    return float(scale)


def _project(equation: str, x: Tensor, weight: Tensor) -> Tensor:
    """A product with W in the dtype of the inputs, whatever autocast would make of it."""
    with torch.autocast(x.device.type, enabled=False):
        return torch.einsum(equation, x, weight)


def _edge_term(edge_query: Tensor, edge_attr: Tensor, graph: Graph, impl: str | None) -> Tensor:
    """(W^T q_i) . a_ij for every edge and head: a product for each edge of the incidence graph."""
    own = Graph.from_layout(graph.layout.incidence())
    return edge_dot(edge_query, edge_attr.unsqueeze(1), own, impl=impl)


def _check(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    graph: Graph,
    value: Tensor | None = None,
) -> None:
    checks.check_graph(graph)
    checks.check_floats(
        graph, query=query, key=key, value=value, bias=bias, edge_attr=edge_attr,
        edge_proj=edge_proj,
    )  # fmt: skip
    checks.check_shape("query", query, graph.num_dst, "h", "c")
    heads, channels = query.shape[1:]
    checks.check_shape("key", key, graph.num_src, heads, channels)
    if bias is not None:
        checks.check_shape("bias", bias, graph.num_edges, heads)
    checks.check_edge_features(edge_attr, edge_proj, graph.num_edges, heads, channels)


class _DotProductAttention(torch.autograd.Function):
    """inputs: q, k, v, bias, a, W; outputs: out and what backward asks for."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        *inputs, layout, seed, scale, dropout, _, backend = args
        outputs = below_autograd(_forward, *args)
        out, row_max, row_sum, out_acc, edge_out = outputs
        statistics = value_sum(out, out_acc), row_max, row_sum, edge_out
        ctx.save_for_backward(*inputs, seed, *statistics, *layout)
        ctx.settings = scale, dropout, backend
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors  # read once, as checkpointing demands
        *inputs, seed = saved[:7]
        statistics, layout = saved[7:11], Layout(*saved[11:])
        scale, dropout, backend = ctx.settings
        if grads[0] is None:
            return (None,) * 12
        if torch.is_grad_enabled():
            found = reference_gradients(
                lambda q, k, v, b, a, proj: reference.dot_product_attention(
                    q, k, v, b, a, proj, layout, seed, scale, dropout
                ),
                tuple(inputs),
                grads[:1],
            )
        else:
            found = _backward(
                grads[0], *inputs, *statistics, layout, seed, scale, dropout,
                ctx.needs_input_grad[4], backend,
            )  # fmt: skip
        given = (
            g if t is not None and needed else None
            for g, t, needed in zip(found, inputs, ctx.needs_input_grad)
        )
        return *given, *(None,) * 6


def _fake_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
    backend: str,
) -> tuple[Tensor, ...]:
    n, heads, _ = query.shape
    shape = n, heads, value.shape[2]
    wide = checks.acc_dtype(query.dtype)
    kept = n if edge_proj is not None and needs_backward else 0
    features = 0 if edge_proj is None else edge_proj.shape[2]
    return (
        value.new_empty(shape),
        value.new_empty(n, heads, dtype=wide),
        value.new_empty(n, heads, dtype=wide),
        checks.empty_out_acc(value, needs_backward, *shape, adds=edge_proj is not None),
        value.new_empty(kept, heads, features, dtype=wide),
    )


def _fake_backward(grad_out: Tensor, *rest: Any) -> Any:
    query, key, value, bias, edge_attr, edge_proj = rest[:6]
    edge_attr = edge_attr if rest[-2] else None
    inputs = query, key, value, bias, edge_attr, edge_proj
    return tuple(grad_out.new_empty(0 if t is None else t.shape) for t in inputs)


_backward = define(
    "dot_product_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? bias, "
    "Tensor? edge_attr, Tensor? edge_proj, Tensor out_acc, Tensor row_max, Tensor row_sum, "
    "Tensor edge_out, Tensor[] layout, Tensor? seed, float scale, float dropout, "
    "bool wants_edge_attr, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _fake_backward,
)
_forward = define(
    "dot_product_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, "
    "Tensor? edge_attr, Tensor? edge_proj, Tensor[] layout, Tensor? seed, float scale, "
    "float dropout, bool needs_backward, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _fake_forward,
    _DotProductAttention,
)
