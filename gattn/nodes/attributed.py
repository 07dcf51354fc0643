"""A graph whose nodes have names and attributes, checked once, and what was decided on the way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

__all__ = [
    "AttributedGraph",
    "GraphError",
    "LeftOut",
    "Where",
    "at_row",
    "attributed_graph",
    "check_names",
    "edges_by_name",
    "held",
]

NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")


Where: TypeAlias = Callable[[int], str]
"""The words for the position of a node, as ``"at node 'n0' (line 2)"``."""


def at_row(place: int) -> str:
    """The words for a position in values that come without the names of nodes.

    >>> at_row(4)
    'in row 4 (counted from 0)'
    """
    return f"in row {place:,} (counted from 0)"


class GraphError(ValueError):
    """A graph cannot be read or trained on; the message says what was wanted and what came."""


@dataclass(frozen=True)
class LeftOut:
    """An edge that was left out.

    Attributes:
        line: of its file, from 1; 0 where it came from no file.
        text: the edge.
        reason: why.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, eq=False)
class AttributedGraph:
    """Nodes with a table of attributes, and the edges along which they attend.

    Attributes:
        names: n different names of nodes.
        edge_index: [2, e] int64 from source to destination, no edge twice and no self-loop; where
            the graph is undirected both directions of every edge.
        table: n rows of attributes.
        x: [n, d] float32 ready features, dense or ``torch.sparse_csr``; None where the attributes
            are to be encoded.
        directed: whether messages follow the direction of the edges alone.
        notes: what was decided in reading it, in a sentence each.
        left_out: the edges that were left out.
        unreadable: attributes that are not in the table, by name, and why they cannot be read. They
            are an error only where they are needed.
        tensor_labels: whether the column ``y`` comes from a tensor, where -1 is no class.
        lines: the line of each node in its file, from 1; empty where there are no lines.
    """

    names: list[Hashable]
    edge_index: Tensor
    table: pd.DataFrame
    x: Tensor | None
    directed: bool
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    unreadable: Mapping[Hashable, str] = field(default_factory=dict)
    tensor_labels: bool = False
    lines: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def node(self, place: int) -> str:
        """The words for the node at a position: its name, and its line where that is known."""
        line = f" (line {self.lines[place]:,})" if self.lines else ""
        return f"node {self.names[place]!r}{line}"

    def where(self, place: int) -> str:
        """The words for the position of a cell of a node, as ``"at node 'n0' (line 2)"``."""
        return f"at {self.node(place)}"

    def column(self, name: str) -> pd.Series:
        """An attribute of the nodes.

        Raises:
            GraphError: there is no such attribute, and the message lists those that there are; or
                it cannot be read.
        """
        if name in self.unreadable:
            raise GraphError(self.unreadable[name])
        if name not in self.table.columns:
            raise GraphError(f"the nodes have no attribute {name!r}; {held(self.table)}")
        return self.table[name]

    def with_notes(self, *notes: str) -> AttributedGraph:
        """The same graph with more to say of how it was read."""
        return replace(self, notes=(*self.notes, *notes))

    def with_gaps(self, words: Sequence[str]) -> AttributedGraph:
        """The same graph without the attributes' cells that hold one of some words.

        Args:
            words: texts that stand for a missing value, compared without the space around them.
                One that is a number, as ``-1``, also stands for cells that are that number.
        """
        gaps = {word.strip() for word in words}
        if not gaps:
            return self
        numbers = {float(gap) for gap in gaps if NUMBER.fullmatch(gap)}

        def stands_for_gap(cell: object) -> bool:
            if isinstance(cell, str):
                return cell.strip() in gaps
            is_number = isinstance(cell, Real) and not isinstance(cell, bool | np.bool_)
            return is_number and cell in numbers

        is_gap = self.table.map(stands_for_gap)
        counts = {name: int(is_gap[name].sum()) for name in self.table.columns}
        notes = [
            f"Column {name!r}: {_many(count, 'cell')} with {', '.join(map(repr, words))} "
            f"{'is' if count == 1 else 'are'} missing."
            for name, count in counts.items()
            if count
        ]
        table = self.table.astype(object).mask(is_gap, None)
        kept = {name: table[name] if counts[name] else self.table[name] for name in counts}
        return replace(self.with_notes(*notes), table=pd.DataFrame(kept, index=self.table.index))


def held(table: pd.DataFrame) -> str:
    """What nodes have, in words: the names of the first twenty attributes."""
    if table.columns.empty:
        return "they have none (those of a table of edges stand in a table of nodes, --nodes)"
    return f"they have {', '.join(map(repr, table.columns[:20]))}"


