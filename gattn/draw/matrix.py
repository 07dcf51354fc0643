"""Pictures of attention as a matrix, with one row for each query and one column for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gattn.draw.edges import Numbers, read_edges, read_weights
from gattn.draw.figure import WIDTH, heading, line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 40
"""Maximum number of rows or columns for which names are written; the names of more rows would
overlap.
"""
LONGEST = 12
"""Maximum number of characters of a name; longer names are truncated."""


def attention_matrix(
    edge_index: Numbers, weights: Numbers, size: tuple[int, int]
) -> NDArray[np.float64]:
    """Arrange the weights of the edges in a dense matrix.

    Args:
        edge_index: [2, e] sources and destinations.
        weights: [e], or [e, h], whose mean over heads is used.
        size: numbers of sources and of destinations, (m, n).

    Returns:
        [n, m] float64, with the weight of the edge from j to i in row i and column j. The weights
        of several edges are added; without an edge the value is NaN.

    Raises:
        ValueError: the shapes do not match, a node is not below ``size``, or a weight is not
            finite.

    Example:
        >>> attention_matrix([[0, 1, 1], [0, 0, 1]], [0.25, 0.75, 1.0], (2, 2))
        array([[0.25, 0.75],
               [ nan, 1.  ]])
    """
    source, destination = read_edges(edge_index)
    if source.max(initial=-1) >= size[0] or destination.max(initial=-1) >= size[1]:
        raise ValueError(
            f"edge_index must name sources below {size[0]} and destinations below {size[1]}; got "
            f"{source.max()} and {destination.max()}"
        )
    dense = np.zeros((size[1], size[0]))
    np.add.at(dense, (destination, source), read_weights(weights, len(source)))
    is_edge = np.zeros(dense.shape, bool)
    is_edge[destination, source] = True
    return np.where(is_edge, dense, np.nan)


def draw_matrix(
    edge_index: Numbers, weights: Numbers, size: tuple[int, int] | None = None, *,
    queries: Sequence[str] = (), keys: Sequence[str] = (), title: str = "", dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw attention weights as a matrix of queries and keys; pairs without an edge are grey.

    Args:
        edge_index: [2, e] sources (keys) and destinations (queries).
        weights: [e], or [e, h], whose mean over heads is drawn.
        size: numbers of sources and of destinations, (m, n); None to read them from the edges.
        queries: [n] names of the rows, such as words; empty for no names. If there are more than
            40 rows, the names are omitted.
        keys: [m] names of the columns.
        title: line above the matrix.
        dark: use colours for a dark page.

    Returns:
        The bytes of a PNG file.

    Raises:
        ValueError: the errors of :func:`attention_matrix`, or the number of names differs from the
            number of rows or columns.
        ImportError: matplotlib is not installed.

    Example:
        >>> words = ["the", "cat", "sat"]
        >>> causal = [[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
        >>> weights = [1.0, 0.4, 0.6, 0.2, 0.7, 0.1]
        >>> draw_matrix(causal, weights, queries=words, keys=words)[1:4]
        b'PNG'
    """
    if size is None:
        source, destination = read_edges(edge_index)
        size = int(source.max(initial=-1)) + 1, int(destination.max(initial=-1)) + 1
    dense = attention_matrix(edge_index, weights, size)
    for name, labels, count in (("queries", queries, size[1]), ("keys", keys, size[0])):
        if len(labels) not in (0, count):
            raise ValueError(f"{name} must have {count} names; got {len(labels)}")

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the matrix, its ticks and its colour bar on one panel."""
        from matplotlib.colors import LinearSegmentedColormap

        (axes,) = panels
        colours = LinearSegmentedColormap.from_list("weight", [theme.paper, theme.first])
        most = float(np.nanmax(dense)) if np.isfinite(dense).any() else 1.0
        shades = colours.with_extremes(bad=theme.line)
        image = axes.imshow(dense, shades, vmin=0, vmax=most, interpolation="nearest")
        axes.grid(False)
        _name_ticks(axes, queries, keys)
        axes.set_xlabel("key")
        axes.set_ylabel("query")
        axes.set_title(heading(title))
        axes.figure.colorbar(image, ax=axes, shrink=0.7)

    # The matrix takes 3/4 of the plot's width, and names and title take 0.8 inches of its height.
    tall = 0.75 * WIDTH * size[1] / max(size[0], 1) + 0.8
    return render(draw, dark=dark, height=min(max(tall, 2.2), 2 * WIDTH))


def _name_ticks(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    rows, columns = ([line(name, LONGEST) for name in names] if len(names) <= NAMED else []
                     for names in (queries, keys))  # fmt: skip
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, rotation=90)
