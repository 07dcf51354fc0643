"""Columns of names and of row numbers in tables of nodes and edges."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import GraphError, at_row, check_names
from gattn.apps.nodes.values import are_distinct_integers, as_numbers, flat_table

UNNAMED = re.compile(r"(unnamed: \d+(\.\d+)?(_level_\d+)?)?", re.IGNORECASE)
"""Pattern for the names of row number columns. pandas and R write such a column without a name,
and pandas reads it as ``Unnamed: 0``.
"""
GROUP = re.compile(r"\([^()]*\)$")
ROLES = ("id", "start_id", "end_id", "type", "label")
"""Ends of names of columns with which Neo4j marks names, types and labels."""
RESET = ("index", "level_0")
"""Names that pandas' ``reset_index`` gives to row number columns."""


def may_count_rows(name: Hashable) -> bool:
    """Return True if a column with this name is skipped when its values number the rows."""
    title = "" if name is None else str(name).strip()
    return bool(UNNAMED.fullmatch(title)) or title.lower() in RESET


def counts_rows(name: Hashable, column: pd.Series) -> bool:
    """Return True if a column contains the row numbers of a table, which may have been sorted.

    These are different whole numbers in a column that has such a name.
    """
    if not may_count_rows(name) or not len(column):
        return False
    numbers = as_numbers(column)
    return are_distinct_integers(numbers) and bool((numbers >= 0).all())


def column_title(name: Hashable) -> str:
    """Return the name of a column in lower case, as the reader compares it with usual names.

    The type that Neo4j writes after a colon, and the group in parentheses, are left out.

    >>> column_title(":START_ID(Person)"), column_title("personId:ID"), column_title("age:int")
    ('start_id', 'id', 'age')
    """
    title = GROUP.sub("", str(name).strip().lower()).lstrip("#% ")
    head, _, tail = title.rpartition(":")
    return tail if tail in ROLES or not head else head


def as_names(column: pd.Series) -> pd.Series:
    """Convert names to texts that can be compared between files: both 7 and 7.0 become "7"."""
    column = column.reset_index(drop=True)
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)


IDS = ("id", "_id", "node", "node_id", "name", "paper", "paper_id")


def named_nodes(
    nodes: pd.DataFrame, ends: NDArray, lines: Sequence[int]
) -> tuple[list[Hashable], pd.DataFrame, list[str], dict[Hashable, str]]:
    """Return the nodes' names, their attributes, notes, and the attributes that cannot be read.

    Args:
        nodes: table with a row for each node.
        ends: different names of nodes in the edges.
        lines: lines of the nodes in their file; empty if there is no file.
    """
    if nodes.index.name is not None and nodes.index.name not in nodes.columns:
        nodes = nodes.reset_index()
    if not nodes.shape[1]:
        raise GraphError(
            "a table of nodes must have a column of names; got a table without columns"
        )
    columns, places = list(nodes.columns), list(range(nodes.shape[1]))
    numbering = [i for i in places if counts_rows(columns[i], nodes.iloc[:, i])]
    others = [i for i in places if i not in numbering]
    titles = {column_title(columns[i]): i for i in reversed(others)}
    place = next((titles[name] for name in IDS if name in titles), None)
    if place is None:
        place, notes_on_names = _choose_names(nodes, others, numbering, ends)
    else:
        notes_on_names = [f"The names of the nodes are in column {columns[place]!r}."]
    if place is None:
        names = as_names(nodes.index.to_series())
    else:
        names = as_names(nodes.iloc[:, place])
        _check_names(names, columns, place, lines)
    notes_on_names += [
        f"Column {columns[i]!r} of the nodes contains row numbers, like the index that pandas "
        "writes: it is not used."
        for i in numbering
        if i != place
    ]
    rest = [i for i in others if i != place]
    table, notes, unreadable = flat_table(nodes.iloc[:, rest].reset_index(drop=True), list(names))
    return list(names), table, [*notes_on_names, *notes], unreadable


def _count_ends(values: pd.Series, ends: NDArray) -> int:
    """Count the names in ``ends`` that occur among the values of a column.

    The result is 0 if the column has missing or repeated values, because names must be unique.
    """
    names = as_names(values)
    if names.isna().any() or names.duplicated().any():
        return 0
    return int(np.isin(ends.astype(str), names.to_numpy(str)).sum())


def _check_names(
    names: pd.Series, columns: Sequence[Hashable], place: int, lines: Sequence[int]
) -> None:
    column = columns[place]
    if list(columns).count(column) > 1:
        raise GraphError(
            f"attributes must have different names; several are called {column!r}, which names "
            "the nodes"
        )
    if names.isna().any():
        row = int(np.flatnonzero(names.isna())[0])
        where = f"in line {lines[row]}" if lines else at_row(row)
        raise GraphError(f"every node must have a name; column {column!r} is empty {where}")
    check_names(
        list(names), f", which are in column {column!r} of the table of nodes,", lines=lines
    )


def _choose_names(
    nodes: pd.DataFrame, others: Sequence[int], numbering: Sequence[int], ends: NDArray
) -> tuple[int | None, list[str]]:
    """Return the index of the column that contains the nodes' names, if no column is called ``id``.

    The index is None if the names are in the index of the data frame. The second result is a note
    on the choice.
    """
    columns = list(nodes.columns)
    if not others:
        return numbering[0], [f"The names of the nodes are in column {columns[numbering[0]]!r}."]
    usual = others[0]
    counts: dict[int | None, int] = {
        place: _count_ends(nodes.iloc[:, place], ends) for place in (usual, *numbering)
    }
    if not numbering:
        counts[None] = _count_ends(nodes.index.to_series(), ends)
    best = max(numbering or [None], key=lambda place: counts[place])
    # The index of a table that was read from a file only numbers the rows. Therefore an index is
    # used as the nodes' names only if it contains all names that occur in the edges.
    least = len(ends) if best is None else 0
    if counts[best] < max(least, counts[usual] + 1):
        return usual, [f"The names of the nodes are in column {columns[usual]!r}."]
    title = "the index of the table" if best is None else f"column {columns[best]!r}"
    return best, [
        f"The names of the nodes are in {title}: it has {counts[best]:,} of the "
        f"{len(ends):,} names in the edges, and column {columns[usual]!r} has {counts[usual]:,}."
    ]
