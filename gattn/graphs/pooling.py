"""Graphs for attention pooling, in which queries of each graph attend to the graph's nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count


def pooling_graph(index: Tensor, num_queries: int = 1, num_graphs: int | None = None) -> Graph:
    r"""Build a graph for attention pooling, in which k queries of each graph attend to all of its
    nodes.

    .. math:: j \to (g, q) \quad\text{for all nodes } j \text{ of graph } g \text{ and } q < k

    Args:
        index: [n] int32 or int64, the graph of each node, in any order.
        num_queries: number of queries per graph, k.
        num_graphs: number of graphs, g; None reads ``index.max() + 1`` from the device.

    Returns:
        The graph from n sources to g * k destinations; query q of graph b is destination b * k + q.
        Edges are ordered by node, then by query: a per-edge tensor has ``view(n, k, ...)``. The
        queries of a graph without nodes have no edges.

    Raises:
        TypeError: index is not an integer tensor, or a number is not an int.
        ValueError: index has a wrong shape or is out of range, num_queries < 1, or
            num_graphs < 0.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019), pooling by multi-head attention.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> graphs.pooling_graph(torch.tensor([0, 0, 2]), 2, 3)
        Graph(num_src=3, num_dst=6, num_edges=6, device='cpu')
    """
    check_count("num_queries", num_queries, 1)
    num_graphs = check_index(index, num_graphs)
    nodes = torch.arange(index.numel(), device=index.device)
    queries = torch.arange(num_queries, device=index.device)
    destination = index.long()[:, None] * num_queries + queries
    source = nodes.repeat_interleave(num_queries)
    pairs = torch.stack([source, destination.flatten()])
    return Graph(pairs, (index.numel(), num_graphs * num_queries))


def check_index(index: Tensor, num_graphs: int | None) -> int:
    """Check the tensor that contains the graph of each node, [n], and return the number of graphs
    (0 without nodes, unless ``num_graphs`` is another number). Raises TypeError unless it is an
    integer tensor, and ValueError for a wrong shape, an index out of range, or under torch.export
    without num_graphs. The range is read from the device; compiled code with num_graphs checks it
    at run time.
    """
    if num_graphs is not None:
        check_count("num_graphs", num_graphs)
    if not isinstance(index, Tensor) or index.dtype not in (torch.int32, torch.int64):
        actual = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"index must be an int32 or int64 tensor; got {actual}")
    if index.dim() != 1:
        raise ValueError(f"index must have shape (n,); got {tuple(index.shape)}")
    if torch.compiler.is_compiling() and num_graphs is not None:
        # The compiled code checks the range of the index at run time.
        return num_graphs
    if torch.compiler.is_exporting():
        raise ValueError(
            "torch.export would store the number of graphs as a constant: pass num_graphs"
        )
    low, high = map(int, index.aminmax()) if index.numel() else (0, -1)
    if low < 0 or (num_graphs is not None and high >= num_graphs):
        limit = "" if num_graphs is None else f" and < {num_graphs}, num_graphs"
        raise ValueError(f"index must be >= 0{limit}; got {low} to {high}")
    return high + 1 if num_graphs is None else num_graphs
