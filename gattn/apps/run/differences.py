"""Plot of the differences between the errors of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gattn.draw.figure import line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def differences_plot(first: str, rows: Sequence[tuple[str, float, float, float]]) -> bytes:
    """Draw the differences of the errors of runs from the error of one run as PNG.

    Args:
        first: name of the run with which the others are compared.
        rows: for each other run its name, the difference, and the ends of its interval.
    """
    names, middle, low, high = zip(*rows[::-1])

    def draw(axes: Sequence[Axes], theme: Theme) -> None:
        places = range(len(names))
        ends = [
            [at - end for at, end in zip(middle, low)],
            [end - at for at, end in zip(middle, high)],
        ]
        axes[0].axvline(0, color=theme.muted, linewidth=1, linestyle="--")
        axes[0].errorbar(middle, places, xerr=ends, fmt="o", color=theme.first, capsize=3)
        axes[0].set_yticks(places, list(map(line, names)))
        axes[0].set_ylim(-0.5, len(names) - 0.5)
        axes[0].set_xlabel(f"error minus the error of {line(first)}")
        axes[0].locator_params(axis="x", nbins=6)

    return render(draw, height=min(1.2 + 0.4 * len(rows), 4.2))
