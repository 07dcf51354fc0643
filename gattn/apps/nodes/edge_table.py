"""Attributes of edges, as columns of the data and as tensors for the models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.scratch import Matrix


def row_codes(table: pd.DataFrame, dtype: np.dtype) -> NDArray:
    """Return a number for each row, [m] of an integer ``dtype``, which is equal for equal rows and
    different for others; missing values are equal.
    """
    if table.columns.empty:
        return np.zeros(len(table), dtype)
    groups = table.groupby(list(table), dropna=False, sort=False, observed=True)
    return groups.ngroup().to_numpy().astype(dtype)


def first_of_equal(*keys: NDArray) -> NDArray[np.bool_]:
    """Return a mask [m] of the positions whose combination of keys, arrays [m], does not occur at
    an earlier position.
    """
    # A stable sort needs less memory than the hash table of pandas' duplicated.
    order = np.lexsort(keys)
    is_new = np.zeros(len(order), bool)
    is_new[:1] = True
    for key in keys:
        ordered = key[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    is_first = np.zeros(len(order), bool)
    is_first[order[is_new]] = True
    return is_first


def is_symmetric(source: NDArray, destination: NDArray, codes: NDArray) -> bool:
    """Return True if edges that are sorted by destination, source and code contain the opposite of
    every edge.
    """
    if not np.array_equal(np.bincount(source), np.bincount(destination)):
        # This comparison avoids a second sort of the edges.
        return False
    opposite = np.lexsort((codes, destination, source))
    return all(
        np.array_equal(a, b[opposite])
        for a, b in ((source, destination), (destination, source), (codes, codes))
    )


def message_ages(
    times: NDArray, at: NDArray | None, pairs: NDArray, rows: NDArray
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Compare the times of edges with those at which their destinations are predicted.

    Args:
        times: [n] times at which the nodes are predicted.
        at: [m] times of the rows of the edge table; None if edges have the times of their sources.
        pairs: [2, e] edges.
        rows: [e] row of each edge.

    Returns:
        A mask [e], True if neither the time of the source nor that of the edge is later than that
        of the destination; and the ages [e], the times from the edges to their destinations.
    """
    source, destination = pairs
    is_open = times[source] <= times[destination]
    began = times[source]
    if at is not None:
        began = at[rows]
        is_open &= began <= times[destination]
    return is_open, times[destination] - began


def narrow_block(block: Matrix, limit: int, size: int) -> Matrix:
    """Return the features [m, d]. If d is above ``limit``, return a random projection to ``size``
    features instead, as a CSR matrix [m, size].

    The projection depends on d alone, so it need not be stored.
    """
    if block.shape[1] <= limit:
        return block
    from sklearn.random_projection import GaussianRandomProjection

    # scikit-learn accepts an integer, but its type annotation does not.
    size_argument: Any = size
    projection = GaussianRandomProjection(size_argument, random_state=0)
    projection.fit(sp.csr_matrix((1, block.shape[1])))
    return sp.csr_matrix(np.asarray(projection.transform(block)))


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

    @classmethod
    def without_columns(cls, pairs: Tensor) -> EdgeTable:
        """Return edges [2, m] without attributes."""
        return cls(pairs, pd.DataFrame(index=range(pairs.shape[1])))

    @property
    def has_columns(self) -> bool:
        """True if the data have attributes of the edges."""
        return bool(len(self.table.columns) or self.unreadable)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeInputs(EdgeStructure):
    """Edges and their attributes as tensors that the models of nodes read.

    Attributes:
        has_direction: True if the model reads edges along and against their direction separately.
        features: [e, d] float32 features of the edges of ``edge_index``; None if there are none.
        bias: [e] float32, logarithms of the weights of the edges of ``edge_index``; None if there
            are no weights.
        weights: [k] float32, the weight of each of the graph's ``arcs``; None if there are no
            weights.
        groups: divisions of the arcs into parts. Means over neighbours are computed separately for
            each part. A division consists of the part [k] int8 of each arc, from 0, or -1 for no
            part, and of the number of parts.
        row_features: [m, d] sparse float32, features of the rows for means over the edges of a
            node; None if there are none.
    """

    has_direction: bool
    features: Tensor | None
    bias: Tensor | None
    weights: NDArray[np.float32] | None
    groups: Sequence[tuple[NDArray[np.int8], int]]
    row_features: Matrix | None

    @property
    def terms(self) -> dict[str, Tensor]:
        """Features and biases of the edges of ``edge_index``, by the name of a layer's argument."""
        named = {"edge_attr": self.features, "attn_bias": self.bias}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def select(self, edges: NDArray[np.bool_], arcs: NDArray[np.bool_]) -> EdgeInputs:
        """Return the inputs for some of the edges; ``rows`` and ``row_features`` remain complete.

        Args:
            edges: [e] mask of the edges of ``edge_index``.
            arcs: [k] mask of the graph's ``arcs``.
        """
        of_edges = "edge_rows", "against", "ages", "features", "bias"
        masks: dict[str, NDArray[np.bool_]] = {"arc_rows": arcs, "weights": arcs}
        masks |= dict.fromkeys(of_edges, edges)
        values = {name: getattr(self, name) for name in masks}
        return replace(
            self,
            **{n: None if value is None else value[masks[n]] for n, value in values.items()},
            open=None if self.open is None else self.open[:, arcs],
            groups=[(part[arcs], count) for part, count in self.groups],
        )
