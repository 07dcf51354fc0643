"""Functions that all plots of a run share: formatting of numbers, titles and axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gattn.draw.figure import Draw, heading, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "accuracy": "accuracy",
    "f1": "macro F1",
    "mcc": "MCC",
    "log_loss": "log loss",
    "mrr": "MRR",
    "hits@1": "hits@1",
    "hits@10": "hits@10",
    "hits@50": "hits@50",
}
"""Names under which the metrics of :mod:`gattn.apps.fitting.metrics` are displayed."""


def png(draw: Draw, *, ratios: Sequence[float] = (1,)) -> bytes:
    """Draw a plot as PNG; see :func:`gattn.draw.figure.render`."""
    return render(draw, dark=False, ratios=ratios)


def complete_rows(*columns: ArrayLike) -> list[NDArray[np.float64]]:
    """Convert columns [k] to float64, and remove the rows in which at least one value is NaN.

    Raises:
        ValueError: the columns have different lengths.
    """
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or arrays[0].ndim != 1:
        shown = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"a plot needs columns of one length [k]; got {shown}")
    complete = ~np.isnan(np.stack(arrays)).any(axis=0)
    return [array[complete] for array in arrays]


def number(value: float | None) -> str:
    """Format a number with three significant digits and a thousands separator; NaN becomes a dash.

    >>> number(0.48912), number(12345.6), number(1e-7), number(float("nan"))
    ('0.489', '12,346', '1e-07', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 100 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    if value == 0 or 1e-4 <= abs(value) < 100:
        return f"{value:#.3g}".rstrip(".").replace("-", "−")
    return f"{value:.3g}"


def title(text: str, metrics: Mapping[str, float] | None = None) -> str:
    """Format a title of at most two lines, followed by a line with the metrics.

    >>> title("price of a $x$", {"rmse": 0.5})
    'price of a \\\\$x\\\\$\\nRMSE 0.500'
    """
    facts = (f"{METRICS.get(key, key)} {number(at)}" for key, at in (metrics or {}).items())
    return "\n".join(part for part in (heading(text), "   ".join(facts)) if part)


def frame(axes: Axes, x: str, y: str, text: str) -> None:
    """Set the labels of both axes and the title of a panel."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(text)


def unit_range(axes: Axes) -> None:
    """Set both axes to the range 0 to 1, with a margin so that no marker is cut off."""
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-0.02, 1.02)


def diagonal(axes: Axes, theme: Theme) -> None:
    """Draw the dashed diagonal on which x and y are equal; both axes have the same scale."""
    # These two points define the line on logarithmic axes, too, which have no slope.
    axes.axline((1, 1), (10, 10), color=theme.muted, linewidth=1, linestyle="--", zorder=1)


def note(axes: Axes, text: str, theme: Theme) -> None:
    """Write a text into the middle of an empty panel, for example the reason why it is empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=theme.muted)
