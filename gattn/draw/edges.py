"""Conversion and checks of edges and weights for pictures of networks and matrices."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["Numbers", "array", "read_edges", "read_weights"]

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
    """Return one weight for each edge, [e]: the mean over heads, or ones if ``weights`` is None.

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
