"""Plot of the differences between the errors of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.apps.report.plots.style import frame, png
from gattn.draw.figure import line
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gattn.apps.run.compare import Difference

__all__ = ["differences_plot"]


def differences_plot(differences: Sequence[Difference]) -> bytes:
    """Draw the difference of each run from the first one, with its 95 % interval, as PNG.

    Args:
        differences: the result of :func:`gattn.apps.run.compare.compare_runs`.
    """
    shown = [one for one in differences if one.p == one.p][::-1]
    # Only the name of a folder is shown, because its path can be wider than the picture.
    names = [line(f"{Path(one.run).name}  {one.target}".strip()) for one in shown]

    def draw(axes: Sequence[Axes], theme: Theme) -> None:
        places = range(len(shown))
        ends = [
            [one.difference - one.low for one in shown],
            [one.high - one.difference for one in shown],
        ]
        axes[0].axvline(0, color=theme.muted, linewidth=1, linestyle="--")
        axes[0].errorbar(
            [one.difference for one in shown],
            places,
            xerr=ends,
            fmt="o",
            color=theme.ink,
            capsize=3,
        )
        axes[0].set_yticks(places, names)
        axes[0].set_ylim(-0.5, len(shown) - 0.5)
        frame(axes[0], f"error minus the error of {Path(differences[0].run).name}", "", "")

    return png(draw)
