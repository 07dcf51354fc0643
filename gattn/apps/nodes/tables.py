"""Reader of graphs from a table of edges and a table of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Nodes, attributed_graph
from gattn.apps.nodes.edge_ends import NamedEnds, check_header, named_nodes
from gattn.apps.nodes.values import CellRules, SourceTable
from gattn.apps.tables.csv_table import open_table
from gattn.apps.tables.formats import open_parquet

TABLES = (".csv", ".tsv", ".parquet")
"""Suffixes of the files of tables."""
TEXTS = ("string", "large_string")
"""Arrow's names of the types of texts."""


def read_table(
    path: Path, encoding: str | None, cells: CellRules, *, compact: bool = False
) -> SourceTable:
    """Read a CSV table, whose cells are texts or None for an empty cell, or a Parquet table, whose
    columns keep their types.

    Args:
        path: the file.
        encoding: text encoding of a CSV file; None to detect it.
        cells: rules for reading the attributes.
        compact: True to store equal texts of a Parquet table once, as categories.

    Raises:
        FileNotFoundError: the file does not exist.
        GraphError: the file has another ending, is empty, or a row has another number of cells
            than the header.
        ValueError: a CSV file is not valid text in the encoding, or a file is not a Parquet file.
    """
    if path.suffix.lower() not in TABLES:
        raise GraphError(f"{path} must end in {', '.join(TABLES)}")
    if not path.stat().st_size:
        raise GraphError(f"{path} is empty; expected a table")
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as file:
            texts = [field.name for field in file.schema_arrow if str(field.type) in TEXTS]
        options: dict[str, Any] = {"read_dictionary": texts, "memory_map": True} if compact else {}
        with open_parquet(path, **options) as file:
            table = file.read(use_pandas_metadata=True).to_pandas(split_blocks=compact)
        return SourceTable(table, range(1, len(table) + 1), cells=cells)
    table = open_table(path, encoding=encoding)
    rows = list(table.rows())
    bad = next((row for row in rows if row.problem), None)
    if bad is not None:
        raise GraphError(f"{path}, line {bad.line}: {bad.problem}")
    texts = [[cell if cell.strip() else None for cell in row.cells] for row in rows]
    frame = pd.DataFrame(texts, columns=list(table.columns), dtype=object)
    return SourceTable(frame, [row.line for row in rows], table.separator, cells)


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
