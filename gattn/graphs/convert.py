"""Conversion of networkx graphs to gattn's graphs and back, and reading of edge features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import is_networkx, networkx_rows


def from_networkx(graph: Any) -> Graph:
    """Create a graph from the edges of a networkx graph.

    Args:
        graph: any networkx graph. Nodes are numbered in iteration order. Use :func:`edge_features`
            for its edge attributes. An undirected edge gives two edges, one in each direction; a
            self-loop gives one.

    Returns:
        The graph; edges in the order of ``graph.edges()``, with the two directions of an undirected
        edge adjacent. If you pass the networkx graph itself to a layer, edge features have one row
        for each of ``graph.edges()``; with this graph they have one for each direction.

    Raises:
        TypeError: graph is no networkx graph.

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
    if not is_networkx(graph):
        raise TypeError(f"graph must be a networkx graph; got {type(graph).__name__}")
    return Graph(graph)


def edge_features(
    edges: Any,
    names: str | Sequence[str] = "weight",
    *,
    default: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Read the numbers that a networkx graph or a SciPy matrix stores with its edges.

    A :class:`gattn.Graph` does not store these numbers, and layers do not read them from the graph.
    Pass them to a layer as ``edge_attr`` or ``edge_weight``, or their logarithm as ``attn_bias``.

    Args:
        edges: a networkx graph, or a SciPy sparse matrix, whose entry [j, i] is the only feature
            of the edge j -> i.
        names: name or d names of edge attributes of a networkx graph.
        default: value for edges without the attribute; with None such an edge is an error.
        dtype: dtype of the result.

    Returns:
        [e, d], in the edge order of ``Graph(edges)``; both directions of an undirected edge have
        the same features.

    Raises:
        TypeError: edges have another type, or an attribute is not a number.
        ValueError: an edge lacks the attribute and there is no default.

    Reference:
        Hagberg, Schult, Swart, "Exploring network structure, dynamics, and function using
        NetworkX" (SciPy 2008).

    Example:
        >>> import networkx
        >>> from gattn import graphs
        >>> bonds = networkx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"weight": 1.0})])
        >>> graphs.edge_features(bonds).flatten()
        tensor([2., 2., 1., 1.])
    """
    if hasattr(edges, "tocoo"):
        return torch.from_numpy(edges.tocoo().data.copy()).to(dtype).unsqueeze(1)
    if not is_networkx(edges):
        raise TypeError(
            f"edges must be a networkx graph or a SciPy matrix; got {type(edges).__name__}"
        )
    names = [names] if isinstance(names, str) else list(names)
    table = [
        [_number(attributes.get(name, default), name, ends) for name in names]
        for *ends, attributes in edges.edges(data=True)
    ]
    return torch.tensor(table, dtype=dtype).reshape(-1, len(names))[networkx_rows(edges)]


def _number(value: Any, name: str, ends: list[Any]) -> float:
    if value is None:
        raise ValueError(
            f"every edge must have {name!r} unless default is set; got none at edge {ends}"
        )
    if not hasattr(value, "__float__"):
        raise TypeError(f"{name!r} must be a number; got {value!r} at edge {ends}")
    return float(value)


def to_networkx(graph: Graph) -> Any:
    """Convert a graph to a networkx graph, including parallel edges and self-loops.

    Args:
        graph: any graph.

    Returns:
        A ``networkx.MultiDiGraph``. The key of an edge is its position in the caller's order, which
        is the row of its per-edge values. Nodes are 0 to n - 1. In a bipartite graph 0 to m - 1 are
        the sources and m to m + n - 1 the destinations, with networkx's attribute ``bipartite``
        0 and 1.

    Raises:
        TypeError: graph is no :class:`gattn.Graph`.
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
    result = networkx.MultiDiGraph()
    first = 0
    if graph.num_src == graph.num_dst:
        result.add_nodes_from(range(graph.num_src))
    else:
        first = graph.num_src
        result.add_nodes_from(range(first), bipartite=0)
        result.add_nodes_from(range(first, first + graph.num_dst), bipartite=1)
    source, destination = graph.edge_index.tolist()
    for position, (j, i) in enumerate(zip(source, destination)):
        result.add_edge(j, first + i, key=position)
    return result
