"""Class of graphs whose nodes have names and attributes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.edge_table import EdgeInputs, EdgeTable
from gattn.apps.run.text import plural

if TYPE_CHECKING:
    from gattn.apps.nodes.typed.network import TypedNetwork

PIECE = 1 << 22
"""Number of edges that are converted at once, to limit the memory."""


Where: TypeAlias = Callable[[int], str]
"""Type of a function that describes the position of a node, for example ``"at node 'n0' (line
2)"``.
"""


def at_row(place: int) -> str:
    """Describe the position of a value by its row number, for nodes without names.

    >>> at_row(4)
    'in row 4 (counted from 0)'
    """
    return f"in row {place:,} (counted from 0)"


class GraphError(ValueError):
    """Error for a graph that cannot be read or trained on.

    The message names the expected and the actual value.
    """


class LeftOut(NamedTuple):
    """Edge that was left out when a graph was read.

    Attributes:
        line: line of the edge in its file, from 1; 0 if it was not read from a file.
        text: the names of the edge's two nodes.
        reason: the reason why the edge was left out.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one type, with their names and a table of attributes.

    Attributes:
        names: n different names of nodes.
        table: n rows of attributes.
        x: [n, d] float32 features, dense or ``torch.sparse_csr``; None to encode the attributes.
        unreadable: the reason for each attribute that cannot be read and is therefore not in
            ``table``. An error is raised only if the attribute is used.
        tensor_labels: True if the column ``y`` comes from a tensor, in which -1 marks a node
            without a label.
        lines: line of each node in its file, from 1; empty if the nodes were not read from a file.
    """

    names: list[Hashable]
    table: pd.DataFrame
    x: Tensor | None = None
    unreadable: Mapping[Hashable, str] = field(default_factory=dict)
    tensor_labels: bool = False
    lines: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.names)

    def node(self, place: int) -> str:
        """Return the name of a node, given its index; add its line in the file if this is known."""
        line = f" (line {self.lines[place]:,})" if self.lines else ""
        return f"node {self.names[place]!r}{line}"

    def where(self, place: int) -> str:
        """Describe the position of a node in words, for example ``"at node 'n0' (line 2)"``."""
        return f"at {self.node(place)}"

    def column(self, name: Hashable) -> pd.Series:
        """Return an attribute of the nodes.

        Raises:
            GraphError: the attribute does not exist (the message lists the existing attributes), or
                cannot be read.
        """
        if name in self.unreadable:
            raise GraphError(self.unreadable[name])
        if name not in self.table.columns:
            raise GraphError(f"the nodes have no attribute {name!r}; {attribute_names(self.table)}")
        return self.table[name]


@dataclass(frozen=True, eq=False, kw_only=True)
class AttributedGraph(Nodes):
    """Graph whose nodes have names and a table of attributes.

    Attributes:
        edge_index: [2, e] int64 from source to destination, without duplicates and self-loops;
            both directions of every edge if the graph is undirected.
        directed: True if messages follow the direction of the edges only.
        arcs: [2, k] int64, the edges in the direction in which the data lists them.
        edge_table: edges of the data and their attributes.
        notes: sentences about decisions of the reader of the graph.
        left_out: the edges that were left out.
        edge_inputs: tensors of the edges' attributes, whose edges are those of ``edge_index`` and
            ``arcs``; None if no attribute of the edges is read. Without ``edge_inputs``, the graph
            contains each edge once; with them, it contains an edge once for each combination of
            attributes.
        has_direction: True if the data declare that their edges have a direction, as a directed
            networkx graph or PyG's ``Data`` do and a table of edges does not.
        network: nodes of other types and the edges between all types; None for a graph of one
            type. The edges of the graph are then those of
            :func:`gattn.apps.nodes.typed.network.projection`.
    """

    edge_index: Tensor
    directed: bool
    arcs: Tensor
    edge_table: EdgeTable
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    edge_inputs: EdgeInputs | None = None
    has_direction: bool = False
    network: TypedNetwork | None = None

    @property
    def compact(self) -> bool:
        """True if the edges are int32, to limit the memory of a graph whose neighbours are
        sampled.
        """
        return self.edge_index.dtype == torch.int32

    @property
    def edge_terms(self) -> dict[str, Tensor]:
        """Features and biases of the edges of ``edge_index``, by the name of a layer's argument;
        empty if no columns of edges are read.
        """
        return {} if self.edge_inputs is None else self.edge_inputs.terms

    def with_notes(self, *notes: str) -> AttributedGraph:
        """Return a copy of the graph with additional sentences in ``notes``."""
        return replace(self, notes=(*self.notes, *notes))

    def without_edge_inputs(self) -> AttributedGraph:
        """Return the graph without the inputs of its edges that an encoder added."""
        if self.network is not None:
            return replace(self, network=self.network.without_inputs())
        return self if self.edge_inputs is None else self._with_edges_of_data(self.compact)

    def compacted(self) -> AttributedGraph:
        """Return the graph with edges of int32, without the inputs of its edges."""
        return self if self.compact else self._with_edges_of_data(True)

    def _with_edges_of_data(self, compact: bool) -> AttributedGraph:
        """Return the graph with each edge of the data once, as int32 if ``compact`` is True, and
        without inputs of the edges. Raises GraphError if an edge leads to a node that does not
        exist.
        """
        table = self.edge_table
        pairs = torch.cat([table.pairs, table.pairs.flip(0)], 1) if table.two_way else table.pairs
        table = replace(table, pairs=table.pairs.int() if compact else table.pairs)
        arcs, edges = _unique_edges(pairs, len(self), directed=self.directed, compact=compact)
        return replace(self, arcs=arcs, edge_index=edges, edge_table=table, edge_inputs=None)

    def in_name_order(self) -> tuple[AttributedGraph, Tensor]:
        """Return the graph with its nodes and rows of edges in the order of the nodes' names, and
        the index [n] in this graph of each node of the result.

        Random draws, such as splits and dropout, depend on positions. In this order, a training
        does not depend on the order of the rows of the tables. A compact graph, one with features
        ``x`` (whose nodes have numbers) and one with several tables of nodes are not changed.
        Raises GraphError if an edge leads to a node that does not exist.
        """
        order = torch.arange(len(self))
        if self.compact or self.x is not None or self.network is not None:
            return self, order
        keys = [_natural(name) for name in self.names]
        order = torch.tensor(sorted(range(len(self)), key=keys.__getitem__))
        position = torch.empty_like(order)
        position[order] = torch.arange(len(self))
        pairs = position[self.edge_table.pairs]
        edges = replace(self.edge_table, pairs=pairs).select(np.lexsort(pairs.numpy()))
        arcs, both = _unique_edges(position[self.arcs], len(self), directed=self.directed)
        ordered = replace(
            self,
            names=[self.names[i] for i in order.tolist()],
            edge_index=both,
            arcs=arcs,
            table=self.table.iloc[order.numpy()].reset_index(drop=True),
            lines=tuple(self.lines[i] for i in order.tolist()) if self.lines else (),
            edge_table=edges,
        )
        return ordered, order


def _natural(name: Hashable) -> list[str | int]:
    """Return a key that sorts names with their numbers: n2 before n10."""
    parts = re.split(r"([0-9]+)", str(name))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def attribute_names(table: pd.DataFrame) -> str:
    """Return the names of the nodes' first twenty attributes as text, for error messages."""
    if table.columns.empty:
        return "they have no attributes (for a table of edges, pass a table of nodes with --nodes)"
    return f"they have {', '.join(map(repr, table.columns[:20]))}"


