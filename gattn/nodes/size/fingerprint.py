"""Hashes of the nodes and edges of a compact graph, which need no sorting."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.util import hash_pandas_object

from gattn.nodes.attributed import AttributedGraph

__all__ = ["fingerprint", "name_hashes"]


def name_hashes(graph: AttributedGraph) -> NDArray[np.uint64]:
    """Return a 64-bit hash [n] of the name of each node."""
    names = pd.Series([str(name) for name in graph.names], dtype=object)
    # Type checkers do not know the type of this function.
    hashes = cast("Any", hash_pandas_object)(names, index=False, categorize=False)
    return hashes.to_numpy(np.uint64)


def fingerprint(graph: AttributedGraph, hashes: NDArray[np.uint64]) -> str:
    """Return a hash of the names of a compact graph's nodes and of its edges, in any order.

    The fingerprint is a hash of two sums modulo 2**64, over the nodes and over the edges. Sums do
    not depend on the order, so that no array must be sorted.
    """
    with np.errstate(over="ignore"):
        total, edges = hashes.sum(dtype=np.uint64), np.uint64(0)
        source, destination = graph.edge_index.numpy()
        for start in range(0, len(source), 1 << 22):
            rows = slice(start, start + (1 << 22))
            pairs = hashes[source[rows]] * np.uint64(0x9E3779B97F4A7C15) + hashes[destination[rows]]
            pairs ^= pairs >> np.uint64(31)
            edges += (pairs * np.uint64(0xBF58476D1CE4E5B9)).sum(dtype=np.uint64)
    sizes = len(graph), graph.edge_index.shape[1]
    return hashlib.sha256(f"{sizes} {total} {edges}".encode()).hexdigest()
