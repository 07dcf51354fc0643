"""Features of the nodes of a compact graph and means over their neighbours, in arrays in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.nodes.attributed import AttributedGraph
from gattn.nodes.size.means import NeighbourMeans, Scratch, graph_of, pieces
from gattn.nodes.stack.blocks import Reduction, as_matrix

__all__ = ["SampledBlocks", "sample"]

PROJECTED_ROWS = 200_000
"""Maximum number of nodes from whose features the projection of wide features is computed."""

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
        means: means over all neighbours.
        reduction: projection of wide features.
        with_direction: True if there are means along and against the edges.
        two_way: True if the graph contains the opposite of every edge.
        sparse: [n, d] sparse features; None if they are not projected.
        features: [n, k] float32, the features after the projection.
        joined: [n, m] float32, the features, their means over one and two steps, and degrees.
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
        symmetric = graph.arcs.shape[1] == graph.edge_index.shape[1]
        if with_direction is None:
            with_direction = not graph.directed and not symmetric
        self.with_direction = with_direction and not graph.directed
        self.two_way = not graph.directed
        k = self.features.shape[1]
        self.joined = self.scratch.array(n, k * (4 if self.with_direction else 3) + 2)
        self.joined[:, :k] = self.features
        place = 2 * k
        if self.with_direction:
            for pairs in (graph.arcs, _reversed(graph.arcs, n)):
                NeighbourMeans(graph_of(pairs, n))(self.features, self.joined[:, place - k : place])
                place += k
            place -= k
        self.means = NeighbourMeans(graph_of(graph.edge_index, n))
        near = None if self.with_direction else self.joined[:, k : 2 * k]
        near = self.means(self.features, near)
        self.means(near, self.joined[:, place : place + k])
        for column, end in enumerate(graph.arcs):
            self.joined[:, -1 - column] = np.log1p(np.bincount(end.numpy(), minlength=n))

    @property
    def network_features(self) -> Tensor:
        """Return the features [n, k] as a tensor for the attention network."""
        return torch.from_numpy(self.features)


def _reversed(arcs: Tensor, nodes: int) -> Tensor:
    """Return the opposite edges, sorted by destination and then by source."""
    order = np.argsort(arcs[0].numpy(), kind="stable")
    return torch.from_numpy(arcs.numpy()[::-1][:, order])