def attributed_graph(
    nodes: Nodes,
    edges: EdgeTable,
    *,
    directed: bool,
    notes: Sequence[str] = (),
    left_out: Sequence[LeftOut] = (),
    compact: bool = False,
) -> AttributedGraph:
    """Create a graph without duplicate edges and self-loops; undirected edges get both directions.

    Args:
        nodes: the nodes.
        edges: edges of the data and their attributes.
        directed: True if messages follow the direction of edges; False adds opposite edges.
        notes: sentences about decisions that were already made.
        left_out: edges that were left out.
        compact: True for compact edges, see :class:`AttributedGraph`.

    Returns:
        The graph, with notes on the number of duplicate edges and of nodes without an edge. The
        note on duplicate edges with attributes depends on the attributes that are read:
        see :func:`gattn.apps.nodes.edges.read_edge_columns`.

    Raises:
        GraphError: there are no nodes, two nodes have the same name, or an edge leads to a node
            that does not exist.
    """
    if not len(nodes):
        raise GraphError("the graph has no nodes")
    check_names(nodes.names, lines=nodes.lines)
    edges, loops = without_loops(edges)
    notes = [*notes, *loops]
    arcs, both = _unique_edges(edges.pairs, len(nodes), directed=directed, compact=compact)
    if not edges.has_columns:
        notes += doubled_note(len(edges) - arcs.shape[1])
    is_connected = np.zeros(len(nodes), bool)
    for end in both.numpy():
        is_connected[end] = True
    if isolated := len(nodes) - int(is_connected.sum()):
        notes.append(
            f"{plural(isolated, 'node')} without an edge: predicted from their features only."
        )
    arcs = both if edges.two_way else arcs
    table = edges if edges.has_columns else EdgeTable.without_columns(arcs)
    return AttributedGraph(
        **vars(nodes), edge_index=both, directed=directed, arcs=arcs, edge_table=table,
        notes=tuple(notes), left_out=tuple(left_out),
    )  # fmt: skip


