"""Functions on edges: softmax of scores, weighted sums into destinations, and dot products."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.cache import cached
from gattn.kernels import reference
from gattn.layout.layout import Layout
from gattn.ops.registration import checks
from gattn.ops.registration.backend import is_transformed
from gattn.ops.registration.derivatives import by_kernel
from gattn.ops.registration.operator import DIMENSIONS, Gradients, Operator, SavedValues
from gattn.ops.registration.shapes import Out


def edge_softmax(score: Tensor, graph: Graph, *, backend: str | None = None) -> Tensor:
    r"""Compute the softmax of scores over the edges into each destination, separately for each
    head.

    .. math:: \alpha_{ij} = \frac{\exp s_{ij}}{\sum_{k \in N(i)} \exp s_{ik}}

    Args:
        score: s, [e, h] in the caller's edge order; fp32, fp64, bf16 or fp16. -inf drops an edge.
        graph: the edges.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order and the dtype of score. If all edges into a destination
        have the score -inf, their weights are zero.

    Raises:
        TypeError: for a graph that is not a Graph, or a dtype that is not floating.
        ValueError: for a wrong shape, device or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

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
    graph, _ = graph.fetch_source_rows()
    return _softmax(score, graph.layout, backend=backend)


def to_edges(rows: Tensor, graph: Graph) -> Tensor:
    """For each edge, gather the row of its destination: [n, d] to [e, d] in the caller's order. The
    graph from destinations to edges is cached in ``graph``.

    Backward sums gradients over edges in a fixed order, which torch's indexing does not guarantee.
    Raises the errors of :func:`aggregate`.
    """
    if torch.compiler.is_compiling() or is_transformed():
        return sum_sources(rows, _ends(graph))
    return _ToEdges.apply(rows, graph)


def sources_to_edges(rows: Tensor, graph: Graph) -> Tensor:
    """For each edge, gather the row of its source: [m, d] to [e, d]; see :func:`to_edges`."""
    return to_edges(rows, cached(graph, "transposed", graph.transpose))


def _ends(graph: Graph) -> Graph:
    """Return a graph with an edge from the destination of each edge to the edge."""
    return cached(graph, "to edges", lambda: graph.incidence().transpose())


class _ToEdges(torch.autograd.Function):
    """Gathering of rows by torch, which takes less time than a sum of one row for each edge."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return rows.index_select(0, _ends(graph).layout.col)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return sum_incoming(grads[0], ctx.graph), None


def sum_incoming(rows: Tensor, graph: Graph) -> Tensor:
    """For each destination, sum the rows of the edges into it: [e, d] to [n, d]."""
    return sum_sources(rows, graph.incidence())


def sum_sources(rows: Tensor, graph: Graph) -> Tensor:
    """For each destination, sum the rows of its sources: [m, d] to [n, d]."""
    return aggregate(rows.new_ones(graph.num_edges, 1), rows.unsqueeze(1), graph).squeeze(1)


def sum_laid_out(rows: Tensor, layout: Layout) -> Tensor:
    """For each destination of a layout, sum the rows of its sources: [m, ...] to [n, ...].

    Rows may have any shape, and may be complex.
    """
    if rows.is_complex():
        parts = torch.view_as_real(rows.resolve_conj())
        return torch.view_as_complex(sum_laid_out(parts, layout))
    flat = rows.reshape(rows.shape[0], 1, math.prod(rows.shape[1:]))
    weight = rows.new_ones(layout.perm.numel(), 1)
    out = _aggregate(weight, flat, layout, False, backend=None)
    return out.reshape(out.shape[0], *rows.shape[1:])


def aggregate(weight: Tensor, value: Tensor, graph: Graph, *, backend: str | None = None) -> Tensor:
    r"""Compute the weighted sum of the values over the edges into each destination.

    .. math:: \mathrm{out}_i = \sum_{j \in N(i)} w_{ij} v_j

    Args:
        weight: w, [e, h] in the caller's edge order; fp32, fp64, bf16 or fp16.
        value: v, [m, h_v, c] in the same dtype; h_v divides h, and head i uses the values of head i
            modulo h_v.
        graph: the edges, from m sources to n destinations.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph that is not a Graph, or dtypes that differ or are not floating.
        ValueError: for a wrong shape, device or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

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
    graph, (value,) = graph.fetch_source_rows(value)
    return _aggregate(weight, value, graph.layout, False, backend=backend)


