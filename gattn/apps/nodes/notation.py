"""Conversion of texts to numbers; decimal commas and thousands separators are supported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from gattn.apps.nodes.attributed import AttributedGraph, Where
from gattn.apps.nodes.values import as_texts
from gattn.apps.tables.numbers import NumberFormat, Pattern, classify, read_numbers

SAMPLE = 500
POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
COMMAS = (NumberFormat(decimal=","), NumberFormat(decimal=",", thousands="."))
"""Formats of the numbers in a table that is separated by semicolons."""


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
    formats = [style] if style else COMMAS
    table, notes = _numbers(graph.table, formats if style or commas else (), style is not None)
    edges, edge_notes = graph.edge_table, []
    if edges is not None:
        some = formats if style or edge_commas else ()
        columns, edge_notes = _numbers(edges.table, some, style is not None, " of the edges")
        edges = replace(edges, table=columns)
    if not notes and not edge_notes:
        return graph
    return replace(graph.with_notes(*notes, *edge_notes), table=table, edge_table=edges)


def _numbers(
    original: pd.DataFrame, formats: Sequence[NumberFormat], is_chosen: bool, owner: str = ""
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table in which text columns that contain only numbers are converted, and notes.

    Args:
        original: the table.
        formats: the formats to try.
        is_chosen: True if the user chose the format, which then also reads numbers with a point.
        owner: follows the name of a column in the notes.
    """
    table, notes = original.copy(), []
    pointed: list[str] = []
    with_commas = False
    for name in original.columns:
        values = original[name]
        if not formats or not all(isinstance(value, str) for value in values.dropna()):
            continue
        texts = as_texts(values)
        if not looks_numeric(texts):
            continue
        plain = read_numbers(texts)
        tried = formats if is_chosen or plain.unread else ()
        chosen = next((one for one in tried if not read_numbers(texts, one).unread), None)
        if chosen is None:
            point = next((text for text in texts if POINTED.fullmatch(text.strip())), None)
            if point is not None and not plain.unread:
                pointed.append(f"Column {name!r}{owner} has points, for example {point!r}")
            continue
        column = read_numbers(texts, chosen)
        if np.array_equal(column.values, plain.values, equal_nan=True):
            continue
        table[name] = column.values
        with_commas = with_commas or chosen.decimal == ","
        differ = (column.values != plain.values) & np.isfinite(column.values)
        place = int(differ.argmax())
        notes.append(
            f"Column {name!r}{owner} is read with another number format: "
            f"{texts[place].strip()!r} is {column.values[place]:g}."
        )
    if with_commas:
        notes += [
            f"{words}, but other columns have decimal commas: the points are read as decimal "
            "points. If they separate thousands, use --decimal , and --thousands ."
            for words in pointed
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

    >>> describe_patterns(read_numbers(["1", ">10"]).patterns, "at node {}".format, "write numbers")
    "1 cell with a relation, which marks a censored value, for example '>10' at node 1: write \
numbers"
    """
    patterns = list(patterns)
    sentences = "; ".join(pattern.sentence(where) for pattern in patterns)
    return sentences + f": {remedy}" * any(bool(remedy) and not one.options for one in patterns)
