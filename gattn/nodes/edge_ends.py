"""Reader of a table of edges, which finds the two columns with names of nodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.nodes.attributed import GraphError, LeftOut, left_out_edge
from gattn.nodes.name_columns import as_names, counts_rows, usual_column

__all__ = ["DESTINATIONS", "SOURCES", "NamedEnds", "check_header", "choose_ends", "named_ends"]

SOURCES = (
    *("source", "src", "from", "u", "node1", "citing", "fromnodeid", "source_id", "sourceid"),
    *("from_id", "node_1", "id1", "id_1"),
)
DESTINATIONS = (
    *("target", "dst", "to", "v", "node2", "cited", "destination", "tonodeid", "target_id"),
    *("targetid", "to_id", "node_2", "id2", "id_2"),
)


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
        places, names = pd.factorize(as_names(column))
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


def named_ends(edges: pd.DataFrame, ends: tuple[int, int] | None = None) -> NamedEnds:
    """Return the names of the nodes in a table of edges.

    Args:
        edges: table with a row for each edge.
        ends: positions of the columns of the sources and of the destinations; None to choose them
            like :func:`gattn.nodes.tables.from_tables`.

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
    last = usual_column(names, left, DESTINATIONS, None)
    first = usual_column(names, left, SOURCES, next(i for i in left if i != last))
    others = [i for i in left if i != first]
    second = usual_column(names, others, DESTINATIONS, others[0])
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
