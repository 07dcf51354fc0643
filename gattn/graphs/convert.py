"""To and from networkx."""

from __future__ import annotations

from typing import Any

from gattn.graph import Graph, check_graph


def from_networkx(graph: Any) -> Graph:
    """Lay out a networkx graph.

    Args:
        graph: any networkx graph. Nodes are numbered in iteration order; an undirected edge
            stands for both directions, a loop for one.

    Returns:
        The graph; edges in the order of ``graph.edges()``, both directions of an undirected one
        beside each other.

    Raises:
        TypeError: for anything else.

    Reference:
        Hagberg, Schult, Swart, "Exploring network structure, dynamics, and function using
        NetworkX" (SciPy 2008).

    Example:
        >>> import networkx
        >>> from gattn import graphs
        >>> graphs.from_networkx(networkx.path_graph(3)).edge_index
        tensor([[0, 1, 1, 2],
                [1, 0, 2, 1]])
    """
    if not (hasattr(graph, "is_directed") and hasattr(graph, "nodes")):
        raise TypeError(f"graph must be a networkx graph; got {type(graph).__name__}")
    return Graph(graph)


def to_networkx(graph: Graph) -> Any:
    """Make a networkx graph of a graph, multi-edges and loops kept.

    Args:
        graph: any graph.

    Returns:
        A ``networkx.MultiDiGraph``; the key of an edge is its position in the caller's order, so
        that per-edge values find their edge. Nodes are 0 to n - 1; where sources and destinations
        differ in number, 0 to m - 1 are the sources and m to m + n - 1 the destinations, with
        networkx's attribute ``bipartite`` 0 and 1.

    Raises:
        TypeError: for anything but a :class:`gattn.Graph`.
        ImportError: networkx is not installed.

    Reference:
        Hagberg, Schult, Swart, "Exploring network structure, dynamics, and function using
        NetworkX" (SciPy 2008).

    Example:
        >>> from gattn import graphs
        >>> graphs.to_networkx(graphs.causal([2])).edges(keys=True)
        OutMultiEdgeView([(0, 0, 0), (0, 1, 1), (1, 1, 2)])
    """
    check_graph("graph", graph)
    try:
        import networkx
    except ImportError:
        raise ImportError('to_networkx needs networkx: pip install "gattn[networkx]"') from None
    made = networkx.MultiDiGraph()
    first = 0
    if graph.num_src == graph.num_dst:
        made.add_nodes_from(range(graph.num_src))
    else:
        first = graph.num_src
        made.add_nodes_from(range(first), bipartite=0)
        made.add_nodes_from(range(first, first + graph.num_dst), bipartite=1)
    source, destination = graph.edge_index.tolist()
    for position, (j, i) in enumerate(zip(source, destination)):
        made.add_edge(j, first + i, key=position)
    return made
