"""Arrays of edges: equal edges, edges in both directions, ages and projected features."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

Matrix: TypeAlias = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


def row_codes(table: pd.DataFrame, dtype: np.dtype) -> NDArray:
    """Return a number for each row, which is equal for equal rows; missing values are equal."""
    if table.columns.empty:
        return np.zeros(len(table), dtype)
    groups = table.groupby(list(table), dropna=False, sort=False, observed=True)
    return groups.ngroup().to_numpy().astype(dtype)


def first_of_equal(*keys: NDArray) -> NDArray[np.bool_]:
    """Return a mask of the positions whose keys do not occur at an earlier position."""
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
    """Return a mask of the edges whose messages do not go backwards in time, and the ages of the
    edges.

    Args:
        times: [n] times at which the nodes are predicted.
        at: times of the rows of the edges; None if edges have the times of their sources.
        pairs: [2, e] edges.
        rows: [e] row of each edge.
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
    features instead.

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
