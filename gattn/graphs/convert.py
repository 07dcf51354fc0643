"""To and from networkx, and the numbers that others store with edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import is_networkx, networkx_rows


def from_networkx(graph: Any) -> Graph:
    """Lay out a networkx graph: its edges alone; :func:`edge_features` reads their attributes.

    Args:
        graph: any networkx graph. Nodes are numbered in iteration order; an undirected edge
            stands for both directions, a loop for one.

    Returns:
        The graph; edges in the order of ``graph.edges()``, both directions of an undirected one
        beside each other. A layer that is given the networkx graph itself takes one row of
        features for each of ``graph.edges()``; with this graph it takes one for each direction.

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

    A :class:`gattn.Graph` has none, and no layer reads them by itself: hand them over as
    ``edge_attr`` or ``edge_weight``, or a logarithm of them as a bias of the score.

    Args:
        edges: a networkx graph, or a SciPy sparse matrix, whose values are its one feature; the
            value [j, i] is that of the edge j -> i.
        names: the attribute, or the d attributes, of the edges of a networkx graph.
        default: for edges without the attribute; None means that each must have it.
        dtype: of the result.

    Returns:
        [e, d], in the order of the edges of ``Graph(edges)``: an undirected edge has its numbers in
        both directions.

    Raises:
        TypeError: for edges of another kind, or an attribute that is not a number.
        ValueError: for an edge without the attribute.

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
        raise ValueError(f"every edge must have {name!r}, or a default be given; {ends} has none")
    if not hasattr(value, "__float__"):
        raise TypeError(f"{name!r} must be a number; got {value!r} at edge {ends}")
    return float(value)


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
