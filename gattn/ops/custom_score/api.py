"""Attention with any score and any message, written in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, cast, get_args

from torch import Tensor

from gattn.graph import Graph
from gattn.kernels.precision import to_acc
from gattn.ops.attention.gat import attend_by_score
from gattn.ops.custom_score.chunked import edgewise
from gattn.ops.custom_score.edge_function import Tensors, flat_tensors
from gattn.ops.dropout import dropout_of_weights
from gattn.ops.edges import aggregate, edge_softmax, sum_incoming, to_edges
from gattn.ops.registration import checks

EdgeCallable: TypeAlias = Callable[..., Tensor]
Normalize: TypeAlias = Literal["softmax", "sum", "mean", "none", "sigmoid"]


def attention(
    score: EdgeCallable,
    query: Tensors,
    key: Tensors,
    value: Tensors,
    graph: Graph,
    *,
    edge_attr: Tensors = None,
    message: EdgeCallable | None = None,
    normalize: Normalize = "softmax",
    dropout: float = 0.0,
) -> Tensor:
    r"""Attention with any similarity f and any transform g, written in plain PyTorch.

    .. math::
        o_i = \frac{1}{C_i} \sum_{j \in N(i)} f(q_i, k_j, e_{ij})\, g(v_j, e_{ij})

    The functions are called with some thousand edges at a time, and again in backward, so that
    nothing of size edges x channels is stored; torch compiles them where there are many edges. Of
    up to 32,768 edges, as of a batch of molecules, backward uses what autograd recorded of them.
    Sums run over the edges of one node after the other: the same bits in every run. A second
    derivative, and a forward that torch.compile traces, takes all edges at once.

    Args:
        score: f, or its logarithm for the softmax: takes the queries, keys and features of b
            edges, gives [b, h], with h the heads of ``value``. A function, a module, or a method of
            a module, whose parameters get their gradients. The row of an edge depends on that edge
            alone, nothing in it is random, nothing is written to what it is given, and
            ``torch.func`` differentiates it. Backward calls it again, and needs the module as it
            was.
        query: a tensor [n, ...], or a tuple or dict of such, which ``score`` is given likewise.
        key: the same with [m, ...].
        value: [m, h, c]; for ``message`` anything that ``key`` can be.
        graph: the edges, from m sources to n destinations.
        edge_attr: e, the same with [e, ...], in the caller's edge order; the functions are given
            None where there is none.
        message: g: takes the values and the features of b edges, gives [b, h, c]; None for the
            values themselves.
        normalize: ``"softmax"``: f is the exponential of the score, C its sum over the edges into
            the node; ``"sum"``: f is the score, C its sum; ``"mean"``: C is the number of edges;
            ``"none"``: C is 1; ``"sigmoid"``: f is the score's sigmoid, C is 1. Scores that are
            all zero have the mean of zero; others that sum to zero give what is not finite.
        dropout: probability of dropping a weight.

    Returns:
        [n, h, c]; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph or a tensor that is none, or scores that are no floats.
        ValueError: for a wrong shape or device, an unknown ``normalize``, or a function that draws
            random numbers or holds a tensor that wants a gradient and is no parameter.

    Reference:
        Wang et al., "Non-local neural networks" (CVPR 2018), equation 1.

    Example:
        >>> import torch, gattn
        >>> def gaussian(query, key, edge_attr):
        ...     return -(query - key).square().sum(-1)
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k, v = torch.randn(3, 3, 2, 4)
        >>> gattn.functional.attention(gaussian, q, k, v, graph).shape
        torch.Size([3, 2, 4])
    """
    if normalize not in get_args(Normalize):
        raise ValueError(f"normalize must be one of {get_args(Normalize)}; got {normalize!r}")
    checks.check_probability("dropout", dropout)
    checks.check_graph(graph)
    if message is None:
        checks.check_tensor("value", value, " where there is no message")
        checks.check_shape("value", cast(Tensor, value), graph.num_src, "h", "c")
    scores = sorted_scores(score, query, key, graph, edge_attr)
    if message is None:
        _check_heads(scores, cast(Tensor, value), graph)
    if message is None and normalize == "softmax":
        return attend_sorted(scores, cast(Tensor, value), graph, dropout=dropout)
    local, _ = graph.fetch_source_rows()
    local = local.by_destination()
    weight = dropout_of_weights(_normalized(scores, local, normalize), local, dropout)
    if message is None:
        return sum_sorted(weight, cast(Tensor, value), graph)
    _check_rows("value", value, graph.num_src, "source", graph)
    graph, value = _fetch_source_rows(graph, value)
    ends = ("source", value), ("edge", edge_attr)
    return edgewise(message, graph, *ends, weight=("position", weight))


def apply_edges(
    function: EdgeCallable,
    query: Tensors,
    key: Tensors,
    graph: Graph,
    *,
    edge_attr: Tensors = None,
) -> Tensor:
    r"""What a function gives for every edge: the features that attention writes onto edges.

    .. math:: e'_{ij} = f(q_i, k_j, e_{ij})

    Layers that update their edges from what attention computed take both from one result: the
    scores are a sum of it, and go into :func:`edge_softmax` and :func:`aggregate`. The function is
    called as that of :func:`attention` is, in forward and again in backward: beside the result
    nothing of size edges x channels is stored.

    Args:
        function: f: takes the queries, keys and features of b edges, gives [b, ...]; as ``score``
            of :func:`attention`.
        query: a tensor [n, ...], or a tuple or dict of such, which ``function`` is given likewise.
        key: the same with [m, ...].
        graph: the edges, from m sources to n destinations.
        edge_attr: e, the same with [e, ...], in the caller's edge order; the function is given
            None where there is none.

    Returns:
        [e, ...], in the caller's edge order; no rows without edges.

    Raises:
        TypeError: for a graph or a tensor that is none.
        ValueError: for a wrong shape or device, or a function that gives other than a row for each
            edge, draws random numbers or holds a tensor that wants a gradient and is no parameter.

    Reference:
        Dwivedi, Bresson, "A generalization of transformer networks to graphs" (AAAI workshop
        2021), of the layer with edge features.

    Example:
        >>> import torch, gattn
        >>> from gattn.functional import aggregate, apply_edges, edge_softmax
        >>> def product(query, key, edge_attr):
        ...     return query * key * edge_attr
        >>> graph = gattn.Graph(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
        >>> q, k, v, e = torch.randn(4, 3, 2, 4)
        >>> edges = apply_edges(product, q, k, graph, edge_attr=e)
        >>> out = aggregate(edge_softmax(edges.sum(-1), graph), v, graph)
        >>> edges.shape, out.shape
        (torch.Size([3, 2, 4]), torch.Size([3, 2, 4]))
    """
    return _of_edges(function, query, key, graph, edge_attr, into="edge")


def sorted_scores(
    score: EdgeCallable, query: Tensors, key: Tensors, graph: Graph, edge_attr: Tensors
) -> Tensor:
    """The score of every edge and head, [e, h]; see :func:`attention`.

    They are in the order of :meth:`gattn.Graph.by_destination`, in which nothing is scattered.
    """
    scores = _of_edges(score, query, key, graph, edge_attr, into="position")
    if scores.dim() != 2:
        raise ValueError(
            f"score must give [b, h] for b edges; got {scores.dim()} dimensions (it is [b, 1] of "
            "one head)"
        )
    if not scores.is_floating_point():
        raise TypeError(f"score must give floats; got {scores.dtype}")
    return scores


def _check_heads(scores: Tensor, value: Tensor, graph: Graph) -> None:
    """Raise unless there is a score for each head of the values [m, h, c]."""
    if scores.shape[1] != value.shape[1]:
        raise ValueError(
            f"score must give [b, {value.shape[1]}] for b edges, a number for each head of value; "
            f"of {graph.num_edges} edges it gave {tuple(scores.shape)}. (A number for all heads "
            "of an edge is [b, 1] where it meets [b, h], not [b].)"
        )


def _of_edges(
    function: EdgeCallable,
    query: Tensors,
    key: Tensors,
    graph: Graph,
    edge_attr: Tensors,
    into: str,
) -> Tensor:
    """What a function gives for every edge, by "edge" or by "position"."""
    checks.check_graph(graph)
    _check_rows("query", query, graph.num_dst, "destination", graph)
    _check_rows("key", key, graph.num_src, "source", graph)
    _check_rows("edge_attr", edge_attr, graph.num_edges, "edge", graph)
    graph, key = _fetch_source_rows(graph, key)
    ends = ("destination", query), ("source", key), ("edge", edge_attr)
    return edgewise(function, graph, *ends, into=into)


def attend_sorted(
    scores: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    edge_weight: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Sum of the values by the softmax of sorted scores, times sorted weights [e]: [n, h, c]."""
    graph, (value,) = graph.fetch_source_rows(value)
    graph = graph.by_destination()
    return attend_by_score(scores, value, graph, edge_weight=edge_weight, dropout=dropout)


def sum_sorted(weight: Tensor, value: Tensor, graph: Graph) -> Tensor:
    """Sum of the values with sorted weights [e, h]: [n, h, c]."""
    graph, (value,) = graph.fetch_source_rows(value)
    return aggregate(weight.to(value.dtype), value, graph.by_destination())


def _normalized(scores: Tensor, graph: Graph, normalize: Normalize) -> Tensor:
    """f / C of every edge and head, [e, h]: so that no sum of values outgrows 16 bits."""
    if normalize == "softmax":
        return edge_softmax(scores, graph)
    if normalize == "sigmoid":
        return scores.sigmoid()
    if normalize == "none":
        return scores
    (separate,) = to_acc(scores)
    if normalize == "mean":
        total = graph.in_degree().to(separate.dtype).unsqueeze(1)
    else:
        total = sum_incoming(separate, graph)
        total = total.masked_fill(sum_incoming(separate.detach().abs(), graph) == 0, 1)
    return (separate / to_edges(total, graph)).to(scores.dtype)


def _fetch_source_rows(graph: Graph, rows: Tensors) -> tuple[Graph, Tensors]:
    """The rows of all sources, and the graph between these and the destinations."""
    graph, gathered = graph.fetch_source_rows(*flat_tensors(rows))
    if rows is None or isinstance(rows, Tensor):
        return graph, gathered[0] if gathered else None
    return graph, dict(zip(rows, gathered)) if isinstance(rows, dict) else gathered


def _check_rows(name: str, rows: Tensors, count: int, place: str, graph: Graph) -> None:
    """Raise unless every tensor has a row for each node or edge, and is on the graph's device."""
    for tensor in flat_tensors(rows):
        checks.check_tensor(name, tensor)
        if tensor.dim() < 1 or tensor.shape[0] != count:
            raise ValueError(
                f"{name} must have {count} rows, one for each {place}; got shape "
                f"{tuple(tensor.shape)}"
            )
        if tensor.device != graph.device:
            raise ValueError(f"{name} must be on {graph.device}, as the graph; got {tensor.device}")
