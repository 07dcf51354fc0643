"""Graphs in files: GraphML, GML, GEXF, edge lists, CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gattn.data import load_citation
from gattn.data.tables.csv_table import open_table
from gattn.data.tables.numbers import NumberFormat
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.lists import read_list
from gattn.nodes.notation import with_numbers
from gattn.nodes.reading import from_data, from_networkx
from gattn.nodes.tables import from_tables

if TYPE_CHECKING:
    import networkx

__all__ = ["CITATION", "read_graph_file"]

CITATION = ("cora", "citeseer", "pubmed")
MARKUP = (".graphml", ".gml", ".gexf")
TABLES = (".csv", ".tsv", ".parquet")
LISTS = (".edgelist", ".edges", ".txt")


def read_graph_file(
    path: str | Path,
    nodes: str | Path | None = None,
    *,
    directed: bool | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str = "",
    missing: Sequence[str] = (),
) -> AttributedGraph:
    """Read a graph from a file, or a citation network by its name.

    Args:
        path: ``cora``, ``citeseer`` or ``pubmed``; a file that ends in ``.graphml``, ``.gml`` or
            ``.gexf``; a table of edges, ``.csv``, ``.tsv`` or ``.parquet``; or a list of edges,
            ``.edgelist``, ``.edges`` or ``.txt``: two names a line, with one separator in the whole
            file, and comments behind ``#`` or ``%`` and a space at the start of a line (see
            :func:`gattn.nodes.lists.read_list`).
        nodes: a table of nodes, ``.csv``, ``.tsv`` or ``.parquet``, beside a table or a list. The
            nodes of a GML file are named by their labels, or by their ids where two labels are the
            same.
        directed: see :func:`gattn.nodes.reading.read_graph`.
        encoding: of the text in tables and lists; otherwise what the byte order mark says, and
            UTF-8 without one.
        decimal: the decimal sign of numbers in texts, ``"."`` or ``","``. None for a point, but for
            a comma in the columns of a table separated by semicolons that have one.
        thousands: the separator between groups of three digits, ``","``, ``"."``, ``" "`` or
            ``"'"``; empty for none.
        missing: words that stand for a missing attribute in every column, besides empty cells.

    Returns:
        The graph.

    Raises:
        FileNotFoundError: no such file.
        ImportError: networkx is not installed.
        GraphError: an ending of no such file, a file that cannot be read, or an empty one.
        ValueError: a decimal sign or a separator that there is not.
    """
    style = None
    if decimal is not None or thousands:
        style = NumberFormat(decimal=decimal or ".", thousands=thousands)
    if str(path).lower() in CITATION:
        data = load_citation(str(path), normalize_features=True)
        return from_data(data, directed=bool(directed))
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; nor is it one of {', '.join(CITATION)}")
    if not path.stat().st_size:
        raise GraphError(f"{path} is empty; wanted a graph")
    try:
        graph, semicolons = _read(path, nodes, directed, encoding)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None
    return with_numbers(graph.with_gaps(missing), style, commas=semicolons)


def _read(
    path: Path, nodes: str | Path | None, directed: bool | None, encoding: str | None
) -> tuple[AttributedGraph, bool]:
    """The graph, and whether semicolons separate its table of nodes."""
    ending = path.suffix.lower()
    if ending in MARKUP:
        if nodes is not None:
            raise GraphError(f"{path} has its nodes itself; a table of nodes is for edges")
        return from_networkx(_marked_up(path), directed=directed), False
    if ending not in TABLES + LISTS:
        ends = ", ".join([*MARKUP, *TABLES, *LISTS])
        raise GraphError(f"{path.name} must end in {ends}; it ends in {ending or 'nothing'}")
    table, separator = None, ""
    node_lines: list[int] = []
    if ending in LISTS:
        edges, lines, notes = read_list(path, encoding)
    else:
        edges, lines, _ = _read_table(path, encoding)
        notes = [] if len(edges) else [f"{path.name} has a header, and no edge."]
    if edges.empty and nodes is None:
        raise GraphError("it has no edges")
    if nodes is not None:
        table, node_lines, separator = _read_table(Path(nodes), encoding)
        if table.empty:
            raise GraphError(f"{nodes} has no nodes")
    graph = from_tables(
        edges, table, directed=bool(directed), lines=lines,
        node_lines=node_lines if separator else (), notes=notes,
    )  # fmt: skip
    if len(edges) and not graph.edge_index.shape[1]:
        raise GraphError(f"no edge remains: each of {len(edges):,} joins a node to itself")
    return graph, separator == ";"


def _marked_up(path: Path) -> networkx.Graph:
    try:
        import networkx
    except ImportError:
        raise ImportError('this file needs networkx: pip install "gattn[nodes]"') from None
    try:
        if path.suffix.lower() == ".gml":
            text = path.read_text("utf-8-sig")
            label: Any = None  # networkx takes it, and says that it does not
            return _named_by_label(networkx.parse_gml(text, label=label))
        if path.suffix.lower() == ".gexf":
            return _without_names(networkx.read_gexf(path))
        return networkx.read_graphml(path)
    except Exception as error:  # of XML, of text, of numbers: each reader has its own
        raise GraphError(f"it cannot be read as {path.suffix[1:]}: {error}") from error


def _named_by_label(graph: networkx.Graph) -> networkx.Graph:
    """The nodes of a GML file by their labels, where all have one and no two the same."""
    import networkx

    labels = networkx.get_node_attributes(graph, "label")
    if len(set(labels.values())) < len(graph):
        return graph  # by their ids
    for _, attributes in graph.nodes(data=True):
        del attributes["label"]
    return networkx.relabel_nodes(graph, labels)


def _without_names(graph: networkx.Graph) -> networkx.Graph:
    """A graph of a GEXF file without labels that repeat names, as networkx writes where none is."""
    if all(attributes.get("label") == str(node) for node, attributes in graph.nodes(data=True)):
        for _, attributes in graph.nodes(data=True):
            del attributes["label"]
    return graph


def _read_table(path: Path, encoding: str | None) -> tuple[pd.DataFrame, list[int], str]:
    """A table of texts, or of what Parquet holds; its lines; and its separator, if any.

    Missing cells are None.
    """
    if path.suffix.lower() == ".parquet":
        import pyarrow

        try:
            table = pd.read_parquet(path)
            return table, list(range(1, len(table) + 1)), ""
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise GraphError(f"{path} is no Parquet file: {error}") from error
    table = open_table(path, encoding=encoding)
    rows = list(table.rows())
    bad = next((row for row in rows if row.problem), None)
    if bad is not None:
        raise GraphError(f"{path}, line {bad.line}: {bad.problem}")
    cells = [[cell if cell.strip() else None for cell in row.cells] for row in rows]
    frame = pd.DataFrame(cells, columns=list(table.columns), dtype=object)
    return frame, [row.line for row in rows], table.separator
