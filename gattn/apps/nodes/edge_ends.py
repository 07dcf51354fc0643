"""Reader of a table of edges, which finds the two columns with names of nodes."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import (
    GraphError,
    LeftOut,
    Nodes,
    at_row,
    check_names,
    left_out_edge,
)
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.values import SourceTable, are_distinct_integers, as_numbers

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
    """Convert names to texts that can be compared between files, without white space around them;
    an empty name becomes ``pandas.NA``. In a column of floats that are whole, 7.0 becomes "7".
    """
    column = column.reset_index(drop=True)
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)


IDS = ("id", "_id", "node", "node_id", "name", "paper", "paper_id")


def named_nodes(source: SourceTable, ends: NDArray) -> tuple[Nodes, list[str]]:
    """Return the nodes of a table, and notes.

    Args:
        source: table with a row for each node.
        ends: different names of nodes in the edges.

    Raises:
        GraphError: if the table has no columns, or its names cannot be used.
    """
    nodes = source.frame
    if nodes.index.name is not None and nodes.index.name not in nodes.columns:
        nodes = nodes.reset_index()
    if not nodes.shape[1]:
        raise GraphError(
            "a table of nodes must have a column of names; got a table without columns"
        )
    # A row of a Parquet file has no line.
    lines = tuple(source.lines) if source.separator else ()
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
        _check_name_column(names, columns, place, lines)
    notes_on_names += [
        f"Column {columns[i]!r} of the nodes contains row numbers, like the index that pandas "
        "writes: it is not used."
        for i in numbering
        if i != place
    ]
    rest = replace(source, frame=nodes).columns([i for i in others if i != place])
    table, notes, unreadable = rest.attributes(list(names))
    read = Nodes(list(names), table, unreadable=unreadable, lines=lines)
    return read, [*notes_on_names, *notes]


def _count_ends(values: pd.Series, ends: NDArray) -> int:
    """Count the names in ``ends`` that occur among the values of a column.

    The result is 0 if the column has missing or repeated values, because names must be unique.
    """
    names = as_names(values)
    if names.isna().any() or names.duplicated().any():
        return 0
    return int(np.isin(ends.astype(str), names.to_numpy(str)).sum())


def _check_name_column(
    names: pd.Series, columns: Sequence[Hashable], place: int, lines: Sequence[int]
) -> None:
    """Raise an error if a column does not give each node one unique name.

    Args:
        names: [n] names of the nodes, which were read from the column.
        columns: names of all columns of the table of nodes.
        place: index of the column of the names.
        lines: [n] lines of the nodes in their file, for messages; empty if there is no file.

    Raises:
        GraphError: several columns have the name of this column, a node has no name, or two nodes
            have the same name.
    """
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
    """Choose the column that contains the nodes' names, if no column is called ``id``.

    Args:
        nodes: the table of nodes.
        others: positions of the columns that are no row numbers.
        numbering: positions of the columns of row numbers.
        ends: different names of nodes in the edges.

    Returns:
        The position of the column, or None if the names are in the index of the data frame; and a
        note on the choice.
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


SOURCES = (
    *("source", "src", "from", "citing", "sender", "head", "subject", "origin", "parent"),
    *("start_id", "start_node", "_start", "u", "i", "a", "1"),
)
DESTINATIONS = (
    *("target", "dst", "destination", "dest", "to", "cited", "receiver", "recipient", "tail"),
    *("object", "child", "end_id", "end_node", "_end", "v", "j", "b", "2"),
)
ATTRIBUTES = {
    *("weight", "score", "rating", "value", "count", "sign", "type", "relation", "predicate"),
    *("label", "time", "timestamp", "date", "datetime", "year", "since"),
}
"""Usual names of columns that contain no names of nodes."""
WEAK = 2
"""First number of the rank of a pair of columns that differ by a single character."""


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
    def of(cls, column: pd.Series) -> _Ends:
        """Return the names in one column."""
        # Of numbers and categories, only the different values are converted to texts.
        if column.dtype == object:
            places, names = pd.factorize(as_names(column))
            return cls(places.astype(np.int32), np.asarray(names, dtype=object))
        codes, values = pd.factorize(column)
        places, names = pd.factorize(as_names(pd.Series(values)))
        # The last entry of the array belongs to the code -1, which stands for a missing name.
        places = np.append(places, -1).astype(np.int32)
        return cls(places[codes], np.asarray(names, dtype=object))

    def __getitem__(self, edge: int) -> Hashable:
        code = int(self.codes[edge])
        return None if code < 0 else self.names[code]

    def places(self, index: pd.Index) -> NDArray:
        """Return for each of e edges the position of its name in an index, [e]; -1 for names
        that are not in it.
        """
        places = index.get_indexer(pd.Index(self.names, dtype=object))
        return np.append(places, -1).astype(self.codes.dtype)[self.codes]


