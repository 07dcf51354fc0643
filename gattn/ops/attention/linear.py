"""Linear attention, in which feature maps replace the softmax and the cost is linear in the
nodes.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph import Graph
from gattn.kernels.precision import acc_dtype
from gattn.ops.edges import aggregate, edge_dot, to_edges
from gattn.ops.registration import checks

FEATURE_MAPS = ("elu", "relu", "identity")


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    segments: Graph,
    *,
    query_segments: Graph | None = None,
    feature_map: str = "elu",
    backend: str | None = None,
) -> Tensor:
    r"""Compute linear attention of every node to all nodes of its graph.

    .. math::
        \mathrm{out}_i = \frac{\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)\, v_j}
        {\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)}
        = \frac{\phi(q_i)^\top S_{g(i)}}{\phi(q_i) \cdot z_{g(i)}}, \qquad
        S_g = \sum_{j \in g} \phi(k_j) v_j^\top, \quad z_g = \sum_{j \in g} \phi(k_j)

    Each sum runs over the nodes of one graph, without padding. Forward and backward take
    O(n h c c_v) operations and, in addition to inputs and outputs, O(g h c c_v) memory.

    Args:
        query: q, [n, h, c]. All tensors have the same dtype: fp32, fp64, bf16 or fp16.
        key: k, [m, h, c].
        value: v, [m, h, c_v].
        segments: graph in which edge j leads from node j of m nodes to its graph, one of g, as
            :func:`gattn.graphs.pooling_graph` returns it.
        query_segments: the graph from each query to its graph, for cross-attention; None if the
            queries belong to the same nodes as the keys.
        feature_map: phi: ``"elu"`` for elu(x) + 1, ``"relu"``, or ``"identity"`` for query and key
            that are already features, none negative.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [n, h, c_v] in the dtype of value; zeros where the sum of the scores is zero.

    Raises:
        TypeError: for segments that are not a Graph, or dtypes that differ or are not floating.
        ValueError: for a wrong shape, device, feature map or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Katharopoulos et al., "Transformers are RNNs" (ICML 2020).

    Example:
        >>> import torch, gattn
        >>> segments = gattn.graphs.pooling_graph(torch.tensor([0, 0, 1]))
        >>> q, k, v = torch.randn(3, 3, 8, 16)
        >>> gattn.functional.linear_attention(q, k, v, segments).shape
        torch.Size([3, 8, 16])
    """
    queries = segments if query_segments is None else query_segments
    _check(query, key, value, segments, queries)
    query, key, values = _features(query, key, value, feature_map)
    out, total = feature_sums(query, key, values, segments, queries, backend=backend)
    return (out / total.masked_fill(total == 0, 1.0).unsqueeze(-1)).to(value.dtype)


def feature_sums(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    segments: Graph,
    queries: Graph,
    *,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Compute the numerator and the denominator of linear attention. The features may have any
    sign. Raises the errors of :func:`aggregate` and :func:`edge_dot` for arguments that do not fit.

    Args:
        query: q, [n, h, c]. All tensors have the accumulation dtype, fp32 or fp64.
        key: k, [m, h, c].
        value: v, [m, h, c_v].
        segments: one edge from each key to its graph, as in :func:`linear_attention`.
        queries: one edge from each query to its graph.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        :math:`\sum_j (q_i \cdot k_j) v_j` [n, h, c_v] and :math:`\sum_j q_i \cdot k_j` [n, h].
    """
    transformed = torch_internals.transforms_active()
    outer, inner = (_outer, _inner) if transformed else (_Outer.apply, _Inner.apply)
    memory = outer(key, value, segments, backend)
    ones = key.new_ones(key.shape[0], 1)
    mass = aggregate(ones, key.flatten(1).unsqueeze(1), segments, backend=backend)
    mass = mass.view(-1, *key.shape[1:])
    return inner(query, memory, queries, backend), edge_dot(mass, query, queries, backend=backend)


