"""Edges and their weights as the pictures of networks and matrices read them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["Numbers", "array", "read_edges", "read_weights"]

Numbers: TypeAlias = "ArrayLike | Tensor"


def array(numbers: Numbers) -> NDArray:
    """Numbers as NumPy's, from any device and without their gradient."""
    return np.asarray(numbers.detach().cpu() if isinstance(numbers, Tensor) else numbers)


def read_edges(edge_index: Numbers) -> NDArray[np.int64]:
    """Edges [2, e] as integers that are no node below 0.

    Raises:
        ValueError: another shape, a number that is no integer, or one below 0.
    """
    pairs = array(edge_index)
    if pairs.ndim != 2 or len(pairs) != 2:
        raise ValueError(f"edge_index must have shape (2, e); got {pairs.shape}")
    if pairs.size and (pairs.dtype.kind not in "iu" or pairs.min() < 0):
        raise ValueError("edge_index must hold the numbers of nodes, integers from 0 on")
    return pairs.astype(np.int64)


def read_weights(weights: Numbers | None, edges: int) -> NDArray[np.float64]:
    """Weights of the edges, [e], as their mean over heads; without any all are 1.

    Raises:
        ValueError: another number of them than of edges, or one that is not finite.
    """
    if weights is None:
        return np.ones(edges)
    found = array(weights).astype(np.float64)
    if found.ndim not in (1, 2) or len(found) != edges:
        raise ValueError(f"weights must have shape ({edges},) or ({edges}, h); got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("weights must be finite numbers")
    return found if found.ndim == 1 else found.mean(1)
