"""Lengths of shortest paths, and mean edge features along them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph, check_graph
from gattn.graph.edge_input import check_count


def path_lengths(edges: Any, over: Graph, max_length: int) -> Tensor:
    r"""Compute the length of the shortest path between the two nodes of each edge in ``over``.

    .. math:: d_{ij} = \min(\text{steps of the shortest path } j \to i,\; L + 1)

    ``over`` is the graph on which attention runs, such as each molecule's complete graph; ``edges``
    are, for example, the bonds.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or edges from which a Graph can
            be created.
        over: graph with n nodes; its edges are the node pairs.
        max_length: L, maximum path length.

    Returns:
        [e] int64, in the caller's edge order of ``over``: 0 for a self-loop, L + 1 if there is no
        path of at most L steps.

    Raises:
        TypeError: max_length is not an int, or ``over`` is not a Graph.
        ValueError: max_length < 0, or the graphs have different numbers of nodes.

    Reference:
        Ying et al., "Do transformers really perform badly for graph representation?" (NeurIPS
        2021).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.structure import path_lengths
        >>> bonds = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> path_lengths(bonds, graphs.complete([3]), 1)
        tensor([0, 1, 2, 1, 0, 1, 2, 1, 0])
    """
    graph, pairs, position = _pairs(edges, over, max_length)
    length = torch.full_like(pairs, max_length + 1)
    for step, level in enumerate(_levels(graph, over, max_length)):
        length[torch.isin(pairs, level.code)] = step
    return length[position]


def path_features(
    edges: Any, over: Graph, edge_attr: Tensor, max_length: int
) -> tuple[Tensor, Tensor]:
    r"""Compute the mean edge features along the shortest paths between the two nodes of each edge
    in ``over``.

    .. math:: f_{ijt} = \text{mean of } a_{P_t} \text{ over all shortest paths } P \text{ from }
        j \text{ to } i, \qquad t = 1, \dots, d_{ij}

    The authors use one of the shortest paths. The mean over all of them, as here, does not depend
    on the numbering of the nodes.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or edges from which a Graph can
            be created.
        over: graph with n nodes; its edges are the node pairs.
        edge_attr: a, [e', d], floating point, in the caller's order of ``edges``.
        max_length: L, maximum path length.

    Returns:
        The lengths, [e] int64, as from :func:`path_lengths`, and the features f, [e, L, d], in the
        dtype of edge_attr and differentiable; zeros after the end of a path and without a path.

    Raises:
        TypeError: max_length is not an int, ``over`` is not a Graph, or features are not floating
            point.
        ValueError: max_length < 0, the graphs have different numbers of nodes, or features have a
            wrong shape.

    Reference:
        Ying et al., "Do transformers really perform badly for graph representation?" (NeurIPS
        2021).

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> from gattn.structure import path_features
        >>> bonds, kind = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[1.0], [5.0]])
        >>> far = Graph(torch.tensor([[0, 0], [2, 1]]), 3)
        >>> length, features = path_features(bonds, far, kind, 2)
        >>> length.tolist(), features.squeeze(2).tolist()
        ([2, 1], [[1.0, 5.0], [1.0, 0.0]])
    """
    graph, pairs, position = _pairs(edges, over, max_length)
    _check_features(graph, edge_attr)
    length = torch.full_like(pairs, max_length + 1)
    features = edge_attr.new_zeros(len(pairs), max_length, edge_attr.shape[1])
    for step, level in enumerate(_levels(graph, over, max_length)):
        count = len(level.code)
        # These tensors contain, for each pair of nodes, the number of shortest paths, and the mean
        # features along these paths.
        if step == 0:
            paths = edge_attr.new_ones(count, dtype=torch.float64)
            mean = edge_attr.new_zeros(count, 0, edge_attr.shape[1])
        else:
            arriving = paths[level.walker]
            paths = paths.new_zeros(count).index_add(0, level.to, arriving)
            share = (arriving / paths[level.to]).to(mean.dtype).view(-1, 1, 1)
            extended = torch.cat([mean[level.walker], edge_attr[level.edge].unsqueeze(1)], 1)
            mean = mean.new_zeros(count, step, mean.shape[2])
            mean = mean.index_add(0, level.to, share * extended)
        index = torch.searchsorted(level.code, pairs).clamp(max=count - 1)
        at_level = (level.code[index] == pairs).nonzero().squeeze(1)
        length[at_level] = step
        features[at_level, :step] = mean[index[at_level]]
    return length[position], features[position]


class _Level(NamedTuple):
    """All pairs of a start node and a node at one distance from it, and the edges that lead to
    these nodes.

    A step goes along an edge from a pair of the previous level to a pair of this level.
    """

    code: Tensor
    """Pairs of nodes, coded as integers start * nodes + node, in ascending order."""
    walker: Tensor
    """For each step, the index in the previous level of the pair from which it starts."""
    edge: Tensor
    """For each step, the index of its edge in the caller's order."""
    to: Tensor
    """For each step, the index in this level of the pair at which it ends."""


