"""Plot of predicted numbers against measured numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gattn.apps.fitting.metrics import regression_metrics
from gattn.apps.report.plots.style import complete_rows, diagonal, frame, note, png, title
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# For more points, error bars are omitted, because they would hide the points.
BARS = 400


def parity(
    y: ArrayLike,
    predicted: ArrayLike,
    std: ArrayLike | None = None,
    *,
    name: str = "",
    logarithmic: bool = False,
) -> bytes:
    """Plot predicted against measured values, with the diagonal on which both are equal.

    The title contains the root mean square error, the mean absolute error and R².

    Up to 400 points have error bars of one standard deviation.

    Args:
        y: measured values [k], NaN for missing values.
        predicted: predicted values [k], in the same unit.
        std: standard deviations of the predicted values [k]; None for no error bars.
        name: name of the target with its unit, for the title.
        logarithmic: whether both axes are logarithmic; all values must then be above 0.

    Raises:
        ValueError: the columns have different lengths.

    >>> parity([0.1, 0.9, 2.2], [0.0, 1.0, 2.0], [0.1, 0.1, 0.2])[:4]
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
        few = len(measured) <= BARS
        if few and std is not None:
            bars = {"ecolor": theme.first, "elinewidth": 0.8, "alpha": 0.45}
            axes.errorbar(measured, guess, spread, fmt="none", **bars)
            axes.set_ylabel("predicted ± standard deviation")
        size, opacity = (18, 0.75) if few else (9, 0.4)
        axes.scatter(measured, guess, s=size, color=theme.first, alpha=opacity, linewidths=0)
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")

    return png(draw)


def _limits(
    measured: NDArray[np.float64], guess: NDArray[np.float64], *, logarithmic: bool
) -> tuple[float, float]:
    """Return the limits of both axes. They contain all values with a margin, which is positive even
    if all values are equal.
    """
    values = np.concatenate([measured, guess])
    values = np.log10(values) if logarithmic else values
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    return (10**low, 10**high) if logarithmic else (low, high)
