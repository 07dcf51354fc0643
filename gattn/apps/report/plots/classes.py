"""Plots of predicted probabilities and classes: ROC, precision and recall, confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

__all__ = ["confusion_matrix", "precision_recall", "roc"]

Column = NDArray[np.float64]
# Values of x at which the curves of several targets are averaged.
GRID = np.linspace(0, 1, 201)
# Maximum number of classes in a confusion matrix with readable rows.
CLASSES = 20
# Maximum number of letters of a class name beside a row.
LONGEST = 22
# Class names with more letters get a smaller font.
LARGE = 12


class _Curve(NamedTuple):
    """Curve through points (x, y), with the area below it, and the fraction of class 1 of its
    target.
    """

    x: Column
    y: Column
    area: float
    positive: float


class _Kind(NamedTuple):
    """Kind of curve: functions that compute it and draw the baseline of random guessing, and the
    labels of the axes.
    """

    curve: Callable[[Column, Column], _Curve]
    x: str
    y: str
    area: str
    guessing: Callable[[Axes, Theme, Sequence[_Curve]], None]
    steps: bool


def roc(y: ArrayLike, probability: ArrayLike, *, name: str = "", several: str = "targets") -> Plot:
    """Plot the ROC curve: the true positive rate against the false positive rate.

    If there are several targets, each has a thin line, and a thick line is their mean.

    Args:
        y: classes 0 and 1, [k] or [k, t], NaN for missing labels.
        probability: the predicted probability of class 1, of the same shape.
        name: name of the target, or a name for all targets, for the title.
        several: plural noun of the t columns.

    Returns:
        A plot whose title contains the area under the curve, or its mean over several targets.
        Targets whose labels are all of the same class have no curve; the title contains their
        number.

    Raises:
        ValueError: the shapes differ, or y contains values other than 0, 1 and NaN.

    >>> roc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).png()[:4]
    b'\\x89PNG'
    """

    def curve(classes: Column, p: Column) -> _Curve:
        true, false = _positives(classes, p)
        x, up = false / false[-1], true / true[-1]
        area = float(((up[1:] + up[:-1]) * np.diff(x)).sum() / 2)
        return _Curve(x, up, area, float(classes.mean()))

    def guessing(axes: Axes, theme: Theme, curves: Sequence[_Curve]) -> None:
        diagonal(axes, theme)

    kind = _Kind(
        curve, "false positive rate", "true positive rate", "ROC-AUC", guessing, steps=False
    )
    return _plot(kind, y, probability, name, several)


def precision_recall(
    y: ArrayLike, probability: ArrayLike, *, name: str = "", several: str = "targets"
) -> Plot:
    """Plot the precision against the recall.

    If there are several targets, each has a thin line, and a thick line is their mean. The dashed
    line is the fraction of class 1, which is the precision of guessing. The curve is a step
    function: between two recalls it has the precision at the higher recall, as in the definition of
    the average precision, because linear interpolation would be too optimistic (Davis and Goadrich,
    "The relationship between precision-recall and ROC curves", ICML 2006).

    The arguments and errors are the same as for :func:`roc`; the title contains the average
    precision.

    >>> precision_recall([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).png()[:4]
    b'\\x89PNG'
    """

    def curve(classes: Column, p: Column) -> _Curve:
        true, false = _positives(classes, p)
        recall = true / true[-1]
        # In the first row, no prediction is positive; the precision is then 1 by definition.
        precision = np.append(1.0, true[1:] / (true + false)[1:])
        area = float((np.diff(recall) * precision[1:]).sum())
        return _Curve(recall, precision, area, float(classes.mean()))

    def guessing(axes: Axes, theme: Theme, curves: Sequence[_Curve]) -> None:
        share = float(np.mean([one.positive for one in curves]))
        axes.axhline(share, color=theme.muted, linewidth=1, linestyle="--")

    kind = _Kind(curve, "recall", "precision", "average precision", guessing, steps=True)
    return _plot(kind, y, probability, name, several)


def _plot(kind: _Kind, y: ArrayLike, probability: ArrayLike, name: str, several: str) -> Plot:
    columns = _columns(y, probability)
    both = [pair for pair in columns if len(np.unique(pair[0])) == 2]
    curves = [kind.curve(*pair) for pair in both]
    lines = [title(name)] if name else []
    if curves:
        mean = float(np.mean([curve.area for curve in curves]))
        lines.append(f"{'mean ' if len(curves) > 1 else ''}{kind.area} {number(mean)}")
    if 0 < len(curves) < len(columns):
        left_out = len(columns) - len(curves)
        lines.append(f"only one class: {left_out} of {len(columns)} {several}")

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        unit_range(axes)
        axes.set_aspect("equal")
        frame(axes, kind.x, kind.y, "\n".join(lines))
        if not curves:
            return note(axes, f"none of the {several} has both classes", theme)
        kind.guessing(axes, theme, curves)
        _lines(axes, curves, theme, f"mean of {len(curves)} {several}", steps=kind.steps)

    return Plot(draw)


def _positives(classes: Column, p: Column) -> tuple[Column, Column]:
    """Count the true and false positives at each threshold, from no positive prediction to only
    positive ones.

    Args:
        classes: [k], 0 or 1.
        p: [k], probabilities of class 1; equal ones share a threshold.

    Returns:
        Two float64 arrays [u + 1] for u different probabilities, which start with 0.
    """
    order = np.argsort(-p, kind="stable")
    last = np.append(np.flatnonzero(np.diff(p[order])), len(p) - 1)
    true = np.append(0.0, classes[order].cumsum()[last])
    return true, np.append(0, last + 1) - true


def _columns(y: ArrayLike, probability: ArrayLike) -> list[list[Column]]:
    """Return, for each target, the labels that are not NaN and the predicted probabilities for
    them.
    """
    classes = np.asarray(y, dtype=np.float64)
    chances = np.asarray(probability, dtype=np.float64)
    if classes.shape != chances.shape or classes.ndim not in (1, 2):
        raise ValueError(
            "classes and probabilities must both be [k] or [k, t]; got "
            f"{classes.shape} and {chances.shape}"
        )
    strange = set(np.unique(classes[~np.isnan(classes)])) - {0.0, 1.0}
    if strange:
        raise ValueError(f"classes must be 0, 1 or NaN; got {min(strange):g}")
    pairs = zip(np.atleast_2d(classes.T), np.atleast_2d(chances.T))
    return [complete_rows(*pair) for pair in pairs]


def _lines(axes: Axes, curves: Sequence[_Curve], theme: Theme, label: str, *, steps: bool) -> None:
    """Draw one curve, or several thin curves and their mean with a legend."""
    style = "steps-pre" if steps else "default"
    if len(curves) == 1:
        axes.plot(curves[0].x, curves[0].y, color=theme.first, drawstyle=style)
        return
    for curve in curves:
        axes.plot(curve.x, curve.y, color=theme.first, linewidth=0.8, alpha=0.45, drawstyle=style)
    heights = [
        curve.y[np.searchsorted(curve.x, GRID)] if steps else np.interp(GRID, curve.x, curve.y)
        for curve in curves
    ]
    axes.plot(GRID, np.mean(heights, axis=0), color=theme.second, linewidth=2.2, label=label)
    axes.legend(loc="lower center")


def confusion_matrix(counts: ArrayLike, names: Sequence[str]) -> Plot:
    """Plot a confusion matrix. Each row shows the fractions of a true class that are predicted as
    each class.

    Args:
        counts: [c, c] numbers of rows by true class and predicted class. If there are more than 20
            classes, the 20 most frequent are drawn.
        names: names of the c classes.

    Raises:
        ValueError: the shape of the counts does not fit the number of names.

    >>> confusion_matrix([[3, 1], [0, 4]], ["left", "right"]).png()[:4]
    b'\\x89PNG'
    """
    table = np.asarray(counts, np.float64)
    if table.shape != (len(names), len(names)):
        raise ValueError(f"counts must be [c, c] for {len(names)} classes; got {table.shape}")
    largest: list[int] = sorted(np.argsort(-table.sum(1), kind="stable")[:CLASSES].tolist())
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    shares = shares[np.ix_(largest, largest)]
    shown = [line(names[i], LONGEST) for i in largest]
    size = 10 if max(map(len, shown), default=0) <= LARGE else 8

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("share", [theme.paper, theme.first])
        axes.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="equal")
        axes.grid(False)
        axes.set_xticks(range(len(shown)), shown, rotation=90, fontsize=size)
        axes.set_yticks(range(len(shown)), shown, fontsize=size)
        frame(axes, "predicted", "true", "% of each row")
        if len(shown) <= 8:
            for (row, column), share in np.ndenumerate(shares):
                colour = theme.paper if share > 0.5 else theme.ink
                at = {"ha": "center", "va": "center", "fontsize": size}
                axes.text(column, row, f"{100 * share:.0f}", color=colour, **at)

    return Plot(draw, height=4.6)
