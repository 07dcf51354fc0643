"""One visual style for every plot, and the way from a drawing to PNG."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gattn.draw.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Draw", "line", "render"]

WIDTH = 4.1  # inches: shown 325 pixels wide, as on a page of 400, 10 points are 11 pixels
DOTS = 230
LONGEST = 38  # letters that fit above a plot

_TURN = threading.Lock()  # matplotlib's settings are those of the whole process

Draw = Callable[["list[Axes]", Theme], None]
"""Draws on the panels of a figure, in the colours of a theme."""


def line(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut where it is long.

    Dollars stay dollars: matplotlib would read them as mathematics.

    >>> line("the price of wine", 12)
    'the price o…'
    """
    text = " ".join(text.split())
    text = f"{text[: longest - 1]}…" if len(text) > longest else text
    return text.replace("$", r"\$")


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
        raise ImportError('plots need matplotlib: pip install "gattn[draw]"') from None

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