@dataclass(frozen=True)
class EndColumns:
    """Columns of a table of edges that contain the names of nodes.

    Attributes:
        source: position of the column of the sources.
        destination: position of the column of the destinations.
        rest: positions of the columns of attributes.
        notes: sentences about the choice.
        one_kind: True if the names of the columns say that both contain nodes of one kind.
    """

    source: int
    destination: int
    rest: Sequence[int]
    notes: Sequence[str] = ()
    one_kind: bool = True


@dataclass(frozen=True, eq=False)
class NamedEnds:
    """Edges of a table, as names of nodes.

    Attributes:
        columns: names of the columns with the sources and the destinations.
        source: names of the sources.
        destination: names of the destinations.
        attributes: the other columns.
        choice: the choice of the columns.
    """

    columns: tuple[Hashable, Hashable]
    source: _Ends
    destination: _Ends
    attributes: SourceTable
    choice: EndColumns

    def __len__(self) -> int:
        return len(self.source.codes)

    def of_two_kinds(self) -> NamedEnds:
        """Return the edges with names that begin with the name of their column, such as
        ``user_id 7``, so that no source has the name of a destination.
        """
        sides = zip(self.columns, (self.source, self.destination))
        source, destination = (
            replace(one, names=np.array([f"{title} {name}" for name in one.names], dtype=object))
            for title, one in sides
        )
        return replace(self, source=source, destination=destination)

    def check_kinds(self) -> None:
        """Raise a GraphError if nodes of two kinds seem to have common numbers as names.

        Equal texts are the same node, but kinds of nodes are often numbered from 0 or 1 each.
        """
        if self.choice.one_kind:
            return
        common = pd.Index(self.source.names).intersection(pd.Index(self.destination.names))
        if len(common) and all(str(name).isdecimal() for name in common):
            first, second = self.columns
            raise GraphError(
                f"columns {first!r} and {second!r} have {len(common):,} numbers in common, for "
                f"example {common[0]!r}. If they name nodes of two kinds, write different names, "
                "or set --bipartite (of gattn links); if they name nodes of one kind, call the "
                "columns 'source' and 'target', or set --no-bipartite"
            )

    def join(
        self,
        sources: Nodes,
        destinations: Nodes,
        kinds: tuple[str, str] = ("", ""),
        *,
        compact: bool = False,
    ) -> tuple[EdgeTable, list[LeftOut], list[str]]:
        """Convert the names to positions of nodes.

        An edge whose source or destination is missing is left out.

        Args:
            sources: nodes at which an edge may begin.
            destinations: nodes at which an edge may end.
            kinds: types of the sources and destinations; empty if nodes have no types.
            compact: True for positions of int32.

        Returns:
            The edges, those that are left out, and notes.

        Raises:
            GraphError: no edge connects two nodes.
        """
        index = pd.Index(sources.names, dtype=object)
        same = destinations is sources
        other = index if same else pd.Index(destinations.names, dtype=object)
        ends = np.stack([self.source.places(index), self.destination.places(other)])
        unknown, attributes = (ends < 0).any(0), self.attributes
        left_out, notes = [], []
        for edge in np.flatnonzero(unknown).tolist():
            pair = self.source[edge], self.destination[edge]
            side = int(ends[0, edge] >= 0)
            line = attributes.lines[edge] if len(attributes.lines) else 0
            left_out.append(left_out_edge(pair, pair[side], line, kinds[side]))
        if left_out:
            first, count = left_out[0], len(left_out)
            alike = _alike([(self.source, sources), (self.destination, destinations)])
            if count == len(self):
                names = (sources, destinations)[int(ends[0, 0] >= 0)].names
                raise GraphError(
                    f"no edge connects two nodes of the table{'s' * (not same)}: the first edge, "
                    f"{first.text}, does not, because {first.reason}; the table's first node is "
                    f"{names[0] if names else None!r}.{alike}"
                )
            notes.append(
                f"{count:,} edge{'s' * (count > 1)} left out of {len(self):,}; the first: "
                f"{first.text} ({first.reason}).{alike}"
            )
            rows = np.flatnonzero(~unknown)
            ends, attributes = ends[:, rows], attributes.select(rows)
        pairs = torch.from_numpy(ends if compact else ends.astype(np.int64))
        if attributes.frame.columns.empty:
            return EdgeTable.without_columns(pairs), left_out, notes
        table, more, unreadable = attributes.attributes(owner=" of the edges")
        edges = EdgeTable(pairs, table, False, attributes.lines, unreadable, self.columns)
        return edges, left_out, [*notes, *more]


