"""Attributes of edges, as columns of the data and as tensors for the models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor


def at_row(place: int) -> str:
    """Describe the position of a value by its row number, for nodes without names.

    >>> at_row(4)
    'in row 4 (counted from 0)'
    """
    return f"in row {place:,} (counted from 0)"


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Table of the edges' columns. It has one row for each edge in the data, including duplicate
    edges.

    Attributes:
        pairs: [2, m] int64, the positions of the nodes that each edge joins; int32 in a compact
            graph.
        table: m rows of attributes.
        two_way: True if the edges have no direction, so that each row applies to both directions.
        lines: line of each edge in its file, from 1; empty if the edges were not read from a file.
        unreadable: the reason for each attribute that cannot be read and is therefore not in
            ``table``.
        ends: names of the two columns that hold the names of nodes; empty if there are none.
    """

    pairs: Tensor
    table: pd.DataFrame
    two_way: bool = False
    lines: Sequence[int] = ()
    unreadable: Mapping[Hashable, str] = field(default_factory=dict)
    ends: Sequence[Hashable] = ()

    def __len__(self) -> int:
        return self.pairs.shape[1]

    def select(self, rows: NDArray) -> EdgeTable:
        """Return the table of the selected rows; ``rows`` contains indices or is a mask."""
        lines = np.asarray(self.lines)[rows].tolist() if len(self.lines) else ()
        places = np.arange(len(self))[rows]
        table = self.table.iloc[places].reset_index(drop=True)
        pairs = self.pairs[:, torch.from_numpy(places)]
        return EdgeTable(pairs, table, self.two_way, lines, self.unreadable, self.ends)

    def where(self, names: Sequence[Hashable], row: int) -> str:
        """Describe the position of an edge in words: ``"at edge 'a' - 'b' (line 2)"``."""
        source, destination = (names[int(end)] for end in self.pairs[:, row])
        line = f" (line {self.lines[row]:,})" if len(self.lines) else ""
        return f"at edge {source!r} - {destination!r}{line}"


@dataclass(frozen=True, eq=False)
class EdgeStructure:
    """Edges of a graph; for each edge, the row of the edge table that contains its attributes.

    Attributes:
        rows: distinct edges of the data with the columns that are read.
        arc_rows: [k] int64, the row of each of the graph's ``arcs``; int32 in a compact graph.
        edge_rows: [e], the row of each edge of ``edge_index``, in the same way.
        against: [e] bool, True for an edge that leads against the direction of the data; None if
            the edges have no direction, or if messages follow it.
        ages: [e] float64, the time from an edge to the time of its destination; None if there are
            no times.
        open: [2, k] bool: True if messages may pass along and against each arc; None if there are
            no times.
    """

    rows: EdgeTable
    arc_rows: NDArray[np.integer]
    edge_rows: NDArray[np.integer]
    against: NDArray[np.bool_] | None
    ages: NDArray[np.float64] | None
    open: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class EdgeInputs:
    """Attributes of edges as tensors that the models of nodes read.

    Attributes:
        structure: the edges and the rows of their attributes.
        has_direction: True if the model reads edges along and against their direction separately.
        features: [e, d] float32 features of the edges of ``edge_index``; None if there are none.
        bias: [e] float32, logarithms of the weights of the edges of ``edge_index``; None if there
            are no weights.
        weights: [k] float32, the weight of each of the graph's ``arcs``; None if there are no
            weights.
        groups: divisions of the arcs into parts. Means over neighbours are computed separately for
            each part. A division consists of the part [k] int8 of each arc, from 0, or -1 for no
            part, and of the number of parts.
        row_features: [m, d] sparse float32, features of the structure's rows for means over the
            edges of a node; None if there are none.
    """

    structure: EdgeStructure
    has_direction: bool
    features: Tensor | None
    bias: Tensor | None
    weights: NDArray[np.float32] | None
    groups: Sequence[tuple[NDArray[np.int8], int]]
    row_features: Any

    def select(self, edges: NDArray[np.bool_], arcs: NDArray[np.bool_]) -> EdgeInputs:
        """Return the inputs for some of the edges.

        Args:
            edges: [e] mask of the edges of ``edge_index``.
            arcs: [k] mask of the graph's ``arcs``.
        """
        old = self.structure
        structure = replace(
            old,
            arc_rows=old.arc_rows[arcs],
            edge_rows=old.edge_rows[edges],
            against=None if old.against is None else old.against[edges],
            ages=None if old.ages is None else old.ages[edges],
            open=None if old.open is None else old.open[:, arcs],
        )
        mask = torch.from_numpy(edges)
        return replace(
            self,
            structure=structure,
            features=None if self.features is None else self.features[mask],
            bias=None if self.bias is None else self.bias[mask],
            weights=None if self.weights is None else self.weights[arcs],
            groups=[(part[arcs], count) for part, count in self.groups],
        )
