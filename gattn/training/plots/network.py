"""A picture of a network: nodes in the colour of their class, edges as thick as their attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gattn.training.plots.style import render, title
from gattn.training.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["network_picture", "sample_network"]

NODES = 250
"""More nodes are a grey cloud."""
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255",
)  # fmt: skip
"""Colours that the colour-blind tell apart (Okabe and Ito 2008, and two of Tol's)."""
BESIDE = 16
"""Letters of a class's name of which two stand beside each other below the picture."""


def sample_network(edges: ArrayLike, nodes: int, *, most: int = NODES) -> NDArray[np.int64]:
    """Choose some nodes of a large network that hang together.

    Args:
        edges: [2, e] pairs of nodes.
        nodes: how many there are.
        most: how many to choose.

    Returns:
        The chosen nodes, ascending: breadth first around the node with the most edges, then around
        the next that is left, until there are enough. All of a network that is small.

    >>> sample_network([[0, 1, 3], [1, 2, 4]], 5, most=3).tolist()
    [0, 1, 2]
    """
    pairs = np.asarray(edges, np.int64)
    if nodes <= most:
        return np.arange(nodes)
    both = np.concatenate([pairs, pairs[::-1]], 1)
    both = both[:, np.argsort(both[0], kind="stable")]
    first = np.searchsorted(both[0], np.arange(nodes + 1))
    chosen: list[int] = []
    seen = np.zeros(nodes, bool)
    for start in np.argsort(-np.diff(first), kind="stable"):
        if seen[start]:
            continue
        seen[start], queue = True, [int(start)]
        while queue and len(chosen) < most:
            node = queue.pop(0)
            chosen.append(node)
            near = np.unique(both[1, first[node] : first[node + 1]])
            near = near[~seen[near]]
            seen[near] = True
            queue += near.tolist()
        if len(chosen) == most:
            break
    return np.sort(np.array(chosen, np.int64))


def network_picture(
    edges: ArrayLike,
    attention: ArrayLike,
    colour: ArrayLike,
    names: Sequence[str] = (),
    *,
    name: str = "",
    dark: bool = False,
) -> bytes:
    """Draw a network, its nodes laid out by springs.

    Args:
        edges: [2, e] pairs of nodes, without self-loops.
        attention: [e] weights from 0 to 1.
        colour: [n] of each node its class, or a number.
        names: of the classes; empty where the colours are numbers. More than eight share colours.
        name: of what is predicted.
        dark: for a dark page.

    Returns:
        A picture as PNG.

    Raises:
        ImportError: matplotlib or networkx is not installed.

    >>> network_picture([[0, 1], [1, 2]], [1.0, 0.5], [0, 0, 1], ["left", "right"])[:4]
    b'\\x89PNG'
    """
    try:
        import networkx
    except ImportError:
        raise ImportError('this picture needs networkx: pip install "gattn[nodes]"') from None
    pairs, weights = np.asarray(edges, np.int64), np.asarray(attention, np.float64)
    value = np.asarray(colour, np.float64)
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(value)))
    graph.add_edges_from(pairs.T.tolist())
    spring = 1.5 / np.sqrt(max(len(value), 1))
    laid = networkx.spring_layout(graph, seed=0, k=spring, iterations=60)
    places = np.array([laid[node] for node in range(len(value))]).reshape(-1, 2)

    columns = 2 if max(map(len, names), default=0) <= BESIDE else 1
    rows = -(-len(names) // columns) if len(names) <= len(PALETTE) else 0

    def draw(panels: list[Axes], theme: Theme) -> None:
        from matplotlib.collections import LineCollection

        (axes,) = panels
        ends = places[pairs.T]
        lines = LineCollection(list(ends), linewidths=0.2 + 2.5 * weights, colors=theme.muted)
        lines.set_alpha(0.6)
        axes.add_collection(lines)
        size = float(np.clip(2500 / max(len(value), 1), 8, 60))
        if len(names):
            for i, label in enumerate(names):
                own = value == i
                if own.any():
                    dots = places[own].T
                    shade = PALETTE[i % len(PALETTE)]
                    axes.scatter(*dots, s=size, color=shade, label=title(label), zorder=2)
            if len(names) <= len(PALETTE):
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=columns)
        else:
            found = axes.scatter(*places.T, c=value, s=size, cmap="viridis", zorder=2)
            axes.figure.colorbar(found, ax=axes, shrink=0.7)
        axes.set_axis_off()
        axes.set_title(title(name))

    return render(draw, dark=dark, height=4.2 + 0.21 * rows)
