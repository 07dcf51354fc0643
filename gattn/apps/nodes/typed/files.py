"""Reader of the files of a network with several tables of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.notation import with_numbers
from gattn.apps.nodes.table_file import read_table
from gattn.apps.nodes.typed.relations import Relation, parse_relations, parse_types
from gattn.apps.nodes.typed.tables import TypedTables, typed_graph
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