def _alike(sides: Sequence[tuple[_Ends, Nodes]]) -> str:
    """Return a sentence on names that are written differently in the edges and in the tables of
    nodes; "" if there are none. ``sides`` are one or two pairs of ends of edges and the table that
    should have their nodes.
    """
    for form, reason in (
        (_number_form, "are the same number"),
        (_plain_form, "are the same name"),
    ):
        pairs: dict[str, str] = {}
        for ends, nodes in sides:
            by_form = {form(str(name)): str(name) for name in reversed(nodes.names)}
            by_form.pop("", None)
            names = set(nodes.names)
            absent = [str(end) for end in ends.names.tolist() if end not in names]
            pairs |= {end: by_form[form(end)] for end in absent if form(end) in by_form}
        if pairs:
            edge, node = next(iter(pairs.items()))
            show = repr if edge.casefold() == node.casefold() else ascii
            others = f" ({len(pairs):,} names of the edges differ so)" * (len(pairs) > 1)
            return (
                f" {show(edge)} in the edges and {show(node)} in the table {reason} written "
                f"differently{others}: write the names in the same way."
            )
    return ""


def _plain_form(name: str) -> str:
    """Return a canonical text for a name, without the differences that are not visible.

    These are composed letters, and characters without a width. The case is ignored, too.
    """
    letters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in letters if unicodedata.category(c) != "Cf").strip()


def _number_form(name: str) -> str:
    """Return a canonical text for a name that is a number, so that 7 and 7.0 are equal; "" for
    other names, and for those of more than 15 characters.
    """
    try:
        number = float(name)
    except ValueError:
        return ""
    # Longer numbers are rounded, which could make two names equal.
    return repr(number) if math.isfinite(number) and len(name) < 16 and "_" not in name else ""


def named_ends(
    edges: SourceTable, choice: EndColumns | None = None, ends: tuple[str, str] = ("", "")
) -> NamedEnds:
    """Return the names of the nodes in a table of edges.

    Args:
        edges: table with a row for each edge.
        choice: the columns with the names; None to choose them by :func:`choose_ends`.
        ends: see :func:`choose_ends`.

    Raises:
        GraphError: the columns with the names cannot be chosen.
    """
    frame = edges.frame
    names = list(frame.columns)
    if choice is None:
        is_index = [counts_rows(name, frame.iloc[:, i]) for i, name in enumerate(names)]
        choice = choose_ends(names, is_index, ends)
    columns = names[choice.source], names[choice.destination]
    source, destination = (
        _Ends.of(frame.iloc[:, place]) for place in (choice.source, choice.destination)
    )
    return NamedEnds(columns, source, destination, edges.columns(choice.rest), choice)


