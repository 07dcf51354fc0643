"""Conversion of networkx graphs, PyG's ``Data`` and tables to one type of graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from gattn.nodes.attributed import AttributedGraph, GraphError, attributed_graph, edges_by_name
from gattn.nodes.edge_table import EdgeTable
from gattn.nodes.splits import MASKS
from gattn.nodes.tables import from_tables
from gattn.nodes.values import flat_table, shape_fault

if TYPE_CHECKING:
    import networkx

__all__ = ["GraphLike", "from_data", "from_networkx", "read_graph"]

GraphLike: TypeAlias = (
    "AttributedGraph | Data | networkx.Graph | pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]"
)
EDGE_TENSORS = ("edge_attr", "edge_weight", "edge_type", "edge_time")
BOTH_WAYS = (
    "The graph is directed, but messages are sent in both directions of every edge; use "
    "directed=True (--directed) to send them only in the direction of the edge."
)


def read_graph(graph: GraphLike, *, directed: bool | None = None) -> AttributedGraph:
    """Convert a graph in any supported format to an :class:`AttributedGraph`.

    Args:
        graph: a networkx graph, PyG's ``Data``, a table of edges, or a pair of tables (edges,
            nodes).
        directed: True if messages follow the direction of edges only, False if they go both ways.
            None means both ways, as in the citation networks of the papers, with a note if the
            graph is directed. For ``Data``, None means that the edges are used unchanged, as by
            PyG's layers.

    Returns:
        The graph, after its edges and names were checked.

    Raises:
        TypeError: ``graph`` has another type.
        GraphError: the graph has no nodes, two nodes with the same name, or no columns of edges.
    """
    if isinstance(graph, AttributedGraph):
        return graph.without_edge_inputs()
    if isinstance(graph, Data):
        return from_data(graph, directed=directed is not False)
    if isinstance(graph, pd.DataFrame):
        return from_tables(graph, None, directed=bool(directed))
    if isinstance(graph, tuple):
        if [isinstance(one, pd.DataFrame) for one in graph] != [True, True]:
            raise TypeError("tables of a graph must be a pair (edges, nodes) of data frames")
        edges, nodes = graph
        return from_tables(edges, nodes, directed=bool(directed))
    if hasattr(graph, "nodes") and hasattr(graph, "is_multigraph"):
        return from_networkx(graph, directed=directed)
    raise TypeError(
        "a graph must be a networkx graph, a PyG Data, a table of edges or a pair of tables "
        f"(edges, nodes), which networkx and pandas read from files; got {type(graph).__name__}"
    )


def from_networkx(graph: networkx.Graph, *, directed: bool | None = None) -> AttributedGraph:
    """Convert a networkx graph; its node attributes become columns of a table.

    Args:
        graph: a networkx graph of any class.
        directed: see :func:`read_graph`.

    Returns:
        The graph, with its nodes in the order of ``graph.nodes``. An attribute that is a list of k
        numbers for every node becomes k columns, ``x.0``, ``x.1``, ...
    """
    names = list(graph.nodes)
    table = pd.DataFrame(
        [dict(attributes) for _, attributes in graph.nodes(data=True)], index=range(len(names))
    )
    ends = list(graph.edges(data=True))
    pairs, *_ = edges_by_name(names, [a for a, *_ in ends], [b for _, b, _ in ends])
    table, notes, unreadable = flat_table(table, names)
    edges = [dict(attributes) for *_, attributes in ends]
    edge_table = None
    if any(edges):
        frame, _, faults = flat_table(pd.DataFrame(edges, index=range(len(edges))))
        edge_table = EdgeTable(pairs, frame, not graph.is_directed(), (), faults)
    if graph.is_directed() and directed is None:
        notes = [BOTH_WAYS, *notes]
    elif directed and not graph.is_directed():
        notes = [
            "The graph is undirected: messages are sent in both directions of every edge.",
            *notes,
        ]
    read = attributed_graph(
        names, pairs, table, directed=bool(directed) and graph.is_directed(), notes=notes,
        unreadable=unreadable, edge_table=edge_table,
    )  # fmt: skip
    return read if graph.is_directed() else replace(read, arcs=read.edge_index)


def from_data(data: Data, *, directed: bool = True) -> AttributedGraph:
    """Convert PyG's ``Data``; the labels ``y`` and the masks become columns of a table.

    ``edge_attr``, ``edge_weight``, ``edge_type`` and ``edge_time`` become columns of the edges.

    Args:
        data: a homogeneous graph with ``edge_index`` and either ``x`` or a number of nodes. ``y``
            and the masks may be tensors, arrays or lists.
        directed: False to add the opposite of every edge.

    Returns:
        The graph, with nodes named 0, 1, ... If ``y`` or a mask has another shape than [n] or
        [n, 1], an error is raised only when it is used.

    Raises:
        GraphError: ``data`` has no ``edge_index`` or number of nodes, or ``x`` is not [n, d] of
            finite numbers.
    """
    nodes = data.num_nodes
    if nodes is None or data.edge_index is None:
        raise GraphError(f"data must have edge_index and a number of nodes; got {data}")
    columns, unreadable = {}, {}
    for name in ("y", *MASKS):
        value = data.get(name)
        if value is None:
            continue
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if fault := shape_fault(name, array.shape, nodes):
            unreadable[name] = fault
        else:
            columns[name] = array.reshape(-1)
    x = data.x
    if x is not None:
        if x.dim() not in (1, 2):
            raise GraphError(f"x must be [n, d], with one row for each node; got {(*x.shape,)}")
        if x.is_complex():
            raise GraphError(
                "x must have real numbers; got complex numbers: pass their real and "
                "imaginary parts as columns, for example torch.cat([x.real, x.imag], 1)"
            )
        x = x.float() if x.dim() == 2 else x.float()[:, None]
        x = x.coalesce().to_sparse_csr() if x.layout == torch.sparse_coo else x
        if not (x if x.layout == torch.strided else x.values()).isfinite().all():
            raise GraphError("x must be finite; it has NaN or an infinite number")
    edge_index = data.edge_index.cpu().long()
    return attributed_graph(
        range(nodes), edge_index, pd.DataFrame(columns, index=range(nodes)),
        directed=directed, x=x, unreadable=unreadable, tensor_labels=isinstance(data.y, Tensor),
        edge_table=_edge_tensors(data, edge_index),
    )  # fmt: skip


def _edge_tensors(data: Data, edge_index: Tensor) -> EdgeTable | None:
    """Return the edge columns of a ``Data`` object; None if it has none."""
    edges, columns = edge_index.shape[1], {}
    for name in EDGE_TENSORS:
        value = data.get(name)
        if value is None:
            continue
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if array.ndim not in (1, 2) or len(array) != edges:
            raise GraphError(
                f"{name} must have a row for each of {edges:,} edges; it is {array.shape}"
            )
        if array.ndim == 1 or array.shape[1] == 1:
            columns[name] = array.reshape(-1)
        else:
            columns |= {f"{name}.{place}": column for place, column in enumerate(array.T)}
    if not columns:
        return None
    return EdgeTable(edge_index, pd.DataFrame(columns, index=range(edges)))