def without_loops(edges: EdgeTable) -> tuple[EdgeTable, list[str]]:
    """Return the edges that are no self-loops, and a note on the number of self-loops."""
    no_loop = edges.pairs[0] != edges.pairs[1]
    loops = int((~no_loop).sum())
    if not loops:
        return edges, []
    note = f"{plural(loops, 'self-loop')} removed: layers that need self-loops add them."
    return edges.select(no_loop.numpy()), [note]


def doubled_note(count: int, same: str = "") -> list[str]:
    """Return a note on edges that occur more than once; the list is empty if there are none.

    Args:
        count: number of edges that are left out.
        same: text that describes the other equal properties of the edges, for example ``" with the
            same columns"``.
    """
    if not count:
        return []
    return [f"{plural(count, 'edge')} repeated{same}: each is used once."]


def left_out_edge(
    pair: tuple[Hashable, Hashable], missing: Hashable, line: int, kind: str = ""
) -> LeftOut:
    """Return the record of an edge that is left out.

    Args:
        pair: names of the source and the destination.
        missing: the name of the two that is not the name of a node.
        line: line of the edge in its file; 0 without a file.
        kind: type of the missing node; "" if the nodes have no types.
    """
    shown = ["(empty)" if _is_gap(end) else str(end) for end in pair]
    if _is_gap(missing):
        reason = "it has only one node name"
    else:
        reason = f"there is no node {missing!r}{f' of type {kind!r}' if kind else ''}"
    return LeftOut(line, " - ".join(shown), reason)


def _is_gap(name: Hashable) -> bool:
    """Return True if the name of a node is missing (None, ``pandas.NA`` or NaN)."""
    return name is None or name is pd.NA or name != name


def check_names(names: Sequence[Hashable], where: str = "", *, lines: Sequence[int] = ()) -> None:
    """Raise an error if two nodes have the same name.

    Args:
        names: n names.
        where: description of the column of the names.
        lines: lines of the nodes in their file; empty if there is no file.

    Raises:
        GraphError: two names are equal.
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


def _unique_edges(
    pairs: Tensor, nodes: int, *, directed: bool, compact: bool = False
) -> tuple[Tensor, Tensor]:
    """Return ``arcs`` and ``edge_index`` of a graph, in which repeated edges are removed.

    Args:
        pairs: [2, k] edges without self-loops.
        nodes: number of nodes.
        directed: False to add the opposite of every edge.
        compact: True for edges of int32, False for int64.

    Returns:
        Two tensors, sorted by destination and then by source. If ``directed`` is True, both results
        are the same tensor.

    Raises:
        GraphError: an edge leads to a node that does not exist.
    """
    outside = ((pairs < 0) | (pairs >= nodes)).any(0).nonzero().flatten()
    if len(outside):
        edge = int(outside[0])
        source, destination = pairs[:, edge].tolist()
        raise GraphError(
            f"edges must connect nodes 0 to {nodes - 1}; edge {edge} is {source} -> {destination}"
        )
    kind = np.int32 if compact else np.int64
    arcs = _sorted_pairs([pairs.numpy()], nodes, kind)
    both = [arcs.numpy(), arcs.numpy()[::-1]]
    return arcs, arcs if directed else _sorted_pairs(both, nodes, kind)


def _sorted_pairs(parts: Sequence[NDArray], nodes: int, kind: type) -> Tensor:
    """Concatenate edges, sort them by destination and source, and remove repetitions.

    Args:
        parts: arrays [2, k] of edges.
        nodes: number of nodes.
        kind: dtype of the result, int32 or int64.

    Returns:
        [2, e] edges.
    """
    key = np.empty(sum(part.shape[1] for part in parts), np.int64)
    start = 0
    for source, destination in parts:
        place = slice(start, start + len(source))
        np.multiply(destination, nodes, out=key[place], dtype=np.int64)
        key[place] += source
        start += len(source)
    # The array is sorted in place, because torch.unique would need several copies of it.
    key.sort()
    is_new = np.ones(len(key), bool)
    np.not_equal(key[1:], key[:-1], out=is_new[1:])
    if not is_new.all():
        key = key[is_new]
    edges = np.empty((2, len(key)), kind)
    for start in range(0, len(key), PIECE):
        place = slice(start, start + PIECE)
        edges[1, place] = key[place] // nodes
        edges[0, place] = key[place] - edges[1, place].astype(np.int64) * nodes
    return torch.from_numpy(edges)
