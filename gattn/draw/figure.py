"""Rendering of plots as PNG images in a common style."""

from __future__ import annotations

import io
import textwrap
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gattn.draw.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width of a plot in inches. With this width, text of 10 points is about 11 pixels high on a page.
WIDTH = 4.1
# Dots per inch.
DOTS = 230
# Maximum number of characters in a title, so that it fits above a plot.
LONGEST = 38

# Matplotlib's settings are global, so only one thread may draw at a time.
_LOCK = threading.Lock()

Draw = Callable[["list[Axes]", Theme], None]
"""Type of a function that draws on the panels of a figure in the colours of a theme."""


def line(text: str, longest: int = LONGEST) -> str:
    """Shorten a text to one line of at most ``longest`` characters, and escape its dollar signs.

    matplotlib would read the text between dollar signs as a formula.

    >>> line("the price of wine", 12)
    'the price o…'
    """
    text = " ".join(text.split())
    text = f"{text[: longest - 1]}…" if len(text) > longest else text
    return text.replace("$", r"\$")


def heading(text: str) -> str:
    """Wrap a title to at most two lines, so that it fits above a plot, and escape its dollar signs.

    >>> heading("attention of the members of a club to their neighbours")
    'attention of the members of a club to\\ntheir neighbours'
    """
    wrapped = textwrap.wrap(text, LONGEST, max_lines=2, placeholder="…")
    return "\n".join(map(line, wrapped))


def settings(theme: Theme) -> dict[str, object]:
    """Return the settings of matplotlib for pictures in the colours of a theme."""
    return {
        # Matplotlib contains this font, so plots look the same on every machine.
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.titlepad": 8,
        "legend.frameon": False,
        "legend.handlelength": 1.4,
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.muted,
        "axes.labelcolor": theme.ink,
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


def render(
    draw: Draw, *, dark: bool = False, height: float = 4.2, ratios: Sequence[float] = (1,)
) -> bytes:
    """Draw a figure and return the bytes of a PNG file. While it is drawn, matplotlib's global
    settings and the filters of warnings are replaced, and other threads that draw wait.

    Args:
        draw: function that draws on the panels, which are stacked and share the horizontal axis.
            Equal drawings give equal bytes.
        dark: use colours for a dark page.
        height: height of the figure, in inches.
        ratios: relative heights of the panels.

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

    theme, stream = DARK if dark else LIGHT, io.BytesIO()
    # The plot starts from matplotlib's defaults, so that the user's matplotlib settings do not
    # change a report.
    with (
        _LOCK,
        style.context("default"),
        rc_context(RcParams(settings(theme))),
        warnings.catch_warnings(),
    ):
        # Matplotlib draws a box for a character that is missing in the font. The warning is hidden,
        # because the page repeats these names as text.
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
