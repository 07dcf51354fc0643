"""Readers of graph files: GraphML, GML, GEXF, edge lists, CSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.edge_ends import named_ends
from gattn.apps.nodes.lists import matrix_edges, matrix_note, read_list
from gattn.apps.nodes.reading import from_data, from_networkx
from gattn.apps.nodes.sources import CITATION, check_graph_file
from gattn.apps.nodes.tables import TABLES, graph_of_ends, read_table
from gattn.apps.nodes.typed.tables import converted, read_typed_files
from gattn.apps.nodes.values import with_numbers
from gattn.apps.tables.numbers import NumberFormat
from gattn.data import load_citation

if TYPE_CHECKING:
    import networkx

    from gattn.apps.fitting.settings import Settings

MARKUP = (".graphml", ".gml", ".gexf")
LISTS = (".edgelist", ".edges", ".txt")
ROUNDED = re.compile(r"\d([.,]\d+)?E\+\d\d")
"""Number of 12 digits or more in the format in which a spreadsheet saves it."""


ONE_TABLE = "--source, --target and --bipartite are for a single table or list of edges"


@dataclass(frozen=True, kw_only=True)
class GraphReading:
    """Rules for reading a graph from files.

    Attributes:
        nodes: a table of nodes; None or empty if there is none. For a network with several tables:
            values ``TYPE=FILE``.
        edges: values ``SOURCE-RELATION-DESTINATION=FILE`` for a network with several tables of
            nodes; otherwise empty.
        encoding: encoding of tables and lists; None for the encoding of the byte order mark, or
            UTF-8 if there is none.
        decimal: decimal sign of numbers in texts, ``"."`` or ``","``. None for a point, or for a
            comma in columns of decimal commas of a table that is separated by semicolons.
        thousands: separator between groups of three digits, ``","``, ``"."``, ``" "`` or ``"'"``;
            empty if there is none.
        missing: words that stand for a missing attribute in every column, besides empty cells.
        source: column of the edges with the source nodes; empty to choose it.
        target: column of the edges with the destination nodes; empty to choose it.
        bipartite: True if equal names of a source and a destination are different nodes; None to
            refuse numbers that both have in columns that may name nodes of two kinds.
    """

    nodes: str | Path | Sequence[str] | None = None
    edges: Sequence[str] = ()
    encoding: str | None = None
    decimal: str | None = None
    thousands: str = ""
    missing: Sequence[str] = ()
    source: str = ""
    target: str = ""
    bipartite: bool | None = None

    @classmethod
    def of(cls, settings: Settings) -> GraphReading:
        """Return the rules that the settings of a run contain."""
        names = [field.name for field in fields(cls) if hasattr(settings, field.name)]
        return cls(**{name: getattr(settings, name) for name in names})

    @property
    def typed(self) -> bool:
        """True for a network with several tables of nodes."""
        return bool(self.edges) or not (self.nodes is None or isinstance(self.nodes, str | Path))

    def read(
        self,
        path: str | Path,
        *,
        directed: bool | None = None,
        compact: bool = False,
        label: str | None = None,
        label_type: str | None = None,
    ) -> AttributedGraph:
        """Read a graph.

        Args:
            path: ``cora``, ``citeseer`` or ``pubmed``; a file that ends in ``.graphml``, ``.gml``
                or ``.gexf``; a table of edges, ``.csv``, ``.tsv`` or ``.parquet``; or a list of
                edges, ``.edgelist``, ``.edges`` or ``.txt`` (see
                :func:`gattn.apps.nodes.lists.read_list`). The nodes of a GML file are named by
                their labels, or by their ids if two labels are equal. Empty for a network with
                several tables of nodes.
            directed: see :func:`gattn.apps.nodes.reading.read_graph`.
            compact: True for compact edges (see
                :class:`gattn.apps.nodes.attributed.AttributedGraph`), which are read from Parquet
                with less memory.
            label: see :func:`gattn.apps.nodes.typed.tables.choose_target`.
            label_type: see :func:`gattn.apps.nodes.typed.tables.choose_target`.

        Returns:
            The graph.

        Raises:
            FileNotFoundError: the file does not exist.
            ImportError: the file requires networkx, which is not installed.
            GraphError: the file has another extension, is empty, or cannot be read.
            ValueError: the decimal sign or the separator has no allowed value.
        """
        if self.typed:
            return self._read_typed(path, directed=directed, label=label, label_type=label_type)
        if label_type:
            raise GraphError(
                f"--label-type {label_type} is for several tables of nodes (--nodes TYPE=FILE)"
            )
        is_table = Path(path).suffix.lower() in TABLES + LISTS
        if not is_table and (self.source or self.target or self.bipartite is not None):
            raise GraphError(f"{ONE_TABLE}; got {path}")
        style = self._style()
        if str(path).lower() in CITATION:
            data = load_citation(str(path), normalize_features=True)
            graph = from_data(data, directed=bool(directed))
            return graph.compacted() if compact else graph
        path = Path(path)
        check_graph_file(path)
        if not path.stat().st_size:
            raise GraphError(f"{path} is empty; expected a graph")
        try:
            graph, separators = _read(path, self, directed, compact)
        except GraphError as error:
            raise GraphError(f"{path}: {error}") from None
        graph = graph.compacted() if compact else graph
        commas, edge_commas = (separator == ";" for separator in separators)
        graph = graph.with_gaps(self.missing)
        return with_numbers(graph, style, commas=commas, edge_commas=edge_commas)

    def _style(self) -> NumberFormat | None:
        """Return the format of numbers in texts; None to detect it."""
        if self.decimal is None and not self.thousands:
            return None
        return NumberFormat(decimal=self.decimal or ".", thousands=self.thousands)

    def _read_typed(
        self, path: str | Path, *, directed: bool | None, label: str | None, label_type: str | None
    ) -> AttributedGraph:
        """Read a network with several tables of nodes."""
        if str(path) not in ("", "."):
            raise GraphError(
                f"a network with several tables of nodes needs no GRAPH; got {path}. Pass its "
                "edges with --edges"
            )
        if self.source or self.target or self.bipartite is not None:
            raise GraphError(ONE_TABLE)
        nodes = [self.nodes] if isinstance(self.nodes, str | Path) else self.nodes
        graph, separators = read_typed_files(
            [str(one) for one in nodes or () if one], self.edges, encoding=self.encoding,
            directed=bool(directed), label=label, label_type=label_type,
        )  # fmt: skip
        return converted(graph, self.missing, self._style(), separators)


DEFAULT_READING = GraphReading()
"""Rules for a graph without a table of nodes; the format of the graph file is detected."""


def read_graph_file(
    path: str | Path,
    nodes: str | Path | None = None,
    *,
    directed: bool | None = None,
    compact: bool = False,
    **rules: Any,
) -> AttributedGraph:
    """Read a graph from a file, or a citation network by its name.

    Args:
        path: see :meth:`GraphReading.read`.
        nodes: a table of nodes, ``.csv``, ``.tsv`` or ``.parquet``, if ``path`` is a table or list
            of edges.
        directed: see :meth:`GraphReading.read`.
        compact: see :meth:`GraphReading.read`.
        rules: other attributes of :class:`GraphReading`.

    Returns:
        The graph.
    """
    return GraphReading(nodes=nodes, **rules).read(path, directed=directed, compact=compact)


def _read(
    path: Path, rules: GraphReading, directed: bool | None, compact: bool
) -> tuple[AttributedGraph, tuple[str, str]]:
    """Read a graph; return it with the separators of its node table and its edge table."""
    nodes: Any = rules.nodes or None
    encoding, ends = rules.encoding, (rules.source, rules.target)
    ending = path.suffix.lower()
    if ending in MARKUP:
        if nodes is not None:
            raise GraphError(
                f"{path} contains its nodes; a table of nodes is only for a table or list of edges"
            )
        return from_networkx(_marked_up(path), directed=directed), ("", "")
    if ending not in TABLES + LISTS:
        endings = ", ".join([*MARKUP, *TABLES, *LISTS])
        raise GraphError(f"its name must end in {endings}; it ends in {ending or 'nothing'}")
    table, separator, edge_separator = None, "", ""
    node_lines: Sequence[int] = ()
    notes: list[str] = []
    lines: Sequence[int]
    if ending in LISTS:
        frame, lines, notes, edge_separator = read_list(path, encoding, ends)
    else:
        frame, lines, edge_separator = read_table(path, encoding, compact=compact)
        if frame.shape[1] - len(frame) in (0, 1) and not any(ends):
            rows = [list(frame.columns), *frame.to_numpy(dtype=object).tolist()]
            if (matrix := matrix_edges(rows)) is not None:
                frame, places = matrix
                # The header is the row 0.
                lines = [lines[max(place - 1, 0)] for place in places]
                notes = [matrix_note(len(frame))]
    edges = named_ends(frame, ends=ends)
    if not len(edges):
        if nodes is None:
            raise GraphError("it has no edges")
        if ending not in LISTS:
            notes = [f"{path.name} has a header but no edges."]
    if nodes is not None:
        table, node_lines, separator = read_table(Path(nodes), encoding)
        if table.empty:
            raise GraphError(f"{nodes} has no nodes")
    graph = graph_of_ends(
        edges, table, directed=bool(directed), lines=lines, notes=notes, bipartite=rules.bipartite,
        node_lines=node_lines if separator else (), compact=compact,
        header=ending not in LISTS,
    )  # fmt: skip
    if len(edges) and not graph.edge_index.shape[1]:
        raise GraphError(f"no edge remains: each of {len(edges):,} joins a node to itself")
    rounded = [name for name in graph.names if isinstance(name, str) and ROUNDED.fullmatch(name)]
    if rounded:
        graph = graph.with_notes(
            f"{len(rounded):,} names of nodes, such as {rounded[0]!r}, are numbers as a "
            "spreadsheet rounds them, so several nodes may have one name: export them as texts."
        )
    return graph, (separator, edge_separator)


def _marked_up(path: Path) -> networkx.Graph:
    try:
        import networkx
    except ImportError:
        raise ImportError('this file needs networkx: pip install "gattn[nodes]"') from None
    try:
        if path.suffix.lower() == ".gml":
            text = path.read_text("utf-8-sig")
            # networkx accepts None, but its type annotation does not.
            label: Any = None
            try:
                graph = networkx.parse_gml(text, label=label)
            except networkx.NetworkXError as error:
                if "edge" not in str(error) or "duplicated" not in str(error):
                    raise
                # Many programs write an edge twice without the mark of a multigraph.
                text = re.sub(r"\bgraph\s*\[", r"\g<0> multigraph 1 ", text, count=1)
                graph = networkx.parse_gml(text, label=label)
            return _named_by_label(graph)
        if path.suffix.lower() == ".gexf":
            return _without_names(networkx.read_gexf(path))
        return networkx.read_graphml(path)
    # The readers raise exceptions of many types for invalid files.
    except Exception as error:
        raise GraphError(f"it cannot be read as {path.suffix[1:]}: {error}") from error


def _named_by_label(graph: networkx.Graph) -> networkx.Graph:
    """Rename the nodes of a GML file to their labels if all labels differ."""
    import networkx

    labels = networkx.get_node_attributes(graph, "label")
    if len(set(labels.values())) < len(graph):
        # The labels are not unique, so the ids remain the names of the nodes.
        return graph
    for _, attributes in graph.nodes(data=True):
        del attributes["label"]
    return networkx.relabel_nodes(graph, labels)


def _without_names(graph: networkx.Graph) -> networkx.Graph:
    """Remove the node labels of a GEXF file if every label equals the name of its node.

    networkx writes such labels for nodes without a label.
    """
    if all(attributes.get("label") == str(node) for node, attributes in graph.nodes(data=True)):
        for _, attributes in graph.nodes(data=True):
            del attributes["label"]
    return graph
