"""Plots of a run: matplotlib without a window and without global state.

Every function returns a :class:`Plot`, whose method ``png`` draws it for a light page or a dark
one, 4.1 inches wide: in a report on a telephone of 400 pixels its text is still 11 pixels high.
Labels of shape [k] are NaN where nothing was measured; such rows are left out. Without rows the
plot is empty, with a note.
"""

from gattn.training.plots.calibration import coverage, reliability
from gattn.training.plots.classes import confusion_matrix, precision_recall, roc
from gattn.training.plots.learning import learning_curve
from gattn.training.plots.regression import parity, residuals
from gattn.training.plots.style import Plot

__all__ = [
    "Plot",
    "confusion_matrix",
    "coverage",
    "learning_curve",
    "parity",
    "precision_recall",
    "reliability",
    "residuals",
    "roc",
]