def edge_dot(query: Tensor, key: Tensor, graph: Graph, *, backend: str | None = None) -> Tensor:
    r"""Compute the dot product of query and key for each edge and head.

    .. math:: s_{ij} = q_i \cdot k_j

    Args:
        query: q, [n, h, c]; fp32, fp64, bf16 or fp16.
        key: k, [m, h_k, c] in the same dtype; h_k divides h, and head i uses the keys of head i
            modulo h_k.
        graph: the edges, from m sources to n destinations.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order; no rows without edges.

    Raises:
        TypeError: for a graph that is not a Graph, or dtypes that differ or are not floating.
        ValueError: for a wrong shape, device or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

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
    graph, (key,) = graph.fetch_source_rows(key)
    return _dot(query, key, graph.layout, backend=backend)


def _aggregate_gradients(
    operator: Operator, grad: Tensor, saved: SavedValues, requested: frozenset[str]
) -> Gradients:
    """Return the ``requested`` gradients of ``aggregate`` with respect to weights and values, given
    that of its result and the saved arguments by name.

    The gradient of the weights is a dot product for each edge. The gradient of the values is a
    weighted sum over the edges in reverse direction.
    """
    weight, value, layout = saved["weight"], saved["value"], saved["layout"]
    transposed, backend = saved["transposed"], saved["backend"]
    result = {}
    if "weight" in requested:
        query, key = (value, grad) if transposed else (grad, value)
        # In edge_dot, key may have fewer heads than query, but not more. So query and key are
        # exchanged.
        if 0 < query.shape[1] < key.shape[1]:
            query = query.repeat(1, key.shape[1] // query.shape[1], 1)
        result["weight"] = _dot.overload(query, key, layout, backend)
    if "value" in requested:
        summed = _aggregate.overload(weight, grad, layout, not transposed, backend)
        result["value"] = _fold_heads(summed, value.shape[1])
    return result


def _dot_gradients(
    operator: Operator, grad: Tensor, saved: SavedValues, requested: frozenset[str]
) -> Gradients:
    """Return the ``requested`` gradients of ``edge_dot`` with respect to query and key, given that
    of its result and the saved arguments by name.

    The gradient of the query is a weighted sum over the edges into each destination. The gradient
    of the key is a weighted sum over the edges out of each source.
    """
    query, key, layout, backend = (saved[n] for n in ("query", "key", "layout", "backend"))
    result = {}
    if "query" in requested:
        result["query"] = _aggregate.overload(grad, key, layout, False, backend)
    if "key" in requested:
        summed = _aggregate.overload(grad, query, layout, True, backend)
        result["key"] = _fold_heads(summed, key.shape[1])
    return result


def _fold_heads(x: Tensor, heads: int) -> Tensor:
    """Sum those heads that used the same head of the values: [n, h, c] to [n, heads, c]."""
    if x.shape[1] == heads:
        return x
    return x.reshape(x.shape[0], x.shape[1] // heads, heads, *x.shape[2:]).sum(1)


_softmax_backward = Operator(
    "edge_softmax_backward",
    inputs={"grad": "e h", "alpha": "e h"},
    outputs={"grad_score": Out("e h")},
)
_softmax = Operator(
    "edge_softmax",
    inputs={"score": "e h"},
    outputs={"out": Out("e h")},
    reference=reference.edge_softmax,
    derivative=by_kernel(_softmax_backward, ["score"], alpha="out"),
    saves=["score", "out"],
)
_aggregate = Operator(
    "aggregate",
    inputs={"weight": "e h", "value": "k u c"},
    settings={"transposed": bool},
    lengths={**DIMENSIONS, "k": None},
    outputs={"out": Out("n h c")},
    reference=reference.aggregate,
    derivative=_aggregate_gradients,
    saves=["weight", "value"],
)
_dot = Operator(
    "edge_dot",
    inputs={"query": "n h c", "key": "m u c"},
    outputs={"out": Out("e h")},
    lengths={**DIMENSIONS, "u": "key_heads"},
    reference=reference.edge_dot,
    derivative=_dot_gradients,
    saves=["query", "key"],
)
