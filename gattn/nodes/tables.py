"""Tables of edges and nodes: which columns name the ends of edges and the nodes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.nodes.attributed import (
    AttributedGraph,
    GraphError,
    LeftOut,
    at_row,
    attributed_graph,
    check_names,
    edges_by_name,
)
from gattn.nodes.values import as_numbers, flat_table

__all__ = ["DESTINATIONS", "SOURCES", "from_tables", "not_read", "row_number_notes"]

SOURCES = (
    *("source", "src", "from", "u", "node1", "citing", "fromnodeid", "source_id", "sourceid"),
    *("from_id", "node_1", "id1", "id_1"),
)
DESTINATIONS = (
    *("target", "dst", "to", "v", "node2", "cited", "destination", "tonodeid", "target_id"),
    *("targetid", "to_id", "node_2", "id2", "id_2"),
)
IDS = ("id", "node", "node_id", "name", "paper", "paper_id")
UNNAMED = re.compile(r"(unnamed: \d+(\.\d+)?(_level_\d+)?)?", re.IGNORECASE)
"""The name of a column of row numbers: pandas and R write it empty, pandas reads it so."""
RESET = ("index", "level_0")
"""The name of a column of row numbers after ``reset_index`` of pandas."""
EXAMPLES = 3


def from_tables(
    edges: pd.DataFrame,
    nodes: pd.DataFrame | None,
    *,
    directed: bool = False,
    lines: Sequence[int] | None = None,
    node_lines: Sequence[int] = (),
    notes: Sequence[str] = (),
) -> AttributedGraph:
    """Read a table of edges and, where there is one, a table of nodes.

    The ends of an edge are the columns ``source`` and ``target`` (or ``src`` and ``dst``, ``from``
    and ``to``), else the first two. The name of a node is the column ``id`` (or ``node``,
    ``name``), else the table's index where that has a name, else the first column. A column of row
    numbers, as ``to_csv`` of pandas writes first, is neither: one without a name (or ``Unnamed:
    0``) of different whole numbers, or one called ``index`` or ``level_0`` that counts 0, 1, 2, ...
    It names the nodes only where it names more of the edges' ends than the column beside it. Edges
    to nodes that the table does not have are left out.

    Args:
        edges: a row an edge.
        nodes: a row a node, in order; without it the nodes are those of the edges.
        directed: whether messages follow the edges' direction alone.
        lines: of the edges in their file.
        node_lines: of the nodes in their file; empty where there are no lines.
        notes: what was decided before.

    Returns:
        The graph.

    Raises:
        GraphError: fewer than two columns of edges, a header that is an edge, a name that is
            missing or doubled, or no edge that joins two nodes of the table.
    """
    ends, decisions = _ends(edges)
    way = "follow them" if directed else "go both ways"
    first, second = ends.columns
    notes = [*notes, f"Edges lead from column {first!r} to column {second!r}; messages {way}."]
    notes += decisions
    source, destination = _as_names(ends[first]), _as_names(ends[second])
    named = pd.unique(pd.concat([source, destination]).dropna())
    unreadable: dict[Hashable, str] = {}
    if nodes is None:
        names, table = list(named), pd.DataFrame(index=range(len(named)))
    else:
        names, table, decisions, unreadable = _named_nodes(nodes, named, node_lines)
        notes += decisions
    _check_header(first, second, names)
    pairs, left_out = edges_by_name(names, list(source), list(destination), lines)
    if left_out:
        absent = "" if nodes is None else _absent(named, names)
        if nodes is not None and not pairs.shape[1]:
            raise GraphError(
                f"no edge joins two nodes of the table: the first, {left_out[0].text}, does not "
                f"since {left_out[0].reason}; the table's first node is "
                f"{names[0] if names else None!r}{absent and f'. {absent}'}"
                f"{_better(table, named, names)}"
            )
        notes.append(_told_left_out(left_out, len(edges), absent) + _alike(named, names))
    return attributed_graph(
        names, pairs, table, directed=directed, notes=notes, left_out=left_out,
        unreadable=unreadable, lines=node_lines,
    )  # fmt: skip


def not_read(attributes: Iterable[Hashable]) -> list[str]:
    """A note on what edges hold, where they hold something."""
    names = ", ".join(map(repr, attributes))
    return [f"Not read of the edges: {names}."] if names else []


def _ends(edges: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The two columns of the ends, and what was decided."""
    if edges.shape[1] < 2:
        raise GraphError(f"a table of edges needs two columns; got {list(edges.columns)}")
    places = range(edges.shape[1])
    is_index = [_counts_rows(edges.columns[i], edges.iloc[:, i]) for i in places]
    left = [i for i in places if not is_index[i]]
    if len(left) < 2:
        left, is_index = list(places), [False] * edges.shape[1]
    last = _place(edges, left, DESTINATIONS, None)  # where only this one has a usual name
    first = _place(edges, left, SOURCES, next(i for i in left if i != last))
    others = [i for i in left if i != first]
    second = _place(edges, others, DESTINATIONS, others[0])
    names = list(edges.columns)
    for name in (names[first], names[second]):
        if names.count(name) > 1:
            raise GraphError(f"columns of edges must have different names; got {names}")
    notes = [
        f"Column {names[i]!r} of the edges numbers the rows, as pandas writes its index: it is not "
        "read."
        for i in places
        if is_index[i]
    ]
    rest = dict.fromkeys(names[i] for i in others if i != second)
    return edges.iloc[:, [first, second]], [*notes, *not_read(rest)]


