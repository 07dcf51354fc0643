"""Additive attention: the score is a sum of one scalar per node and head (GAT)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.layout import Layout
from gattn.ops import checks
from gattn.ops.backend import select
from gattn.ops.edge import edge_softmax
from gattn.ops.library import below_autograd, define, reference_gradients, value_sum, wants_grad


def additive_attention(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    edge_score: Tensor | None = None,
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    impl: str | None = None,
) -> Tensor:
    r"""Attend over incoming edges with an additive score of node and edge scalars.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\,
        \mathrm{LeakyReLU}(a_i + b_j + c_{ij})

    Args:
        query_score: a, of shape [n, h]; fp32, fp64, bf16 or fp16, as all that follow.
        key_score: b, [m, h].
        value: v, [m, h_v, c]; its h_v heads serve the h heads in turn (h_v divides h).
        graph: the edges, from m sources to n destinations.
        edge_score: c, [e, h] in the caller's edge order, or None for zero.
        negative_slope: slope of the LeakyReLU below zero; 1 makes it the identity.
        dropout: probability of dropping a weight after the softmax; applied as given.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> a, b, v = torch.randn(3, 8), torch.randn(3, 8), torch.randn(3, 8, 16)
        >>> gattn.functional.additive_attention(a, b, v, graph).shape
        torch.Size([3, 8, 16])
    """
    _check(query_score, key_score, edge_score, graph, negative_slope, value)
    checks.check_shape("value", value, graph.num_src, "h_v", "c")
    checks.check_grouped("value", query_score.shape[1], value.shape[1])
    checks.check_probability("dropout", dropout)
    seed = checks.new_seed(dropout, value.device)
    inputs = query_score, key_score, value, edge_score
    backend = select(impl, value.device)
    if backend == "reference":
        return reference.additive_attention(*inputs, graph.layout, seed, negative_slope, dropout)
    # What da needs beyond the output; with slope 1 it is zero: the row's gradients cancel.
    save_positive_part = wants_grad(query_score) and negative_slope != 1
    flags = save_positive_part, wants_grad(*inputs)
    return _forward(*inputs, graph.layout, seed, negative_slope, dropout, *flags, backend)[0]


def additive_attention_weights(
    query_score: Tensor,
    key_score: Tensor,
    graph: Graph,
    *,
    edge_score: Tensor | None = None,
    negative_slope: float = 0.2,
    impl: str | None = None,
) -> Tensor:
    """Weights of :func:`additive_attention`, before dropout, one per edge and head.

    .. math:: \\alpha_{ij} = \\mathrm{softmax}_{j \\in N(i)} \\mathrm{LeakyReLU}(a_i + b_j + c_{ij})

    Args:
        query_score: a, [n, h].
        key_score: b, [m, h].
        graph: the edges.
        edge_score: c, [e, h] in the caller's edge order, or None for zero.
        negative_slope: slope of the LeakyReLU below zero.
        impl: force a backend.

    Returns:
        [e, h] in the caller's edge order.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape or device.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> a, b = torch.zeros(3, 1), torch.zeros(3, 1)
        >>> gattn.functional.additive_attention_weights(a, b, graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    _check(query_score, key_score, edge_score, graph, negative_slope)
    source, destination = graph.edge_index
    query, key, edge = checks.to_acc(query_score, key_score, edge_score)
    score = query[destination] + key[source]
    if edge is not None:
        score = score + edge
    alpha = edge_softmax(F.leaky_relu(score, negative_slope), graph, impl=impl)
    return alpha.to(query_score.dtype)


def _check(
    query_score: Tensor,
    key_score: Tensor,
    edge_score: Tensor | None,
    graph: Graph,
    negative_slope: float,
    value: Tensor | None = None,
) -> None:
    checks.check_graph(graph)
    checks.check_floats(
        graph, query_score=query_score, key_score=key_score, edge_score=edge_score, value=value
    )
    checks.check_shape("query_score", query_score, graph.num_dst, "h")
    heads = query_score.shape[1]
    checks.check_shape("key_score", key_score, graph.num_src, heads)
    if edge_score is not None:
        checks.check_shape("edge_score", edge_score, graph.num_edges, heads)
    checks.check_number("negative_slope", negative_slope)


class _AdditiveAttention(torch.autograd.Function):
    """inputs: a, b, v, c; outputs: out and, for backward, what the one-pass formula needs."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        *inputs, layout, seed, negative_slope, dropout, _, _, backend = args
        outputs = below_autograd(_forward, *args)
        out, *statistics, out_acc = outputs
        ctx.save_for_backward(*inputs, seed, value_sum(out, out_acc), *statistics, *layout)
        ctx.settings = negative_slope, dropout, backend
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        a, b, v, c, seed, *outputs = ctx.saved_tensors
        outputs, layout = outputs[:4], Layout(*outputs[4:])
        negative_slope, dropout, backend = ctx.settings
        if grads[0] is None:
            return (None,) * 11
        if torch.is_grad_enabled():
            found = reference_gradients(
                lambda a, b, v, c: reference.additive_attention(
                    a, b, v, c, layout, seed, negative_slope, dropout
                ),
                (a, b, v, c),
                grads,
            )
        else:
            found = _backward(
                grads[0], a, b, v, c, *outputs, layout, seed, negative_slope, dropout, backend
            )
        return *found[:3], found[3] if c is not None else None, *(None,) * 7


def _fake_forward(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    save_positive_part: bool,
    needs_backward: bool,
    backend: str,
) -> tuple[Tensor, ...]:
    n, heads, channels = query_score.shape[0], query_score.shape[1], value.shape[2]
    wide = checks.acc_dtype(value.dtype)
    kept = n if save_positive_part else 0
    return (
        value.new_empty(n, heads, channels),
        value.new_empty(n, heads, dtype=wide),
        value.new_empty(n, heads, dtype=wide),
        value.new_empty(kept, heads, channels, dtype=wide),
        checks.empty_out_acc(value, needs_backward, n, heads, channels),
    )


def _fake_backward(
    grad_out: Tensor,
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, ...]:
    return (
        query_score.new_empty(query_score.shape),
        key_score.new_empty(key_score.shape),
        value.new_empty(value.shape),
        value.new_empty(0) if edge_score is None else edge_score.new_empty(edge_score.shape),
    )


_backward = define(
    "additive_backward(Tensor grad_out, Tensor query_score, Tensor key_score, Tensor value, "
    "Tensor? edge_score, Tensor out_acc, Tensor row_max, Tensor row_sum, "
    "Tensor out_pos_centered, Tensor[] layout, Tensor? seed, float negative_slope, float dropout, "
    "str backend) -> (Tensor, Tensor, Tensor, Tensor)",
    _fake_backward,
)
_forward = define(
    "additive_forward(Tensor query_score, Tensor key_score, Tensor value, Tensor? edge_score, "
    "Tensor[] layout, Tensor? seed, float negative_slope, float dropout, bool save_positive_part, "
    "bool needs_backward, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _fake_forward,
    _AdditiveAttention,
)
