"""Readers of graph files: GraphML, GML, GEXF, edge lists, CSV and Parquet."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.edge_ends import are_ends, named_ends
from gattn.apps.nodes.reading import UNDIRECTED, from_data, from_networkx, graph_of_ends
from gattn.apps.nodes.sources import CITATION, check_graph_file
from gattn.apps.nodes.typed.relations import parse_sources
from gattn.apps.nodes.typed.tables import typed_graph
from gattn.apps.nodes.values import CellRules, SourceTable
from gattn.apps.tables.csv_table import open_table
from gattn.apps.tables.encoding import read_text
from gattn.apps.tables.formats import open_parquet
from gattn.apps.tables.numbers import NumberFormat, classify
from gattn.data import load_citation

if TYPE_CHECKING:
    import networkx

    from gattn.apps.fitting.settings import Settings

LEAST = 3
"""Minimum size of a matrix without names; two lines with two numbers are two edges."""
LARGE = 5
"""Size of a square of numbers without names that is not taken for rows of edges."""
CELL = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?", re.IGNORECASE)


def matrix_edges(rows: Sequence[Sequence[Any]]) -> tuple[pd.DataFrame, NDArray[np.intp]] | None:
    """Return the weighted edges of an adjacency matrix; None if the rows are not such a matrix.

    The value in row i and column j is the weight of an edge from i to j, and 0 or an empty cell is
    no edge. The first row and the first column contain the same names. If the first column has no
    names, a square of numbers is a matrix if its diagonal is 0. Without names in the first row, the
    nodes are numbered from 0, and a large square is a matrix with any diagonal.

    Args:
        rows: cells of the file; the first row is the header. There is at least one row, and each
            has a cell.

    Returns:
        A table of the columns source, target and weight, and the index in ``rows`` of each edge.

    >>> matrix_edges([["", "a", "b"], ["a", "0", "1,5"], ["b", "0", "0"]])[0].values.tolist()
    [['a', 'b', 1.5]]
    >>> matrix_edges([["source", "target"], ["a", "b"]])
    """
    header, names = rows[0], [row[0] for row in rows[1:]]
    size = len(names)
    # A symmetric matrix without names repeats its first row in its first column, too.
    has_corner = len(header) > size and CELL.fullmatch(str(header[0]))
    is_named = not has_corner and list(map(str, header[-size:])) == list(map(str, names))
    if size > 1 and is_named:
        cells = [row[1:] for row in rows[1:]]
    elif len(header) == size:
        names, cells = header, rows[1:]
    else:
        names, cells = list(map(str, range(len(rows)))), rows
    first = len(rows) - len(cells)
    if len(cells) < LEAST - is_named or any(len(row) != len(cells) for row in cells):
        return None
    try:
        values = np.array([[_number(cell) for cell in row] for row in cells])
    except ValueError:
        return None
    # Rows of edges may be a square of numbers, too, but not with zeros on the diagonal.
    if not is_named and values.diagonal().any() and (first or len(cells) < LARGE):
        return None
    sources, targets = values.nonzero()
    table = pd.DataFrame(
        {
            "source": [names[place] for place in sources.tolist()],
            "target": [names[place] for place in targets.tolist()],
            "weight": values[sources, targets],
        }
    )
    return table, sources + first


def matrix_note(edges: int) -> str:
    """Return a note on a file that is read as a matrix."""
    return (
        f"It is read as an adjacency matrix with {edges:,} edges from rows to columns; the column "
        "'weight' of the edges contains the values."
    )


def _number(cell: Any) -> float:
    """Return the number in a cell; 0 if the cell is empty."""
    return float(str(cell).replace(",", ".")) if cell is not None and cell != "" else 0.0


COMMENT = re.compile(r"(#+|%+)(\s|$)|#[^\s,;|]*$")
"""Pattern of a comment; a single word after ``#`` is one, too: networkx writes the name of the
program that way.
"""
MATRIX_MARKET = "%%matrixmarket"
SYMMETRIC = re.compile(rf"{MATRIX_MARKET}.*\b(symmetric|hermitian)\b|%\s*sym\b", re.IGNORECASE)
"""Pattern for the first line of a file of MatrixMarket or KONECT that contains each edge once for
both directions.
"""
ATTRIBUTES = re.compile(r"(?<=[\s,;|])\{.*\}\s*$")
"""Pattern for the attributes in braces that networkx writes after the node names of an edge."""
WORDS = re.compile(r'\s*("(?:[^"]|"")*"\S*|\S+)')
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", "": "spaces"}
"""Separators in the order in which they are tried, with their names; "" stands for white space."""
DECIMALS = NumberFormat(decimal=",")
NUMBER = re.compile(r"[-+\d.,:/%eETZ]*|nan|NaN|NA")
"""Pattern of numbers, dates and empty fields, which name no node."""
FORMATS = {
    "Pajek's format": re.compile(r"\*(vertices|network|arcs|edges)\b", re.IGNORECASE),
    "UCINET's format": re.compile(r"dl\b.*\bn\s*=", re.IGNORECASE),
    "the DIMACS format": re.compile(r"p\s+\w+\s+\d+\s+\d+$"),
    "GML or DOT": re.compile(r"(strict\s+)?(di)?graph\b.*[\[{]", re.IGNORECASE),
    "Turtle": re.compile(r"@(prefix|base)\b"),
    "XML": re.compile(r"<(\?xml|!DOCTYPE|graphml|gexf)\b"),
    "a list of Python": re.compile(r"\[?[(\[][^()\[\]]+,[^()\[\]]+[)\]](,?$|,\s*[(\[])"),
    "JSON": re.compile(r"[\[{]\s*([\[{\"]|$)"),
}
"""Patterns for the first lines of other formats of networks."""


class _Line(NamedTuple):
    """Line of an edge list; the attributes in braces at its end are removed.

    Attributes:
        number: number of the line in the file, from 1.
        text: text of the line, without attributes.
        attributed: True if attributes in braces followed the names, as networkx writes them.
    """

    number: int
    text: str
    attributed: bool


def read_list(
    path: Path, encoding: str | None, ends: tuple[str, str] = ("", "")
) -> tuple[SourceTable, list[str]]:
    """Read an edge list.

    The separator is the first of tab, semicolon, comma and bar that separates two names in every
    line, else white space. A decimal comma is not a separator. Names in double quotes may contain
    separators. Lines that begin with ``#`` or ``%`` and white space are comments, and so is the
    header of a MatrixMarket file. If the first line is a header, the table has its columns.
    Otherwise, the first two names in each line are the nodes of an edge, and numbers may follow. A
    square of numbers is an adjacency matrix.

    Args:
        path: the file.
        encoding: encoding of the file; None for the encoding of the byte order mark, or UTF-8 if
            there is none.
        ends: names of the columns with the nodes, if the user chose them; a file without a header
            then has the columns 1, 2, ...

    Returns:
        The table, and sentences about the decisions that were made.

    Raises:
        GraphError: the file is not a text in that encoding, a line names fewer than two nodes,
            lines have different separators, or the file has another format: for example lines of
            three names, or an adjacency list.
        FileNotFoundError: the file does not exist.
    """
    try:
        text = read_text(path, encoding)
    except ValueError as error:
        raise GraphError(str(error)) from None
    lines, notes = _content(text.split("\n"))
    if not lines:
        raise GraphError(f"it has no edges{'; ' + notes[0][:-1] if notes else ''}")
    separator = _separator(lines)
    rows = [_split(line, separator) for line in lines]
    numbered = any(ends)
    matrix = None if numbered else matrix_edges(rows)
    if matrix is not None:
        table, places = matrix
        numbers = [lines[place].number for place in places]
        return SourceTable(table, numbers, separator), [*notes, matrix_note(len(table))]
    for line, words in zip(lines, rows):
        _check(line, words, separator)
    header: list[str] = []
    if _is_header(rows) or not {*ends, *rows[0]}.difference(rows[0]):
        notes.append(f"Line {lines[0].number} is read as a header: {lines[0].text!r}.")
        header, lines, rows = rows[0], lines[1:], rows[1:]
    elif not numbered:
        _check_pairs(lines, rows, separator)
    note = f"Names are separated by {SEPARATORS[separator]}"
    if not header and not numbered:
        note += f"; the first edge is {rows[0][0]!r} - {rows[0][1]!r}"
    notes.append(f"{note}.")
    if not header and _is_size(rows):
        notes.append(
            f"Line {lines[0].number}, {lines[0].text!r}, may be the numbers of nodes and of edges "
            "and not an edge: if so, remove it."
        )
    width = max(map(len, rows)) if numbered else len(header) or 2
    if not numbered and (rest := next((row[width] for row in rows if len(row) > width), None)):
        notes.append(f"Not used: the text after the fields of an edge, for example {rest!r}.")
    if any(line.attributed for line in lines):
        notes.append("Not used: the attributes of the edges, in braces.")
    usual = map(str, range(1, width + 1)) if numbered else ("source", "target")
    columns = header + list(usual)[len(header) :]
    cells = [[word or None for word in (words + [""] * width)[:width]] for words in rows]
    table = pd.DataFrame(cells, columns=columns, dtype=object)
    return SourceTable(table, [line.number for line in lines], separator), notes


def _content(texts: Sequence[str]) -> tuple[list[_Line], list[str]]:
    """Return the lines that contain edges or the header, and notes: on the number of comment lines,
    and ``UNDIRECTED`` if the first line says that the file contains each edge once for both
    directions. ``texts`` are all lines of the file.

    Raises:
        GraphError: the lines have another format.
    """
    lines: list[_Line] = []
    comments, size = 0, False
    for number, text in enumerate(map(str.strip, texts), 1):
        if not text:
            continue
        if not lines and text.lower().startswith(MATRIX_MARKET):
            comments, size = comments + 1, True
        elif text == "#" and lines and any(map(str.strip, texts[number:])):
            raise GraphError(
                f"line {number} is '#' alone, which separates nodes from edges in the Trivial "
                "Graph Format: write the lines after it to a file of edges, and the lines before "
                "it to a table of nodes (--nodes)"
            )
        elif text[0] in "#%" and (size or COMMENT.match(text)):
            comments += 1
        elif size:
            # In a MatrixMarket file, the first line contains the size of the matrix.
            comments, size = comments + 1, False
        else:
            if not lines and (name := next((n for n in FORMATS if FORMATS[n].match(text)), None)):
                raise GraphError(
                    f"line {number}, {text[:60]!r}, is {name}, not an edge list: convert it, for "
                    "example to GraphML with networkx, or write a table with the columns source "
                    "and target"
                )
            match = ATTRIBUTES.search(text) if "{" in text else None
            names = text[: match.start()] if match else text
            lines.append(_Line(number, names.strip(), match is not None))
    notes = [f"{comments:,} comment line{'s' * (comments > 1)} not read."] if comments else []
    is_symmetric = any(SYMMETRIC.match(text.strip()) for text in texts[:1])
    return lines, [*notes, UNDIRECTED] if is_symmetric else notes


def _separator(lines: Sequence[_Line]) -> str:
    """Return the separator between the fields of a file; "" stands for white space.

    Raises:
        GraphError: some lines have a separator that other lines do not have.
    """
    for separator in SEPARATORS:
        if separator and all(separator in line.text for line in lines):
            rows = [_cells(line, separator) for line in lines]
            if all(len(row) > 1 for row in rows) and not _stands_in_names(lines, separator):
                return separator
    for separator in "\t;,":
        for line in lines:
            cells = _cells(line, separator)
            if len(cells) > 1 and cells[:2] != _words(line)[:2] and not _is_decimal(line):
                raise GraphError(
                    f"all lines must have the same separator; line {line.number} has "
                    f"{SEPARATORS[separator]}, {line.text!r}, and others do not"
                )
    return ""


def _stands_in_names(lines: Sequence[_Line], separator: str) -> bool:
    """Return True if the separator, which every line contains, occurs only inside names or as a
    decimal separator.
    """
    if separator == ",":
        return all(_is_decimal(line) for line in lines)
    if separator == "|":
        # The character "|" may also occur inside a protein's name, such as sp|P69905|HBA_HUMAN.
        return all(sum("|" in word for word in _words(line)[:2]) == 2 for line in lines)
    return False


def _is_decimal(line: _Line) -> bool:
    """Return True if a line consists of two names without commas, followed by numbers with
    decimal commas.
    """
    words = _words(line)
    behind = [word for word in words[2:] if "," in word]
    return (
        bool(behind)
        and not any("," in word for word in words[:2])
        and all(DECIMALS.parse(word) is not None for word in behind)
    )


def _split(line: _Line, separator: str) -> list[str]:
    """Split a line into the two names and the fields after them; empty fields at its end are left
    out.
    """
    words = _cells(line, separator) if separator else _words(line)
    while words and not words[-1]:
        words.pop()
    return words


def _cells(line: _Line, separator: str) -> list[str]:
    """Split a line at a separator; return an empty list if its quotation marks are invalid."""
    reader = csv.reader([line.text], delimiter=separator, skipinitialspace=True, strict=True)
    try:
        return [cell.strip() for cell in next(reader)]
    except csv.Error:
        return []


def _words(line: _Line) -> list[str]:
    """Split a line at white space; a name in quotes is one field."""
    if '"' not in line.text:
        return line.text.split()
    return [
        word[1:-1].replace('""', '"') if len(word) > 1 and word[0] == word[-1] == '"' else word
        for word in WORDS.findall(line.text)
    ]


def _check(line: _Line, words: Sequence[str], separator: str) -> None:
    """Raise a GraphError if a line does not contain two names or, in a file that is separated by
    white space, if a quote is not closed or if more words precede the attributes.
    """
    if len(words) < 2 or not all(words[:2]):
        hint = "" if separator else ". (In an adjacency list, write one edge in each line.)"
        raise GraphError(f"line {line.number} must have two node names; got {line.text!r}{hint}")
    if separator:
        return
    if line.attributed and len(words) > 2:
        raise GraphError(
            f"line {line.number} has {len(words)} words before its attributes, but must have two "
            "names: names with spaces need another separator, for example "
            r"networkx.write_edgelist(graph, path, delimiter='\t')"
        )
    opened = next(
        (word for word in words[:2] if word.startswith('"') and '"' not in word[1:]), None
    )
    if opened is not None and line.text.count('"') % 2:
        raise GraphError(f"line {line.number} has a quote that is not closed: {opened!r}")


def _check_pairs(lines: Sequence[_Line], rows: Sequence[Sequence[str]], separator: str) -> None:
    """Raise a GraphError if lines without a header may contain more than two names. ``rows`` are
    the cells of each line, which ``separator`` separates ("" for white space).

    These are triples, such as ``ann knows bob``, and adjacency lists: ``0 1 36`` are the two edges
    from 0 to 1 and from 0 to 36.
    """
    for line, words in zip(lines, rows):
        if len(words) > 2 and not NUMBER.fullmatch(words[2]):
            raise GraphError(
                f"line {line.number}, {line.text!r}, has {len(words)} fields: number the fields "
                "with the two nodes, for example --source 1 --target 3 --edge-type 2 for head, "
                "relation and tail, or write a header such as source, target, weight"
            )
    firsts, names = [words[0] for words in rows], {name for words in rows for name in words[:2]}
    third = [words[2] for words in rows if len(words) > 2]
    is_ragged = not separator and len({len(words) for words in rows}) > 1
    # In an adjacency list, each node begins one line, and its neighbours have names like its own.
    if (is_ragged and max(map(len, rows)) > 3) or (
        len(set(firsts)) == len(firsts)
        and all(map(str.isdecimal, (*names, *third)))
        and ((is_ragged and third) or (len(set(third)) > 1 and not names.isdisjoint(third)))
    ):
        line = next(line for line, words in zip(lines, rows) if len(words) > 2)
        raise GraphError(
            f"line {line.number}, {line.text!r}, may be an edge with a weight or a node with its "
            "neighbours (an adjacency list). Write an edge in each line, for example with "
            "networkx.write_edgelist; if it is one, add a header such as source, target, weight"
        )


def _is_size(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row may contain the numbers of nodes and of edges: the second number
    is that of the other rows, and the first is not below the number of different names in them.
    """
    first, *others = rows
    if len(others) < 2 or not all(map(str.isdecimal, first)):
        return False
    names = {name for words in others for name in words[:2]}
    return int(first[0]) >= len(names) and int(first[1]) == len(others)


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row is a header, which names the columns.

    Its first two cells must not be names of nodes in the other rows. It is a header if two cells
    are a pair such as source and target; if its first two cells are no numbers, and all names of
    nodes are; or if there are three columns, and the third has numbers below a text. A single row
    is no header.
    """
    if len(rows) < 2:
        return False
    first, others = rows[0], rows[1:]
    used = {name for words in others for name in words[:2]}
    if used & set(first[:2]):
        return False
    if any(are_ends(a, b, weak=False) for a in first for b in first):
        return True
    is_number = [classify(name).kind == "plain" for name in first[:3]]
    if not any(is_number[:2]) and all(name.isdigit() for name in used):
        return True
    return (
        len(first) == 3
        and not is_number[2]
        and all(len(words) == 3 and classify(words[2]).kind == "plain" for words in others)
    )


TABLES = (".csv", ".tsv", ".parquet")
"""Suffixes of the files of tables."""
TEXTS = ("string", "large_string")
"""Arrow's names of the types of texts."""
MARKUP = (".graphml", ".gml", ".gexf")
LISTS = (".edgelist", ".edges", ".txt")
ROUNDED = re.compile(r"\d([.,]\d+)?E\+\d\d")
"""Number of 12 digits or more in the format in which a spreadsheet saves it."""