def _check_header(first: Hashable, second: Hashable, names: Sequence[Hashable]) -> None:
    """Raise where the header of a table of edges is an edge."""
    usual = {*SOURCES, *DESTINATIONS} & {str(end).strip().lower() for end in (first, second)}
    if usual:
        return
    texts = [end for end in (first, second) if isinstance(end, str)]
    if {first, second} <= set(names):
        raise GraphError(
            f"a table of edges begins with a line of names, as source,target; this one with "
            f"{first!r} and {second!r}, which are nodes"
        )
    if len(texts) == 2 and all(_is_number(text) for text in texts):
        raise GraphError(
            f"a table of edges begins with a line of names, as source,target; this one with "
            f"{first!r} and {second!r}, which are numbers"
        )


@dataclass(frozen=True)
class _Names:
    """A column that may name the nodes.

    Attributes:
        title: the column, in words.
        place: its position in the table; None for the index of a data frame.
        values: n names.
    """

    title: str
    place: int | None
    values: pd.Series

    def share(self, ends: NDArray) -> int:
        """Count the names in the edges that the column holds; 0 if it cannot name nodes."""
        if self.values.isna().any() or self.values.duplicated().any():
            return 0
        return int(np.isin(ends.astype(str), self.values.to_numpy(str)).sum())


def _named_nodes(
    nodes: pd.DataFrame, ends: NDArray, lines: Sequence[int]
) -> tuple[list[Hashable], pd.DataFrame, list[str], dict[Hashable, str]]:
    """The names of nodes, their other attributes, what was decided, and unreadable attributes."""
    if nodes.index.name is not None and nodes.index.name not in nodes.columns:
        nodes = nodes.reset_index()
    if not nodes.shape[1]:
        raise GraphError("a table of nodes needs a column of their names; it has no column")
    columns, places = list(nodes.columns), list(range(nodes.shape[1]))
    numbering = [i for i in places if _counts_rows(columns[i], nodes.iloc[:, i])]
    others = [i for i in places if i not in numbering]
    place = _place(nodes, others, IDS, None)
    if place is None:
        moved = [i for i in others if _is_moved_index(columns[i], nodes.iloc[:, i])]
        rest = [i for i in others if i not in moved]
        place, notes_on_names = _choose_names(nodes, rest, [*numbering, *moved], ends)
    else:
        notes_on_names = [f"Nodes are named by column {columns[place]!r}."]
    if place is None:
        names = _as_names(nodes.index.to_series())
    else:
        names = _as_names(nodes.iloc[:, place])
        _check_names(names, columns, place, lines)
    notes_on_names += [
        f"Column {columns[i]!r} of the nodes numbers the rows, as pandas writes its index: it is "
        "not read."
        for i in numbering
        if i != place
    ]
    rest = [i for i in others if i != place]
    table, notes, unreadable = flat_table(nodes.iloc[:, rest].reset_index(drop=True), list(names))
    return list(names), table, [*notes_on_names, *notes], unreadable


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
        raise GraphError(f"every node needs a name; column {column!r} has none {where}")
    check_names(list(names), f", which column {column!r} holds,", lines=lines)


def _choose_names(
    nodes: pd.DataFrame, others: Sequence[int], numbering: Sequence[int], ends: NDArray
) -> tuple[int | None, list[str]]:
    """The column that names the nodes where none is called so, None for the data frame's index."""
    columns = list(nodes.columns)
    if not others:
        return numbering[0], [f"Nodes are named by column {columns[numbering[0]]!r}."]
    usual = _Names(f"column {columns[others[0]]!r}", others[0], _as_names(nodes.iloc[:, others[0]]))
    rows = [
        _Names(f"column {columns[i]!r}", i, _as_names(nodes.iloc[:, i])) for i in numbering
    ] or [_Names("the index of the table", None, _as_names(nodes.index.to_series()))]
    count = usual.share(ends)
    best = max(rows, key=lambda row: row.share(ends))
    least = len(ends) if best.place is None else count + 1  # a file has no index beside its columns
    if best.share(ends) < max(least, count + 1):
        return usual.place, [f"Nodes are named by {usual.title}."]
    return best.place, [
        f"Nodes are named by {best.title}: it holds {best.share(ends):,} of the {len(ends):,} "
        f"names that edges use, and {usual.title} {count:,}."
    ]


def _counts_rows(name: Hashable, column: pd.Series) -> bool:
    """Whether a column numbers the rows of its table: see :func:`from_tables`."""
    title = "" if name is None else str(name).strip()
    is_unnamed, is_reset = bool(UNNAMED.fullmatch(title)), title.lower() in RESET
    if not (is_unnamed or is_reset) or not len(column):
        return False
    numbers = as_numbers(column)
    if np.isnan(numbers).any() or (numbers % 1 != 0).any() or (numbers < 0).any():
        return False
    if is_unnamed:
        return len(np.unique(numbers)) == len(numbers)
    return bool((numbers == np.arange(len(numbers))).all())


