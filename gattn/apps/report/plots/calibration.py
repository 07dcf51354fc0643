"""Plots of calibration: observed frequencies against expected frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gattn.apps.report.plots.style import diagonal, frame, note, png, title, unit_range
from gattn.draw.figure import line
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gattn.apps.fitting.calibration import Reliability


def coverage(curve: Reliability, *, name: str = "") -> bytes:
    """Plot the observed coverage of intervals against the requested coverage.

    The grey band would contain 90 % of the points if the intervals had exactly the requested
    coverage.

    Args:
        curve: result of :func:`gattn.apps.fitting.calibration.coverage_reliability`.
        name: name of the target, or a name for all targets, for the title.

    >>> from gattn.apps.fitting.calibration import Reliability
    >>> coverage(Reliability((0.5, 0.9), (0.48, 0.93), (100, 100)))[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        frame(axes, "requested coverage", "measured values inside", title(name))
        unit_range(axes)
        axes.set_aspect("equal")
        diagonal(axes, theme)
        if not curve.count:
            return note(axes, "no measured value", theme)
        level = np.linspace(0, 1, 101)
        chance = 1.645 * np.sqrt(level * (1 - level) / min(curve.count))
        low, high = (level - chance).clip(0), (level + chance).clip(max=1)
        band = {"color": theme.muted, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(level, low, high, label="by chance", **band)
        points = curve.expected, curve.observed
        axes.plot(*points, "o-", color=theme.first, markersize=4.5, label="observed")
        axes.legend(loc="upper left")

    return png(draw)


def reliability(curve: Reliability, *, name: str = "", event: str = "class 1") -> bytes:
    """Plot the observed frequency of a class against its predicted probability.

    Error bars are the standard errors of the frequencies. A second panel shows the number of rows.

    Args:
        curve: result of :func:`gattn.apps.fitting.calibration.probability_reliability`.
        name: name of the target, or a name for all targets, for the title.
        event: name of the class, for the label of the axis.

    >>> from gattn.apps.fitting.calibration import Reliability
    >>> reliability(Reliability((0.1, 0.8), (0.2, 0.7), (40, 60)))[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        upper, lower = panels
        frame(upper, "", line(f"frequency of {event}"), title(name))
        frame(lower, "predicted probability", "rows", "")
        lower.grid(visible=False, axis="x")
        unit_range(upper)
        diagonal(upper, theme)
        if not curve.count:
            return note(upper, "no known class", theme)
        observed, count = np.array(curve.observed), np.array(curve.count)
        error = np.sqrt(observed * (1 - observed) / count)
        upper.errorbar(curve.expected, observed, error, fmt="o-", color=theme.first, markersize=4.5)
        lower.bar(curve.expected, count, 0.06, color=theme.first, alpha=0.6)

    return png(draw, ratios=(3, 1))
