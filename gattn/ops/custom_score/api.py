"""Attention with score and message functions that the user writes in plain PyTorch."""

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
    r"""Compute attention with score and message functions that the user writes in plain PyTorch.

    .. math::
        o_i = \frac{1}{C_i} \sum_{j \in N(i)} f(q_i, k_j, e_{ij})\, g(v_j, e_{ij})

    The functions are called on chunks of several thousand edges, and again in backward, so that
    no tensor of size edges x channels is stored. torch compiles them if there are many edges. For
    at most 32,768 edges, as in a batch of molecules, all edges form one call, and backward uses the
    graph that autograd recorded. Every sum over edges has a fixed order, so all runs give the same
    bits. A second derivative, and a forward that torch.compile traces, processes all edges at once.

    Args:
        score: f, or its logarithm for the softmax: takes the queries, keys and features of b
            edges and returns [b, h], with h the heads of ``value``. It is a function, a module, or
            a method of a module; the parameters of the module get gradients. Each row of the result
            must depend on its own edge alone. The function must not draw random numbers and must
            not write to its arguments, and ``torch.func`` must be able to differentiate it.
            Backward calls it again, so the module must not change between forward and backward.
        query: a tensor [n, ...], or a tuple or dict of such tensors; ``score`` receives the same
            structure with the rows of b edges.
        key: tensors [m, ...], with the same structures as ``query``.
        value: [m, h, c]; with ``message``, the same structures as ``key``.
        graph: the edges, from m sources to n destinations.
        edge_attr: e, tensors [e, ...] in the caller's edge order, with the same structures. If it
            is None, the functions receive None.
        message: g: takes the values and the features of b edges and returns [b, h, c]; None for
            the values themselves.
        normalize: ``"softmax"``: f is the exponential of the score, C its sum over the edges into
            the node; ``"sum"``: f is the score, C its sum; ``"mean"``: C is the number of edges;
            ``"none"``: C is 1; ``"sigmoid"``: f is the score's sigmoid, C is 1. With ``"sum"``, a
            node with only zero scores gets zeros; other scores that sum to zero give a result that
            is not finite.
        dropout: probability of dropping a weight; there is no evaluation mode. torch's generator
            draws the key of the mask.

    Returns:
        [n, h, c]; zeros for a node with no incoming edge.

    Raises:
        TypeError: for a graph that is not a Graph, an argument that is not a tensor, or scores that
            are not floating-point numbers.
        ValueError: for a wrong shape or device, an unknown ``normalize``, a wrong dropout, or a
            function that draws random numbers or captures a tensor that requires a gradient and is
            not a parameter.
        RuntimeError: in backward, if a buffer of the function's module has changed.

    Warns:
        UserWarning: torch cannot compile the function, which then runs uncompiled.

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
        checks.check_tensor("value", value, " if there is no message")
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
    r"""Compute new features of each edge with a function of its query, its key and its features.

    .. math:: e'_{ij} = f(q_i, k_j, e_{ij})

    A layer that also updates its edge features can derive the attention weights from this result:
    it sums the channels to scores, and passes these to :func:`edge_softmax` and :func:`aggregate`.
    The function is called on chunks of edges in forward and again in backward, as in
    :func:`attention`: except for the result, no tensor of size edges x channels is stored.

    Args:
        function: f: takes the queries, keys and features of b edges and returns [b, ...]. The
            conditions for ``score`` of :func:`attention` hold for it, too.
        query: a tensor [n, ...], or a tuple or dict of such tensors; ``function`` receives the same
            structure with the rows of b edges.
        key: tensors [m, ...], with the same structures as ``query``.
        graph: the edges, from m sources to n destinations.
        edge_attr: e, tensors [e, ...] in the caller's edge order, with the same structures. If it
            is None, the function receives None.

    Returns:
        [e, ...], in the caller's edge order; no rows without edges.

    Raises:
        TypeError: for a graph that is not a Graph, or an argument that is not a tensor.
        ValueError: for a wrong shape or device, or a function that does not return one row for each
            edge, draws random numbers, or captures a tensor that requires a gradient and is no
            parameter.
        RuntimeError: in backward, if a buffer of the function's module has changed.

    Warns:
        UserWarning: torch cannot compile the function, which then runs uncompiled.

    Reference:
        Dwivedi, Bresson, "A generalization of transformer networks to graphs" (AAAI workshop
        2021), the layer with edge features.

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
    return _apply_to_edges(function, query, key, graph, edge_attr, into="edge")


