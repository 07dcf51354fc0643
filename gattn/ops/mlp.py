"""MLP attention: the score is a one-layer perceptron of query and key (GATv2, Bahdanau)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.layout import Layout
from gattn.ops import checks
from gattn.ops.backend import select
from gattn.ops.edge import edge_softmax
from gattn.ops.library import below_autograd, define, reference_gradients, value_sum, wants_grad

ACTIVATIONS = ("leaky_relu", "tanh")


def mlp_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor,
    graph: Graph,
    *,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    activation: str = "leaky_relu",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    impl: str | None = None,
) -> Tensor:
    r"""Attend over incoming edges with the score of a one-layer perceptron.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\,
        w \cdot \mathrm{act}(q_i + k_j + W a_{ij})

    The edge term is projected inside the kernel: no tensor of size e x h x c is formed.

    Args:
        query: q, [n, h, c]; fp32, fp64, bf16 or fp16, as all that follow.
        key: k, [m, h, c].
        value: v, [m, h, c_v]; give the very tensor of key where they are the same, as in GATv2:
            each row is then read once.
        weight: w, [h, c].
        graph: the edges, from m sources to n destinations.
        edge_attr: a, [e, d] in the caller's edge order; goes with edge_proj.
        edge_proj: W, [h, c, d].
        activation: ``"leaky_relu"`` or ``"tanh"``.
        negative_slope: slope of the LeakyReLU below zero.
        dropout: probability of dropping a weight after the softmax; applied as given.
        impl: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c_v] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape, device or activation, or one of edge_attr and edge_proj
            alone.

    Reference:
        Brody, Alon, Yahav, "How attentive are graph attention networks?" (ICLR 2022); tanh:
        Bahdanau, Cho, Bengio, "Neural machine translation by jointly learning to align and
        translate" (ICLR 2015).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.randn(2, 3, 8, 16)
        >>> w = torch.randn(8, 16)
        >>> gattn.functional.mlp_attention(q, k, k, w, graph).shape
        torch.Size([3, 8, 16])
    """
    checks.check_number("negative_slope", negative_slope)
    _check(query, key, weight, edge_attr, edge_proj, activation, graph, value)
    checks.check_shape("value", value, graph.num_src, query.shape[1], "c_v")
    checks.check_probability("dropout", dropout)
    seed = checks.new_seed(dropout, value.device)
    backend = select(impl, value.device)
    settings = activation, negative_slope, dropout
    if backend == "reference":
        return reference.mlp_attention(
            query, key, value, weight, edge_attr, edge_proj, graph.layout, seed, *settings
        )
    shared = None if value is key else value
    inputs = query, key, shared, weight, edge_attr, edge_proj
    needs_backward = wants_grad(*inputs)
    return _forward(*inputs, graph.layout, seed, *settings, needs_backward, backend)[0]


def mlp_attention_weights(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    graph: Graph,
    *,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    activation: str = "leaky_relu",
    negative_slope: float = 0.2,
    impl: str | None = None,
) -> Tensor:
    r"""Weights of :func:`mlp_attention`, before dropout, one per edge and head.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\, w \cdot \mathrm{act}(q_i + k_j + W a_{ij})

    Args:
        query: q, [n, h, c].
        key: k, [m, h, c].
        weight: w, [h, c].
        graph: the edges.
        edge_attr: a, [e, d] in the caller's edge order; goes with edge_proj.
        edge_proj: W, [h, c, d].
        activation: ``"leaky_relu"`` or ``"tanh"``.
        negative_slope: slope of the LeakyReLU below zero.
        impl: force a backend.

    Returns:
        [e, h] in the caller's edge order.

    Raises:
        TypeError: for dtypes that differ or are not floating.
        ValueError: for a wrong shape, device or activation.

    Reference:
        Brody, Alon, Yahav, "How attentive are graph attention networks?" (ICLR 2022).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.zeros(2, 3, 1, 4)
        >>> gattn.functional.mlp_attention_weights(q, k, torch.ones(1, 4), graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    checks.check_number("negative_slope", negative_slope)
    _check(query, key, weight, edge_attr, edge_proj, activation, graph)
    q, k, w, attr, proj = checks.to_acc(query, key, weight, edge_attr, edge_proj)
    inputs = q, k, w, attr, proj
    settings = activation, negative_slope
    backend = select(impl, query.device)
    if backend == "reference":
        score = reference.mlp_score(*inputs, graph.layout, *settings)
        score = reference.to_caller(score, graph.layout)
    else:
        score = _score(*inputs, graph.layout, *settings, backend)
    return edge_softmax(score, graph, impl=impl).to(query.dtype)


def _check(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    activation: str,
    graph: Graph,
    value: Tensor | None = None,
) -> None:
    checks.check_graph(graph)
    checks.check_floats(
        graph, query=query, key=key, value=value, weight=weight, edge_attr=edge_attr,
        edge_proj=edge_proj,
    )  # fmt: skip
    checks.check_shape("query", query, graph.num_dst, "h", "c")
    heads, channels = query.shape[1:]
    checks.check_shape("key", key, graph.num_src, heads, channels)
    checks.check_shape("weight", weight, heads, channels)
    checks.check_edge_features(edge_attr, edge_proj, graph.num_edges, heads, channels)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {ACTIVATIONS}; got {activation!r}")


class _MLPAttention(torch.autograd.Function):
    """inputs: q, k, v (None where it is k), w, a, W; outputs: out and the softmax statistics."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        *inputs, layout, seed, activation, negative_slope, dropout, _, backend = args
        outputs = below_autograd(_forward, *args)
        out, *statistics, out_acc = outputs
        ctx.save_for_backward(*inputs, seed, value_sum(out, out_acc), *statistics, *layout)
        ctx.settings = activation, negative_slope, dropout, backend
        ctx.mark_non_differentiable(*outputs[1:])
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors  # read once, as checkpointing demands
        *inputs, seed = saved[:7]
        outputs, layout = saved[7:10], Layout(*saved[10:])
        *settings, backend = ctx.settings
        if grads[0] is None:
            return (None,) * 13
        if torch.is_grad_enabled():

            def plain(q: Any, k: Any, v: Any, w: Any, a: Any, proj: Any) -> Tensor:
                v = k if v is None else v
                return reference.mlp_attention(q, k, v, w, a, proj, layout, seed, *settings)

            found = reference_gradients(plain, tuple(inputs), grads[:1])
        else:
            found = _backward(
                grads[0], *inputs, *outputs, layout, seed, *settings,
                ctx.needs_input_grad[4], backend,
            )  # fmt: skip
        given = (
            g if t is not None and needed else None
            for g, t, needed in zip(found, inputs, ctx.needs_input_grad)
        )
        return *given, *(None,) * 7


class _MLPScore(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        *inputs, layout, activation, negative_slope, _ = args
        ctx.save_for_backward(*inputs, *layout)
        ctx.settings = activation, negative_slope
        return below_autograd(_score, *args)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        saved = ctx.saved_tensors
        inputs, layout = saved[:5], Layout(*saved[5:])

        def plain(q: Any, k: Any, w: Any, a: Any, proj: Any) -> Tensor:
            score = reference.mlp_score(q, k, w, a, proj, layout, *ctx.settings)
            return reference.to_caller(score, layout).to(grad.dtype)

        return *reference_gradients(plain, inputs, (grad,)), *(None,) * 4


def _fake_forward(
    query: Tensor, key: Tensor, value: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    n, heads, _ = query.shape
    wide = checks.acc_dtype(query.dtype)
    shape = n, heads, (key if value is None else value).shape[2]
    return (
        query.new_empty(shape),
        query.new_empty(n, heads, dtype=wide),
        query.new_empty(n, heads, dtype=wide),
        checks.empty_out_acc(query, rest[-2], *shape),
    )


def _fake_backward(grad_out: Tensor, *rest: Any) -> Any:
    query, key, value, weight, edge_attr, edge_proj = rest[:6]
    edge_attr = edge_attr if rest[-2] else None
    inputs = query, key, value, weight, edge_attr, edge_proj
    return tuple(grad_out.new_empty(0 if t is None else t.shape) for t in inputs)


_backward = define(
    "mlp_backward(Tensor grad_out, Tensor query, Tensor key, Tensor? value, Tensor weight, "
    "Tensor? edge_attr, Tensor? edge_proj, Tensor out_acc, Tensor row_max, Tensor row_sum, "
    "Tensor[] layout, Tensor? seed, str activation, float negative_slope, float dropout, "
    "bool wants_edge_attr, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _fake_backward,
)
_forward = define(
    "mlp_forward(Tensor query, Tensor key, Tensor? value, Tensor weight, Tensor? edge_attr, "
    "Tensor? edge_proj, Tensor[] layout, Tensor? seed, str activation, float negative_slope, "
    "float dropout, bool needs_backward, str backend) -> (Tensor, Tensor, Tensor, Tensor)",
    _fake_forward,
    _MLPAttention,
)
_score = define(
    "mlp_score(Tensor query, Tensor key, Tensor weight, Tensor? edge_attr, Tensor? edge_proj, "
    "Tensor[] layout, str activation, float negative_slope, str backend) -> Tensor",
    lambda query, key, weight, edge_attr, edge_proj, layout, *rest: query.new_empty(
        layout[1].shape[0], query.shape[1]
    ),
    _MLPScore,
)
