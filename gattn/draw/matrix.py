"""The matrix of an attention: a row for each query, a column for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gattn.draw.edges import Numbers, read_edges, read_weights
from gattn.draw.figure import WIDTH, line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attention_matrix", "draw_matrix"]

NAMED = 40
"""More rows or columns have no names: they would overlap."""
LONGEST = 12
"""Letters of a name."""


def attention_matrix(
    edge_index: Numbers, weights: Numbers, size: tuple[int, int]
) -> NDArray[np.float64]:
    """Lay out the weights of edges as a matrix.

    Args:
        edge_index: [2, e], sources and destinations.
        weights: [e], or [e, h], of which the mean over heads is taken.
        size: numbers of sources and of destinations, (m, n).

    Returns:
        [n, m], row i column j the weight of the edge from j to i, summed where there are several,
        and NaN where there is none.

    Raises:
        ValueError: shapes that do not fit, a node beyond the size, a weight that is not finite.

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
    there = np.zeros(dense.shape, bool)
    there[destination, source] = True
    return np.where(there, dense, np.nan)


def draw_matrix(
    edge_index: Numbers, weights: Numbers, size: tuple[int, int] | None = None, *,
    queries: Sequence[str] = (), keys: Sequence[str] = (), title: str = "", dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw an attention as a matrix of queries by keys, grey where there is no edge.

    Args:
        edge_index: [2, e], sources (keys) and destinations (queries).
        weights: [e], or [e, h], of which the mean over heads is drawn.
        size: numbers of sources and of destinations, (m, n); None for the largest in the edges.
        queries: [n] names of the rows, such as words; empty for none. At most 40 are written.
        keys: [m] names of the columns.
        title: above the matrix.
        dark: for a dark page.

    Returns:
        A picture as PNG.

    Raises:
        ValueError: as :func:`attention_matrix`; names of another number than rows or columns.
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
    for name, given, count in (("queries", queries, size[1]), ("keys", keys, size[0])):
        if len(given) not in (0, count):
            raise ValueError(f"{name} must have {count} names; got {len(given)}")

    def draw(panels: list[Axes], theme: Theme) -> None:
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
        axes.set_title(line(title))
        axes.figure.colorbar(image, ax=axes, shrink=0.7)

    tall = 0.75 * WIDTH * size[1] / max(size[0], 1) + 0.8  # beside the scale, above the names
    return render(draw, dark=dark, height=min(max(tall, 2.2), 2 * WIDTH))


def _name_ticks(axes: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    rows, columns = ([line(name, LONGEST) for name in names] if len(names) <= NAMED else []
                     for names in (queries, keys))  # fmt: skip
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, rotation=90)
