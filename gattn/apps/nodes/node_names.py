"""Reader of a table of nodes, which finds the column that contains the names of the nodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import GraphError, at_row, check_names
from gattn.apps.nodes.name_columns import as_names, column_title, counts_rows
from gattn.apps.nodes.values import flat_table

__all__ = ["named_nodes"]

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


@dataclass(frozen=True)
class _NameColumn:
    """Column that may contain the names of the nodes.

    Attributes:
        title: description of the column for messages.
        place: position of the column in the table; None for the index of a data frame.
        values: the n values of the column, as names.
    """

    title: str
    place: int | None
    values: pd.Series

    def share(self, ends: NDArray) -> int:
        """Count the names in ``ends`` that occur in this column.

        The result is 0 if the column has missing or repeated values, because names must be unique.
        """
        if self.values.isna().any() or self.values.duplicated().any():
            return 0
        return int(np.isin(ends.astype(str), self.values.to_numpy(str)).sum())


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
    check_names(list(names), f", which are in column {column!r},", lines=lines)


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
    usual = _NameColumn(
        f"column {columns[others[0]]!r}", others[0], as_names(nodes.iloc[:, others[0]])
    )
    rows = [
        _NameColumn(f"column {columns[i]!r}", i, as_names(nodes.iloc[:, i])) for i in numbering
    ] or [_NameColumn("the index of the table", None, as_names(nodes.index.to_series()))]
    count = usual.share(ends)
    best = max(rows, key=lambda row: row.share(ends))
    # The index of a table that was read from a file only numbers the rows. Therefore an index is
    # used as the nodes' names only if it contains all names that occur in the edges.
    least = len(ends) if best.place is None else count + 1
    if best.share(ends) < max(least, count + 1):
        return usual.place, [f"The names of the nodes are in {usual.title}."]
    return best.place, [
        f"The names of the nodes are in {best.title}: it has {best.share(ends):,} of the "
        f"{len(ends):,} names in the edges, and {usual.title} has {count:,}."
    ]
