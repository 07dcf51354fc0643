"""Shortest paths: how many steps lie between two nodes, and which edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph, check_graph
from gattn.graph.edge_input import check_count


def path_lengths(edges: Any, over: Graph, max_length: int) -> Tensor:
    r"""Steps from source to destination of every edge of ``over``, walking along ``edges``.

    .. math:: d_{ij} = \min(\text{steps of the shortest path } j \to i,\; L + 1)

    ``over`` is the graph that attention runs on, such as each molecule's complete graph; ``edges``
    are the bonds.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or anything it is made from.
        over: the graph whose edges ask, of n nodes.
        max_length: L, the longest path told apart from no path at all.

    Returns:
        [e] int64, in the order of the caller's edges of ``over``: 0 for a loop, L + 1 where no
        path of at most L steps leads.

    Raises:
        TypeError: for a max_length that is not an int, or other than a graph to ask for.
        ValueError: for max_length < 0 or graphs of different nodes.

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
    graph, asked, position = _asked(edges, over, max_length)
    length = torch.full_like(asked, max_length + 1)
    for step, level in enumerate(_levels(graph, over, max_length)):
        length[torch.isin(asked, level.code)] = step
    return length[position]


def path_features(
    edges: Any, over: Graph, edge_attr: Tensor, max_length: int
) -> tuple[Tensor, Tensor]:
    r"""Features of the edges on the way from source to destination of every edge of ``over``.

    .. math:: f_{ijt} = \text{mean of } a_{P_t} \text{ over all shortest paths } P \text{ from }
        j \text{ to } i, \qquad t = 1, \dots, d_{ij}

    The authors take one of the shortest paths; the mean of all of them does not depend on how the
    nodes are numbered.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or anything it is made from.
        over: the graph whose edges ask, of n nodes.
        edge_attr: a, [e', d], floating, in the caller's order of ``edges``.
        max_length: L, the longest path that is followed.

    Returns:
        The lengths d, [e], as :func:`path_lengths` gives them, and the features f, [e, L, d] in the
        dtype of edge_attr, with its gradient; zeros behind the end of a path, and where none leads.

    Raises:
        TypeError: for a max_length that is not an int, other than a graph to ask for, or features
            that are not floating.
        ValueError: for max_length < 0, graphs of different nodes, or features of another shape.

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
    graph, asked, position = _asked(edges, over, max_length)
    _check_features(graph, edge_attr)
    length = torch.full_like(asked, max_length + 1)
    features = edge_attr.new_zeros(len(asked), max_length, edge_attr.shape[1])
    for step, level in enumerate(_levels(graph, over, max_length)):
        arrived = len(level.code)
        if step == 0:  # of each walker: how many paths lead there, and the mean of their features
            paths = edge_attr.new_ones(arrived, dtype=torch.float64)
            mean = edge_attr.new_zeros(arrived, 0, edge_attr.shape[1])
        else:
            brought = paths[level.walker]
            paths = paths.new_zeros(arrived).index_add(0, level.to, brought)
            share = (brought / paths[level.to]).to(mean.dtype).view(-1, 1, 1)
            way = torch.cat([mean[level.walker], edge_attr[level.edge].unsqueeze(1)], 1)
            mean = mean.new_zeros(arrived, step, mean.shape[2]).index_add(0, level.to, share * way)
        place = torch.searchsorted(level.code, asked).clamp(max=arrived - 1)
        there = (level.code[place] == asked).nonzero().squeeze(1)
        length[there] = step
        features[there, :step] = mean[place[there]]
    return length[position], features[position]


class _Level(NamedTuple):
    """Who stands where after some steps along shortest paths."""

    code: Tensor
    """Pairs of a start and a node, as start * nodes + node, ascending."""
    walker: Tensor
    """Of the steps that led here, which pair of the last level made each,"""
    edge: Tensor
    """along which edge, by the caller's positions,"""
    to: Tensor
    """and to which pair of this level."""


def _asked(edges: Any, over: Graph, max_length: int) -> tuple[Graph, Tensor, Tensor]:
    """The graph to walk on, the pairs that ask, each once, and which of them each edge is."""
    check_count("max_length", max_length)
    check_graph("over", over)
    if over.num_src != over.num_dst:
        raise ValueError(f"over must join the nodes of one set; got {over!r}")
    source, destination = over.edge_index
    code, position = (source * over.num_src + destination).unique(return_inverse=True)
    return as_graph(edges, over.num_src), code, position


def _levels(graph: Graph, over: Graph, max_length: int) -> Iterator[_Level]:
    """Let walkers set out from every source of ``over``: all pairs at distance 0, 1, ..."""
    nodes = over.num_src
    start = over.edge_index[0].unique()
    code = seen = start * nodes + start
    yield _Level(code, *(code.new_empty(0) for _ in range(3)))
    for _ in range(max_length):
        walker, edge, to = _one_step(code, graph)
        reached, place = to.unique(return_inverse=True)
        is_new = ~torch.isin(reached, seen, assume_unique=True)
        kept = is_new[place]
        code = reached[is_new]
        if not len(code):
            return
        seen = torch.cat([seen, code])
        yield _Level(code, walker[kept], edge[kept], (is_new.cumsum(0) - 1)[place[kept]])


def _one_step(code: Tensor, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """Let every walker take every edge out of its node: walker, edge and the pair it becomes."""
    layout, nodes = graph.layout, graph.num_src
    colptr = layout.colptr.long()
    start, place = code // nodes, code % nodes
    degree = colptr.diff()[place]
    total = int(degree.sum())
    walker = torch.repeat_interleave(degree, output_size=total)
    first = colptr[place] - (degree.cumsum(0) - degree)
    at = torch.arange(total, device=code.device) + first[walker]
    edge = layout.perm.long()[layout.csr2csc.long()[at]]
    return walker, edge, start[walker] * nodes + layout.row.long()[at]


def _check_features(graph: Graph, edge_attr: Tensor) -> None:
    if not edge_attr.is_floating_point():
        raise TypeError(f"edge_attr must hold floating numbers; got {edge_attr.dtype}")
    if edge_attr.dim() != 2 or len(edge_attr) != graph.num_edges:
        raise ValueError(
            f"edge_attr must have shape ({graph.num_edges}, d); got {tuple(edge_attr.shape)}"
        )
