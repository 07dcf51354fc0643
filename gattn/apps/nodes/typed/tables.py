"""Reader of several tables of nodes, one for each type, and of edges, one for each relation."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, LeftOut
from gattn.apps.nodes.edge_ends import EndColumns, NamedEnds, check_header, named_ends, named_nodes
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.tables import edge_table, read_table
from gattn.apps.nodes.typed.network import Messages, TypedNetwork, projected_edges, projection
from gattn.apps.nodes.typed.relations import Relation, parse_relations, parse_types
from gattn.apps.nodes.values import with_numbers
from gattn.apps.tables.numbers import NumberFormat


def read_typed_files(
    nodes: Sequence[str],
    edges: Sequence[str],
    *,
    encoding: str | None = None,
    directed: bool = False,
    label: str | None = None,
    label_type: str | None = None,
) -> tuple[AttributedGraph, Mapping[str | Relation, str]]:
    """Read a network with several tables of nodes.

    Args:
        nodes: values ``TYPE=FILE``; the files are ``.csv``, ``.tsv`` or ``.parquet``.
        edges: values ``SOURCE-RELATION-DESTINATION=FILE``.
        encoding: encoding of the files; None to detect it.
        directed: True if messages follow the direction of edges only.
        label: see :func:`gattn.apps.nodes.typed.tables.choose_target`.
        label_type: see :func:`gattn.apps.nodes.typed.tables.choose_target`.

    Returns:
        The graph, and the separator of each table by type or relation.

    Raises:
        FileNotFoundError: a file does not exist.
        GraphError: a value has another form, or a table cannot be read.
    """
    try:
        node_files = parse_types(nodes)
        edge_files = parse_relations(edges, list(node_files))
    except ValueError as error:
        raise GraphError(str(error)) from None
    if not node_files:
        raise GraphError("--edges RELATION=FILE needs tables of nodes: --nodes TYPE=FILE")
    node_tables, node_lines, separators = {}, {}, {}
    for kind, path in node_files.items():
        node_tables[kind], lines, separators[kind] = read_table(Path(path), encoding)
        node_lines[kind] = lines if separators[kind] else ()
    edge_tables, edge_lines = {}, {}
    for relation, path in edge_files.items():
        (
            edge_tables[relation], edge_lines[relation], separators[relation]
        ) = read_table(Path(path), encoding)  # fmt: skip
    tables = TypedTables(node_tables, edge_tables, node_lines, edge_lines)
    graph = typed_graph(tables, label=label, label_type=label_type, directed=directed)
    return graph, separators


def converted(
    graph: AttributedGraph,
    missing: Sequence[str],
    style: NumberFormat | None,
    separators: Mapping[str | Relation, str],
) -> AttributedGraph:
    """Return a graph in which missing values are marked and texts of numbers are converted.

    Args:
        graph: the labelled nodes, with their network.
        missing: words that stand for a missing attribute.
        style: format of the numbers; None to detect it.
        separators: separator of each table.
    """
    network = graph.network
    assert network is not None
    notes: list[str] = []

    def read(one: AttributedGraph, key: str | Relation, title: str) -> AttributedGraph:
        commas = separators[key] == ";"
        result = with_numbers(
            replace(one, notes=()).with_gaps(missing), style, commas=commas, edge_commas=commas
        )
        notes.extend(f"{title}: {note}" for note in result.notes)
        return result

    others = {kind: read(one, kind, f"Type {kind}") for kind, one in network.others.items()}
    target = read(graph, network.target, f"Type {network.target}")
    edges = {}
    for relation, table in network.edges.items():
        holder = replace(graph, table=pd.DataFrame(), edge_table=table, network=None)
        edges[relation] = read(holder, relation, f"Relation {relation}").edge_table or table
    network = replace(network, others=others, edges=edges)
    return replace(target, notes=(*graph.notes, *notes), network=network)


USUAL = ("y", "label")


@dataclass(frozen=True, eq=False)
class TypedTables:
    """Tables of nodes by type, and tables of edges by relation.

    Attributes:
        nodes: a table with a row for each node, by type.
        edges: a table with a row for each edge, by relation.
        node_lines: lines of the nodes in their files, by type; empty if there are no files.
        edge_lines: lines of the edges in their files, by relation; empty if there are no files.
    """

    nodes: Mapping[str, pd.DataFrame]
    edges: Mapping[Relation, pd.DataFrame]
    node_lines: Mapping[str, Sequence[int]] = field(default_factory=dict)
    edge_lines: Mapping[Relation, Sequence[int]] = field(default_factory=dict)


def choose_target(
    columns: Mapping[str, Sequence[Hashable]], label: str | None, label_type: str | None
) -> str:
    """Choose the type of the nodes to predict.

    Args:
        columns: names of the columns of each type.
        label: name of the column of labels; None for ``y`` or ``label``.
        label_type: the type that the user named; None to choose the type with the label.

    Raises:
        GraphError: the type is unknown, no type has the label, or several have it.
    """
    types = ", ".join(map(repr, columns))
    if label_type:
        if label_type not in columns:
            raise GraphError(
                f"label type (--label-type / label_type) must be one of {types}; got {label_type!r}"
            )
        return label_type
    if len(columns) == 1:
        return next(iter(columns))
    names = [label] if label else list(USUAL)
    owners = [kind for kind, some in columns.items() if set(names) & set(map(str, some))]
    if len(owners) == 1:
        return owners[0]
    title = repr(label) if label else "'y' or 'label'"
    if owners:
        raise GraphError(
            f"nodes of the types {', '.join(map(repr, owners))} have a column {title}: name the "
            "type to predict with --label-type / label_type"
        )
    listed = "; ".join(
        f"{kind!r} has {', '.join(map(repr, list(some)[:20])) or 'none'}"
        for kind, some in columns.items()
    )
    raise GraphError(f"no type has a column of labels {title}. Columns by type: {listed}")


def typed_graph(
    tables: TypedTables,
    *,
    label: str | None = None,
    label_type: str | None = None,
    directed: bool = False,
) -> AttributedGraph:
    """Build a graph of the labelled nodes, with the nodes of other types and all edges.

    The names of nodes must be different within a type; nodes of two types may have the same name.
    The columns with the names at the two ends of an edge are those that are called like the types,
    for example ``author`` and ``paper_id``, else those of
    :func:`gattn.apps.nodes.edge_ends.choose_ends`.

    Args:
        tables: the tables of nodes and edges.
        label: see :func:`choose_target`.
        label_type: see :func:`choose_target`.
        directed: True if messages follow the direction of edges only.

    Returns:
        The graph. Its ``edge_index`` is that of :func:`gattn.apps.nodes.typed.network.projection`.

    Raises:
        GraphError: a table is empty, names of nodes are missing or repeated, no edge of a relation
            connects two nodes of the tables, or the type to predict is unknown.
    """
    if not tables.edges:
        raise GraphError("a network with several tables of nodes needs a table of edges (--edges)")
    ends: dict[Relation, NamedEnds] = {}
    for relation, table in tables.edges.items():
        with titled(f"relation {relation}"):
            ends[relation] = named_ends(table, _by_type(table, relation))
    nodes, notes = {}, []
    for kind, table in tables.nodes.items():
        if table.empty:
            raise GraphError(f"the table of type {kind!r} has no nodes")
        lines = tables.node_lines.get(kind, ())
        with titled(f"type {kind!r}"):
            names, columns, decisions, unreadable = named_nodes(table, _used(ends, kind), lines)
        notes += [f"Type {kind}: {note}" for note in decisions]
        nodes[kind] = _plain(names, columns, directed, unreadable, lines)
    target = choose_target(
        {kind: [*one.table.columns, *one.unreadable] for kind, one in nodes.items()},
        label, label_type,
    )  # fmt: skip
    edges, left_out = {}, []
    for relation, named in ends.items():
        table, gone, decisions = _edges(
            relation, named, nodes[relation.source].names, nodes[relation.destination].names,
            tables.edge_lines.get(relation),
        )  # fmt: skip
        edges[relation] = table
        left_out += gone
        notes += [f"Relation {relation}: {note}" for note in decisions]
    way = "follow this direction" if directed else "are sent in both directions"
    notes.append(
        f"Nodes of type {target} are predicted. Edges point from the first type of a relation to "
        f"the last; messages {way}."
    )
    others = {kind: one for kind, one in nodes.items() if kind != target}
    return typed_network_graph(nodes[target], target, others, edges, notes, left_out)


def typed_network_graph(
    nodes: AttributedGraph,
    target: str,
    others: Mapping[str, AttributedGraph],
    edges: Mapping[Relation, EdgeTable],
    notes: Sequence[str] = (),
    left_out: Sequence[LeftOut] = (),
) -> AttributedGraph:
    """Return the graph of the labelled nodes with a typed network.

    Args:
        nodes: the labelled nodes, without edges.
        target: type of the labelled nodes.
        others: nodes of the other types.
        edges: edges by relation.
        notes: sentences about decisions that were already made.
        left_out: edges that were left out.
    """
    network = TypedNetwork(target, len(nodes), others, edges)
    graph = with_projection(replace(nodes, network=network))
    return replace(graph, notes=(*notes, *_isolated(graph, network)), left_out=tuple(left_out))


def with_projection(graph: AttributedGraph) -> AttributedGraph:
    """Return the graph with the edges between labelled nodes that result from its network."""
    network = graph.network
    assert network is not None
    sizes = {kind: network.size(kind) for kind in network.types}
    messages: dict[Relation, Messages] = {}
    for relation, edges in network.edges.items():
        messages[relation] = Messages(edges.pairs, None, None)
        messages[relation.reverse()] = messages[relation].reverse()
    pairs = projected_edges(projection(network.target, sizes, messages))
    return replace(graph, edge_index=pairs, arcs=pairs)


@contextmanager
def titled(title: str) -> Iterator[None]:
    """Add the name of a table to the error messages of a reader."""
    try:
        yield
    except ValueError as error:
        raise GraphError(f"{title}: {error}") from None


def _plain(
    names: Sequence[Hashable],
    table: pd.DataFrame,
    directed: bool,
    unreadable: Mapping[Hashable, str],
    lines: Sequence[int],
) -> AttributedGraph:
    """Return nodes without edges."""
    none = torch.zeros(2, 0, dtype=torch.int64)
    return AttributedGraph(
        list(names), none, table, None, directed, unreadable=unreadable, lines=tuple(lines),
    )  # fmt: skip


def _used(ends: Mapping[Relation, NamedEnds], kind: str) -> np.ndarray:
    """Return the different names of the nodes of a type in all tables of edges."""
    parts = [named.source.names for relation, named in ends.items() if relation.source == kind]
    parts += [
        named.destination.names for relation, named in ends.items() if relation.destination == kind
    ]
    return pd.unique(np.concatenate([np.zeros(0, dtype=object), *parts]))


def _by_type(table: pd.DataFrame, relation: Relation) -> EndColumns | None:
    """Return the columns of a table of edges that are called like the two types; None if there
    are no such columns.
    """
    source, destination = _stem(relation.source), _stem(relation.destination)
    stems = [_stem(str(name)) for name in table.columns]
    if source == destination or stems.count(source) != 1 or stems.count(destination) != 1:
        return None
    pair = stems.index(source), stems.index(destination)
    return EndColumns(*pair, [i for i in range(len(stems)) if i not in pair])


def _stem(name: str) -> str:
    """Return a name in lower case without a plural s and without ``id``.

    >>> _stem("Paper_ID"), _stem("papers"), _stem("paperId")
    ('paper', 'paper', 'paper')
    """
    stem = re.sub(r"[\s_-]*id$", "", name.strip(), flags=re.IGNORECASE).lower()
    return stem[:-1] if stem.endswith("s") else stem


def _edges(
    relation: Relation,
    named: NamedEnds,
    sources: Sequence[Hashable],
    destinations: Sequence[Hashable],
    lines: Sequence[int] | None,
) -> tuple[EdgeTable, list[LeftOut], list[str]]:
    """Return the edges between nodes of the tables, the edges that are left out, and notes."""
    first, second = named.columns
    notes = [f"Edges point from column {first!r} to column {second!r}.", *named.decisions]
    check_header(first, second, [*sources, *destinations])
    ends, rows, gone = named.join(
        sources, destinations, lines, (relation.source, relation.destination)
    )
    if len(gone) == len(named):
        if not gone:
            raise GraphError(f"relation {relation} has no edges")
        raise GraphError(
            f"relation {relation}: no edge connects two nodes of the tables. The first edge, "
            f"{gone[0].text}, does not, because {gone[0].reason}"
        )
    if gone:
        plural = "s" * (len(gone) > 1)
        notes.append(
            f"{len(gone):,} edge{plural} left out of {len(named):,}, because a node is missing in "
            f"its table; the first: {gone[0].text} ({gone[0].reason})."
        )
    pairs = ends.astype(np.int64)
    if relation.source == relation.destination:
        loop = pairs[0] == pairs[1]
        if loop.any():
            plural = "s" * (int(loop.sum()) > 1)
            notes.append(f"{int(loop.sum()):,} self-loop{plural} removed.")
    else:
        loop = np.zeros(pairs.shape[1], bool)
    edges = edge_table(named.attributes, torch.from_numpy(pairs), rows, lines, (first, second))
    return edges.select(~loop), gone, notes


def _isolated(graph: AttributedGraph, network: TypedNetwork) -> list[str]:
    """Return notes on the nodes of each type without an edge."""
    notes = []
    for kind in network.types:
        touched = np.zeros(network.size(kind), bool)
        for relation, edges in network.edges.items():
            for end, pairs in zip((relation.source, relation.destination), edges.pairs.numpy()):
                if end == kind:
                    touched[pairs] = True
        alone = int((~touched).sum())
        if alone == len(touched):
            notes.append(f"Type {kind}: no node has an edge, so it has no influence.")
        elif alone:
            notes.append(f"Type {kind}: {alone:,} node{'s' * (alone > 1)} without an edge.")
    return notes


def edges_between(pairs: Tensor, table: pd.DataFrame | None = None) -> EdgeTable:
    """Return edges [2, e] with their columns, if there are any."""
    rows = pd.DataFrame(index=range(pairs.shape[1])) if table is None else table
    return EdgeTable(pairs, rows)
