"""Means over neighbours of compact graphs, a few columns at a time."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.functional import aggregate
from gattn.graph import Graph
from gattn.graph.sorting import lay_out_rows
from gattn.layout.layout import INT32_END

__all__ = ["NeighbourMeans", "graph_of", "propagate"]

COLUMNS = 16
"""Number of columns whose means are computed at once, which limits the memory."""
STEPS, RESTART = 8, 0.15
"""Number of steps of label propagation, and the probability of a restart in each."""


def graph_of(edges: Tensor, nodes: int) -> Graph:
    """Return the graph of edges [2, e] int32 that are sorted by destination and then by source."""
    kind = torch.int32 if max(nodes, edges.shape[1]) < INT32_END else torch.int64
    source, destination = edges.to(kind)
    counts = torch.bincount(destination, minlength=nodes)
    rowptr = torch.zeros(nodes + 1, dtype=kind)
    torch.cumsum(counts, 0, out=rowptr[1:])
    perm = torch.arange(len(source), dtype=kind)
    return Graph.from_layout(lay_out_rows(rowptr, source, perm, nodes))


class NeighbourMeans:
    r"""Function that computes the mean over the neighbours of each node.

    .. math:: (A x)_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} x_j

    With weights, it is the weighted mean, as in
    :class:`gattn.apps.nodes.stack.propagation.Neighbours`. A node without neighbours has zeros.

    Args:
        graph: the edges from the neighbours of each node to the node; each pair of nodes occurs
            once.
        weights: [e] float32 weights above 0 of the edges; None for weights of 1.

    Attributes:
        graph: the edges.
        degrees: [n], the number of neighbours of each node, or the sum of their weights.
    """

    def __init__(self, graph: Graph, weights: NDArray[np.float32] | None = None) -> None:
        self.graph = graph
        if weights is None:
            self.degrees = graph.in_degree()
            self._weights = torch.ones(graph.num_edges, 1)
            self._scale = self.degrees.clamp(min=1).float().reciprocal()[:, None]
            return
        self._weights = torch.from_numpy(weights)[:, None]
        sums = aggregate(self._weights, torch.ones(graph.num_src, 1, 1), graph)[:, 0]
        self.degrees = sums[:, 0]
        self._scale = torch.where(sums > 0, sums, 1).reciprocal()

    def __call__(
        self, x: NDArray[np.float32], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return the means [n, d] of features [n, d], written to ``out`` if it is passed."""
        out = np.empty_like(x) if out is None else out
        for start in range(0, x.shape[1], COLUMNS):
            part = torch.from_numpy(np.ascontiguousarray(x[:, start : start + COLUMNS]))
            sums = aggregate(self._weights, part[:, None], self.graph)[:, 0]
            out[:, start : start + COLUMNS] = sums.mul_(self._scale).numpy()
        return out

    def round_trips(self) -> NDArray[np.float32]:
        """Return the probability [n, 1] that a walk of two steps comes back to its start.

        The graph must contain the opposite of every edge, with the same weight.
        """
        back = aggregate(self._weights.square(), self._scale[:, None], self.graph)[:, 0]
        return back.mul_(self._scale).numpy()


def propagate(
    means: NeighbourMeans,
    labels: NDArray[np.float32],
    train: NDArray,
    out: NDArray[np.float32],
) -> NDArray[np.float32]:
    r"""Spread labels along the edges by propagation with restarts, a few columns at a time.

    .. math:: F \leftarrow (1 - r) A F + r Y

    Args:
        means: means over neighbours.
        labels: [k, c] one-hot classes or numbers.
        train: [k] nodes that have these labels.
        out: [n, c] array of the result: the weighted mean of the labels that reach a node, or the
            mean of all labels for a node that no label reaches.

    Returns:
        The array ``out``.
    """
    n = len(out)
    amount = _spread(means, np.ones((len(train), 1), np.float32), train, n)
    scale, is_reached = 1 / np.where(amount > 0, amount, 1), amount > 0
    average = labels.mean(0, dtype=np.float64).astype(np.float32)
    for start in range(0, labels.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        value = _spread(means, labels[:, columns], train, n)
        out[:, columns] = np.where(is_reached, value * scale, average[columns])
    return out


def _spread(
    means: NeighbourMeans, labels: NDArray[np.float32], train: NDArray, n: int
) -> NDArray[np.float32]:
    start = np.zeros((n, labels.shape[1]), np.float32)
    start[train] = labels
    value = start
    for _ in range(STEPS):
        value = means(value)
        value *= 1 - RESTART
        value[train] += RESTART * labels
    return value