ONE_TABLE = "--source, --target and --bipartite are for a single table or list of edges"


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
                :func:`gattn.apps.nodes.files.read_list`). The nodes of a GML file are named by
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
        is_table = Path(path).suffix.lower() in TABLES + LISTS
        if not is_table and (self.source or self.target or self.bipartite is not None):
            raise GraphError(f"{ONE_TABLE}; got {path}")
        if str(path).lower() in CITATION:
            data = load_citation(str(path), normalize_features=True)
            graph = from_data(data, directed=bool(directed))
            return graph.compacted() if compact else graph
        path = Path(path)
        check_graph_file(path)
        if not path.stat().st_size:
            raise GraphError(f"{path} is empty; expected a graph")
        try:
            if path.suffix.lower() in MARKUP:
                graph = self._read_markup(path, directed)
            else:
                graph = self._read_edges(path, directed=bool(directed), compact=compact)
        except GraphError as error:
            raise GraphError(f"{path}: {error}") from None
        return graph.compacted() if compact else graph

    @property
    def cells(self) -> CellRules:
        """Rules for reading the cells of attributes."""
        style = None
        if self.decimal is not None or self.thousands:
            style = NumberFormat(decimal=self.decimal or ".", thousands=self.thousands)
        return CellRules(self.missing, style)

    def _read_markup(self, path: Path, directed: bool | None) -> AttributedGraph:
        """Read a GraphML, GML or GEXF file, which contains the nodes, too. Raises GraphError if a
        table of nodes was passed, too, or the file cannot be read, and ImportError if networkx is
        missing.
        """
        if self.nodes:
            raise GraphError(
                f"{path} contains its nodes; a table of nodes is only for a table or list of edges"
            )
        return from_networkx(_parse_markup(path), directed=directed, cells=self.cells)

    def _read_edges(self, path: Path, *, directed: bool, compact: bool) -> AttributedGraph:
        """Read a table or list of edges and, if there is one, the table of nodes. Raises GraphError
        for another ending, for a table that cannot be read, and if there are no edges or no nodes,
        and FileNotFoundError if the table of nodes does not exist.
        """
        ending, ends = path.suffix.lower(), (self.source, self.target)
        if ending not in TABLES + LISTS:
            endings = ", ".join([*MARKUP, *TABLES, *LISTS])
            raise GraphError(f"its name must end in {endings}; it ends in {ending or 'nothing'}")
        notes: list[str] = []
        if ending in LISTS:
            table, notes = read_list(path, self.encoding, ends)
            table = replace(table, cells=self.cells)
            directed = directed and UNDIRECTED not in notes
        else:
            table = read_table(path, self.encoding, self.cells, compact=compact)
            frame = table.frame
            if frame.shape[1] - len(frame) in (0, 1) and not any(ends):
                rows = [list(frame.columns), *frame.to_numpy(dtype=object).tolist()]
                if (matrix := matrix_edges(rows)) is not None:
                    frame, places = matrix
                    # The header is the row 0.
                    lines = [table.lines[max(place - 1, 0)] for place in places]
                    table = replace(table, frame=frame, lines=lines)
                    notes = [matrix_note(len(frame))]
        edges, nodes = named_ends(table, ends=ends), None
        if not len(edges):
            if not self.nodes:
                raise GraphError("it has no edges")
            if ending not in LISTS:
                notes = [f"{path.name} has a header but no edges."]
        if self.nodes:
            # Several tables of nodes are read by _read_typed.
            nodes = read_table(Path(str(self.nodes)), self.encoding, self.cells)
            if nodes.frame.empty:
                raise GraphError(f"{self.nodes} has no nodes")
        graph = graph_of_ends(
            edges, nodes, directed=directed, notes=notes, bipartite=self.bipartite,
            compact=compact, header=ending not in LISTS,
        )  # fmt: skip
        if len(edges) and not graph.edge_index.shape[1]:
            raise GraphError(f"no edge remains: each of {len(edges):,} joins a node to itself")
        names = (name for name in graph.names if isinstance(name, str))
        rounded = [name for name in names if ROUNDED.fullmatch(name)]
        if rounded:
            graph = graph.with_notes(
                f"{len(rounded):,} names of nodes, such as {rounded[0]!r}, are numbers as a "
                "spreadsheet rounds them, so several nodes may have one name: export them as texts."
            )
        return graph

    def _read_typed(
        self, path: str | Path, *, directed: bool | None, label: str | None, label_type: str | None
    ) -> AttributedGraph:
        """Read a network with several tables of nodes. Raises GraphError for options of a single
        table, and for a file that cannot be read, and FileNotFoundError if one does not exist.
        """
        if self.source or self.target or self.bipartite is not None:
            raise GraphError(ONE_TABLE)
        try:
            nodes, edges = parse_sources(path, self.nodes, self.edges)
        except ValueError as error:
            raise GraphError(str(error)) from None

        def read(file: str) -> SourceTable:
            return read_table(Path(file), self.encoding, self.cells)

        return typed_graph(
            {kind: read(file) for kind, file in nodes.items()},
            {relation: read(file) for relation, file in edges.items()},
            label=label, label_type=label_type, directed=bool(directed),
        )  # fmt: skip


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

    Raises:
        GraphError: the graph cannot be read; for other errors, see :meth:`GraphReading.read`.
    """
    return GraphReading(nodes=nodes, **rules).read(path, directed=directed, compact=compact)


def _parse_markup(path: Path) -> networkx.Graph:
    """Read a file in the format GML, GEXF or GraphML.

    A GraphError is raised if the file is invalid, and an ImportError if networkx is missing.
    """
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
    """Return a copy of the graph of a GML file in which the nodes are named by their labels, and
    have no attribute ``label``; the attribute is removed from the argument, too. If two labels are
    equal, or a node has none, the graph itself is returned unchanged.
    """
    import networkx

    labels = networkx.get_node_attributes(graph, "label")
    if len(set(labels.values())) < len(graph):
        # The labels are not unique, so the ids remain the names of the nodes.
        return graph
    for _, attributes in graph.nodes(data=True):
        del attributes["label"]
    return networkx.relabel_nodes(graph, labels)


def _without_names(graph: networkx.Graph) -> networkx.Graph:
    """Remove the node labels of the graph of a GEXF file in place if every label equals the name of
    its node, and return the graph.

    networkx writes such labels for nodes without a label.
    """
    if all(attributes.get("label") == str(node) for node, attributes in graph.nodes(data=True)):
        for _, attributes in graph.nodes(data=True):
            del attributes["label"]
    return graph
