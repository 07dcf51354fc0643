"""Plot of ROC curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gattn.apps.report.plots.style import (
    complete_rows,
    diagonal,
    frame,
    note,
    number,
    png,
    title,
    unit_range,
)
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Values of x at which the curves of several targets are averaged.
GRID = np.linspace(0, 1, 201)


def roc(y: ArrayLike, probability: ArrayLike, *, name: str = "", several: str = "targets") -> bytes:
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

    >>> roc([[0], [0], [1], [1]], [[0.1], [0.4], [0.35], [0.8]])[:4]
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

    return png(draw)
