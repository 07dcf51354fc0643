"""Reader of edge and node tables, which finds the columns that contain the names of nodes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.nodes.attributed import (
    AttributedGraph,
    GraphError,
    LeftOut,
    at_row,
    attributed_graph,
    check_names,
    left_out_edge,
)
from gattn.nodes.edge_table import EdgeTable
from gattn.nodes.values import as_numbers, flat_table

__all__ = [
    "DESTINATIONS",
    "SOURCES",
    "NamedEnds",
    "check_header",
    "choose_ends",
    "counts_rows",
    "from_tables",
    "graph_of_ends",
    "may_count_rows",
    "named_ends",
    "named_nodes",
    "row_number_notes",
]

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
"""Pattern for the names of row number columns. pandas and R write such a column without a name,
and pandas reads it as ``Unnamed: 0``.
"""
RESET = ("index", "level_0")
"""Names that pandas' ``reset_index`` gives to row number columns."""
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
    """Build a graph from a table of edges and, optionally, a table of nodes.

    The two nodes of an edge are in the columns ``source`` and ``target`` (or ``src`` and ``dst``,
    ``from`` and ``to``), else in the first two columns. The name of a node is in the column ``id``
    (or ``node``, ``name``), else in the table's index if the index has a name, else in the first
    column.

    A column of row numbers, which ``to_csv`` of pandas writes first, is skipped: a column of
    different whole numbers without a name (or called ``Unnamed: 0``), or a column called ``index``
    or ``level_0`` that counts 0, 1, 2, ... Such a column contains the names of the nodes only if
    more of the names in the table of edges occur in it than in the next column.

    Edges to nodes that are not in the table of nodes are left out.

    Args:
        edges: table with a row for each edge.
        nodes: table with a row for each node, in order; None if the nodes are the ends of edges.
        directed: True if messages follow the direction of edges only.
        lines: lines of the edges in their file.
        node_lines: lines of the nodes in their file; empty if they were not read from a file.
        notes: sentences about earlier decisions of the readers.

    Returns:
        The graph.

    Raises:
        GraphError: the table of edges has fewer than two columns, its header is an edge, the name
            of a node is missing or occurs twice, or no edge joins two nodes of the table.
    """
    return graph_of_ends(
        named_ends(edges), nodes, directed=directed, lines=lines, node_lines=node_lines, notes=notes
    )


def named_ends(edges: pd.DataFrame, ends: tuple[int, int] | None = None) -> NamedEnds:
    """Return the names of the nodes in a table of edges.

    Args:
        edges: table with a row for each edge.
        ends: positions of the columns of the sources and of the destinations; None to choose them
            like :func:`from_tables`.

    Raises:
        GraphError: the table has fewer than two columns.
    """
    if ends is None:
        columns, attributes, decisions = _ends(edges)
    else:
        rest = [place for place in range(edges.shape[1]) if place not in ends]
        columns, attributes, decisions = edges.iloc[:, list(ends)], edges.iloc[:, rest], []
    first, second = columns.columns
    source, destination = (_Ends.of(columns.iloc[:, place]) for place in (0, 1))
    return NamedEnds((first, second), source, destination, attributes, tuple(decisions))


@dataclass(frozen=True, eq=False)
class _Ends:
    """Names of the nodes at one end of the edges. Each distinct name is stored once.

    Attributes:
        codes: [e] int, the index of each edge's name in ``names``; -1 for an edge without a name.
        names: the different names, in the order of their first edge.
    """

    codes: NDArray
    names: NDArray

    @classmethod
    def of(cls, column: pd.Series, codes: NDArray | None = None) -> _Ends:
        """Return the names in one column.

        Args:
            column: the name of each edge's node or, with ``codes``, different values.
            codes: [e] int, index in ``column`` of each edge's value; -1 for a missing value.
        """
        places, names = pd.factorize(_as_names(column))
        names = np.asarray(names, dtype=object)
        if codes is None:
            return cls(places, names)
        # The last entry of the array belongs to the code -1, which stands for a missing name.
        places = np.append(places, -1).astype(codes.dtype)
        return cls(codes if (places[:-1] == np.arange(len(column))).all() else places[codes], names)

    def __getitem__(self, edge: int) -> Hashable:
        code = int(self.codes[edge])
        return None if code < 0 else self.names[code]

    def places(self, index: pd.Index) -> NDArray:
        """Return for each of e edges the position of its name in an index, [e]; -1 for names
        that are not in it.
        """
        places = index.get_indexer(pd.Index(self.names, dtype=object))
        return np.append(places, -1).astype(self.codes.dtype)[self.codes]


