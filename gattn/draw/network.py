"""Pictures of networks: colours show the classes of the nodes, and line widths the edge weights.

The two directions of an edge have different weights: the half of a line next to a node shows the
weight of the edge into this node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gattn.draw._layout import lay_out
from gattn.draw.edges import Numbers, array, read_edges, read_weights
from gattn.draw.figure import line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_network", "sample_network"]

NODES = 250
"""Maximum number of nodes in a picture in which single edges are visible."""
PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255",
)  # fmt: skip
"""Colours of classes that colour-blind readers can distinguish (from Okabe and Ito, and from Tol).
"""
MARKERS = "os^"
"""Marker shapes of nodes. After eight classes, the colours are used again with the next shape."""
LOOKS = len(PALETTE) * len(MARKERS)
"""Number of different combinations of colour and marker shape."""
THIN = 0.2
"""Line width of an edge with weight 0."""
BESIDE = 16
"""Maximum length of class names, in characters, for a legend with two columns."""


def sample_network(edges: Numbers, nodes: int, *, most: int = NODES) -> NDArray[np.int64]:
    """Choose a connected part of a large network to draw.

    Args:
        edges: [2, e] pairs of nodes.
        nodes: number of nodes.
        most: number of nodes to choose.

    Returns:
        The chosen nodes in ascending order. The search runs breadth first from the node of highest
        degree, then from the next node that is not chosen, until there are ``most`` nodes. If the
        network has no more than ``most`` nodes, all are returned.

    Example:
        >>> sample_network([[0, 1, 3], [1, 2, 4]], 5, most=3).tolist()
        [0, 1, 2]
    """
    pairs = read_edges(edges)
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
            neighbours = np.unique(both[1, first[node] : first[node + 1]])
            neighbours = neighbours[~seen[neighbours]]
            seen[neighbours] = True
            queue += neighbours.tolist()
        if len(chosen) == most:
            break
    return np.sort(np.array(chosen, np.int64))


def draw_network(
    edge_index: Numbers, weights: Numbers | None = None, colour: Numbers | None = None,
    names: Sequence[str] = (), *, labels: Sequence[str] = (), most: int = NODES, title: str = "",
    dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw a network with a spring layout; the line width of an edge shows its weight.

    Each connected component has a separate rectangle, whose area is proportional to its number of
    nodes. The half of a line next to the destination shows the weight of the edge. The other half
    shows the weight of the opposite edge, and is thin if there is none.

    Args:
        edge_index: [2, e] pairs of nodes; self-loops are not drawn.
        weights: [e] from 0 to 1, or [e, h], whose mean over heads is drawn; None for 1.
        colour: [n] class of each node, as a text or an index into names, or a number; None to give
            all nodes one colour.
        names: names of the classes; empty if the colours are texts or numbers. With more than 24
            classes, there is no legend.
        labels: [n] texts beside the nodes; empty for no texts.
        most: maximum number of nodes to draw, which :func:`sample_network` chooses.
        title: line above the picture.
        dark: use colours for a dark page.

    Returns:
        The bytes of a PNG file.

    Raises:
        ValueError: shapes do not match, a node has no colour, a class has no name, or both
            ``names`` and texts as colours are passed.
        ImportError: matplotlib or networkx is not installed.

    Example:
        >>> draw_network([[0, 1], [1, 2]], [1.0, 0.5], [0, 0, 1], ["left", "right"])[1:4]
        b'PNG'
    """
    pairs = read_edges(edge_index)
    strength, count = read_weights(weights, pairs.shape[1]), int(pairs.max(initial=-1)) + 1
    nodes = max(count, len(labels)) if colour is None else len(array(colour))
    value, names = (np.zeros(nodes), names) if colour is None else _coloured(colour, names)
    _check(count, value, names, labels)
    chosen = sample_network(pairs, nodes, most=most)
    pairs, strength = _among(pairs, strength, chosen, nodes)
    value, shown = value[chosen], [labels[int(i)] for i in chosen] if len(labels) else []
    positions = lay_out(pairs, len(chosen))
    columns = 2 if max(map(len, names), default=0) <= BESIDE else 1
    rows = -(-len(np.unique(value)) // columns) if 0 < len(names) <= LOOKS else 0

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        _draw_edges(axes, positions[pairs.T], strength, theme)
        size = float(np.clip(2500 / max(len(value), 1), 8, 60))
        if len(names):
            _draw_classes(axes, positions, value, names, size, columns)
        elif colour is None:
            axes.scatter(*positions.T, s=size, color=theme.first, zorder=2)
        else:
            dots = axes.scatter(*positions.T, c=value, s=size, cmap="viridis", zorder=2)
            axes.figure.colorbar(dots, ax=axes, shrink=0.7)
        for position, text in zip(positions, shown):
            axes.annotate(line(text, 12), position, (4, 4), textcoords="offset points", fontsize=8)
        axes.set_axis_off()
        axes.set_title(line(title))

    return render(draw, dark=dark, height=4.2 + 0.21 * rows)


def _coloured(colour: Numbers, names: Sequence[str]) -> tuple[NDArray[np.float64], Sequence[str]]:
    """Return the colours as numbers, and the names of the classes.

    If the colours are texts, the classes are the different texts in sorted order.
    """
    values = array(colour)
    if values.dtype.kind not in "UO":
        return values.astype(np.float64), names
    if len(names):
        raise ValueError(
            "colour must be indices into names, or texts without names; got texts and names"
        )
    texts, value = np.unique(values.astype(str), return_inverse=True)
    return value.astype(np.float64), texts.tolist()


def _check(
    count: int, value: NDArray[np.float64], names: Sequence[str], labels: Sequence[str]
) -> None:
    if value.ndim != 1 or len(value) < count:
        raise ValueError(f"colour must be [n] of {count} nodes or more; got {value.shape}")
    if len(labels) not in (0, len(value)):
        raise ValueError(f"labels must be [n], of {len(value)} nodes; got {len(labels)}")
    if len(names) and len(value) and not (value.min() >= 0 and value.max() < len(names)):
        raise ValueError(f"colour must be classes from 0 to {len(names) - 1}, one for each name")


def _among(
    pairs: NDArray[np.int64], strength: NDArray[np.float64], chosen: NDArray[np.int64], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges between the chosen nodes, with new node indices and without self-loops."""
    index = np.full(nodes, -1)
    index[chosen] = np.arange(len(chosen))
    renumbered = index[pairs]
    mask = (renumbered >= 0).all(0) & (pairs[0] != pairs[1])
    return renumbered[:, mask], strength[mask]


def _draw_edges(
    axes: Axes, ends: NDArray[np.float64], strength: NDArray[np.float64], theme: Theme
) -> None:
    from matplotlib.collections import LineCollection

    halves = np.stack([ends.mean(1), ends[:, 1]], 1)  # halves next to the destinations
    for drawn, widths in ((ends, THIN), (halves, THIN + 2.5 * np.clip(strength, 0, 1))):
        lines = LineCollection(list(drawn), linewidths=widths, colors=theme.muted)
        lines.set_alpha(0.6)
        axes.add_collection(lines)


def _draw_classes(
    axes: Axes, positions: NDArray[np.float64], value: NDArray[np.float64], names: Sequence[str],
    size: float, columns: int,
) -> None:  # fmt: skip
    for i, name in enumerate(names):
        if (rows := value == i).any():
            shade, shape = PALETTE[i % len(PALETTE)], MARKERS[i % LOOKS // len(PALETTE)]
            axes.scatter(
                *positions[rows].T, s=size, color=shade, marker=shape, label=line(name), zorder=2
            )
    if len(names) <= LOOKS:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=columns)