def linear_attention_weights(
    query: Tensor,
    key: Tensor,
    graph: Graph,
    *,
    feature_map: str = "elu",
    backend: str | None = None,
) -> Tensor:
    r"""Compute the weights of linear attention over the edges of a graph.

    The complete graph of each set gives the weights of :func:`linear_attention`.

    .. math:: \alpha_{ij} = \frac{\phi(q_i) \cdot \phi(k_j)}
        {\sum_{l \in N(i)} \phi(q_i) \cdot \phi(k_l)}

    Args:
        query: q, [n, h, c].
        key: k, [m, h, c].
        graph: the edges, from m sources to n destinations.
        feature_map: phi, as in :func:`linear_attention`.
        backend: force a backend: ``"reference"``, ``"cpu"`` or ``"triton"``.

    Returns:
        [e, h] in the caller's edge order; zeros if the sum of the scores is zero.

    Raises:
        TypeError: for a graph that is not a Graph, or dtypes that differ or are not floating.
        ValueError: for a wrong shape, device, feature map or backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.

    Reference:
        Katharopoulos et al., "Transformers are RNNs" (ICML 2020).

    Example:
        >>> import torch, gattn
        >>> graph = gattn.graphs.complete([2])
        >>> q, k = torch.zeros(2, 2, 1, 4)
        >>> gattn.functional.linear_attention_weights(q, k, graph).squeeze()
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    checks.check_graph(graph)
    checks.check_floats(graph, query=query, key=key)
    dtype = query.dtype
    query, key, _ = _features(query, key, key, feature_map)
    score = edge_dot(query, key, graph, backend=backend)
    total = aggregate(score, score.new_ones(graph.num_src, 1, 1), graph, backend=backend).squeeze(
        -1
    )
    total = total.masked_fill(total == 0, 1.0)
    return (score / to_edges(total, graph)).to(dtype)


def _check(query: Tensor, key: Tensor, value: Tensor, segments: Graph, queries: Graph) -> None:
    """Check the arguments of :func:`linear_attention`: the graphs of keys and queries, and the
    dtypes and the shapes of the inputs. Raises TypeError or ValueError for the first that does not
    fit.
    """
    for name, graph in (("segments", segments), ("query_segments", queries)):
        checks.check_graph(graph)
        if graph.num_edges != graph.num_src:
            raise ValueError(f"{name} must have one edge per node; got {graph!r}")
    if queries.num_dst != segments.num_dst:
        raise ValueError(
            f"query_segments must have {segments.num_dst} graphs, like segments; got {queries!r}"
        )
    checks.check_floats(segments, query=query, key=key, value=value)
    checks.check_shape("query", query, queries.num_src, "h", "c")
    checks.check_shape("key", key, segments.num_src, *query.shape[1:])
    checks.check_shape("value", value, segments.num_src, query.shape[1], "c_v")


def _features(
    query: Tensor, key: Tensor, value: Tensor, feature_map: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return phi(q), phi(k) and v in the accumulation dtype, [., h, c] each. Raises ValueError for
    an unknown feature_map.
    """
    wide = acc_dtype(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    if feature_map == "identity":
        return query, key, value
    if feature_map == "relu":
        return query.relu(), key.relu(), value
    if feature_map == "elu":
        return F.elu(query) + 1, F.elu(key) + 1, value
    raise ValueError(f"feature_map must be one of {FEATURE_MAPS}; got {feature_map!r}")


def _outer(x: Tensor, y: Tensor, segments: Graph, backend: str | None) -> Tensor:
    """Sum the outer products x_j y_j^T over the nodes j of each graph, from x [n, h, a] and y [n,
    h, b]: [g, a, h, b]. Raises the errors of :func:`aggregate`.
    """
    # The weights have shape [n, a * h], because ``aggregate`` repeats the h heads of y for each of
    # the a channels of x.
    weight = x.transpose(1, 2).reshape(x.shape[0], x.shape[1] * x.shape[2])
    out = aggregate(weight, y, segments, backend=backend)
    return out.reshape(out.shape[0], x.shape[2], x.shape[1], *out.shape[2:])


def _inner(x: Tensor, memory: Tensor, segments: Graph, backend: str | None) -> Tensor:
    """Compute y_i = x_i^T S_g for each node i, where g is the graph of the node: [n, h, b].

    x is [n, h, a], and ``memory`` is S, [g, a, h, b]. Raises the errors of :func:`edge_dot`.
    """
    graphs, channels, heads, width = memory.shape
    rows = memory.transpose(1, 3).reshape(graphs, width * heads, channels)
    y = edge_dot(rows, x, segments, backend=backend)
    y = y.reshape(y.shape[0], width, heads, *y.shape[2:])
    return y.transpose(1, 2).contiguous()


class _Outer(torch.autograd.Function):
    """Autograd function for :func:`_outer`. Its backward pass calls ``_Inner`` twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, segments: Graph, backend: str | None) -> Tensor:
        """Return the outer products of x and y, summed over the nodes of each graph
        (:func:`_outer`), and save x and y. Raises the errors of :func:`aggregate`.
        """
        ctx.save_for_backward(x, y)
        ctx.settings = segments, backend
        return _outer(x, y, segments, backend)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradients of x and y from the gradient of their outer products."""
        x, y = ctx.saved_tensors
        return (
            _Inner.apply(y, grad.transpose(1, 3), *ctx.settings),
            _Inner.apply(x, grad, *ctx.settings),
            None,
            None,
        )


class _Inner(torch.autograd.Function):
    """Autograd function for :func:`_inner`. Its backward pass calls ``_Inner`` and ``_Outer``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, memory: Tensor, segments: Graph, backend: str | None
    ) -> Tensor:
        """Return the product of each node with the memory of its graph (:func:`_inner`), and save
        both. Raises the errors of :func:`edge_dot`.
        """
        ctx.save_for_backward(x, memory)
        ctx.settings = segments, backend
        return _inner(x, memory, segments, backend)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradients of x and of the memory from the gradient of their products."""
        x, memory = ctx.saved_tensors
        return (
            _Inner.apply(grad, memory.transpose(1, 3), *ctx.settings),
            _Outer.apply(x, grad, *ctx.settings),
            None,
            None,
        )
