"""Plots of predicted numbers against measured numbers, and of their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gattn.apps.fitting.metrics import regression_metrics
from gattn.apps.report.plots.style import Plot, complete_rows, diagonal, frame, note, title
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["parity", "residuals"]

# For more points, the density is drawn, because the points would overlap.
MANY = 1500
# For more points, error bars are omitted, because they would hide the points.
BARS = 400


def parity(
    y: ArrayLike,
    predicted: ArrayLike,
    std: ArrayLike | None = None,
    *,
    name: str = "",
    logarithmic: bool = False,
) -> Plot:
    """Plot predicted against measured values, with the diagonal on which both are equal.

    The title contains the root mean square error, the mean absolute error and R².

    Up to 400 points have error bars of one standard deviation. More than 1,500 points are drawn as
    a density.

    Args:
        y: measured values [k], NaN for missing values.
        predicted: predicted values [k], in the same unit.
        std: standard deviations of the predicted values [k]; None for no error bars.
        name: name of the target with its unit, for the title.
        logarithmic: whether both axes are logarithmic; all values must then be above 0.

    Raises:
        ValueError: the columns have different lengths.

    >>> parity([0.1, 0.9, 2.2], [0.0, 1.0, 2.0], [0.1, 0.1, 0.2]).png()[:4]
    b'\\x89PNG'
    """
    spread = np.zeros(np.shape(y)) if std is None else std
    measured, guess, spread = complete_rows(y, predicted, spread)

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        frame(axes, "measured", "predicted", title(name))
        if not len(measured):
            return note(axes, "no measured value", theme)
        errors = regression_metrics(torch.from_numpy(measured), torch.from_numpy(guess))
        axes.set_title(title(name, errors))
        low, high = _limits(measured, guess, logarithmic=logarithmic)
        if logarithmic:
            axes.set_xscale("log")
            axes.set_yscale("log")
        diagonal(axes, theme)
        if len(measured) > MANY:
            _density(axes, measured, guess, (low, high), theme, "log" if logarithmic else "linear")
        else:
            bars = spread if std is not None and len(measured) <= BARS else None
            _points(axes, measured, guess, bars, theme)
            if bars is not None:
                axes.set_ylabel("predicted ± standard deviation")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")

    return Plot(draw)


def _range(*columns: NDArray[np.float64]) -> tuple[float, float]:
    """Return axis limits that contain all values with a margin; the margin is positive even if
    all values are equal.
    """
    low = min(float(column.min()) for column in columns)
    high = max(float(column.max()) for column in columns)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _limits(
    measured: NDArray[np.float64], guess: NDArray[np.float64], *, logarithmic: bool
) -> tuple[float, float]:
    """Return the limits of both axes."""
    if not logarithmic:
        return _range(measured, guess)
    low, high = _range(np.log10(measured), np.log10(guess))
    return 10**low, 10**high


def _points(
    axes: Axes,
    measured: NDArray[np.float64],
    guess: NDArray[np.float64],
    spread: NDArray[np.float64] | None,
    theme: Theme,
) -> None:
    if spread is not None:
        axes.errorbar(
            measured, guess, spread, fmt="none", ecolor=theme.first, elinewidth=0.8, alpha=0.45
        )
    size = 18 if len(measured) <= BARS else 9
    axes.scatter(measured, guess, s=size, color=theme.first, alpha=0.75, linewidths=0, zorder=2)


def _density(
    axes: Axes,
    measured: NDArray[np.float64],
    guess: NDArray[np.float64],
    limits: tuple[float, float],
    theme: Theme,
    scale: Literal["linear", "log"],
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ends = np.log10(limits) if scale == "log" else np.array(limits)
    cells = axes.hexbin(
        measured, guess, gridsize=45, extent=(*ends, *ends), bins="log", mincnt=1,
        xscale=scale, yscale=scale,
        cmap=LinearSegmentedColormap.from_list("density", theme.density), linewidths=0.2,
    )  # fmt: skip
    bar = axes.figure.colorbar(cells, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label("number of rows")
    bar.outline.set_visible(False)


def residuals(y: ArrayLike, predicted: ArrayLike, *, name: str = "") -> Plot:
    """Plot a histogram of the differences between predicted and measured values.

    Args:
        y: measured values [k], NaN for missing values.
        predicted: predicted values [k], in the same unit.
        name: name of the target with its unit, for the title.

    Raises:
        ValueError: the columns have different lengths.

    >>> residuals([0.1, 0.9, 2.2], [0.0, 1.0, 2.0]).png()[:4]
    b'\\x89PNG'
    """
    measured, guess = complete_rows(y, predicted)
    error = guess - measured

    def draw(panels: list[Axes], theme: Theme) -> None:
        from matplotlib.ticker import MaxNLocator

        (axes,) = panels
        frame(axes, "predicted − measured", "rows", title(name))
        axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if not len(error):
            return note(axes, "no measured value", theme)
        # The number of bins follows Rice's rule, 2 n^(1/3), and is limited to between 8 and 60, so
        # that the bars are visible.
        bins = min(60, max(8, round(2 * len(error) ** (1 / 3))))
        reach = float(np.abs(error).max()) or 1.0
        axes.hist(
            error, bins=np.linspace(-reach, reach, bins + 1 + bins % 2).tolist(), color=theme.first,
            edgecolor=theme.paper, linewidth=0.8,
        )  # fmt: skip
        axes.axvline(0, color=theme.muted, linewidth=1, linestyle="--")
        axes.axvline(float(error.mean()), color=theme.second, linewidth=1.4)
        axes.grid(visible=False, axis="x")
        facts = {"mean": float(error.mean()), "standard deviation": float(error.std())}
        axes.set_title(title(name, facts))

    return Plot(draw)
