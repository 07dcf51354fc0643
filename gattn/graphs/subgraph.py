"""Subgraph that consists of all edges whose destinations are in a range of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.graph.sorting import sort
from gattn.layout.layout import owners


def in_subgraph(graph: Graph, start: int, stop: int) -> tuple[Graph, Tensor, Tensor]:
    r"""Return the subgraph of all edges whose destination is one of the nodes start to stop - 1.

    .. math:: \{ j \to i : \text{start} \le i < \text{stop} \}

    These edges are contiguous in the layout of the graph, so the function reads only these edges
    and one flag per node.

    Args:
        graph: a graph among n nodes.
        start: first node of the range.
        stop: node after the last node of the range.

    Returns:
        Three values: the bipartite subgraph, from k sources to the nodes of the range; its sources,
        [k] int64, which are the nodes of the range, then the other sources in ascending order; and
        the indices of its edges in the caller's order of the graph, [e] int64, so that its edge
        features are ``edge_attr[index]``. An empty range gives an empty graph.

    Raises:
        TypeError: graph is not a Graph, or the bounds are not ints.
        ValueError: the graph is bipartite, or not 0 <= start <= stop <= n.

    Reference:
        Wang et al., "Deep Graph Library" (2019), whose blocks are numbered this way.

    Example:
        >>> import torch
        >>> from gattn import Graph, graphs
        >>> ring = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
        >>> part, sources, positions = graphs.in_subgraph(ring, 2, 4)
        >>> part
        Graph(num_src=3, num_dst=2, num_edges=2, device='cpu')
        >>> sources, positions
        (tensor([2, 3, 1]), tensor([1, 2]))
    """
    check_graph("graph", graph)
    check_count("start", start)
    check_count("stop", stop)
    if graph.num_src != graph.num_dst:
        raise ValueError(f"graph must have the same nodes at both ends; got {graph}")
    if not start <= stop <= graph.num_dst:
        raise ValueError(f"0 <= start <= stop <= {graph.num_dst} must hold; got {start}, {stop}")
    layout = graph.layout
    first, last = layout.rowptr[[start, stop]].tolist()
    col = layout.col[first:last].long()
    sources = _sources(col, start, stop, graph.num_src)
    local_index = torch.empty_like(layout.colptr)
    count = sources.shape[0]
    local_index[sources] = torch.arange(count, dtype=local_index.dtype, device=graph.device)
    rows = owners(layout.rowptr[start : stop + 1] - first, last - first).to(local_index.dtype)
    subgraph = Graph.from_layout(sort(local_index[col], rows, count, stop - start))
    return subgraph, sources, layout.perm[first:last].long()


def _sources(col: Tensor, start: int, stop: int, nodes: int) -> Tensor:
    """Return the k sources of a subgraph, [k]: first the nodes of the range, then all others in
    ascending order.
    """
    used = torch.zeros(nodes, dtype=torch.bool, device=col.device)
    used[col] = True
    used[start:stop] = False
    return torch.cat([torch.arange(start, stop, device=col.device), used.nonzero().squeeze(1)])
