"""Reader of edge lists and adjacency matrices: text files with an edge or a row in each line."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edge_ends import are_ends
from gattn.apps.tables.encoding import read_text
from gattn.apps.tables.numbers import NumberFormat, classify

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
        rows: cells of the file; the first row is the header.

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
) -> tuple[pd.DataFrame, list[int], list[str], str]:
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
        The table; the line of each row, from 1; sentences about the decisions that were made; and
        the separator.

    Raises:
        GraphError: the file is not a text in that encoding, a line names fewer than two nodes,
            lines have different separators, or the file has another format: for example lines of
            three names, or an adjacency list.
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
        return table, numbers, [*notes, matrix_note(len(table))], separator
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
    return table, [line.number for line in lines], notes, separator


def _content(texts: Sequence[str]) -> tuple[list[_Line], list[str]]:
    """Return the lines that contain edges, and a note on the number of comment lines.

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
    note = f"{comments:,} comment line{'s' * (comments > 1)} not read."
    return lines, [note] if comments else []


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
    """Return True if the separator occurs only inside names or as a decimal separator."""
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
    """Split a line into the two names and the fields after them."""
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
    """Raise a GraphError if a line does not contain two names."""
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
    """Raise a GraphError if lines without a header may contain more than two names.

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
    """Return True if the first row may contain the numbers of nodes and of edges."""
    first, *others = rows
    if len(others) < 2 or not all(map(str.isdecimal, first)):
        return False
    names = {name for words in others for name in words[:2]}
    return int(first[0]) >= len(names) and int(first[1]) == len(others)


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row is a header, which names the columns."""
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