def _is_moved_index(name: Hashable, column: pd.Series) -> bool:
    """Whether a column holds row numbers in another order, as after sorting and reset_index."""
    if str(name).strip().lower() not in RESET or not len(column):
        return False
    numbers = as_numbers(column)
    is_count = not np.isnan(numbers).any() and (numbers % 1 == 0).all() and (numbers >= 0).all()
    return bool(is_count) and len(np.unique(numbers)) == len(numbers)


def row_number_notes(graph: AttributedGraph) -> dict[Hashable, str]:
    """Say which attributes hold row numbers: they are called ``index`` or ``level_0``.

    Args:
        graph: the graph.

    Returns:
        A sentence for each attribute of different whole numbers from 0 on, by its name; empty where
        there is none.
    """
    return {
        name: f"Column {name!r} of the nodes holds a different whole number for every node, as "
        "reset_index of pandas writes row numbers: it is no feature. Name it with --features "
        f"{name} to read it as one."
        for name in graph.table.columns
        if _is_moved_index(name, graph.table[name])
    }


def _told_left_out(left_out: Sequence[LeftOut], edges: int, absent: str) -> str:
    """A note on edges that were left out."""
    why = "whose ends are not in the table of nodes" if absent else "which do not name two nodes"
    note = (
        f"{len(left_out):,} edge{'s' * (len(left_out) > 1)} left out of {edges:,}, {why}; the "
        f"first: {left_out[0].text} ({left_out[0].reason})."
    )
    return f"{note} {absent}" if absent else note


def _better(table: pd.DataFrame, ends: NDArray, names: Sequence[Hashable]) -> str:
    """A hint at the same names written differently, or at a column with most of the absent names.

    A column with an empty cell or with equal cells cannot name the nodes.
    """
    if alike := _alike(ends, names):
        return alike
    absent = np.array([end for end in ends.tolist() if end not in set(names)], dtype=object)
    shares = {
        name: _Names("", None, _as_names(table[name])).share(absent) for name in table.columns
    }
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None or 2 * shares[best] <= len(absent):
        return ""
    return (
        f" Column {best!r} holds {shares[best]:,} of the {len(absent):,} absent names: call it "
        "'id' if it names the nodes."
    )


def _alike(ends: NDArray, names: Sequence[Hashable]) -> str:
    """A sentence on names that the edges and the table of nodes write differently; else empty."""
    node_names = set(names)
    absent = [str(end) for end in ends.tolist() if end not in node_names]
    for form, reason in (
        (_number_form, "are the same number"),
        (str.casefold, "are the same name"),
    ):
        by_form = {form(str(name)): str(name) for name in reversed(names)}
        by_form.pop("", None)
        pairs = [(end, by_form[form(end)]) for end in absent if form(end) in by_form]
        if pairs:
            edge, node = pairs[0]
            others = f" ({len(pairs):,} names of the edges differ so)" * (len(pairs) > 1)
            return (
                f" {edge!r} in the edges and {node!r} in the table {reason} written differently"
                f"{others}: write the names alike."
            )
    return ""


def _number_form(name: str) -> str:
    """One text for all ways to write a finite number; empty for a name that is no number."""
    try:
        number = Decimal(name)
    except InvalidOperation:
        return ""
    if not number.is_finite() or "_" in name:
        return ""
    # Decimal.normalize rounds to 28 digits, which would make long names equal.
    sign, digits, exponent = number.as_tuple()
    whole = "".join(map(str, digits)).lstrip("0")
    short = whole.rstrip("0")
    return f"{sign}:{short}:{int(exponent) + len(whole) - len(short)}" if short else "0"


def _absent(ends: NDArray, names: Sequence[Hashable]) -> str:
    """A sentence on the names that edges use and the table of nodes does not have."""
    node_names = set(names)
    strange = [name for name in ends.tolist() if name not in node_names]
    if not strange:
        return ""
    shown = ", ".join(map(repr, strange[:EXAMPLES])) + ", ..." * (len(strange) > EXAMPLES)
    are = "are" if len(strange) > 1 else "is"
    return (
        f"Of the {len(ends):,} names that edges use {len(strange):,} {are} not in the table of "
        f"nodes: {shown}."
    )


def _place(
    table: pd.DataFrame, places: Sequence[int], usual: Sequence[str], otherwise: int | None
) -> int:
    """The position of the column that has one of some names, among some positions."""
    lower = {str(table.columns[i]).strip().lower(): i for i in reversed(places)}
    return next((lower[name] for name in usual if name in lower), otherwise)  # pyright: ignore[reportReturnType]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_names(column: pd.Series) -> pd.Series:
    """Names as text, as two files have them alike: 7, 7.0 of a column with gaps, and "7"."""
    column = column.reset_index(drop=True)
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)
