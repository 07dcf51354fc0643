"""Graphs of several tables of nodes, one for each type, and of edges, one for each relation."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, LeftOut, without_loops
from gattn.apps.nodes.edge_ends import EndColumns, NamedEnds, check_header, named_ends, named_nodes
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.typed.network import Messages, TypedNetwork, projected_edges, projection
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.nodes.values import SourceTable

USUAL = ("y", "label")


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
    nodes: Mapping[str, SourceTable],
    edges: Mapping[Relation, SourceTable],
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
        nodes: a table with a row for each node, by type.
        edges: a table with a row for each edge, by relation.
        label: see :func:`choose_target`.
        label_type: see :func:`choose_target`.
        directed: True if messages follow the direction of edges only.

    Returns:
        The graph. Its ``edge_index`` is that of :func:`gattn.apps.nodes.typed.network.projection`.

    Raises:
        GraphError: a table is empty, names of nodes are missing or repeated, no edge of a relation
            connects two nodes of the tables, or the type to predict is unknown.
    """
    if not edges:
        raise GraphError("a network with several tables of nodes needs a table of edges (--edges)")
    ends: dict[Relation, NamedEnds] = {}
    for relation, table in edges.items():
        with titled(f"relation {relation}"):
            ends[relation] = named_ends(table, _by_type(table.frame, relation))
    types, notes = {}, []
    for kind, table in nodes.items():
        with titled(f"type {kind!r}"):
            if table.frame.empty:
                raise GraphError("the table has no nodes")
            types[kind], decisions = named_nodes(table, _used(ends, kind))
        notes += [f"Type {kind}: {note}" for note in decisions]
    columns = {kind: [*one.table.columns, *one.unreadable] for kind, one in types.items()}
    target = choose_target(columns, label, label_type)
    tables, left_out = {}, []
    for relation, named in ends.items():
        (first, second), kinds = named.columns, (relation.source, relation.destination)
        source, destination = (types[kind] for kind in kinds)
        with titled(f"relation {relation}"):
            if not len(named):
                raise GraphError("the table has no edges")
            check_header(first, second, [*source.names, *destination.names])
            table, gone, decisions = named.join(source, destination, kinds)
        table, loops = without_loops(table) if source is destination else (table, [])
        tables[relation] = table
        left_out += gone
        points = f"Edges point from column {first!r} to column {second!r}."
        decisions = [points, *named.choice.notes, *decisions, *loops]
        notes += [f"Relation {relation}: {note}" for note in decisions]
    way = "follow this direction" if directed else "are sent in both directions"
    notes.append(
        f"Nodes of type {target} are predicted. Edges point from the first type of a relation to "
        f"the last; messages {way}."
    )
    network = TypedNetwork(target, types, tables)
    return typed_network_graph(network, notes, left_out, directed=directed)


def typed_network_graph(
    network: TypedNetwork,
    notes: Sequence[str],
    left_out: Sequence[LeftOut] = (),
    *,
    directed: bool,
) -> AttributedGraph:
    """Return the graph of the labelled nodes with a typed network, and with notes on the numbers of
    nodes without an edge.

    Args:
        network: the nodes by type, and the edges by relation.
        notes: sentences about decisions that were already made.
        left_out: edges that were left out.
        directed: True if messages follow the direction of edges only.
    """
    none = torch.zeros(2, 0, dtype=torch.int64)
    return with_projection(
        AttributedGraph(
            **vars(network.nodes[network.target]), edge_index=none, directed=directed, arcs=none,
            edge_table=EdgeTable.without_columns(none), notes=(*notes, *_isolated(network)),
            left_out=tuple(left_out), network=network,
        )
    )  # fmt: skip


def with_projection(graph: AttributedGraph) -> AttributedGraph:
    """Return the graph with the edges between labelled nodes that result from its network, for
    which messages are sent in both directions of every relation, without weights.
    """
    network = graph.network
    assert network is not None
    sizes = {kind: network.size(kind) for kind in network.types}
    messages: dict[Relation, Messages] = {}
    for relation, edges in network.edges.items():
        messages[relation] = Messages(edges.pairs, None, None)
        messages[relation.reverse()] = messages[relation].reverse()
    pairs = projected_edges(projection(network.target, sizes, messages))
    edges = EdgeTable.without_columns(pairs)
    return replace(graph, edge_index=pairs, arcs=pairs, edge_table=edges)


@contextmanager
def titled(title: str) -> Iterator[None]:
    """Add the name of a table to the error messages of a reader: a ValueError in the ``with`` block
    is raised as a GraphError with the longer message.
    """
    try:
        yield
    except ValueError as error:
        raise GraphError(f"{title}: {error}") from None


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


def _isolated(network: TypedNetwork) -> list[str]:
    """Return notes on the nodes of each type without an edge."""
    notes = []
    for kind in network.types:
        touched = np.zeros(network.size(kind), bool)
        for relation, edges in network.edges.items():
            for end, pairs in zip((relation.source, relation.destination), edges.pairs.numpy()):
                if end == kind:
                    touched[pairs] = True
        alone = int((~touched).sum())
        if alone:
            notes.append(f"Type {kind}: {alone:,} node{'s' * (alone > 1)} without an edge.")
    return notes
