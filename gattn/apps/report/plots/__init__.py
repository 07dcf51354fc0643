"""Plots of a run, drawn with matplotlib without opening a window or changing global settings.

Each function returns the bytes of a PNG file.
The width is 4.1 inches, so that on a telephone with 400 pixels the text is still 11 pixels high.
Rows whose label is NaN are ignored. A plot without rows is empty and has a note.
"""

from gattn.apps.report.plots.calibration import coverage, reliability
from gattn.apps.report.plots.classes import roc
from gattn.apps.report.plots.learning import learning_curve
from gattn.apps.report.plots.regression import parity

__all__ = [
    "coverage",
    "learning_curve",
    "parity",
    "reliability",
    "roc",
]
