"""Plots of a run as PNG: matplotlib without a window and without global state.

Every function returns the bytes of one picture, for a light page or a dark one, 4.1 inches wide:
in a report on a telephone of 400 pixels its text is still 11 pixels high. Labels of shape [k] are
NaN where nothing was measured; such rows are left out.
"""

from gattn.training.plots.calibration import coverage, reliability
from gattn.training.plots.classes import precision_recall, roc
from gattn.training.plots.confusion import confusion_matrix
from gattn.training.plots.learning import learning_curve
from gattn.training.plots.regression import parity, residuals

__all__ = [
    "confusion_matrix",
    "coverage",
    "learning_curve",
    "parity",
    "precision_recall",
    "reliability",
    "residuals",
    "roc",
]
