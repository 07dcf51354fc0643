"""Means over the neighbours and the edges of a compact graph, from the attributes of its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, compact_edges
from gattn.apps.nodes.size.means import NeighbourMeans, graph_of
from gattn.apps.nodes.size.scratch import pieces

__all__ = ["ArcMeans"]

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""
FORWARD, BACKWARD = (True,), (False,)
"""Directions of a walk: along the edges of the data, and against them."""


class ArcMeans:
    """Means over neighbours along the edges of the data, against them, or in both directions.

    They are those of :class:`gattn.apps.nodes.stack.propagation.Neighbours`, with its weights and
    times.

    Args:
        graph: a compact graph.

    Attributes:
        nodes: number n of nodes.
        groups: divisions of the edges, as in :class:`gattn.apps.nodes.edge_table.EdgeInputs`.
        ends: the ends of the edges over which :meth:`edge_means` computes means: 1 for the
            destination, 0 for the source.
    """

    def __init__(self, graph: AttributedGraph) -> None:
        inputs = graph.edge_inputs
        self.nodes, self._arcs = len(graph), graph.arcs.numpy()
        self._directed = graph.directed
        self._is_unique = inputs is None
        self._weights = None if inputs is None else inputs.weights
        self._open = None if inputs is None else inputs.structure.open
        self.groups = () if inputs is None else inputs.groups
        self._row_features: Matrix = None if inputs is None else inputs.row_features
        self._rows = np.zeros(0, np.int32) if inputs is None else inputs.structure.arc_rows
        is_two_way = inputs is not None and inputs.has_direction and not graph.directed
        self.ends = (1, 0) if is_two_way else (1,)

    @property
    def edge_width(self) -> int:
        """Number of features of an edge for :meth:`edge_means`."""
        return 0 if self._row_features is None else self._row_features.shape[1]

    def along(self, part: NDArray[np.bool_] | None = None) -> NeighbourMeans:
        """Return the means over the sources of the edges into each node.

        Args:
            part: [k] mask of the edges that are used; None for all.
        """
        return self._means(FORWARD, part)

    def against(self, part: NDArray[np.bool_] | None = None) -> NeighbourMeans:
        """Return the means over the destinations of the edges out of each node."""
        return self._means(BACKWARD, part)

    def all(self, part: NDArray[np.bool_] | None = None) -> NeighbourMeans:
        """Return the means over all neighbours; in a directed graph, return the result of
        :meth:`along`.
        """
        return self._means(FORWARD if self._directed else FORWARD + BACKWARD, part)

    def degrees(self) -> list[Tensor]:
        """Return the numbers of edges into and out of each node, [n] each, or the sums of their
        weights.
        """
        if self._is_unique:
            ends = torch.from_numpy(self._arcs).flip(0)
            return [torch.bincount(end, minlength=self.nodes) for end in ends]
        return [self.along().degrees, self.against().degrees]

    def edge_means(self, end: int, out: NDArray[np.float32]) -> None:
        """For each node, compute the means of the features of its edges; write them to ``out`` [n,
        d].

        Args:
            end: 1 for the edges into a node, 0 for the edges out of it.
            out: the array to write.
        """
        features = self._row_features
        out[:] = 0
        if features is None:
            return
        counts = np.zeros(self.nodes, np.int64)
        is_open = None if self._open is None else self._open[1 - end]
        for rows in pieces(self._arcs.shape[1]):
            places, some = self._arcs[end, rows], self._rows[rows]
            if is_open is not None:
                places, some = places[is_open[rows]], some[is_open[rows]]
            different, place = np.unique(places, return_inverse=True)
            ones = np.ones(len(place), np.float32)
            shape = len(different), len(place)
            incidence: Matrix = sp.csr_matrix((ones, (place, np.arange(len(place)))), shape)
            out[different] += (incidence @ features[some]).toarray()
            counts[different] += np.bincount(place, minlength=len(different))
        out /= np.maximum(counts, 1)[:, None]

    def _means(
        self, directions: tuple[bool, ...], part: NDArray[np.bool_] | None
    ) -> NeighbourMeans:
        pairs: list[NDArray] = []
        weights: list[NDArray] = []
        for is_forward in directions:
            mask = part
            if self._open is not None:
                is_open = self._open[0 if is_forward else 1]
                mask = is_open if part is None else part & is_open
            arcs = self._arcs if is_forward else self._arcs[::-1]
            pairs.append(arcs if mask is None else arcs[:, mask])
            if self._weights is not None:
                weights.append(self._weights if mask is None else self._weights[mask])
        n = self.nodes
        if self._weights is None:
            if self._is_unique and directions == FORWARD and part is None:
                return NeighbourMeans(graph_of(torch.from_numpy(self._arcs), n))
            edges = compact_edges(np.hstack(pairs), n, directed=True)[0]
            return NeighbourMeans(graph_of(edges, n))
        merged, sums = _merged(np.hstack(pairs), np.concatenate(weights), n)
        return NeighbourMeans(graph_of(torch.from_numpy(merged), n), sums)


def _merged(
    pairs: NDArray, weights: NDArray[np.float32], nodes: int
) -> tuple[NDArray, NDArray[np.float32]]:
    """Return the different edges, sorted by destination and source, and the sums of their
    weights.
    """
    key = pairs[1].astype(np.int64) * nodes + pairs[0]
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]][: len(key)])
    sums = np.add.reduceat(weights[order], starts) if len(starts) else weights[:0]
    return np.ascontiguousarray(pairs[:, order[starts]]), sums.astype(np.float32)
