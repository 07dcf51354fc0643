"""Conversion and checks of edges and weights for pictures of networks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Numbers: TypeAlias = "ArrayLike | Tensor"


def array(numbers: Numbers) -> NDArray:
    """Convert numbers, or a tensor on any device, to a NumPy array."""
    return np.asarray(numbers.detach().cpu() if isinstance(numbers, Tensor) else numbers)


def read_edges(edge_index: Numbers) -> NDArray[np.int64]:
    """Convert edges to an integer array of shape [2, e], and check that no number is negative.

    Raises:
        ValueError: the shape is not (2, e), or a number is negative or not an integer.
    """
    pairs = array(edge_index)
    if pairs.ndim != 2 or len(pairs) != 2:
        raise ValueError(f"edge_index must have shape (2, e); got {pairs.shape}")
    if pairs.size and (pairs.dtype.kind not in "iu" or pairs.min() < 0):
        raise ValueError("edge_index must contain node indices, which are integers of at least 0")
    return pairs.astype(np.int64)


def read_weights(weights: Numbers | None, edges: int) -> NDArray[np.float64]:
    """Return one weight per edge, [e]: the mean over the heads, or ones if ``weights`` is None.

    Raises:
        ValueError: the number of weights is not the number of edges, or a weight is not finite.
    """
    if weights is None:
        return np.ones(edges)
    values = array(weights).astype(np.float64)
    if values.ndim not in (1, 2) or len(values) != edges:
        raise ValueError(f"weights must have shape ({edges},) or ({edges}, h); got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("weights must be finite numbers")
    return values if values.ndim == 1 else values.mean(1)


def strongest_edges(
    edges: NDArray[np.int64], weights: NDArray[np.float64], count: int
) -> NDArray[np.bool_]:
    """Return a mask of the edges with the largest weights.

    The edge of largest weight into each node is always included, so that every node that has an
    incoming edge keeps one.

    Args:
        edges: [2, e] pairs of nodes.
        weights: [e] weight of each edge.
        count: number of edges to choose; more are chosen if more nodes have an incoming edge.

    Example:
        >>> edges, weights = np.array([[0, 1, 2, 0], [1, 2, 0, 2]]), np.array([0.1, 0.6, 0.9, 0.4])
        >>> strongest_edges(edges, weights, 3).tolist()
        [True, True, True, False]
    """
    order = np.lexsort((-weights, edges[1]))
    first = np.diff(edges[1][order], prepend=-1) != 0
    chosen = np.zeros(len(weights), bool)
    chosen[order[first]] = True
    others = np.flatnonzero(~chosen)
    others = others[np.argsort(-weights[others], kind="stable")]
    chosen[others[: max(count - int(chosen.sum()), 0)]] = True
    return chosen
