"""Attention whose score is a one-layer perceptron of query and key (GATv2, Bahdanau)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.kernels.precision import to_acc
from gattn.ops.edges import edge_softmax
from gattn.ops.registration import checks
from gattn.ops.registration.derivatives import by_reference
from gattn.ops.registration.family import Family
from gattn.ops.registration.operator import Operator
from gattn.ops.registration.shapes import Out, acc, out_acc

ACTIVATIONS = ("leaky_relu", "tanh")
EDGES = {"edge_attr": "e d?", "edge_proj": "h c d?"}
SETTINGS = {"activation": ACTIVATIONS, "negative_slope": float}


def _score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Compute w . act(q_i + k_j + W a_ij) of every edge and head, [e, h], from the rows of its
    ends: q and k are [e, h, c], w is [h, c], a is [e, d], and W is [h, c, d].
    """
    hidden, projected = query + key, reference.project(edge_attr, edge_proj)
    hidden = hidden if projected is None else hidden + projected
    hidden = hidden.tanh() if activation == "tanh" else F.leaky_relu(hidden, negative_slope)
    return (weight * hidden).sum(-1)


GATV2 = Family(
    "gatv2",
    inputs={
        "query": "n h c", "key": "m h c", "value": "m h w?", "weight": "h c", **EDGES,
        "attn_bias": "e b?", "edge_weight": "e?",
    },
    fallback_input={"value": "key"},
    settings={**SETTINGS, "dropout": float},
    outputs={
        "out": Out("n h w"),
        "row_max": acc("n h"),
        "row_sum": acc("n h"),
        "out_acc": out_acc("n h w"),
    },
    score=_score,
    optional_grads=["edge_attr", "attn_bias", "edge_weight"],
)  # fmt: skip


def _score_in_caller_order(*args: Any) -> Tensor:
    """Compute the score of every edge in plain PyTorch: [e, h], in the caller's order of edges. The
    arguments are those of the operator's schema: the inputs, the layout and the settings.
    """
    arguments = _SCORE.by_name(args)
    layout, dtype = arguments.pop("layout"), args[0].dtype
    return reference.to_caller(GATV2.score_edges(arguments, layout), layout).to(dtype)


_SCORE = Operator(
    "gatv2_score",
    inputs={"query": "n h c", "key": "m h c", "weight": "h c", **EDGES},
    settings=SETTINGS,
    outputs={"out": Out("e h")},
    reference=_score_in_caller_order,
    derivative=by_reference,
    saves=("query", "key", "weight", *EDGES),
)