def sorted_scores(
    score: EdgeCallable, query: Tensors, key: Tensors, graph: Graph, edge_attr: Tensors
) -> Tensor:
    """Compute the score of every edge and head, [e, h], with edges sorted by destination, from the
    arguments of :func:`attention`.

    The rows are in the order of :meth:`gattn.Graph.by_destination`, so that no scatter is needed.
    Raises ValueError or TypeError for an input that does not fit to the graph, or if the function
    does not return floating-point numbers of this shape, and the errors and the warning of
    :func:`edgewise`.
    """
    scores = _apply_to_edges(score, query, key, graph, edge_attr, into="position")
    if scores.dim() != 2:
        raise ValueError(
            f"score must return [b, h] for b edges; got {scores.dim()} dimensions (with one "
            "head, return [b, 1])"
        )
    if not scores.is_floating_point():
        raise TypeError(f"score must return floating-point numbers; got {scores.dtype}")
    return scores


def _check_heads(scores: Tensor, value: Tensor, graph: Graph) -> None:
    """Check that the scores [e, h] have one column for each head of the values [m, h, c]. Raises
    ValueError otherwise.
    """
    if scores.shape[1] != value.shape[1]:
        raise ValueError(
            f"score must return [b, {value.shape[1]}] for b edges, a number for each head of "
            f"value; for {graph.num_edges} edges it returned {tuple(scores.shape)}. (To add "
            "one number for all heads of an edge to [b, h], give it the shape [b, 1], not "
            "[b].)"
        )


def _apply_to_edges(
    function: EdgeCallable,
    query: Tensors,
    key: Tensors,
    graph: Graph,
    edge_attr: Tensors,
    into: str,
) -> Tensor:
    """Call a function on all edges; return its results, [e, ...], in the order that ``into``
    selects. The other arguments are those of :func:`apply_edges`.

    ``"edge"`` is the caller's edge order, ``"position"`` the CSR order by destination. Raises
    TypeError or ValueError for inputs that do not fit to the graph, and the errors and the warning
    of :func:`edgewise`.
    """
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
    """Sum the values with weights that are the softmax of sorted scores: [n, h, c].

    Scores, [e, h], and the factors ``edge_weight``, [e], are in CSR order by destination. Dropout
    draws from torch's generator. Raises TypeError or ValueError for inputs that do not fit.
    """
    graph, (value,) = graph.fetch_source_rows(value)
    graph = graph.by_destination()
    return attend_by_score(scores, value, graph, edge_weight=edge_weight, dropout=dropout)


def sum_sorted(weight: Tensor, value: Tensor, graph: Graph) -> Tensor:
    """Sum the values with weights [e, h] that are in CSR order (by destination): [n, h, c]."""
    graph, (value,) = graph.fetch_source_rows(value)
    return aggregate(weight.to(value.dtype), value, graph.by_destination())


def _normalized(scores: Tensor, graph: Graph, normalize: Normalize) -> Tensor:
    """Normalise the scores: compute f / C for every edge and head, [e, h]. ``scores`` are f, in the
    order of the graph's edges. A sum C of scores that are all 0 counts as 1. Raises the errors of
    :func:`edge_softmax`.

    The division comes before the sum over values, which could overflow fp16 without it.
    """
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
    """Return a graph whose sources are all in this process, and the rows of its sources in the same
    structure as ``rows``.

    On a distributed graph, this fetches rows from other processes, and all processes must call this
    function. Raises the errors of :meth:`DistributedGraph.fetch_source_rows`.
    """
    graph, gathered = graph.fetch_source_rows(*flat_tensors(rows))
    if rows is None or isinstance(rows, Tensor):
        return graph, gathered[0] if gathered else None
    return graph, dict(zip(rows, gathered)) if isinstance(rows, dict) else gathered


def _check_rows(name: str, rows: Tensors, count: int, row_kind: str, graph: Graph) -> None:
    """Check that every tensor has ``count`` rows and is on the graph's device. Raises TypeError for
    anything but a tensor, and ValueError for another number of rows or device.
    """
    for tensor in flat_tensors(rows):
        checks.check_tensor(name, tensor)
        if tensor.dim() < 1 or tensor.shape[0] != count:
            raise ValueError(
                f"{name} must have {count} rows, one for each {row_kind}; got shape "
                f"{tuple(tensor.shape)}"
            )
        if tensor.device != graph.device:
            raise ValueError(
                f"{name} must be on {graph.device}, like the graph; got {tensor.device}"
            )