def choose_ends(
    names: Sequence[Hashable], is_index: Sequence[bool], ends: tuple[str, str] = ("", "")
) -> EndColumns:
    """Choose the two columns with node names in a table of edges, by the names of the columns.

    They are the columns that ``ends`` names; otherwise, two columns whose names differ by a pair
    of words such as source and target; otherwise, the only two columns that are neither row
    numbers nor called like an attribute.

    Args:
        names: names of the columns.
        is_index: True for each column that contains row numbers.
        ends: names of the two columns that the user chose; empty texts to choose them here.

    Raises:
        GraphError: a chosen column is missing, there are fewer than two columns, two have the same
            name, or several pairs of columns, or none, can be the ends of edges.
    """
    titles = [str(name) for name in names]
    if len(names) < 2:
        raise GraphError(f"a table of edges needs two columns; got {titles}")
    left = [i for i in range(len(names)) if not is_index[i]]
    if any(ends):
        pair = _wanted(titles, ends)
        left = list({**dict.fromkeys(left), **dict.fromkeys(pair)})
    else:
        if len(left) < 2:
            left = list(range(len(names)))
        pair = _pair(titles, left)
    for place in pair:
        if titles.count(titles[place]) > 1:
            raise GraphError(f"columns of edges must have different names; got {titles}")
        if not titles[place].strip():
            raise GraphError(f"a column with names of nodes has no name in the header {titles}")
    notes = [
        f"Column {names[i]!r} of the edges contains row numbers, like the index that pandas "
        "writes: it is not used."
        for i in range(len(names))
        if i not in left
    ]
    rest = [i for i in left if i not in pair]
    return EndColumns(*pair, rest, notes, _are_of_one_kind(titles[pair[0]], titles[pair[1]]))


def are_ends(first: str, second: str, *, weak: bool = True) -> bool:
    """Return True if two names of columns differ by a pair of words such as source and target, of
    which that of the source is in the first name.

    With ``weak``, the words may be single characters.

    >>> are_ends("protein1", "protein2"), are_ends(":START_ID", ":END_ID"), are_ends("user", "item")
    (True, True, False)
    >>> are_ends("protein1", "protein2", weak=False)
    False
    """
    sources, destinations = _stems(first, SOURCES), _stems(second, DESTINATIONS)
    return any(
        weak or _rank(stem, sources[stem], destinations[stem])[0] < WEAK
        for stem in sources.keys() & destinations.keys()
    )


def _wanted(titles: Sequence[str], ends: tuple[str, str]) -> tuple[int, int]:
    """Return the positions of the columns that the user chose. Raises GraphError if one of them
    does not exist exactly once, or both are the same.
    """
    for option, title in zip(("--source", "--target"), ends):
        if titles.count(title) != 1:
            columns = ", ".join(map(repr, titles[:20]))
            raise GraphError(
                f"{option} must name a column of the edges; got {title!r}. The columns are "
                f"{columns}"
            )
    if ends[0] == ends[1]:
        raise GraphError(f"--source and --target must differ; both are {ends[0]!r}")
    return titles.index(ends[0]), titles.index(ends[1])


def _pair(titles: Sequence[str], left: Sequence[int]) -> tuple[int, int]:
    """Return the positions of the columns of the sources and of the destinations, in this order,
    among the positions ``left`` of the columns ``titles``. Raises GraphError if the header does not
    determine them.
    """
    if {"_id", "_start", "_end"} <= set(titles):
        raise GraphError(
            "the rows with a value in '_id' are nodes, and those with '_start' and '_end' are "
            "edges (an export of Neo4j): write them to two files, and pass the nodes with --nodes"
        )
    sources, destinations = _by_stem(titles, left, SOURCES), _by_stem(titles, left, DESTINATIONS)
    pairs = [
        (_rank(stem, one, other), (a, b))
        for stem in sources.keys() & destinations.keys()
        for one, a in sources[stem]
        for other, b in destinations[stem]
    ]
    # A single character marks other columns, too, so it is sufficient only in the first two.
    pairs = [(rank, pair) for rank, pair in pairs if rank[0] < WEAK or set(pair) == set(left[:2])]
    if pairs:
        rank, pair = min(pairs)
        if rank[0] == 0 or sum(one[0] == rank[0] for one, _ in pairs) == 1:
            return pair
    others = [i for i in left if column_title(titles[i]) not in ATTRIBUTES]
    ends = left if len(left) == 2 else others
    if pairs or len(ends) != 2:
        columns = ", ".join(map(repr, titles[:20])) + ", ..." * (len(titles) > 20)
        raise GraphError(
            f"cannot choose the two columns with the names of the nodes in the header {columns}: "
            "call them 'source' and 'target' or, in a single table, set --source COL --target COL"
        )
    first, second = ends
    if column_title(titles[first]) in DESTINATIONS or column_title(titles[second]) in SOURCES:
        return second, first
    return first, second


