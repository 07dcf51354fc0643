"""Conversion of networkx graphs, PyG's ``Data`` and tables to one type of graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Nodes, attributed_graph
from gattn.apps.nodes.edge_ends import NamedEnds, check_header, named_ends, named_nodes
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.splits import MASKS
from gattn.apps.nodes.typed.network import TypedNetwork
from gattn.apps.nodes.typed.relations import Relation, by_relation
from gattn.apps.nodes.typed.tables import choose_target, titled, typed_graph, typed_network_graph
from gattn.apps.nodes.values import CellRules, SourceTable, shape_fault

if TYPE_CHECKING:
    import networkx

TablePair: TypeAlias = tuple[pd.DataFrame, pd.DataFrame]
TypedTablePair: TypeAlias = tuple[Mapping[Any, pd.DataFrame], Mapping[str, pd.DataFrame]]
Tables: TypeAlias = pd.DataFrame | TablePair | TypedTablePair
GraphLike: TypeAlias = "AttributedGraph | Data | HeteroData | networkx.Graph | Tables"
EDGE_TENSORS = ("edge_attr", "edge_weight", "edge_type", "edge_time")
UNDIRECTED = "The graph is undirected: messages are sent in both directions of every edge."
BOTH_WAYS = (
    "The graph is directed, but messages are sent in both directions of every edge; use "
    "directed=True (--directed) to send them only in the direction of the edge."
)


def read_graph(
    graph: GraphLike,
    *,
    directed: bool | None = None,
    label: str | None = None,
    label_type: str | None = None,
) -> AttributedGraph:
    """Convert a graph in any supported format to an :class:`AttributedGraph`.

    Args:
        graph: a networkx graph, PyG's ``Data``, a table of edges, or a pair of tables (edges,
            nodes). For several types of nodes: PyG's ``HeteroData``, or a pair of dictionaries
            (edges, nodes): tables of edges by relation (source type, name, destination type), and
            tables of nodes by type.
        directed: True if messages are sent only in the direction of edges, False for both
            directions. None means both directions, as in the citation networks of the papers, with
            a note if the graph is directed. For ``Data``, None means that the edges are used
            unchanged, as by PyG's layers.
        label: column of the labels, by which the type to predict is chosen if there are several;
            see :func:`gattn.apps.nodes.typed.tables.choose_target`.
        label_type: the type to predict.

    Returns:
        The graph, after its edges and names were checked.

    Raises:
        TypeError: ``graph`` has another type.
        GraphError: the graph has no nodes, two nodes with the same name, or no columns of edges.
    """
    typed: dict[str, Any] = {
        "label": label, "label_type": label_type, "directed": bool(directed)
    }  # fmt: skip
    if isinstance(graph, AttributedGraph):
        return graph.without_edge_inputs()
    if isinstance(graph, HeteroData):
        return from_hetero_data(graph, **typed)
    if isinstance(graph, tuple) and len(graph) == 2 and isinstance(graph[1], Mapping):
        edges_by_relation, nodes_by_type = cast("tuple[Any, Mapping[str, pd.DataFrame]]", graph)
        tables = _tables_by_relation(edges_by_relation, nodes_by_type)
        nodes = {kind: SourceTable(one) for kind, one in nodes_by_type.items()}
        return typed_graph(nodes, tables, **typed)
    if label_type is not None:
        raise GraphError(
            f"label_type {label_type!r} is for a network with several tables of nodes; got one"
        )
    if isinstance(graph, Data):
        return from_data(graph, directed=directed is not False)
    if isinstance(graph, pd.DataFrame):
        return graph_of_ends(named_ends(SourceTable(graph)), None, directed=bool(directed))
    if isinstance(graph, tuple):
        if [isinstance(one, pd.DataFrame) for one in graph] != [True, True]:
            raise TypeError("tables of a graph must be a pair (edges, nodes) of data frames")
        edges, nodes = map(SourceTable, cast("tuple[pd.DataFrame, pd.DataFrame]", graph))
        return graph_of_ends(named_ends(edges), nodes, directed=bool(directed))
    if hasattr(graph, "nodes") and hasattr(graph, "is_multigraph"):
        return from_networkx(graph, directed=directed)
    raise TypeError(
        "a graph must be a networkx graph, a PyG Data, a table of edges or a pair of tables "
        f"(edges, nodes), which networkx and pandas read from files; got {type(graph).__name__}"
    )


def _tables_by_relation(edges: Any, nodes: Mapping[str, Any]) -> dict[Relation, SourceTable]:
    """Check the tables of a typed network, and return those of edges by relation. Raises TypeError
    unless all are data frames, and GraphError for a relation whose types of nodes do not exist.
    """
    values = [*edges.values(), *nodes.values()] if isinstance(edges, Mapping) else [edges]
    wrong = next((one for one in values if not isinstance(one, pd.DataFrame)), None)
    if wrong is not None:
        raise TypeError(
            "tables of a network with several types must be a pair (edges, nodes) of dictionaries "
            f"of data frames; got {type(wrong).__name__}"
        )
    try:
        tables: dict[Relation, Any] = by_relation(edges.items(), list(nodes))
    except ValueError as error:
        raise GraphError(str(error)) from None
    return {relation: SourceTable(table) for relation, table in tables.items()}


def from_networkx(
    graph: networkx.Graph, *, directed: bool | None = None, cells: CellRules | None = None
) -> AttributedGraph:
    """Convert a networkx graph. The attributes of its nodes become columns of a table, and those of
    its edges columns of the edge table.

    Args:
        graph: a networkx graph of any class.
        directed: see :func:`read_graph`.
        cells: rules for reading the attributes.

    Returns:
        The graph, with its nodes in the order of ``graph.nodes``. An attribute that is a list of k
        numbers for every node becomes k columns, ``x.0``, ``x.1``, ...

    Raises:
        GraphError: the graph has no nodes.
    """
    names, cells = list(graph.nodes), cells or CellRules()
    ends = list(graph.edges(data=True))
    place = {name: i for i, name in enumerate(names)}
    pairs = torch.tensor([[place[a], place[b]] for a, b, _ in ends], dtype=torch.int64)
    pairs = pairs.reshape(-1, 2).T

    def table(rows: Sequence[Mapping[str, Any]]) -> SourceTable:
        return SourceTable(pd.DataFrame(list(map(dict, rows)), range(len(rows))), cells=cells)

    columns, notes, unreadable = table([row for _, row in graph.nodes(data=True)]).attributes(names)
    of_edges, edge_notes, faults = table([row for *_, row in ends]).attributes(
        owner=" of the edges"
    )
    if graph.is_directed() and directed is None:
        notes = [BOTH_WAYS, *notes]
    elif directed and not graph.is_directed():
        notes = [UNDIRECTED, *notes]
    read = attributed_graph(
        Nodes(names, columns, unreadable=unreadable),
        EdgeTable(pairs, of_edges, not graph.is_directed(), (), faults),
        directed=bool(directed) and graph.is_directed(), notes=[*notes, *edge_notes],
    )  # fmt: skip
    return replace(read, has_direction=graph.is_directed())


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
        GraphError: ``data`` has no ``edge_index`` or number of nodes, ``x`` is not [n, d] of finite
            numbers, an attribute of edges has another number of rows than there are edges, or an
            edge leads to a node that does not exist.
    """
    if data.num_nodes is None or data.edge_index is None:
        raise GraphError(f"data must have edge_index and a number of nodes; got {data}")
    edges = _edge_tensors(data, _pairs(data.edge_index))
    read = attributed_graph(_node_tensors(data), edges, directed=directed)
    # The upper or lower triangle of a symmetric matrix is no evidence of a direction.
    source, target = edges.pairs
    return replace(read, has_direction=bool((source < target).any() and (source > target).any()))