@dataclass(frozen=True, eq=False)
class NamedEnds:
    """Edges of a table, as names of nodes.

    Attributes:
        columns: names of the columns with the sources and the destinations.
        source: names of the sources.
        destination: names of the destinations.
        attributes: one row for each edge.
        decisions: sentences about the choice of the columns.
    """

    columns: tuple[Hashable, Hashable]
    source: _Ends
    destination: _Ends
    attributes: pd.DataFrame
    decisions: tuple[str, ...]

    @classmethod
    def of_codes(
        cls,
        columns: tuple[Hashable, Hashable],
        values: tuple[pd.Series, pd.Series],
        codes: tuple[NDArray, NDArray],
        attributes: pd.DataFrame,
        decisions: Sequence[str],
    ) -> NamedEnds:
        """Return the edges, given columns that were read as indices of distinct values.

        Args:
            columns: names of the columns with the sources and the destinations.
            values: the different values of each column.
            codes: for each column the index [e] of each edge's value; -1 for a missing value.
            attributes: the other columns.
            decisions: sentences about the choice of the columns.
        """
        source, destination = (_Ends.of(*pair) for pair in zip(values, codes))
        return cls(columns, source, destination, attributes, tuple(decisions))

    def __len__(self) -> int:
        return len(self.source.codes)

    def join(
        self, names: Sequence[Hashable], lines: Sequence[int] | None
    ) -> tuple[NDArray, NDArray[np.int64], list[LeftOut]]:
        """Return the edges between ``names``, like :func:`gattn.nodes.attributed.edges_by_name`."""
        index = pd.Index(list(names), dtype=object)
        ends = np.stack([one.places(index) for one in (self.source, self.destination)])
        unknown = (ends < 0).any(0)
        left_out = []
        for edge in np.flatnonzero(unknown).tolist():
            pair = self.source[edge], self.destination[edge]
            line = 0 if lines is None else lines[edge]
            left_out.append(left_out_edge(pair, pair[int(ends[0, edge] >= 0)], line))
        if not left_out:
            return ends, np.arange(len(self)), []
        rows = np.flatnonzero(~unknown)
        return ends[:, rows], rows, left_out


def graph_of_ends(
    edges: NamedEnds,
    nodes: pd.DataFrame | None,
    *,
    directed: bool = False,
    lines: Sequence[int] | None = None,
    node_lines: Sequence[int] = (),
    notes: Sequence[str] = (),
    compact: bool = False,
) -> AttributedGraph:
    """Return the graph, given the chosen columns of its edges. See :func:`from_tables`.

    With ``compact``, the graph has compact edges.
    """
    way = "follow this direction" if directed else "are sent in both directions"
    first, second = edges.columns
    notes = [*notes, f"Edges point from column {first!r} to column {second!r}; messages {way}."]
    notes += edges.decisions
    named = pd.unique(np.concatenate([edges.source.names, edges.destination.names]))
    unreadable: dict[Hashable, str] = {}
    if nodes is None:
        names, table = list(named), pd.DataFrame(index=range(len(named)))
    else:
        names, table, decisions, unreadable = named_nodes(nodes, named, node_lines)
        notes += decisions
    check_header(first, second, names)
    pairs, rows, left_out = edges.join(names, lines)
    if left_out:
        absent = "" if nodes is None else _absent(named, names)
        if nodes is not None and not pairs.shape[1]:
            raise GraphError(
                "no edge connects two nodes of the table: the first edge, "
                f"{left_out[0].text}, does not, because {left_out[0].reason}; the table's "
                f"first node is {names[0] if names else None!r}{absent and f'. {absent}'}"
                f"{_better(table, named, names)}"
            )
        notes.append(_left_out_note(left_out, len(edges), absent) + _alike(named, names))
    ends = torch.from_numpy(pairs if compact else pairs.astype(np.int64))
    table_of_edges = _edge_table(edges.attributes, ends, rows, lines, (first, second))
    return attributed_graph(
        names, ends, table, directed=directed, notes=notes, left_out=left_out,
        unreadable=unreadable, lines=node_lines, edge_table=table_of_edges, compact=compact,
    )  # fmt: skip


