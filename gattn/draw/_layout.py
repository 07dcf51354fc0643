"""Places for the nodes of a network: each part that hangs together by springs, in its own field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["lay_out"]


class Field(NamedTuple):
    """A rectangle: its left and lower ends, width and height."""

    x: float
    y: float
    width: float
    height: float

    def cut(self, share: float) -> tuple[Field, Field]:
        """Two fields, the first with a share of the area, cut across the longer side."""
        if self.width >= self.height:
            kept = share * self.width
            return self._replace(width=kept), self._replace(
                x=self.x + kept, width=self.width - kept
            )
        kept = share * self.height
        return self._replace(height=kept), self._replace(y=self.y + kept, height=self.height - kept)


def lay_out(pairs: NDArray[np.int64], nodes: int) -> NDArray[np.float64]:
    """Place the nodes of a network in a square, with as much room for each node.

    Springs push what no edge holds far away, so that one node without an edge would leave little
    of a picture to all others. Each connected component has a field of its own instead.

    Args:
        pairs: [2, e] edges.
        nodes: n, of which some may have no edge.

    Returns:
        [n, 2]: the same at every call.

    Raises:
        ImportError: networkx is not installed.
    """
    try:
        import networkx
    except ImportError:
        raise ImportError('this picture needs networkx: pip install "gattn[draw]"') from None
    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(pairs.T.tolist())
    places = np.zeros((nodes, 2))
    parts = [sorted(part) for part in networkx.connected_components(graph)]
    parts.sort(key=len, reverse=True)
    side = float(np.sqrt(nodes))
    for part, field in zip(parts, _fields([len(part) for part in parts], Field(0, 0, side, side))):
        spring = 1.5 / np.sqrt(len(part))
        laid = networkx.spring_layout(graph.subgraph(part), seed=0, k=spring, iterations=60)
        places[part] = _fitted(np.array([laid[node] for node in part]), field)
    return places


def _fields(sizes: Sequence[int], field: Field) -> list[Field]:
    """Divide a field in as many as there are sizes, their areas as these."""
    if len(sizes) < 2:
        return [field][: len(sizes)]
    sums = np.cumsum(sizes)
    half = int(np.abs(sums[:-1] - sums[-1] / 2).argmin()) + 1
    first, second = field.cut(sums[half - 1] / sums[-1])
    return _fields(sizes[:half], first) + _fields(sizes[half:], second)


def _fitted(places: NDArray[np.float64], field: Field) -> NDArray[np.float64]:
    """Stretch places [n, 2] over a field, half the room of a node away from its edge."""
    room = np.array([field.width, field.height])
    low, size = places.min(0), np.ptp(places, axis=0)
    margin = np.minimum(0.5, room / 2)
    inside = np.where(size > 0, (places - low) / np.where(size > 0, size, 1), 0.5)
    return np.array([field.x, field.y]) + margin + inside * (room - 2 * margin)