def _node_tensors(data: Any) -> Nodes:
    """Return the nodes of a ``Data`` object, or of a type of ``HeteroData``. An attribute with
    another number of rows is listed as unreadable. Raises GraphError if x has a wrong shape,
    complex numbers, or a number that is not finite.
    """
    nodes = data.num_nodes
    columns, unreadable = {}, {}
    for name, array in _arrays(data, ("y", *MASKS)):
        if fault := shape_fault(name, array.shape, nodes):
            unreadable[name] = fault
        else:
            columns[name] = array.reshape(-1)
    x = data.get("x")
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
    table = pd.DataFrame(columns, index=range(nodes))
    return Nodes(list(range(nodes)), table, x, unreadable, isinstance(data.get("y"), Tensor))


def from_hetero_data(
    data: HeteroData,
    *,
    label: str | None = None,
    label_type: str | None = None,
    directed: bool = False,
) -> AttributedGraph:
    """Convert PyG's ``HeteroData``; see :func:`from_data` for the attributes that are read.

    Args:
        data: nodes and edges of several types.
        label: column of the labels; None for ``y``.
        label_type: the type to predict; None for the type with labels.
        directed: False to send messages in both directions of every relation.

    Raises:
        GraphError: a type has no number of nodes, a relation has no ``edge_index``, or the type to
            predict is unknown.
    """
    nodes: dict[str, Nodes] = {}
    for kind in data.node_types:
        with titled(f"type {kind!r}"):
            if data[kind].num_nodes is None:
                raise GraphError("it must have a number of nodes")
            nodes[kind] = _node_tensors(data[kind])
            if not len(nodes[kind]):
                raise GraphError("it has no nodes")
    columns_by_type = {kind: [*one.table.columns, *one.unreadable] for kind, one in nodes.items()}
    target = choose_target(columns_by_type, label, label_type)
    edges = {}
    for relation in by_relation(((key, key) for key in data.edge_types), list(nodes)):
        store = data[relation.source, relation.name, relation.destination]
        if store.get("edge_index") is None:
            raise GraphError(f"relation {relation} must have an edge_index")
        pairs = _pairs(store.edge_index, f" of relation {relation}")
        for end, kind in zip(pairs, (relation.source, relation.destination)):
            low, high = (int(end.min()), int(end.max())) if len(end) else (0, 0)
            if not 0 <= low <= high < len(nodes[kind]):
                raise GraphError(
                    f"relation {relation} must connect nodes 0 to {len(nodes[kind]) - 1} of type "
                    f"{kind!r}; got {low} to {high}"
                )
        edges[relation] = _edge_tensors(store, pairs)
    # The labels and the masks of types that are not predicted are no features.
    others = {
        kind: replace(one, table=pd.DataFrame(index=range(len(one))), unreadable={})
        for kind, one in nodes.items()
        if kind != target
    }
    network = TypedNetwork(target, nodes | others, edges)
    notes = [f"Nodes of type {target} are predicted."]
    return typed_network_graph(network, notes, directed=directed)


