"""Conversion of texts to numbers; decimal commas and thousands separators are supported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gattn.apps.nodes.attributed import AttributedGraph, Where
from gattn.apps.nodes.values import as_texts
from gattn.apps.tables.numbers import (
    NumberColumn,
    NumberFormat,
    Pattern,
    classify,
    command_option,
    python_argument,
    read_numbers,
)

__all__ = ["describe_patterns", "looks_numeric", "with_numbers"]

OPTIONS = ("thousands", "decimal", "comma", "point")
"""Kinds of numbers that an option of the commands can read."""
SAMPLE = 500
POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")


def with_numbers(
    graph: AttributedGraph,
    style: NumberFormat | None = None,
    *,
    commas: bool = False,
    edge_commas: bool = False,
) -> AttributedGraph:
    """Convert those text columns of a graph that contain only numbers.

    Args:
        graph: the graph.
        style: format of the numbers; None to leave numbers with a decimal point as texts.
        commas: True to convert columns of numbers with decimal commas if ``style`` is None. This is
            used for tables whose separator is a semicolon.
        edge_commas: the same for the columns of the edges.

    Returns:
        The graph, with a note for each column that was converted.

    >>> import pandas as pd
    >>> from gattn.apps.nodes.reading import read_graph
    >>> edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    >>> nodes = pd.DataFrame({"id": ["a", "b"], "size": ["0,5", "2,25"]})
    >>> with_numbers(read_graph((edges, nodes)), commas=True).table["size"].tolist()
    [0.5, 2.25]
    """
    table, notes = _numbers(graph.table, style, commas=commas)
    edges, edge_notes = graph.edge_table, []
    if edges is not None:
        columns, edge_notes = _numbers(
            edges.table, style, commas=edge_commas, owner=" of the edges"
        )
        edges = replace(edges, table=columns)
    if not notes and not edge_notes:
        return graph
    return replace(graph.with_notes(*notes, *edge_notes), table=table, edge_table=edges)


def _numbers(
    original: pd.DataFrame, style: NumberFormat | None, *, commas: bool, owner: str = ""
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table in which text columns that contain only numbers are converted, and notes on
    them.

    ``owner`` follows the name of a column in the notes.
    """
    table, notes = original.copy(), []
    pointed: list[tuple[object, str]] = []
    with_commas = False
    for name in original.columns:
        values = original[name]
        if not all(isinstance(value, str) for value in values.dropna()):
            continue
        texts = as_texts(values)
        is_percent = all(text.strip().endswith("%") for text in texts if text) and any(texts)
        cells = [text.strip().removesuffix("%") for text in texts] if is_percent else texts
        plain = read_numbers(cells) if looks_numeric(cells) else None
        if plain is None:
            continue
        column, words = plain, "a percent sign"
        if style is not None or (commas and plain.unread):
            chosen = style or _with_comma(plain)
            column = read_numbers(cells, chosen)
            words = _words(chosen)
            with_commas = with_commas or (chosen.decimal == "," and not column.unread)
        if not plain.unread and (style is None or column.unread):
            point = next((text for text in cells if POINTED.fullmatch(text.strip())), None)
            if point is not None:
                pointed.append((name, point))
            if style is not None:
                notes.append(
                    f"Column {name!r}{owner} has numbers with a decimal point: they are read "
                    f"with a decimal point instead of {words}."
                )
                words = "a decimal point"
            column = plain
        is_same = np.array_equal(column.values, plain.values, equal_nan=True)
        if column.unread or (is_same and not is_percent):
            continue
        table[name] = column.values
        differ = column.values != (np.nan if is_percent else plain.values)
        place = int((differ & np.isfinite(column.values)).argmax())
        notes.append(
            f"Column {name!r}{owner} is read with {words}: {texts[place].strip()!r} is "
            f"{column.values[place]:g}."
        )
    if with_commas:
        notes += [
            f"Column {name!r}{owner} has points, for example {point!r}, but other columns "
            "have decimal commas: the points are read as decimal points. If they separate "
            "thousands, use --decimal , and --thousands ."
            for name, point in pointed
        ]
    return table, notes


def looks_numeric(texts: Sequence[str]) -> bool:
    """Return True if at least a third of the texts look like numbers. Of long columns, 500 texts
    are examined.

    >>> looks_numeric(["0,5", "", "7 %"]), looks_numeric(["a paper on graphs", "on sets"])
    (True, False)
    """
    some = [text for text in texts if text.strip()]
    some = some[:: 1 + len(some) // SAMPLE]
    kinds = [classify(text).kind for text in some]
    return 3 * sum(kind != "text" for kind in kinds) >= len(kinds) > 0


def describe_patterns(patterns: Iterable[Pattern], where: Where, remedy: str = "") -> str:
    """Describe the cells that are not plain numbers, and name the option with which they can be
    read.

    Args:
        patterns: patterns of the cells.
        where: function that describes the position of a node.
        remedy: advice on cells for which there is no option; empty for no advice.

    Returns:
        For each pattern an example and the option that reads it; at the end the remedy, if a
        pattern has no option.

    >>> describe_patterns(read_numbers(["1", "0,5"]).patterns, "at node {}".format, "write numbers")
    "1 cell looks like a number with a decimal comma, for example '0,5' at node 1 \
(--decimal , / decimal=',' reads it)"
    >>> describe_patterns(read_numbers(["1", ">10"]).patterns, "at node {}".format, "write numbers")
    "1 cell is a censored value, for example '>10' at node 1: write numbers"
    """
    patterns = list(patterns)
    sentences = [
        pattern.sentence(where, _option if pattern.kind in OPTIONS else None)
        for pattern in patterns
    ]
    has_option = all(pattern.kind in OPTIONS and pattern.settings for pattern in patterns)
    return "; ".join(sentences) + f": {remedy}" * (bool(remedy) and not has_option)


def _option(name: str, value: str) -> str:
    return f"{command_option(name, value)} / {python_argument(name, value)}"


def _with_comma(column: NumberColumn) -> NumberFormat:
    """Return the number format with a decimal comma that fits a column best."""
    ways = [dict(way) for pattern in column.patterns for way in pattern.settings]
    thousands = next((way.get("thousands", "") for way in ways if way.get("decimal") == ","), "")
    return NumberFormat(decimal=",", thousands=thousands)


def _words(style: NumberFormat) -> str:
    """Return the options and arguments that set the decimal separator and the thousands
    separator.
    """
    signs = [("decimal", style.decimal)] * (style.decimal != "." or not style.thousands)
    signs += [("thousands", style.thousands)] * bool(style.thousands)
    return " ".join(_option(*sign) for sign in signs)
