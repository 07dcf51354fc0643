"""Reader of edge lists: text files with two node names in each line."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from gattn.data.tables.encoding import read_text
from gattn.data.tables.numbers import NumberFormat, classify
from gattn.nodes.attributed import GraphError
from gattn.nodes.edge_ends import DESTINATIONS, SOURCES

__all__ = ["read_list"]

COMMENT = re.compile(r"(#+|%+)(\s|$)")
MATRIX_MARKET = "%%matrixmarket"
ATTRIBUTES = re.compile(r"(?<=[\s,;|])\{.*\}\s*$")
"""Pattern for the attributes in braces that networkx writes after the node names of an edge."""
WORDS = re.compile(r'\s*("(?:[^"]|"")*"(?=\s|$)|\S+)')
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars", "": "spaces"}
"""Separators in the order in which they are tried, with their names; "" stands for white space."""
DECIMALS = NumberFormat(decimal=",")


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


def read_list(path: Path, encoding: str | None) -> tuple[pd.DataFrame, list[int], list[str]]:
    """Read an edge list. The first two names in each line are the nodes of an edge.

    The separator is the first of tab, semicolon, comma and bar that separates two names in every
    line, else white space. A decimal comma is not a separator. Names in double quotes may contain
    separators. Lines that begin with ``#`` or ``%`` and white space are comments, and so is the
    header of a MatrixMarket file. The first line may be a header with the names of the columns.

    Args:
        path: the file.
        encoding: encoding of the file; None for the encoding of the byte order mark, or UTF-8 if
            there is none.

    Returns:
        A table of the columns source and target; the line of each row, from 1; and sentences about
        the decisions that were made.

    Raises:
        GraphError: the file is not a text in that encoding, a line names fewer than two nodes, or
            lines have different separators.
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
    for line, words in zip(lines, rows):
        _check(line, words, separator)
    if _is_header(rows):
        notes.append(f"Line {lines[0].number} is read as a header: {lines[0].text!r}.")
        lines, rows = lines[1:], rows[1:]
    first = " - ".join(map(repr, rows[0][:2]))
    notes.append(f"Names are separated by {SEPARATORS[separator]}; the first edge is {first}.")
    marked = next((name for words in rows for name in words[:2] if " #" in name), None)
    if marked is not None:
        notes.append(
            f"Some names contain '#', for example {marked!r}: it marks a comment only at "
            "the start of a line."
        )
    rest = next((words[2] for words in rows if len(words) > 2), None)
    if rest is not None:
        notes.append(f"Not used: the text after the two names of an edge, for example {rest!r}.")
    if any(line.attributed for line in lines):
        notes.append("Not used: the attributes of the edges, in braces.")
    table = pd.DataFrame([words[:2] for words in rows], columns=["source", "target"], dtype=object)
    return table, [line.number for line in lines], notes


def _content(texts: Sequence[str]) -> tuple[list[_Line], list[str]]:
    """Return the lines that contain edges, and a note on the number of comment lines."""
    lines: list[_Line] = []
    comments, size = 0, False
    for number, text in enumerate(map(str.strip, texts), 1):
        if not text:
            continue
        if not lines and text.lower().startswith(MATRIX_MARKET):
            comments, size = comments + 1, True
        elif text[0] in "#%" and COMMENT.match(text):
            comments += 1
        elif size:
            # In a MatrixMarket file, the first line contains the size of the matrix.
            comments, size = comments + 1, False
        else:
            match = ATTRIBUTES.search(text) if "{" in text else None
            names = text[: match.start()] if match else text
            lines.append(_Line(number, names.strip(), match is not None))
    if not comments:
        return lines, []
    sentence = (
        "1 line is a comment: it is"
        if comments == 1
        else f"{comments:,} lines are comments: they are"
    )
    return lines, [f"{sentence} not read."]


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
        some = [line for line in lines if separator in line.text and not _is_decimal(line)]
        for line in some:
            cells = _cells(line, separator)
            if len(cells) > 1 and cells[:2] != _words(line)[:2]:
                other = next(
                    one for one in lines if one not in some or len(_cells(one, separator)) < 2
                )
                raise GraphError(
                    f"all lines must have the same separator; line {line.number} has "
                    f"{SEPARATORS[separator]}, {line.text!r}, and line {other.number} does "
                    f"not, {other.text!r}"
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
        raise GraphError(f"line {line.number} must have two node names; got {line.text!r}")
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


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the first row is a header, which names the columns."""
    if len(rows) < 2:
        return False
    first, others = rows[0], rows[1:]
    ends = [name.lstrip("#%").strip().lower() for name in first[:2]]
    used = {name for words in others for name in words[:2]}
    if ends[0] in SOURCES and ends[1] in DESTINATIONS and not used & set(first[:2]):
        return True
    if used & set(first[:2]):
        return False
    is_number = [classify(name).kind == "plain" for name in first[:3]]
    if not any(is_number[:2]) and all(name.isdigit() for name in used):
        return True
    return (
        len(first) == 3
        and not is_number[2]
        and all(len(words) == 3 and classify(words[2]).kind == "plain" for words in others)
    )
