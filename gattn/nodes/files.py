"""Graphs in files: GraphML, GML, GEXF, edge lists, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gattn.data import load_citation
from gattn.data.tables import is_missing, open_table
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.reading import from_data, from_networkx, from_tables

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
) -> AttributedGraph:
    """Read a graph from a file, or a citation network by its name.

    Args:
        path: ``cora``, ``citeseer`` or ``pubmed``; a file that ends in ``.graphml``, ``.gml`` or
            ``.gexf``; a table of edges, ``.csv``, ``.tsv`` or ``.parquet``; or a list of edges,
            ``.edgelist``, ``.edges`` or ``.txt``: two names a line, ``#`` before a comment. Tabs
            tell names apart in a line that has some, else commas, else spaces: a name between tabs
            or commas may hold spaces.
        nodes: a table of nodes, ``.csv``, ``.tsv`` or ``.parquet``, beside a table or a list. The
            nodes of a GML file are named by their labels, or by their ids where two labels are the
            same.
        directed: see :func:`gattn.nodes.reading.read_graph`.
        encoding: of the text in tables and lists; otherwise what the byte order mark says, and
            UTF-8 without one.

    Returns:
        The graph.

    Raises:
        FileNotFoundError: no such file.
        ImportError: networkx is not installed.
        GraphError: an ending of no such file, a file that cannot be read, or an empty one.
    """
    if str(path).lower() in CITATION:
        data = load_citation(str(path), normalize_features=True)
        return from_data(data, directed=bool(directed))
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; nor is it one of {', '.join(CITATION)}")
    if not path.stat().st_size:
        raise GraphError(f"{path} is empty; wanted a graph")
    ending = path.suffix.lower()
    try:
        if ending in MARKUP:
            if nodes is not None:
                raise GraphError(f"{path} has its nodes itself; a table of nodes is for edges")
            return from_networkx(_marked_up(path), directed=directed)
        if ending not in TABLES + LISTS:
            ends = ", ".join([*MARKUP, *TABLES, *LISTS])
            raise GraphError(f"{path.name} must end in {ends}; it ends in {ending or 'nothing'}")
        edges, lines = (_read_list if ending in LISTS else _read_table)(path, encoding)
        if edges.empty and nodes is None:
            raise GraphError("it has no edges")
        table = None
        if nodes is not None:
            table, _ = _read_table(Path(nodes), encoding)
            if table.empty:
                raise GraphError(f"{nodes} has no nodes")
        return from_tables(edges, table, directed=bool(directed), lines=lines)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


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
    for _, held in graph.nodes(data=True):
        del held["label"]
    return networkx.relabel_nodes(graph, labels)


def _without_names(graph: networkx.Graph) -> networkx.Graph:
    """A graph of a GEXF file without labels that repeat names, as networkx writes where none is."""
    if all(held.get("label") == str(node) for node, held in graph.nodes(data=True)):
        for _, held in graph.nodes(data=True):
            del held["label"]
    return graph


def _read_list(path: Path, encoding: str | None) -> tuple[pd.DataFrame, list[int]]:
    """Two names a line; what follows them is not read."""
    rows, lines = [], []
    try:
        text = path.read_text(encoding=encoding or "utf-8-sig")
    except UnicodeDecodeError as error:
        said = f"it is not {encoding or 'UTF-8'} text: {error}; name its encoding"
        raise GraphError(said) from None
    except LookupError:
        raise GraphError(f"there is no encoding {encoding!r}") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = _words(line.partition("#")[0])
        if not words:
            continue
        if len(words) < 2:
            raise GraphError(f"line {number} must name two nodes; it holds {line.strip()!r}")
        rows.append(words[:2])
        lines.append(number)
    return pd.DataFrame(rows, columns=["source", "target"]), lines


def _words(text: str) -> list[str]:
    """The names in a line of a list, and what follows them; only spaces alone divide at spaces."""
    separator = next((mark for mark in "\t," if mark in text.strip()), None)
    return [word for cell in text.split(separator) if (word := cell.strip())]


def _read_table(path: Path, encoding: str | None) -> tuple[pd.DataFrame, list[int]]:
    """A table of texts, or of what Parquet holds; missing cells are None."""
    if path.suffix.lower() == ".parquet":
        import pyarrow

        try:
            table = pd.read_parquet(path)
            return table, list(range(1, len(table) + 1))
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise GraphError(f"{path} is no Parquet file: {error}") from error
    table = open_table(path, encoding=encoding)
    if len(set(table.columns)) < len(table.columns):
        raise GraphError(f"{path} has two columns of one name: {', '.join(table.columns)}")
    rows = list(table.rows())
    bad = next((row for row in rows if row.problem), None)
    if bad is not None:
        raise GraphError(f"{path}, line {bad.line}: {bad.problem}")
    cells = [[None if is_missing(cell) else cell for cell in row.cells] for row in rows]
    found = pd.DataFrame(cells, columns=list(table.columns), dtype=object)
    return found, [row.line for row in rows]