def _by_stem(
    titles: Sequence[str], left: Sequence[int], words: Sequence[str]
) -> Mapping[str, list[tuple[int, int]]]:
    """Return lists of pairs by the rest of a title: the index of a word in ``words``, and the
    position of a column, among those in ``left``, whose title begins or ends with it.
    """
    stems: dict[str, list[tuple[int, int]]] = {}
    for place in left:
        for stem, word in _stems(titles[place], words).items():
            stems.setdefault(stem, []).append((word, place))
    return stems


def _stems(title: str, words: Sequence[str]) -> dict[str, int]:
    """Return the index of a word at the beginning or end of a title, by the rest of the title.

    The rest contains ``*`` in place of the word; it is empty if the title is the word.
    """
    title, stems = column_title(title), {}
    for place, word in enumerate(words):
        if title == word:
            # Columns called 1, 2, ... are those of a matrix.
            stems |= {} if word.isdigit() else {"": place}
        elif title.startswith(word):
            stems["*" + title[len(word) :]] = place
        elif title.endswith(word):
            stems[title[: -len(word)] + "*"] = place
    return stems


def _rank(stem: str, source: int, destination: int) -> tuple[int, int]:
    """Return the rank of a pair of columns; the pair of the lowest rank contains the names.

    Args:
        stem: rest of both titles without the words.
        source: index of a word in :data:`SOURCES`.
        destination: index of a word in :data:`DESTINATIONS`.

    Returns:
        0 for titles that are words, 1 for longer titles, or 2 if a word is a single character; and
        the index of the source.
    """
    weak = 1 in (len(SOURCES[source]), len(DESTINATIONS[destination]))
    return WEAK if weak else int(bool(stem)), source


def _are_of_one_kind(first: str, second: str) -> bool:
    """Return True if two names of columns say that both contain nodes of one kind, or say nothing
    about kinds: they differ by words such as source and target, both are numbers of fields, or one
    is the name of a column of row numbers. Their groups in parentheses must be equal.
    """
    # Neo4j writes the kind in parentheses.
    groups = [title[title.find("(") :] if "(" in title else "" for title in (first, second)]
    return groups[0] == groups[1] and (
        are_ends(first, second)
        # Numbers of fields and names of row numbers say nothing about the nodes.
        or (first.isdecimal() and second.isdecimal())
        or may_count_rows(first)
        or may_count_rows(second)
    )


def check_header(first: Hashable, second: Hashable, names: Sequence[Hashable]) -> None:
    """Raise GraphError if the header of an edge table seems to be an edge, because the titles
    ``first`` and ``second`` of its two columns are numbers, or one is among the names of nodes. A
    title such as source or target is no edge.
    """
    words = {word for word in (*SOURCES, *DESTINATIONS) if len(word) > 1}
    if words & {column_title(end) for end in (first, second)}:
        return
    texts = [end for end in (first, second) if isinstance(end, str)]
    if nodes := [repr(end) for end in (first, second) if end in set(names)]:
        raise GraphError(
            "a table of edges must begin with a header, for example source,target; this table "
            f"begins with {first!r} and {second!r}, and {' and '.join(nodes)} "
            f"{'is a node' if len(nodes) == 1 else 'are nodes'}"
        )
    if len(texts) == 2 and all(_is_number(text) for text in texts):
        raise GraphError(
            "a table of edges must begin with a header, for example source,target; this "
            f"table begins with {first!r} and {second!r}, which are numbers"
        )


def _is_number(text: str) -> bool:
    """Return True if Python can convert the text to a float."""
    try:
        float(text)
    except ValueError:
        return False
    return True
