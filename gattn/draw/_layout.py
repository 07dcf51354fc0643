"""Layout of a network that separates connected components and communities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import networkx

SMALL = 50
"""A connected component with at most this number of nodes is drawn without separating its
communities.
"""
GAP = 1.15
"""Distance between two adjacent communities, relative to the sum of their radii."""


Point: TypeAlias = NDArray[np.float64]


class Layout(NamedTuple):
    """Positions of the nodes, and the communities that the layout separates.

    Attributes:
        positions: [n, 2] float64 positions in a square.
        community: [n] index of each node's community.
        centres: [c, 2] centre of each community.
    """

    positions: NDArray[np.float64]
    community: NDArray[np.int64]
    centres: NDArray[np.float64]


def lay_out(pairs: NDArray[np.int64], weights: NDArray[np.float64], nodes: int) -> Layout:
    """Compute positions inside a square for the nodes of a network.

    A spring layout pushes unconnected nodes far away, so that one node without an edge would leave
    little space for all others. Therefore each connected component gets a separate rectangle, whose
    area is proportional to its number of nodes. In a component with hubs, a spring layout pulls all
    nodes into one heap. Therefore the communities of a component with more than 50 nodes (by the
    method of Louvain) get separate discs, with a spring layout inside each disc.

    Args:
        pairs: [2, e] edges without self-loops.
        weights: [e] non-negative weights; an edge of higher weight pulls its nodes closer.
        nodes: number of nodes, n; nodes may have no edge.

    Returns:
        The layout, the same at every call.

    Raises:
        ImportError: networkx is not installed.
    """
    try:
        import networkx
    except ImportError:
        raise ImportError('this picture needs networkx: pip install "gattn[draw]"') from None
    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    for source, target, weight in zip(*pairs.tolist(), weights.tolist()):
        _add_weight(graph, source, target, weight)
    positions, community = np.zeros((nodes, 2)), np.zeros(nodes, np.int64)
    components = _sorted(networkx.connected_components(graph))
    side = float(np.sqrt(nodes))
    sizes = [len(members) for members in components]
    rectangles = _divide(sizes, np.zeros(2), np.full(2, side))
    centres: list[NDArray[np.float64]] = []
    for members, rectangle in zip(components, rectangles):
        component = graph.subgraph(members)
        communities = [members]
        if len(members) > SMALL:
            communities = _sorted(networkx.community.louvain_communities(component, seed=0))
        positions[members] = _fit(_place(component, members, communities), *rectangle)
        for each in communities:
            community[each] = len(centres)
            centres.append(positions[each].mean(0))
    return Layout(positions, community, np.array(centres).reshape(-1, 2))


def _add_weight(graph: networkx.Graph, source: int, target: int, weight: float) -> None:
    """Add a weight to an undirected edge; create the edge if it does not exist."""
    before = graph.get_edge_data(source, target, {"weight": 0.0})["weight"]
    graph.add_edge(source, target, weight=before + weight)


def _sorted(groups: Iterable[set[int]]) -> list[list[int]]:
    """Sort groups of nodes by decreasing size, and the nodes within each group."""
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))


def _place(
    graph: networkx.Graph, members: list[int], communities: list[list[int]]
) -> NDArray[np.float64]:
    """Return the positions [k, 2] of the members of a connected component, in the order of
    ``members``.
    """
    if len(communities) == 1:
        return _spring(graph, members, 1.5)
    position = {}
    radii = np.sqrt([len(each) for each in communities])
    for each, radius, centre in zip(communities, radii, _place_discs(graph, communities, radii)):
        inside = _fill_disc(_spring(graph.subgraph(each), each, 1.6))
        position.update(zip(each, centre + radius * inside))
    return np.array([position[node] for node in members])


def _spring(graph: networkx.Graph, members: list[int], distance: float) -> NDArray[np.float64]:
    """Return the positions [k, 2] of the members, in their order, by networkx's spring layout with
    seed 0. ``distance`` is the preferred length of an edge, as a multiple of the mean distance of k
    points in a unit square.
    """
    import networkx

    spring = networkx.spring_layout(
        graph, seed=0, k=distance / np.sqrt(len(members)), iterations=60, weight=None
    )
    return np.array([spring[node] for node in members])


def _place_discs(
    graph: networkx.Graph, communities: list[list[int]], radii: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return centres [c, 2] for the discs of c communities. Discs that overlap are moved apart, in
    2,000 steps.
    """
    import networkx

    index = {node: i for i, each in enumerate(communities) for node in each}
    quotient = networkx.Graph()
    quotient.add_nodes_from(range(len(communities)))
    for source, target, weight in graph.edges(data="weight"):
        if index[source] != index[target]:
            _add_weight(quotient, index[source], index[target], weight)
    spring = networkx.spring_layout(quotient, seed=0)
    centres = radii.sum() * np.array([spring[i] for i in range(len(communities))])
    apart = GAP * (radii[:, None] + radii) * (1 - np.eye(len(radii)))
    # Attract all discs to their mean, then separate discs that overlap.
    for _ in range(200):
        centres = 0.95 * centres + 0.05 * centres.mean(0)
        for _ in range(10):
            difference = centres[:, None] - centres
            distance = np.maximum(np.linalg.norm(difference, axis=-1), 1e-9)
            overlap = np.clip(apart - distance, 0, None)
            centres = centres + 0.25 * (difference * (overlap / distance)[..., None]).sum(1)
    return centres


def _fill_disc(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move positions [k, 2] along their radii to fill a disc of radius 1 more evenly."""
    positions = positions - positions.mean(0)
    radius = np.maximum(np.linalg.norm(positions, axis=1), 1e-9)
    even = np.sqrt((np.argsort(np.argsort(radius)) + 0.5) / len(radius))
    return positions / radius[:, None] * (0.5 * even + 0.5 * radius / radius.max())[:, None]


def _divide(sizes: Sequence[int], corner: Point, sides: Point) -> list[tuple[Point, Point]]:
    """Divide a rectangle, given by its lower left corner [2] and its sides [2], across its longer
    side into rectangles whose areas are proportional to ``sizes``.
    """
    if len(sizes) < 2:
        return [(corner, sides)][: len(sizes)]
    sums = np.cumsum(sizes)
    half = int(np.abs(sums[:-1] - sums[-1] / 2).argmin()) + 1
    across = np.eye(2)[sides.argmax()]
    share = across * sums[half - 1] / sums[-1]
    first, second = sides * (1 - across + share), sides * (1 - share)
    return [
        *_divide(sizes[:half], corner, first),
        *_divide(sizes[half:], corner + sides * share, second),
    ]


def _fit(positions: NDArray[np.float64], corner: Point, sides: Point) -> NDArray[np.float64]:
    """Scale positions [n, 2] so that they fill a rectangle, given by its lower left corner [2] and
    its sides [2], with a margin of 0.5 at each side, or of half of a shorter side. Equal
    coordinates are moved to the middle of the rectangle. There must be at least one position.
    """
    low, extent = positions.min(0), np.ptp(positions, axis=0)
    margin = np.minimum(0.5, sides / 2)
    share = np.where(extent > 0, (positions - low) / np.where(extent > 0, extent, 1), 0.5)
    return corner + margin + share * (sides - 2 * margin)
