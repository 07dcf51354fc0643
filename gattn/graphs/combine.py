"""Disjoint unions of graphs."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from gattn.graph import Graph, check_graph


def disjoint_union(graphs: Iterable[Graph]) -> Graph:
    r"""Combine several graphs into one graph that has no edges between them.

    .. math:: m_b + j \to n_b + i \quad\text{for all edges } j \to i \text{ of graph } b,

    with :math:`m_b` sources and :math:`n_b` destinations in the graphs before b.

    Args:
        graphs: at least one graph, all on one device.

    Returns:
        The graph with the nodes and edges of the first graph, then of the second, and so on.

    Raises:
        TypeError: graphs is not a list of graphs.
        ValueError: the list is empty.
        RuntimeError: by torch, if the graphs are on different devices.

    Reference:
        Fey, Lenssen, "Fast graph representation learning with PyTorch Geometric" (2019).

    Example:
        >>> from gattn import graphs
        >>> graphs.disjoint_union([graphs.causal([3]), graphs.bipartite([1], [2])])
        Graph(num_src=5, num_dst=4, num_edges=8, device='cpu')
    """
    if not isinstance(graphs, Iterable):
        raise TypeError(f"graphs must be a list of gattn.Graph; got {type(graphs).__name__}")
    graphs = list(graphs)
    if not graphs:
        raise ValueError("graphs must contain at least one graph; got none")
    for graph in graphs:
        check_graph("each of graphs", graph)
    sizes = torch.tensor([graph.size for graph in graphs])
    first = (sizes.cumsum(0) - sizes).unsqueeze(2)
    pairs = [graph.edge_index + offset.to(graph.device) for graph, offset in zip(graphs, first)]
    num_src, num_dst = sizes.sum(0).tolist()
    return Graph(torch.cat(pairs, dim=1), (num_src, num_dst))