def attributed_graph(
    names: Sequence[Hashable],
    edge_index: Tensor,
    table: pd.DataFrame,
    *,
    directed: bool,
    x: Tensor | None = None,
    notes: Sequence[str] = (),
    left_out: Sequence[LeftOut] = (),
    unreadable: Mapping[Hashable, str] | None = None,
    tensor_labels: bool = False,
    lines: Sequence[int] = (),
) -> AttributedGraph:
    """Check a graph, and make its edges what layers read: once each, both ways, no self-loop.

    Args:
        names: n nodes.
        edge_index: [2, e] int64 as given.
        table: n rows.
        directed: whether to keep the directions.
        x: ready features.
        notes: what was decided before.
        left_out: edges that were left out before.
        unreadable: see :class:`AttributedGraph`.
        tensor_labels: see :class:`AttributedGraph`.
        lines: see :class:`AttributedGraph`.

    Returns:
        The graph, whose notes say how many edges were doubled and how many nodes have none.

    Raises:
        GraphError: no nodes, or a name that two nodes share.
    """
    if not len(names):
        raise GraphError("the graph has no nodes")
    check_names(names, lines=lines)
    told, nodes = list(notes), len(names)
    source, destination = edge_index
    kept = source != destination
    if loops := int((~kept).sum()):
        told.append(f"{_many(loops, 'self-loop')} dropped: layers that need them add their own.")
    pairs = edge_index[:, kept]
    once = _unique(pairs, nodes)
    if doubled_edges := pairs.shape[1] - once.shape[1]:
        told.append(f"{_many(doubled_edges, 'edge')} given more than once: each is kept once.")
    if not directed:
        once = _unique(torch.cat([once, once.flip(0)], 1), nodes)
    alone = nodes - len(once.unique())
    if alone:
        told.append(
            f"{_many(alone, 'node')} without an edge: predicted from features of their own."
        )
    return AttributedGraph(
        list(names), once, table.reset_index(drop=True), x, directed, tuple(told), tuple(left_out),
        unreadable or {}, tensor_labels, tuple(lines),
    )  # fmt: skip


def edges_by_name(
    names: Sequence[Hashable],
    source: Sequence[Hashable],
    destination: Sequence[Hashable],
    lines: Sequence[int] | None = None,
) -> tuple[Tensor, list[LeftOut]]:
    """Number the ends of edges, and leave out those that name a node that there is not.

    Args:
        names: of the n nodes, all different.
        source: e names.
        destination: e names.
        lines: of the edges in their file.

    Returns:
        [2, k] int64 of the edges between nodes that there are, and the others.

    """
    place = pd.Index(list(names), dtype=object)
    ends = np.stack(
        [place.get_indexer(pd.Index(list(one), dtype=object)) for one in (source, destination)]
    )
    known = (ends >= 0).all(0)
    left_out = []
    for at in np.flatnonzero(~known).tolist():
        missing = source[at] if ends[0, at] < 0 else destination[at]
        shown = ["(empty)" if _is_gap(end) else str(end) for end in (source[at], destination[at])]
        line = 0 if lines is None else lines[at]
        reason = "it names one node" if _is_gap(missing) else f"there is no node {missing!r}"
        left_out.append(LeftOut(line, " - ".join(shown), reason))
    return torch.from_numpy(ends[:, known].astype(np.int64)), left_out


def _is_gap(name: Hashable) -> bool:
    """Whether the name of a node is missing."""
    return name is None or name is pd.NA or name != name


def check_names(names: Sequence[Hashable], where: str = "", *, lines: Sequence[int] = ()) -> None:
    """Raise where two nodes share a name.

    Args:
        names: of the n nodes.
        where: the words for the column that holds the names.
        lines: of the n nodes in their file; empty where there are no lines.

    Raises:
        GraphError: two names are the same.
    """
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if not doubled:
        return
    first = doubled[0]
    rows = [row for row, name in enumerate(names) if name == first]
    places = ", ".join(str(lines[row] if lines else row) for row in rows)
    title = f"lines {places}" if lines else f"rows {places} (from 0)"
    more = f", and {len(doubled) - 1} more names" if len(doubled) > 1 else ""
    raise GraphError(f"names of nodes{where} must differ; {title} are all {first!r}{more}")


def _unique(pairs: Tensor, nodes: int) -> Tensor:
    """Every edge once, by destination and source."""
    outside = ((pairs < 0) | (pairs >= nodes)).any(0).nonzero().flatten()
    if len(outside):
        edge = int(outside[0])
        source, destination = pairs[:, edge].tolist()
        raise GraphError(
            f"edges must join nodes 0 to {nodes - 1}; edge {edge} is {source} -> {destination}"
        )
    key = torch.unique(pairs[1] * nodes + pairs[0])
    return torch.stack([key % nodes, key // nodes])


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
