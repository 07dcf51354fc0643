"""Matplotlib with a file backend and gattn's style, or an error that explains how to install it."""

try:
    import matplotlib as mpl
except ImportError as error:
    raise ImportError(
        "the documentation's pictures need matplotlib, of the dependency group docs: "
        "pip install --group docs"
    ) from error

mpl.use("agg")
import matplotlib.pyplot as plt

from gattn.draw.figure import settings
from gattn.draw.theme import LIGHT, PALETTE

__all__ = ["LIGHT", "WEIGHTS", "mpl", "plt"]

mpl.rcParams.update(
    settings(LIGHT) | {"axes.grid": False, "axes.prop_cycle": mpl.cycler(color=PALETTE)}
)
SHADES = mpl.colors.LinearSegmentedColormap.from_list("weight", [LIGHT.paper, LIGHT.first])
WEIGHTS = SHADES.with_extremes(bad=LIGHT.line)
"""Colours of attention weights, with grey for pairs without an edge."""