def _pairs(edge_index: Tensor, where: str = "") -> Tensor:
    """Return the edges of PyG's data, if they are whole numbers [2, m]. Raises GraphError if they
    are not.
    """
    shape, kind = tuple(edge_index.shape), edge_index.dtype
    if len(shape) != 2 or shape[0] != 2 or kind.is_floating_point or kind.is_complex:
        raise GraphError(f"edge_index{where} must be [2, m] whole numbers; got {shape} of {kind}")
    return edge_index.cpu().long()


def _edge_tensors(data: Any, edge_index: Tensor) -> EdgeTable:
    """Return the edges and their columns of ``Data``, or of a relation of ``HeteroData``. Raises
    GraphError for a tensor that does not have one row for each edge.
    """
    edges, columns = edge_index.shape[1], {}
    for name, array in _arrays(data, EDGE_TENSORS):
        if array.ndim not in (1, 2) or len(array) != edges:
            raise GraphError(
                f"{name} must have a row for each of {edges:,} edges; it is {array.shape}"
            )
        if array.ndim == 1 or array.shape[1] == 1:
            columns[name] = array.reshape(-1)
        else:
            columns |= {f"{name}.{place}": column for place, column in enumerate(array.T)}
    return EdgeTable(edge_index, pd.DataFrame(columns, index=range(edges)))


def _arrays(data: Any, names: Iterable[str]) -> Iterator[tuple[str, NDArray]]:
    """Yield the names and values of those attributes that data of PyG have."""
    for name in names:
        value = data.get(name)
        if value is not None:
            yield name, value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)


def graph_of_ends(
    edges: NamedEnds,
    nodes: SourceTable | None,
    *,
    directed: bool = False,
    notes: Sequence[str] = (),
    compact: bool = False,
    bipartite: bool | None = None,
    header: bool = True,
) -> AttributedGraph:
    """Build a graph from edges and, optionally, a table of nodes.

    The name of a node is in the column ``id`` (or ``node``, ``name``), else in the table's index if
    the index has a name, else in the first column that does not contain row numbers. Such a column,
    which ``to_csv`` of pandas writes first, contains the names of the nodes only if more of the
    names in the edges occur in it than in the next column. It has different whole numbers and no
    name (or ``Unnamed: 0``), or is called ``index`` or ``level_0``.

    Edges to nodes that are not in the table of nodes are left out.

    Args:
        edges: the edges, as names of nodes.
        nodes: table with a row for each node, in order; None if the nodes are the ends of edges.
        directed: True if messages follow the direction of edges only.
        notes: sentences about earlier decisions of the readers.
        compact: True for compact edges.
        bipartite: True if equal names of a source and a destination are different nodes.
        header: True if the names of the columns of edges must not look like an edge.

    Returns:
        The graph.

    Raises:
        GraphError: the header of the table of edges is an edge, the name of a node is missing or
            occurs twice, no edge joins two nodes of the table, or nodes of two kinds may have
            equal names.
    """
    if nodes is not None and bipartite:
        raise GraphError(
            "--bipartite is for edges without a table of nodes, because names of a table differ"
        )
    if bipartite:
        edges = edges.of_two_kinds()
    elif nodes is None and bipartite is None:
        edges.check_kinds()
    first, second = edges.columns
    way = (
        f"point from column {first!r} to column {second!r}; messages follow this direction."
        if directed
        else f"join the nodes in columns {first!r} and {second!r}; messages are sent both ways."
    )
    notes = [*notes, f"Edges {way}", *edges.choice.notes]
    named = pd.unique(np.concatenate([edges.source.names, edges.destination.names]))
    if nodes is None:
        read = Nodes(list(named), pd.DataFrame(index=range(len(named))))
    else:
        read, decisions = named_nodes(nodes, named)
        notes += decisions
    if header:
        check_header(first, second, read.names)
    table, left_out, decisions = edges.join(read, read, compact=compact)
    return attributed_graph(
        read, table, directed=directed, notes=[*notes, *decisions], left_out=left_out,
        compact=compact,
    )  # fmt: skip
