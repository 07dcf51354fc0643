"""Graphs as users hold them: networkx, PyG's ``Data``, and tables of edges and nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data

from gattn.nodes.attributed import (
    AttributedGraph,
    GraphError,
    attributed_graph,
    check_names,
    edges_by_name,
)
from gattn.nodes.cells import flat_table

if TYPE_CHECKING:
    import networkx

__all__ = ["GraphLike", "from_data", "from_networkx", "from_tables", "read_graph"]

GraphLike: TypeAlias = (
    "AttributedGraph | Data | networkx.Graph | pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]"
)
SOURCES = ("source", "src", "from", "u", "node1", "citing")
DESTINATIONS = ("target", "dst", "to", "v", "node2", "cited", "destination")
BOTH_WAYS = (
    "The graph is directed, and messages go both ways along every edge; ask for directed edges to "
    "have them follow its direction."
)
IDS = ("id", "node", "node_id", "name", "paper", "paper_id")


def read_graph(graph: GraphLike, *, directed: bool | None = None) -> AttributedGraph:
    """Read a graph of any kind that is taken.

    Args:
        graph: a networkx graph, PyG's ``Data``, a table of edges, or a pair of tables (edges,
            nodes).
        directed: whether messages follow the edges' direction alone. None has them go both ways,
            as the citation networks of the papers do, and says so where the graph is directed;
            but the edges of ``Data`` are taken as they are, as PyG's layers take them.

    Returns:
        The graph, checked.

    Raises:
        TypeError: something else.
        GraphError: it has no nodes, doubled names, or no columns of edges.
    """
    if isinstance(graph, AttributedGraph):
        return graph
    if isinstance(graph, Data):
        return from_data(graph, directed=directed is not False)
    if isinstance(graph, pd.DataFrame):
        return from_tables(graph, None, directed=bool(directed))
    if isinstance(graph, tuple):
        if [isinstance(one, pd.DataFrame) for one in graph] != [True, True]:
            raise TypeError("a graph of tables is a pair (edges, nodes) of data frames")
        edges, nodes = graph
        return from_tables(edges, nodes, directed=bool(directed))
    if hasattr(graph, "nodes") and hasattr(graph, "is_multigraph"):
        return from_networkx(graph, directed=directed)
    raise TypeError(
        "a graph must be a networkx graph, a PyG Data, a table of edges or a pair of tables "
        f"(edges, nodes), which networkx and pandas read from files; got {type(graph).__name__}"
    )


def from_networkx(graph: networkx.Graph, *, directed: bool | None = None) -> AttributedGraph:
    """Read a networkx graph: the attributes of its nodes become columns.

    Args:
        graph: of any kind; attributes of edges are not read.
        directed: see :func:`read_graph`.

    Returns:
        The graph, its nodes in the order of ``graph.nodes``. An attribute that holds as many
        numbers for every node becomes as many columns, ``x.0``, ``x.1``, ...
    """
    names = list(graph.nodes)
    table = pd.DataFrame(
        [dict(held) for _, held in graph.nodes(data=True)], index=range(len(names))
    )
    ends = list(graph.edges())
    pairs, _ = edges_by_name(names, [a for a, _ in ends], [b for _, b in ends])
    table, notes = flat_table(table)
    held = dict.fromkeys(name for *_, held in graph.edges(data=True) for name in held)
    notes = [*_not_read(name for name in held if name != "id"), *notes]  # GEXF numbers edges
    if graph.is_directed() and directed is None:
        notes = [BOTH_WAYS, *notes]
    elif directed and not graph.is_directed():
        notes = ["The graph is undirected: messages go both ways along every edge.", *notes]
    return attributed_graph(
        names, pairs, table, directed=bool(directed) and graph.is_directed(), notes=notes
    )


def from_data(data: Data, *, directed: bool = True) -> AttributedGraph:
    """Read PyG's ``Data``: ``x``, ``edge_index``, and ``y`` and the masks as columns.

    Args:
        data: homogeneous, with ``edge_index`` and either ``x`` or a number of nodes.
        directed: False to add the opposite of every edge.

    Returns:
        The graph, its nodes named 0, 1, ...
    """
    nodes = data.num_nodes
    if nodes is None or data.edge_index is None:
        raise GraphError(f"data must have edge_index and a number of nodes; got {data}")
    columns = {}
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        value = data.get(name)
        if isinstance(value, Tensor):
            if value.numel() != nodes:
                raise GraphError(
                    f"{name} must have one value for each of {nodes} nodes; it is "
                    f"{(*value.shape,)}: choose one of its columns"
                )
            columns[name] = value.cpu().flatten().numpy()
    x = data.x
    if x is not None:
        x = x.float() if x.dim() == 2 else x.float()[:, None]
        x = x.coalesce().to_sparse_csr() if x.layout == torch.sparse_coo else x
        if not (x if x.layout == torch.strided else x.values()).isfinite().all():
            raise GraphError("x must be finite; it holds NaN or an infinite number")
    return attributed_graph(
        range(nodes), data.edge_index.cpu().long(), pd.DataFrame(columns, index=range(nodes)),
        directed=directed, x=x,
    )  # fmt: skip


def from_tables(
    edges: pd.DataFrame,
    nodes: pd.DataFrame | None,
    *,
    directed: bool = False,
    lines: Sequence[int] | None = None,
    notes: Sequence[str] = (),
) -> AttributedGraph:
    """Read a table of edges and, where there is one, a table of nodes.

    The ends of an edge are the columns ``source`` and ``target`` (or ``src`` and ``dst``, ``from``
    and ``to``), else the first two; the name of a node is the column ``id`` (or ``node``,
    ``name``), else the table's index where that has a name, else the first column. Edges to nodes
    that the table has not are left out.

    Args:
        edges: a row an edge.
        nodes: a row a node, in order; without it the nodes are those of the edges.
        directed: whether messages follow the edges' direction alone.
        lines: of the edges in their file.
        notes: what was decided before.

    Returns:
        The graph.

    Raises:
        GraphError: fewer than two columns of edges, a header that is an edge, a name that is
            missing or doubled.
    """
    if edges.shape[1] < 2:
        raise GraphError(f"a table of edges needs two columns; got {list(edges.columns)}")
    if edges.columns.has_duplicates:
        raise GraphError(f"columns of edges must have different names; got {list(edges.columns)}")
    last = _named(edges, DESTINATIONS, None)  # where only this one has a known name
    first = _named(edges, SOURCES, next(c for c in edges.columns if c != last))
    others = edges.drop(columns=[first])
    second = _named(others, DESTINATIONS, others.columns[0])
    source, destination = _as_names(edges[first]), _as_names(edges[second])
    way = "follow them" if directed else "go both ways"
    notes = [*notes, f"Edges lead from column {first!r} to column {second!r}; messages {way}."]
    notes += _not_read(name for name in others.columns if name != second)
    if nodes is None:
        seen = pd.unique(pd.concat([source, destination]).dropna())
        names, table = list(seen), pd.DataFrame(index=range(len(seen)))
    else:
        names, table, told = _named_nodes(nodes)
        notes += told
    usual = {*SOURCES, *DESTINATIONS} & {str(end).strip().lower() for end in (first, second)}
    if not usual and {first, second} <= set(names):
        raise GraphError(
            f"a table of edges begins with a line of names, as source,target; this one with "
            f"{first!r} and {second!r}, which are nodes"
        )
    pairs, left_out = edges_by_name(names, list(source), list(destination), lines)
    if left_out and not pairs.shape[1]:
        raise GraphError(
            f"no edge joins two nodes of the table: the first, {left_out[0].text}, does not since "
            f"{left_out[0].reason}; the table's first node is {names[0] if names else None!r}"
        )
    if left_out:
        notes.append(
            f"{len(left_out):,} edge{'s' * (len(left_out) > 1)} left out, whose ends are not in "
            f"the table of nodes; the first: {left_out[0].text} ({left_out[0].reason})."
        )
    return attributed_graph(names, pairs, table, directed=directed, notes=notes, left_out=left_out)


def _not_read(attributes: Iterable[Hashable]) -> list[str]:
    """A note on what edges hold, where they hold something."""
    names = ", ".join(map(repr, attributes))
    return [f"Not read of the edges: {names}."] if names else []


def _named_nodes(nodes: pd.DataFrame) -> tuple[list[Hashable], pd.DataFrame, list[str]]:
    """The names of nodes, their other attributes, and what was decided."""
    if nodes.index.name is not None and nodes.index.name not in nodes.columns:
        nodes = nodes.reset_index()
    if not nodes.shape[1]:
        raise GraphError("a table of nodes needs a column of their names; it has no column")
    column = _named(nodes, IDS, nodes.columns[0])
    names = _as_names(nodes[column])
    if names.isna().any():
        row = int(np.flatnonzero(names.isna())[0])
        raise GraphError(f"every node needs a name; column {column!r} has none in row {row}")
    check_names(list(names), f", which column {column!r} holds,")
    table, notes = flat_table(nodes.drop(columns=column))
    return list(names), table, [f"Nodes are named by column {column!r}.", *notes]


def _named(table: pd.DataFrame, known: Sequence[str], otherwise: Hashable) -> Hashable:
    """The column that has one of some names, else another."""
    lower = {str(column).strip().lower(): column for column in reversed(table.columns)}
    return next((lower[name] for name in known if name in lower), otherwise)


def _as_names(column: pd.Series) -> pd.Series:
    """Names as text, as two files have them alike: 7, 7.0 of a column with gaps, and "7"."""
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)
