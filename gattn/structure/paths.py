"""Lengths of shortest paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
        TypeError: max_length is not an int, ``over`` is not a Graph, or ``edges`` have another
            type.
        ValueError: max_length < 0, ``over`` is bipartite, or the graphs have different numbers of
            nodes.

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
        length[torch.isin(pairs, level)] = step
    return length[position]


def _pairs(edges: Any, over: Graph, max_length: int) -> tuple[Graph, Tensor, Tensor]:
    """Return ``edges`` as a graph, the distinct pairs of ``over`` as ascending integer codes, which
    are source * nodes + destination, and for each edge of ``over`` the index of its pair. Raises
    TypeError or ValueError if an argument is invalid.
    """
    check_count("max_length", max_length)
    check_graph("over", over)
    if over.num_src != over.num_dst:
        raise ValueError(f"over must have the same nodes as sources and destinations; got {over!r}")
    source, destination = over.edge_index
    code, position = (source * over.num_src + destination).unique(return_inverse=True)
    return as_graph(edges, over.num_src), code, position


def _levels(graph: Graph, over: Graph, max_length: int) -> Iterator[Tensor]:
    """Yield the pairs of nodes at distance 0, 1, ... from each source of ``over``, coded as
    integers start * nodes + node, in ascending order. The paths have at most ``max_length`` edges
    of ``graph``, from source to destination; the start itself has the distance 0.
    """
    start = over.edge_index[0].unique()
    code = seen = start * over.num_src + start
    yield code
    for _ in range(max_length):
        reached = _one_step(code, graph).unique()
        code = reached[~torch.isin(reached, seen, assume_unique=True)]
        if not len(code):
            return
        seen = torch.cat([seen, code])
        yield code


def _one_step(code: Tensor, graph: Graph) -> Tensor:
    """Return the pairs to which every pair (start, node) is extended by the edges that leave the
    node, as integers start * nodes + node, with repetitions.
    """
    layout, nodes = graph.layout, graph.num_src
    colptr = layout.colptr.long()
    start, node = code // nodes, code % nodes
    degree = colptr.diff()[node]
    total = int(degree.sum())
    walker = torch.repeat_interleave(degree, output_size=total)
    first = colptr[node] - (degree.cumsum(0) - degree)
    index = torch.arange(total, device=code.device) + first[walker]
    return start[walker] * nodes + layout.row.long()[index]