def _edge_table(
    attributes: pd.DataFrame,
    pairs: Tensor,
    rows: NDArray,
    lines: Sequence[int] | None,
    ends: Sequence[Hashable],
) -> EdgeTable | None:
    """Return the attributes of those edges that connect two known nodes; None if there are no
    attribute columns.

    Args:
        attributes: one row for each edge of the data.
        pairs: [2, k] positions of nodes.
        rows: [k] rows of these edges in ``attributes``.
        lines: lines of the edges of the data in their file.
        ends: names of the columns that hold the names of nodes.
    """
    if attributes.columns.empty:
        return None
    if len(rows) < len(attributes):
        attributes = attributes.iloc[rows]
    table, _, unreadable = flat_table(attributes.reset_index(drop=True))
    known_lines = () if lines is None else _selected(lines, rows)
    return EdgeTable(pairs, table, False, known_lines, unreadable, ends)


def _selected(lines: Sequence[int], rows: NDArray) -> Sequence[int]:
    """Return the lines of some rows. A range of many lines needs no memory."""
    if len(rows) == len(lines):
        return lines
    return np.asarray(lines)[rows].tolist()


def _ends(edges: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return the columns of sources and destinations, the other columns, and notes on the
    choice.
    """
    places = range(edges.shape[1])
    is_index = [counts_rows(edges.columns[i], edges.iloc[:, i]) for i in places]
    first, second, rest, notes = choose_ends(list(edges.columns), is_index)
    return edges.iloc[:, [first, second]], edges.iloc[:, rest], notes


def choose_ends(
    names: Sequence[Hashable], is_index: list[bool]
) -> tuple[int, int, list[int], list[str]]:
    """Choose the two columns with node names in a table of edges.

    Args:
        names: names of the columns.
        is_index: True for each column that contains row numbers.

    Returns:
        The positions of the sources, of the destinations, and of the other columns, and notes.

    Raises:
        GraphError: there are fewer than two columns, or two have the same name.
    """
    if len(names) < 2:
        raise GraphError(f"a table of edges needs two columns; got {list(names)}")
    names, places = list(names), range(len(names))
    left = [i for i in places if not is_index[i]]
    if len(left) < 2:
        left, is_index = list(places), [False] * len(names)
    # The destination is chosen first, because it may be the only column with a usual name.
    last = _place(names, left, DESTINATIONS, None)
    first = _place(names, left, SOURCES, next(i for i in left if i != last))
    others = [i for i in left if i != first]
    second = _place(names, others, DESTINATIONS, others[0])
    for name in (names[first], names[second]):
        if names.count(name) > 1:
            raise GraphError(f"columns of edges must have different names; got {names}")
    notes = [
        f"Column {names[i]!r} of the edges contains row numbers, like the index that pandas "
        "writes: it is not used."
        for i in places
        if is_index[i]
    ]
    return first, second, [i for i in others if i != second], notes


def may_count_rows(name: Hashable) -> bool:
    """Return True if a column with this name is skipped when its values number the rows."""
    title = "" if name is None else str(name).strip()
    return bool(UNNAMED.fullmatch(title)) or title.lower() in RESET


def check_header(first: Hashable, second: Hashable, names: Sequence[Hashable]) -> None:
    """Raise an error if the header of an edge table seems to be an edge."""
    usual = {*SOURCES, *DESTINATIONS} & {str(end).strip().lower() for end in (first, second)}
    if usual:
        return
    texts = [end for end in (first, second) if isinstance(end, str)]
    if {first, second} <= set(names):
        raise GraphError(
            "a table of edges must begin with a header, for example source,target; this "
            f"table begins with {first!r} and {second!r}, which are nodes"
        )
    if len(texts) == 2 and all(_is_number(text) for text in texts):
        raise GraphError(
            "a table of edges must begin with a header, for example source,target; this "
            f"table begins with {first!r} and {second!r}, which are numbers"
        )


@dataclass(frozen=True)
class _Names:
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
    place = _place(columns, others, IDS, None)
    if place is None:
        moved = [i for i in others if _is_moved_index(columns[i], nodes.iloc[:, i])]
        rest = [i for i in others if i not in moved]
        place, notes_on_names = _choose_names(nodes, rest, [*numbering, *moved], ends)
    else:
        notes_on_names = [f"The names of the nodes are in column {columns[place]!r}."]
    if place is None:
        names = _as_names(nodes.index.to_series())
    else:
        names = _as_names(nodes.iloc[:, place])
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
    usual = _Names(f"column {columns[others[0]]!r}", others[0], _as_names(nodes.iloc[:, others[0]]))
    rows = [
        _Names(f"column {columns[i]!r}", i, _as_names(nodes.iloc[:, i])) for i in numbering
    ] or [_Names("the index of the table", None, _as_names(nodes.index.to_series()))]
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


def counts_rows(name: Hashable, column: pd.Series) -> bool:
    """Return True if a column contains the row numbers of its table; see :func:`from_tables`."""
    if not may_count_rows(name) or not len(column):
        return False
    is_unnamed = bool(UNNAMED.fullmatch("" if name is None else str(name).strip()))
    numbers = as_numbers(column)
    if np.isnan(numbers).any() or (numbers % 1 != 0).any() or (numbers < 0).any():
        return False
    if is_unnamed:
        return len(np.unique(numbers)) == len(numbers)
    return bool((numbers == np.arange(len(numbers))).all())


def _is_moved_index(name: Hashable, column: pd.Series) -> bool:
    """Return True if a column contains the row numbers in any order, for example because the
    table was sorted.
    """
    if str(name).strip().lower() not in RESET or not len(column):
        return False
    numbers = as_numbers(column)
    is_count = not np.isnan(numbers).any() and (numbers % 1 == 0).all() and (numbers >= 0).all()
    return bool(is_count) and len(np.unique(numbers)) == len(numbers)


def row_number_notes(graph: AttributedGraph) -> dict[Hashable, str]:
    """Return notes on attributes called ``index`` or ``level_0`` that contain only row numbers.

    Args:
        graph: the graph.

    Returns:
        A sentence for each attribute whose values are different whole numbers starting at 0, by the
        name of the attribute.
    """
    return {
        name: f"Column {name!r} of the nodes has a different whole number for each node, like "
        "the row numbers that pandas' reset_index writes: it is not used as a feature. "
        f"To use it, list it in --features {name}."
        for name in graph.table.columns
        if _is_moved_index(name, graph.table[name])
    }


def _left_out_note(left_out: Sequence[LeftOut], edges: int, absent: str) -> str:
    """Return a note with the number of edges that were left out, and an example."""
    why = "whose ends are not in the table of nodes" if absent else "which do not name two nodes"
    note = (
        f"{len(left_out):,} edge{'s' * (len(left_out) > 1)} left out of {edges:,}, {why}; the "
        f"first: {left_out[0].text} ({left_out[0].reason})."
    )
    return f"{note} {absent}" if absent else note


def _better(table: pd.DataFrame, ends: NDArray, names: Sequence[Hashable]) -> str:
    """Return a hint why the edges contain names that the table of nodes does not contain.

    Either the names are written differently, or another column of the table contains most of the
    missing names. A column with empty or repeated cells is not proposed, because it cannot contain
    the names of the nodes.
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
        f" Column {best!r} has {shares[best]:,} of the {len(absent):,} missing names: rename "
        "it to 'id' if it contains the names of the nodes."
    )


