"""Plot of the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gattn.draw.figure import line, render
from gattn.draw.theme import Theme
from gattn.training.plots.style import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["confusion_matrix"]

CLASSES = 20  # more cannot be told apart
LONGEST = 22  # letters of a class's name beside a row
LARGE = 12  # up to so many, names are as large as other text


def confusion_matrix(
    counts: ArrayLike, names: Sequence[str], *, name: str = "", dark: bool = False
) -> bytes:
    """Draw the share of every true class (row) that was predicted as each class (column).

    Args:
        counts: [c, c] rows of each true class; of more than 20 classes the 20 largest are drawn.
        names: of the c classes.
        name: of what is predicted.
        dark: for a dark page.

    Returns:
        A picture as PNG.

    Raises:
        ValueError: the counts do not fit the names.
        ImportError: matplotlib is not installed.

    >>> confusion_matrix([[3, 1], [0, 4]], ["left", "right"])[:4]
    b'\\x89PNG'
    """
    table = np.asarray(counts, np.float64)
    if table.shape != (len(names), len(names)):
        raise ValueError(f"counts must be [c, c] of {len(names)} names; got {table.shape}")
    largest: list[int] = sorted(np.argsort(-table.sum(1), kind="stable")[:CLASSES].tolist())
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    shares = shares[np.ix_(largest, largest)]
    shown = [line(names[i], LONGEST) for i in largest]
    longest = max(map(len, shown), default=0)
    size = 10 if longest <= LARGE else 8

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("share", [theme.paper, theme.first])
        axes.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="equal")
        axes.grid(False)
        axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=size)
        axes.set_yticks(range(len(shown)), shown, fontsize=size)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        if len(shown) <= 8:
            for (row, column), share in np.ndenumerate(shares):
                colour = theme.paper if share > 0.5 else theme.ink
                axes.text(
                    column, row, f"{100 * share:.0f}", ha="center", va="center", color=colour,
                    fontsize=size,
                )  # fmt: skip
        axes.set_title(title(f"{name}, % of each row" if name else "% of each row"))

    return render(draw, dark=dark, height=4.6)
