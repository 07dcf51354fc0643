"""Shortest paths: how many steps lie between two nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.edges import check_count
from gattn.graph import Graph, as_graph, check_graph


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
    check_count("max_length", max_length)
    check_graph("over", over)
    if over.num_src != over.num_dst:
        raise ValueError(f"over must join the nodes of one set; got {over!r}")
    graph = as_graph(edges, over.num_src)
    source, destination = over.edge_index
    asked, position = (source * over.num_src + destination).unique(return_inverse=True)
    length = torch.full_like(asked, max_length + 1)
    start = source.unique()
    code = seen = start * over.num_src + start  # where a walker set out, and where it stands
    for step in range(max_length + 1):
        length[torch.isin(asked, code)] = step
        if step < max_length and code.numel() > 0:
            code = _one_step(code, graph)
            code = code[~torch.isin(code, seen, assume_unique=True)]
            seen = torch.cat([seen, code])
    return length[position]


def _one_step(code: Tensor, graph: Graph) -> Tensor:
    """Let every walker take every edge out of the node where it stands."""
    nodes, colptr = graph.num_src, graph.layout.colptr.long()
    start, place = code // nodes, code % nodes
    degree = colptr.diff()[place]
    total = int(degree.sum())
    walker = torch.repeat_interleave(degree, output_size=total)
    first = colptr[place] - (degree.cumsum(0) - degree)
    edge = torch.arange(total, device=code.device) + first[walker]
    return (start[walker] * nodes + graph.layout.row.long()[edge]).unique()