def gatv2_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor,
    graph: Graph,
    *,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    attn_bias: Tensor | None = None,
    edge_weight: Tensor | None = None,
    activation: str = "leaky_relu",
    negative_slope: float = 0.2,
    dropout: float = 0.0,
    backend: str | None = None,
) -> Tensor:
    r"""Compute attention over the incoming edges of each node with the score of a one-layer
    perceptron.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} w_{ij}\, \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(w \cdot \mathrm{act}(q_i + k_j + W a_{ij}) + b_{ij}\bigr)

    The edge term is projected inside the kernel: no tensor of size e x h x c is allocated.

    Args:
        query: q, [n, h, c]. All tensors have the same dtype: fp32, fp64, bf16 or fp16.
        key: k, [m, h, c].
        value: v, [m, h, c_v]. If keys and values are the same, as in GATv2, pass the tensor object
            of key: the kernel then reads each row only once.
        weight: w, [h, c].
        graph: the edges, from m sources to n destinations.
        edge_attr: a, [e, d] in the caller's edge order; requires edge_proj.
        edge_proj: W, [h, c, d]; requires edge_attr.
        attn_bias: b, [e, h] in the caller's edge order, or [e, 1] for all heads; -inf drops an
            edge. A boolean mask keeps the edges that are True.
        edge_weight: w_ij, [e] in the caller's edge order, or None if all weights are 1; multiplies
            the weights after the softmax.
        activation: ``"leaky_relu"`` or ``"tanh"``.
        negative_slope: slope of the LeakyReLU below zero.
        dropout: probability of dropping a weight after the softmax; there is no evaluation mode.
            torch's generator draws the key of the mask.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c_v] in the dtype of value; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            negative_slope that is not a number.
        ValueError: for a wrong shape, device, activation, dropout or backend, or if only one of
            edge_attr and edge_proj is passed.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Brody, Alon, Yahav, "How attentive are graph attention networks?" (ICLR 2022); tanh:
        Bahdanau, Cho, Bengio, "Neural machine translation by jointly learning to align and
        translate" (ICLR 2015).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.randn(2, 3, 8, 16)
        >>> w = torch.randn(8, 16)
        >>> gattn.functional.gatv2_attention(q, k, k, w, graph).shape
        torch.Size([3, 8, 16])
    """
    checks.check_number("negative_slope", negative_slope)
    attn_bias = checks.as_bias(attn_bias, value)
    edges = edge_attr, edge_proj, attn_bias, edge_weight
    GATV2.check(graph, (query, key, value, weight, *edges))
    _check_activation(activation)
    checks.check_probability("dropout", dropout)
    graph, (key, value) = graph.fetch_source_rows(key, value)
    seed = checks.new_seed(dropout, value.device, graph.edge_offset)
    inputs = query, key, None if value is key else value, weight, *edges
    settings = activation, negative_slope, dropout
    return GATV2.run(inputs, graph.layout, seed, settings, backend)


def gatv2_attention_weights(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    graph: Graph,
    *,
    edge_attr: Tensor | None = None,
    edge_proj: Tensor | None = None,
    attn_bias: Tensor | None = None,
    activation: str = "leaky_relu",
    negative_slope: float = 0.2,
    backend: str | None = None,
) -> Tensor:
    r"""Compute the attention weights of :func:`gatv2_attention`, before dropout.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}
        \bigl(w \cdot \mathrm{act}(q_i + k_j + W a_{ij}) + b_{ij}\bigr)

    Args:
        query: q, [n, h, c].
        key: k, [m, h, c].
        weight: w, [h, c].
        graph: the edges.
        edge_attr: a, [e, d] in the caller's edge order; requires edge_proj.
        edge_proj: W, [h, c, d]; requires edge_attr.
        attn_bias: b, [e, h] or [e, 1] in the caller's edge order.
        activation: ``"leaky_relu"`` or ``"tanh"``.
        negative_slope: slope of the LeakyReLU below zero.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order and the dtype of query; no rows without edges.

    Raises:
        TypeError: for a graph that is not a Graph, dtypes that differ or are not floating, or a
            negative_slope that is not a number.
        ValueError: for a wrong shape, device, activation or backend, or if only one of edge_attr
            and edge_proj is passed.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Brody, Alon, Yahav, "How attentive are graph attention networks?" (ICLR 2022).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k = torch.zeros(2, 3, 1, 4)
        >>> gattn.functional.gatv2_attention_weights(q, k, torch.ones(1, 4), graph).squeeze()
        tensor([0.5000, 0.5000, 1.0000])
    """
    checks.check_number("negative_slope", negative_slope)
    attn_bias = checks.as_bias(attn_bias, query)
    GATV2.check(graph, (query, key, None, weight, edge_attr, edge_proj, attn_bias, None), False)
    _check_activation(activation)
    graph, (key,) = graph.fetch_source_rows(key)
    inputs = to_acc(query, key, weight, edge_attr, edge_proj)
    score = _SCORE(*inputs, graph.layout, activation, negative_slope, backend=backend)
    score = score if attn_bias is None else score + attn_bias
    return edge_softmax(score, graph, backend=backend).to(query.dtype)


def _check_activation(activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {ACTIVATIONS}; got {activation!r}")
