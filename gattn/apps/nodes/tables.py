"""Reader of graphs from a table of edges and a table of nodes."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, attributed_graph
from gattn.apps.nodes.edge_ends import NamedEnds, check_header, named_nodes
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.values import flat_table
from gattn.apps.tables.csv_table import open_table
from gattn.apps.tables.formats import open_parquet

TABLES = (".csv", ".tsv", ".parquet")
"""Suffixes of the files of tables."""
TEXTS = ("string", "large_string")
"""Arrow's names of the types of texts."""


def read_table(
    path: Path, encoding: str | None, *, compact: bool = False
) -> tuple[pd.DataFrame, Sequence[int], str]:
    """Read a CSV or Parquet table.

    Args:
        path: the file.
        encoding: text encoding of a CSV file; None to detect it.
        compact: True to store equal texts of a Parquet table once, as categories.

    Returns:
        The table, with None for an empty CSV cell; the line of each row in the file; and the
        separator, empty for Parquet.

    Raises:
        FileNotFoundError: the file does not exist.
        GraphError: the file has another ending, is empty, or a row has another number of cells
            than the header.
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
        return table, range(1, len(table) + 1), ""
    table = open_table(path, encoding=encoding)
    rows = list(table.rows())
    bad = next((row for row in rows if row.problem), None)
    if bad is not None:
        raise GraphError(f"{path}, line {bad.line}: {bad.problem}")
    cells = [[cell if cell.strip() else None for cell in row.cells] for row in rows]
    frame = pd.DataFrame(cells, columns=list(table.columns), dtype=object)
    return frame, [row.line for row in rows], table.separator


def graph_of_ends(
    edges: NamedEnds,
    nodes: pd.DataFrame | None,
    *,
    directed: bool = False,
    lines: Sequence[int] | None = None,
    node_lines: Sequence[int] = (),
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
        lines: lines of the edges in their file.
        node_lines: lines of the nodes in their file; empty if they were not read from a file.
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
    notes = [*notes, f"Edges {way}", *edges.decisions]
    named = pd.unique(np.concatenate([edges.source.names, edges.destination.names]))
    unreadable: dict[Hashable, str] = {}
    if nodes is None:
        names, table = list(named), pd.DataFrame(index=range(len(named)))
    else:
        names, table, decisions, unreadable = named_nodes(nodes, named, node_lines)
        notes += decisions
    if header:
        check_header(first, second, names)
    pairs, rows, left_out = edges.join(names, names, lines)
    if left_out:
        if nodes is not None and not pairs.shape[1]:
            raise GraphError(
                "no edge connects two nodes of the table: the first edge, "
                f"{left_out[0].text}, does not, because {left_out[0].reason}; the table's "
                f"first node is {names[0] if names else None!r}.{_alike(named, names)}"
            )
        notes.append(
            f"{len(left_out):,} edge{'s' * (len(left_out) > 1)} left out of {len(edges):,}; the "
            f"first: {left_out[0].text} ({left_out[0].reason}).{_alike(named, names)}"
        )
    ends = torch.from_numpy(pairs if compact else pairs.astype(np.int64))
    table_of_edges = None
    if len(edges.attributes.columns):
        table_of_edges = edge_table(edges.attributes, ends, rows, lines, (first, second))
    return attributed_graph(
        names, ends, table, directed=directed, notes=notes, left_out=left_out,
        unreadable=unreadable, lines=node_lines, edge_table=table_of_edges, compact=compact,
    )  # fmt: skip


def edge_table(
    attributes: pd.DataFrame,
    pairs: Tensor,
    rows: NDArray,
    lines: Sequence[int] | None,
    ends: Sequence[Hashable],
) -> EdgeTable:
    """Return the attributes of those edges that connect two known nodes.

    Args:
        attributes: one row for each edge of the data.
        pairs: [2, k] positions of nodes.
        rows: [k] rows of these edges in ``attributes``.
        lines: lines of the edges of the data in their file.
        ends: names of the columns that hold the names of nodes.
    """
    if len(rows) < len(attributes):
        attributes = attributes.iloc[rows]
    table, _, unreadable = flat_table(attributes.reset_index(drop=True))
    known_lines = () if lines is None else _selected(lines, rows)
    return EdgeTable(pairs, table, False, known_lines, unreadable, ends)


def _selected(lines: Sequence[int], rows: NDArray) -> Sequence[int]:
    """Return the lines of some rows. A range of many lines needs no memory."""
    if len(rows) == len(lines):
        return lines
    return np.asarray(lines)[rows].tolist()


def _alike(ends: NDArray, names: Sequence[Hashable]) -> str:
    """Return a sentence on names that are written differently in the edges and in the table of
    nodes; "" if there are none.
    """
    node_names = set(names)
    absent = [str(end) for end in ends.tolist() if end not in node_names]
    for form, reason in (
        (_number_form, "are the same number"),
        (_plain_form, "are the same name"),
    ):
        by_form = {form(str(name)): str(name) for name in reversed(names)}
        by_form.pop("", None)
        pairs = [(end, by_form[form(end)]) for end in absent if form(end) in by_form]
        if pairs:
            edge, node = pairs[0]
            show = repr if edge.casefold() == node.casefold() else ascii
            others = f" ({len(pairs):,} names of the edges differ so)" * (len(pairs) > 1)
            return (
                f" {show(edge)} in the edges and {show(node)} in the table {reason} written "
                f"differently{others}: write the names in the same way."
            )
    return ""


def _plain_form(name: str) -> str:
    """Return a canonical text for a name, without the differences that are not visible.

    These are composed letters, and characters without a width. The case is ignored, too.
    """
    letters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in letters if unicodedata.category(c) != "Cf").strip()


def _number_form(name: str) -> str:
    """Return a canonical text for a name that is a number, so that 7 and 7.0 are equal; "" for
    other names.
    """
    try:
        number = float(name)
    except ValueError:
        return ""
    # Longer numbers are rounded, which could make two names equal.
    return repr(number) if math.isfinite(number) and len(name) < 16 and "_" not in name else ""
