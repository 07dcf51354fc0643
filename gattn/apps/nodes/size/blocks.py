"""Features of the nodes of a compact graph and means over their neighbours, in arrays in files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.size.arcs import ArcMeans
from gattn.apps.nodes.size.means import NeighbourMeans, graph_of
from gattn.apps.nodes.size.scratch import Scratch, pieces
from gattn.apps.nodes.stack.blocks import Reduction, as_matrix

__all__ = ["SampledBlocks", "sample"]

PROJECTED_ROWS = 200_000
"""Maximum number of nodes from whose features the projection of wide features is computed."""
TYPED = 256
"""Maximum total number of features that are means over neighbours of one edge type or quartile."""

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


def sample(nodes: NDArray, count: int, seed: int) -> NDArray:
    """Return at most ``count`` of the nodes, chosen at random, in ascending order."""
    if len(nodes) <= count:
        return nodes
    return np.sort(np.random.default_rng(seed).choice(nodes, count, replace=False))


class SampledBlocks:
    """Features of the nodes of a compact graph for the models of a sampled stack.

    Args:
        graph: a compact graph.
        x: [n, d] encoded features, dense or ``torch.sparse_csr``.
        reduction: projection of wide features; None to fit it.
        seed: seed of the projection.
        with_direction: True to compute means along and against the edges; None to do so if the
            graph has edges without an opposite edge.

    Attributes:
        scratch: the temporary files.
        graph: the edges along which the attention network sends messages.
        attributes: [e, d] float32 features of these edges; None if there are none.
        means: means over all neighbours.
        reduction: projection of wide features.
        with_direction: True if there are means along and against the edges.
        two_way: True if the graph contains the opposite of every edge, with the same weight.
        sparse: [n, d] sparse features; None if they are not projected.
        features: [n, k] float32, the features after the projection.
        joined: [n, m] float32, the features, their means over one and two steps and over the
            neighbours of each edge type, means of the features of edges, and degrees.
    """

    def __init__(
        self,
        graph: AttributedGraph,
        x: Tensor,
        reduction: Reduction | None,
        seed: int,
        *,
        with_direction: bool | None,
    ) -> None:
        self.scratch, n = Scratch(), len(graph)
        matrix = as_matrix(x) if x.layout != torch.strided else None
        if reduction is None:
            reduction = Reduction(np.zeros((0, 0), np.float32))
            if x.shape[1] > 512:
                rows = sample(np.arange(n), PROJECTED_ROWS, seed)
                some = matrix[rows] if matrix is not None else as_matrix(x[torch.from_numpy(rows)])
                reduction = Reduction.fit(some, seed)
        self.reduction = reduction
        self.sparse = matrix if reduction.axes.size else None
        if matrix is None and not reduction.axes.size:
            self.features = x.float().numpy()
        else:
            width = reduction.axes.shape[1] if reduction.axes.size else x.shape[1]
            self.features = self.scratch.array(n, width)
            for rows in pieces(n):
                part = matrix[rows] if matrix is not None else as_matrix(x[rows])
                self.features[rows] = reduction.apply(part)
        inputs = graph.edge_inputs
        if inputs is not None:
            with_direction = inputs.has_direction
        elif with_direction is None:
            with_direction = graph.arcs.shape[1] < graph.edge_index.shape[1]
        self.with_direction = with_direction and not graph.directed
        self.two_way = not graph.directed and (inputs is None or inputs.structure.open is None)
        self.attributes = None if inputs is None else inputs.features
        self._arcs = arcs = ArcMeans(graph)
        self._hops = [arcs.along, arcs.against] if self.with_direction else [arcs.all]
        self.graph = graph_of(graph.edge_index, n)
        self.means = NeighbourMeans(self.graph) if inputs is None else arcs.all()
        self.joined = self._joined()

    @property
    def typed_count(self) -> int:
        """Number of results of :meth:`typed_means`."""
        return len(self._hops) * sum(count for _, count in self._arcs.groups)

    def typed_means(self, count: int | None = None) -> Iterator[NeighbourMeans]:
        """Yield the means over the neighbours of each type and quartile of the edges, for each
        direction.

        Args:
            count: maximum number of results; None for all.
        """
        kinds = ((parts, kind) for parts, number in self._arcs.groups for kind in range(number))
        every = ((hop, parts, kind) for parts, kind in kinds for hop in self._hops)
        for hop, parts, kind in islice(every, count):
            yield hop(parts == kind)

    def _joined(self) -> NDArray[np.float32]:
        """Return the features of perceptrons; see the attribute ``joined``."""
        x, arcs, hops, typed = self.features, self._arcs, self._hops, self.typed_count
        n = arcs.nodes
        k = x.shape[1]
        narrow = _projected(x, max(TYPED // max(typed, 1), 1)) if typed else x[:, :0]
        widths = [k] * (2 + len(hops)) + [narrow.shape[1]] * typed
        widths += [arcs.edge_width] * len(arcs.ends)
        joined = self.scratch.array(n, sum(widths) + 2 + typed)
        starts = np.cumsum([0, *widths])
        parts = [joined[:, low:high] for low, high in pairwise(starts)]
        parts[0][:] = x
        # Only one NeighbourMeans object is in memory at a time, because each contains a copy of the
        # edges.
        if self.with_direction:
            for hop, out in zip(hops, parts[1:]):
                hop()(x, out)
            near = self.means(x)
        else:
            near = self.means(x, parts[1])
        rest = iter(parts[1 + len(hops) :])
        self.means(near, next(rest))
        degrees = arcs.degrees()
        for means in self.typed_means():
            means(narrow, next(rest))
            degrees.append(means.degrees)
        for end in arcs.ends:
            if arcs.edge_width:
                arcs.edge_means(end, next(rest))
        for place, values in enumerate(degrees):
            joined[:, starts[-1] + place] = np.log1p(values.numpy())
        return joined

    @property
    def network_features(self) -> Tensor:
        """Return the features [n, k] as a tensor for the attention network."""
        return torch.from_numpy(self.features)


def _projected(x: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Return a random projection of features [n, k] to at most ``width`` features."""
    if x.shape[1] <= width:
        return x
    axes = np.random.RandomState(0).standard_normal((x.shape[1], width)) / width**0.5
    return x @ axes.astype(np.float32)
