"""Functions that combine graphs: disjoint unions, batches and virtual nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.cache import outside_transforms
from gattn.graphs.pooling import check_index
from gattn.layout import stats


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
    batch = Graph(torch.cat(pairs, dim=1), (num_src[-1], num_dst[-1]))
    return _with_graph_ptr(batch, num_src) if num_src == num_dst else batch


def from_batch(edges: Any, ptr: Tensor) -> Graph:
    r"""Create one graph from the edges and node offsets of a batch of small graphs.

    .. math:: \{j \to i\}, \qquad \text{ptr}_b \le i, j < \text{ptr}_{b+1} \text{ for some } b

    If every graph is small (at most 64 nodes) and sparse (fewer than 8 edges per node), such as a
    molecule, CUDA kernels then process whole graphs at once, which is faster. Results equal the
    results of ``Graph(edges, n)``.

    Args:
        edges: a (2, e) integer tensor, or another argument of :class:`gattn.Graph`.
        ptr: [g + 1] int32 or int64, node offsets from 0 to n, such as PyG's ``Batch.ptr``: graph b
            has the nodes ptr[b] to ptr[b + 1] - 1, and may be empty.

    Returns:
        The square graph of n nodes, with the edges in the caller's order.

    Raises:
        TypeError: ptr is not an integer tensor.
        ValueError: ptr does not ascend from 0, or an edge joins two graphs.

    Reference:
        Fey, Lenssen, "Fast graph representation learning with PyTorch Geometric" (2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> graphs.from_batch(torch.tensor([[0, 1, 3], [1, 0, 2]]), torch.tensor([0, 2, 4]))
        Graph(num_src=4, num_dst=4, num_edges=3, device='cpu')
    """
    if not isinstance(ptr, Tensor) or ptr.dtype not in (torch.int32, torch.int64):
        actual = ptr.dtype if isinstance(ptr, Tensor) else type(ptr).__name__
        raise TypeError(f"ptr must be an int32 or int64 tensor; got {actual}")
    bounds = ptr.tolist() if ptr.dim() == 1 else []
    if not bounds or bounds[0] != 0 or bounds != sorted(bounds):
        raise ValueError(f"ptr must have shape (g + 1,) and ascend from 0; got {ptr}")
    graph = Graph(edges, bounds[-1])
    ptr = ptr.to(graph.device)
    source, destination = torch.searchsorted(ptr, graph.edge_index, right=True) - 1
    crossing = (source != destination).nonzero()
    if crossing.numel():
        edge = int(crossing[0])
        raise ValueError(
            f"edges must not connect two graphs; got edge {edge} from graph "
            f"{int(source[edge])} to graph {int(destination[edge])}"
        )
    return _with_graph_ptr(graph, bounds)


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


@outside_transforms
def _with_graph_ptr(graph: Graph, bounds: list[int]) -> Graph:
    """Return the graph; its layout contains the node offsets of the batch."""
    layout = graph.layout
    return Graph.from_layout(layout._replace(graph_ptr=stats.graph_ptr(layout, bounds)))


def _column(first: int, second: int, graph: Graph) -> Tensor:
    """Return two numbers as a tensor of shape [2, 1] on the device of a graph."""
    return torch.tensor([[first], [second]], device=graph.device)
