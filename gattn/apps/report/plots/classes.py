"""Plots of predicted classes: ROC curves and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gattn.apps.report.plots.style import (
    Plot,
    complete_rows,
    diagonal,
    frame,
    note,
    number,
    title,
    unit_range,
)
from gattn.draw.figure import line
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["confusion_matrix", "roc"]

# Values of x at which the curves of several targets are averaged.
GRID = np.linspace(0, 1, 201)
# Maximum number of classes in a confusion matrix with readable rows.
CLASSES = 20
# Maximum number of letters of a class name beside a row.
LONGEST = 22


def roc(y: ArrayLike, probability: ArrayLike, *, name: str = "", several: str = "targets") -> Plot:
    """Plot the ROC curve: the true positive rate against the false positive rate.

    If there are several targets, each has a thin line, and a thick line is their mean.

    Args:
        y: classes 0 and 1, [k, t], NaN for missing labels.
        probability: [k, t] the predicted probability of class 1.
        name: name of the target, or a name for all targets, for the title.
        several: plural noun of the t columns.

    Returns:
        A plot whose title contains the area under the curve, or its mean over several targets.
        Targets whose labels are all of the same class have no curve; the title contains their
        number.

    >>> roc([[0], [0], [1], [1]], [[0.1], [0.4], [0.35], [0.8]]).png()[:4]
    b'\\x89PNG'
    """
    from sklearn.metrics import auc, roc_curve

    columns = [complete_rows(*pair) for pair in zip(np.asarray(y).T, np.asarray(probability).T)]
    curves = [roc_curve(*pair)[:2] for pair in columns if len(np.unique(pair[0])) == 2]
    lines = [title(name)] if name else []
    if curves:
        area = number(float(np.mean([auc(*curve) for curve in curves])))
        lines.append(f"{'mean ' if len(curves) > 1 else ''}ROC-AUC {area}")
    if 0 < len(curves) < len(columns):
        left_out = len(columns) - len(curves)
        lines.append(f"only one class: {left_out} of {len(columns)} {several}")

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        unit_range(axes)
        axes.set_aspect("equal")
        frame(axes, "false positive rate", "true positive rate", "\n".join(lines))
        if not curves:
            return note(axes, f"none of the {several} has both classes", theme)
        diagonal(axes, theme)
        style: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.45} if len(curves) > 1 else {}
        for curve in curves:
            axes.plot(*curve, color=theme.first, **style)
        if len(curves) > 1:
            mean = np.mean([np.interp(GRID, *curve) for curve in curves], axis=0)
            label = f"mean of {len(curves)} {several}"
            axes.plot(GRID, mean, color=theme.second, linewidth=2.2, label=label)
            axes.legend(loc="lower center")

    return Plot(draw)


def confusion_matrix(counts: ArrayLike, names: Sequence[str]) -> Plot:
    """Plot a confusion matrix. Each row shows the fractions of a true class that are predicted as
    each class.

    Args:
        counts: [c, c] numbers of rows by true class and predicted class. If there are more than 20
            classes, the 20 most frequent are drawn.
        names: names of the c classes.

    >>> confusion_matrix([[3, 1], [0, 4]], ["left", "right"]).png()[:4]
    b'\\x89PNG'
    """
    table = np.asarray(counts, np.float64)
    largest: list[int] = sorted(np.argsort(-table.sum(1), kind="stable")[:CLASSES].tolist())
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    shares = shares[np.ix_(largest, largest)]
    shown = [line(names[i], LONGEST) for i in largest]

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("share", [theme.paper, theme.first])
        axes.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="equal")
        axes.grid(False)
        axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=8)
        axes.set_yticks(range(len(shown)), shown, fontsize=8)
        frame(axes, "predicted", "true", "% of each row")
        if len(shown) <= 8:
            for (row, column), share in np.ndenumerate(shares):
                colour = theme.paper if share > 0.5 else theme.ink
                text = f"{100 * share:.0f}"
                axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=8)

    return Plot(draw, height=4.6)
