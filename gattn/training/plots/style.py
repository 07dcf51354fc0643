"""One visual style for every plot, and the way from a drawing to PNG."""

from __future__ import annotations

import io
import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gattn.training.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "METRICS",
    "Draw",
    "diagonal",
    "frame",
    "known",
    "note",
    "number",
    "render",
    "title",
    "unit_range",
]

WIDTH = 4.1  # inches: shown 325 pixels wide, as on a page of 400, 10 points are 11 pixels
DOTS = 230
LONGEST = 38  # letters that fit above a plot
METRICS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "accuracy": "accuracy",
    "f1": "macro F1",
}
"""How readers know the metrics of :mod:`gattn.training.metrics`."""

_TURN = threading.Lock()  # matplotlib's settings are those of the whole process

Draw = Callable[["list[Axes]", Theme], None]
"""Draws on the panels of a figure, in the colours of a theme."""


def _settings(theme: Theme) -> dict[str, object]:
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.titlepad": 8,
        "axes.labelsize": 10,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "legend.fontsize": 10,
        "legend.frameon": False,
        "legend.handlelength": 1.4,
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.muted,
        "axes.labelcolor": theme.ink,
        "axes.titlecolor": theme.ink,
        "text.color": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.line,
        "grid.linewidth": 0.7,
        "lines.linewidth": 1.8,
        "lines.solid_capstyle": "round",
    }


def render(draw: Draw, *, dark: bool, height: float = 4.2, ratios: Sequence[float] = (1,)) -> bytes:
    """Draw a figure and return it as PNG: the same bytes for the same drawing.

    Args:
        draw: draws on the panels, which lie below one another and share their horizontal axis.
        dark: for a dark page.
        height: inches.
        ratios: the heights of the panels to one another.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib import RcParams, rc_context, style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "gattn[molecules]"') from None

    theme = DARK if dark else LIGHT
    stream = io.BytesIO()
    # From matplotlib's own settings, so that a user's do not reach a report.
    with (
        _TURN,
        style.context("default"),
        rc_context(RcParams(_settings(theme))),
        warnings.catch_warnings(),
    ):
        # A name in a script that the font lacks is drawn as boxes; the page has it as text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
        figure = Figure(figsize=(WIDTH, height), dpi=DOTS, layout=layout)
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            len(ratios), 1, sharex=True, squeeze=False, height_ratios=list(ratios)
        )
        draw(list(axes[:, 0]), theme)
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def known(*columns: ArrayLike) -> list[NDArray[np.float64]]:
    """Columns [k] as float64, without the rows in which any is NaN.

    Raises:
        ValueError: they are not of one length.
    """
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or arrays[0].ndim != 1:
        shown = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"a plot needs columns of one length [k]; got {shown}")
    kept = ~np.isnan(np.stack(arrays)).any(axis=0)
    return [array[kept] for array in arrays]


def number(value: float | None) -> str:
    """A number to three significant digits, thousands apart; a dash where there is none.

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
    """A title and, on a line of its own, the metrics under the names that readers know.

    A long text is cut. Dollars stay dollars: matplotlib would read them as mathematics.

    >>> title("price of a $x$", {"rmse": 0.5})
    'price of a \\\\$x\\\\$\\nRMSE 0.500'
    """
    text = " ".join(text.split())
    text = f"{text[: LONGEST - 1]}…" if len(text) > LONGEST else text
    facts = (f"{METRICS.get(key, key)} {number(at)}" for key, at in (metrics or {}).items())
    return "\n".join(part for part in (text.replace("$", r"\$"), "   ".join(facts)) if part)


def frame(axes: Axes, x: str, y: str, text: str) -> None:
    """Name both axes, and say above the panel what it shows."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(text)


def unit_range(axes: Axes) -> None:
    """Show shares from 0 to 1 both ways, with their marks whole at the ends."""
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-0.02, 1.02)


def diagonal(axes: Axes, theme: Theme) -> None:
    """Draw the line on which what stands across and upwards is equal."""
    axes.axline((0, 0), slope=1, color=theme.muted, linewidth=1, linestyle="--", zorder=1)


def note(axes: Axes, text: str, theme: Theme) -> None:
    """Say in the middle of a panel why it is empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=theme.muted)
