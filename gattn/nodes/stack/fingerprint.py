"""Hash of the nodes and edges of a graph, by which a model recognises the graph of its training."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from gattn.nodes.attributed import AttributedGraph

__all__ = ["fingerprint", "name_order"]


def fingerprint(graph: AttributedGraph) -> str:
    """Return a SHA-256 hash of a graph's node names and edges that does not depend on their
    order.
    """
    if graph.network is not None:
        return graph.network.fingerprint(graph)
    order = name_order(graph)
    names = "\0".join(str(graph.names[i]) for i in order).encode()
    source, destination = np.argsort(order)[graph.edge_index.numpy()]
    edges = np.sort(source * len(graph) + destination)
    return hashlib.sha256(names + edges.tobytes()).hexdigest()


def name_order(graph: AttributedGraph) -> NDArray[np.int64]:
    """Return the indices [n] that sort the nodes by name."""
    names = list(map(str, graph.names))
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
