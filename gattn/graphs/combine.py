"""Functions that combine graphs: disjoint unions and virtual nodes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graphs.pooling import check_index


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
    pairs, num_src, num_dst = [], [0], [0]
    for graph in graphs:
        check_graph("each of graphs", graph)
        pairs.append(graph.edge_index + _column(num_src[-1], num_dst[-1], graph))
        num_src.append(num_src[-1] + graph.num_src)
        num_dst.append(num_dst[-1] + graph.num_dst)
    return Graph(torch.cat(pairs, dim=1), (num_src[-1], num_dst[-1]))


def virtual_node(graph: Graph, index: Tensor | None = None, num_graphs: int = 1) -> Graph:
    r"""Add one virtual node to each graph; it is connected to all nodes of its graph in both
    directions.

    .. math:: j \to n + b, \quad n + b \to j \quad\text{for all nodes } j \text{ of graph } b

    Any two nodes of a graph are then at most two steps apart.

    Args:
        graph: a square graph of n nodes.
        index: [n] int32 or int64, the graph of each node; None for a single graph.
        num_graphs: number of graphs, g.

    Returns:
        The graph of n + g nodes; the virtual node of graph b is n + b. Edges: the edges of the
        graph in their order, then node -> virtual node for each node, then virtual node -> node
        for each node.

    Raises:
        TypeError: graph is not a Graph, or index is not an integer tensor.
        ValueError: the graph is bipartite, or index has a wrong shape or is out of range.

    Reference:
        Gilmer et al., "Neural message passing for quantum chemistry" (ICML 2017).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> path = graphs.band([4], 1)
        >>> graphs.virtual_node(path)
        Graph(num_src=5, num_dst=5, num_edges=18, device='cpu')
    """
    check_graph("graph", graph)
    nodes = graph.num_src
    if graph.num_dst != nodes:
        raise ValueError(
            f"graph must have equal numbers of sources and destinations; got {graph!r}"
        )
    node = torch.arange(nodes, device=graph.device)
    index = torch.zeros_like(node) if index is None else index
    check_index(index, num_graphs)
    if index.shape != node.shape:
        raise ValueError(f"index must have shape ({nodes},); got {tuple(index.shape)}")
    virtual = nodes + index.long()
    pairs = [graph.edge_index, torch.stack([node, virtual]), torch.stack([virtual, node])]
    return Graph(torch.cat(pairs, dim=1), nodes + num_graphs)


def _column(first: int, second: int, graph: Graph) -> Tensor:
    """Return two numbers as a tensor of shape [2, 1] on the device of a graph."""
    return torch.tensor([[first], [second]], device=graph.device)