def _pairs(edges: Any, over: Graph, max_length: int) -> tuple[Graph, Tensor, Tensor]:
    """Return ``edges`` as a graph, the distinct (source, destination) pairs of ``over`` as integer
    codes, and for each edge of ``over`` the index of its pair. Raises TypeError or ValueError if an
    argument is invalid.
    """
    check_count("max_length", max_length)
    check_graph("over", over)
    if over.num_src != over.num_dst:
        raise ValueError(f"over must have the same nodes as sources and destinations; got {over!r}")
    source, destination = over.edge_index
    code, position = (source * over.num_src + destination).unique(return_inverse=True)
    return as_graph(edges, over.num_src), code, position


def _levels(graph: Graph, over: Graph, max_length: int) -> Iterator[_Level]:
    """Yield the pairs at distance 0, 1, ... from each source of ``over``."""
    nodes = over.num_src
    start = over.edge_index[0].unique()
    code = seen = start * nodes + start
    yield _Level(code, *(code.new_empty(0) for _ in range(3)))
    for _ in range(max_length):
        walker, edge, to = _one_step(code, graph)
        reached, index = to.unique(return_inverse=True)
        is_new = ~torch.isin(reached, seen, assume_unique=True)
        mask = is_new[index]
        code = reached[is_new]
        if not len(code):
            return
        seen = torch.cat([seen, code])
        yield _Level(code, walker[mask], edge[mask], (is_new.cumsum(0) - 1)[index[mask]])


def _one_step(code: Tensor, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """Extend every pair (start, node) by every edge that leaves the node.

    Returns, for each extension, the index of the pair, the edge, and the new pair as an integer.
    """
    layout, nodes = graph.layout, graph.num_src
    colptr = layout.colptr.long()
    start, node = code // nodes, code % nodes
    degree = colptr.diff()[node]
    total = int(degree.sum())
    walker = torch.repeat_interleave(degree, output_size=total)
    first = colptr[node] - (degree.cumsum(0) - degree)
    index = torch.arange(total, device=code.device) + first[walker]
    edge = layout.perm.long()[layout.csr2csc.long()[index]]
    return walker, edge, start[walker] * nodes + layout.row.long()[index]


def _check_features(graph: Graph, edge_attr: Tensor) -> None:
    """Raise TypeError unless the edge features are floating-point numbers, and ValueError unless
    they are [e, d].
    """
    if not edge_attr.is_floating_point():
        raise TypeError(f"edge_attr must contain floating-point numbers; got {edge_attr.dtype}")
    if edge_attr.dim() != 2 or len(edge_attr) != graph.num_edges:
        raise ValueError(
            f"edge_attr must have shape ({graph.num_edges}, d); got {tuple(edge_attr.shape)}"
        )
