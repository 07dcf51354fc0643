"""Building blocks over edges: softmax of any score, weighted sums, and dot products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.layout import Layout
from gattn.ops import checks
from gattn.ops.backend import select
from gattn.ops.library import below_autograd, define, reference_gradients


def edge_softmax(score: Tensor, graph: Graph, *, impl: str | None = None) -> Tensor:
    r"""Softmax of a score over the edges into each destination, per head.

    .. math:: \alpha_{ij} = \frac{\exp s_{ij}}{\sum_{k \in N(i)} \exp s_{ik}}

    Args:
        score: s, [e, h] in the caller's edge order; fp32, fp64, bf16 or fp16. -inf drops an edge.
        graph: the edges.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order and the dtype of score; edges whose whole
        neighbourhood is -inf get zero.

    Raises:
        TypeError: for a dtype that is not floating.
        ValueError: for a wrong shape or device.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), equation 3.

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> gattn.functional.edge_softmax(torch.zeros(3, 1), graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    checks.check_graph(graph)
    checks.check_floats(graph, score=score)
    checks.check_shape("score", score, graph.num_edges, "h")
    backend = select(impl, score.device)
    if backend == "reference":
        return reference.edge_softmax(score, graph.layout)
    return _softmax(score, graph.layout, backend)


def aggregate(weight: Tensor, value: Tensor, graph: Graph, *, impl: str | None = None) -> Tensor:
    r"""Sum the values of incoming edges with given weights.

    .. math:: \mathrm{out}_i = \sum_{j \in N(i)} w_{ij} v_j

    Args:
        weight: w, [e, h] in the caller's edge order; fp32, fp64, bf16 or fp16.
        value: v, [m, h_v, c] in the same dtype; its h_v heads serve the h heads in turn.
        graph: the edges, from m sources to n destinations.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c]; zeros for a node with no incoming edge.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device.

    Reference:
        Gilmer et al., "Neural message passing for quantum chemistry" (ICML 2017).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1], [1, 1]]), 2)
        >>> gattn.functional.aggregate(torch.ones(2, 1), torch.ones(2, 1, 1), graph).squeeze()
        tensor([0., 2.])
    """
    checks.check_graph(graph)
    checks.check_floats(graph, weight=weight, value=value)
    checks.check_shape("weight", weight, graph.num_edges, "h")
    checks.check_shape("value", value, graph.num_src, "h_v", "c")
    checks.check_grouped("value", weight.shape[1], value.shape[1])
    backend = select(impl, value.device)
    if backend == "reference":
        return reference.aggregate(weight, value, graph.layout)
    return _aggregate(weight, value, graph.layout, False, backend)


def edge_dot(query: Tensor, key: Tensor, graph: Graph, *, impl: str | None = None) -> Tensor:
    r"""Dot product of the query and the key at the two ends of each edge, per head.

    .. math:: s_{ij} = q_i \cdot k_j

    Args:
        query: q, [n, h, c]; fp32, fp64, bf16 or fp16.
        key: k, [m, h_k, c] in the same dtype; its h_k heads serve the h heads in turn.
        graph: the edges, from m sources to n destinations.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> gattn.functional.edge_dot(torch.ones(2, 1, 3), torch.ones(2, 1, 3), graph).squeeze()
        tensor([3., 3.])
    """
    checks.check_graph(graph)
    checks.check_floats(graph, query=query, key=key)
    checks.check_shape("query", query, graph.num_dst, "h", "c")
    checks.check_shape("key", key, graph.num_src, "h_k", query.shape[2])
    checks.check_grouped("key", query.shape[1], key.shape[1])
    backend = select(impl, query.device)
    if backend == "reference":
        return reference.edge_dot(query, key, graph.layout)
    return _dot(query, key, graph.layout, backend)


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor, layout: list[Tensor], backend: str) -> Tensor:
        alpha = below_autograd(_softmax, score, layout, backend)
        ctx.save_for_backward(score, alpha, *layout)
        ctx.backend = backend
        return alpha

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        score, alpha, *layout = ctx.saved_tensors
        if torch.is_grad_enabled():
            (found,) = reference_gradients(
                lambda s: reference.edge_softmax(s, Layout(*layout)), (score,), (grad,)
            )
        else:
            found = _softmax_backward(grad, alpha, layout, ctx.backend)
        return found, None, None


class _Aggregate(torch.autograd.Function):
    """Forward sums over the edges into a node or, transposed, over those out of it."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        weight, value, layout, transposed, backend = args
        ctx.save_for_backward(weight, value, *layout)
        ctx.settings = transposed, backend
        return below_autograd(_aggregate, weight, value, layout, transposed, backend)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        weight, value, *layout = ctx.saved_tensors
        transposed, backend = ctx.settings
        grad_weight = grad_value = None
        if ctx.needs_input_grad[0]:
            ends = (value, grad) if transposed else (grad, value)
            grad_weight = _dot_grouped(*ends, layout, backend)
        if ctx.needs_input_grad[1]:
            summed = _aggregate(weight, grad, layout, not transposed, backend)
            grad_value = _fold_heads(summed, value.shape[1])
        return grad_weight, grad_value, None, None, None


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, layout: list[Tensor], backend: str) -> Tensor:
        ctx.save_for_backward(query, key, *layout)
        ctx.backend = backend
        return below_autograd(_dot, query, key, layout, backend)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        query, key, *layout = ctx.saved_tensors
        grad_query = grad_key = None
        if ctx.needs_input_grad[0]:
            grad_query = _aggregate(grad, key, layout, False, ctx.backend)
        if ctx.needs_input_grad[1]:
            summed = _aggregate(grad, query, layout, True, ctx.backend)
            grad_key = _fold_heads(summed, key.shape[1])
        return grad_query, grad_key, None, None


def _dot_grouped(query: Tensor, key: Tensor, layout: list[Tensor], backend: str) -> Tensor:
    """Dot products where either end may hold the fewer heads."""
    if 0 < query.shape[1] < key.shape[1]:
        query = query.repeat(1, key.shape[1] // query.shape[1], 1)
    return _dot(query, key, layout, backend)


def _fold_heads(x: Tensor, heads: int) -> Tensor:
    """Sum the heads that one grouped head served: [n, h, c] to [n, heads, c]."""
    return x if x.shape[1] == heads else x.unflatten(1, (x.shape[1] // heads, heads)).sum(1)


def _fake_aggregate(
    weight: Tensor, value: Tensor, layout: list[Tensor], transposed: bool, backend: str
) -> Tensor:
    rows = layout[3 if transposed else 0].shape[0] - 1
    return value.new_empty(rows, weight.shape[1], value.shape[2])


_softmax_backward = define(
    "edge_softmax_backward(Tensor grad, Tensor alpha, Tensor[] layout, str backend) -> Tensor",
    lambda grad, alpha, layout, backend: alpha.new_empty(alpha.shape),
)
_softmax = define(
    "edge_softmax(Tensor score, Tensor[] layout, str backend) -> Tensor",
    lambda score, layout, backend: score.new_empty(score.shape),
    _EdgeSoftmax,
)
_aggregate = define(
    "aggregate(Tensor weight, Tensor value, Tensor[] layout, bool transposed, str backend) "
    "-> Tensor",
    _fake_aggregate,
    _Aggregate,
)
_dot = define(
    "edge_dot(Tensor query, Tensor key, Tensor[] layout, str backend) -> Tensor",
    lambda query, key, layout, backend: query.new_empty(layout[1].shape[0], query.shape[1]),
    _EdgeDot,
)