def _alike(ends: NDArray, names: Sequence[Hashable]) -> str:
    """Return a sentence on names that are written differently in the edges and in the table of
    nodes; "" if there are none.
    """
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
                f" {edge!r} in the edges and {node!r} in the table {reason} written "
                f"differently{others}: write the names in the same way."
            )
    return ""


def _number_form(name: str) -> str:
    """Return a canonical text for a name that is a number, so that 7 and 7.0 are equal; "" for
    other names.
    """
    try:
        number = Decimal(name)
    except InvalidOperation:
        return ""
    if not number.is_finite() or "_" in name:
        return ""
    # Decimal.normalize is not used: it rounds to 28 digits, which could make two long names equal.
    sign, digits, exponent = number.as_tuple()
    whole = "".join(map(str, digits)).lstrip("0")
    short = whole.rstrip("0")
    return f"{sign}:{short}:{int(exponent) + len(whole) - len(short)}" if short else "0"


def _absent(ends: NDArray, names: Sequence[Hashable]) -> str:
    """Return a sentence on names that occur in the edges but not in the table of nodes."""
    node_names = set(names)
    strange = [name for name in ends.tolist() if name not in node_names]
    if not strange:
        return ""
    shown = ", ".join(map(repr, strange[:EXAMPLES])) + ", ..." * (len(strange) > EXAMPLES)
    are = "are" if len(strange) > 1 else "is"
    return (
        f"Of the {len(ends):,} names in the edges, {len(strange):,} {are} not in the table of "
        f"nodes: {shown}."
    )


def _place(
    names: Sequence[Hashable], places: Sequence[int], usual: Sequence[str], otherwise: int | None
) -> int:
    """Return the first of the column indices ``places`` whose name is in ``usual``.

    If there is no such column, return ``otherwise``.
    """
    lower = {str(names[i]).strip().lower(): i for i in reversed(places)}
    return next((lower[name] for name in usual if name in lower), otherwise)  # pyright: ignore[reportReturnType]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_names(column: pd.Series) -> pd.Series:
    """Convert names to texts that can be compared between files: both 7 and 7.0 become "7"."""
    column = column.reset_index(drop=True)
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)
