"""Spring layout of a network that places each connected component in a separate rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["lay_out"]


class Rectangle(NamedTuple):
    """Rectangle, defined by its lower left corner, its width and its height."""

    x: float
    y: float
    width: float
    height: float

    def cut(self, share: float) -> tuple[Rectangle, Rectangle]:
        """Cut the rectangle across its longer side into two; the first gets this share of
        the area.
        """
        if self.width >= self.height:
            width = share * self.width
            rest = self._replace(x=self.x + width, width=self.width - width)
            return self._replace(width=width), rest
        height = share * self.height
        rest = self._replace(y=self.y + height, height=self.height - height)
        return self._replace(height=height), rest


def lay_out(pairs: NDArray[np.int64], nodes: int) -> NDArray[np.float64]:
    """Compute two-dimensional positions of the nodes of a network, inside a square.

    A spring layout pushes unconnected nodes far away, so that one node without an edge would leave
    little space for all others. Therefore each connected component gets a separate rectangle, whose
    area is proportional to its number of nodes.

    Args:
        pairs: [2, e] edges.
        nodes: number of nodes, n; nodes may have no edge.

    Returns:
        [n, 2] float64 positions, the same at every call.

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
    positions = np.zeros((nodes, 2))
    components = [sorted(component) for component in networkx.connected_components(graph)]
    components.sort(key=len, reverse=True)
    side = float(np.sqrt(nodes))
    rectangles = _divide([len(members) for members in components], Rectangle(0, 0, side, side))
    for members, rectangle in zip(components, rectangles):
        distance = 1.5 / np.sqrt(len(members))
        spring = networkx.spring_layout(graph.subgraph(members), seed=0, k=distance, iterations=60)
        positions[members] = _fit(np.array([spring[node] for node in members]), rectangle)
    return positions


def _divide(sizes: Sequence[int], rectangle: Rectangle) -> list[Rectangle]:
    """Divide a rectangle into rectangles whose areas are proportional to the sizes."""
    if len(sizes) < 2:
        return [rectangle][: len(sizes)]
    sums = np.cumsum(sizes)
    half = int(np.abs(sums[:-1] - sums[-1] / 2).argmin()) + 1
    first, second = rectangle.cut(sums[half - 1] / sums[-1])
    return _divide(sizes[:half], first) + _divide(sizes[half:], second)


def _fit(positions: NDArray[np.float64], rectangle: Rectangle) -> NDArray[np.float64]:
    """Scale positions [n, 2] to fill a rectangle up to a margin of 0.5."""
    sides = np.array([rectangle.width, rectangle.height])
    low, extent = positions.min(0), np.ptp(positions, axis=0)
    margin = np.minimum(0.5, sides / 2)
    share = np.where(extent > 0, (positions - low) / np.where(extent > 0, extent, 1), 0.5)
    return np.array([rectangle.x, rectangle.y]) + margin + share * (sides - 2 * margin)
