"""Predicted probabilities beside known classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gattn.draw.figure import render
from gattn.draw.theme import Theme
from gattn.training.plots.style import (
    complete_rows,
    diagonal,
    frame,
    note,
    number,
    title,
    unit_range,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["precision_recall", "roc"]

Column = NDArray[np.float64]
GRID = np.linspace(0, 1, 201)  # where the curves of several targets are averaged


class _Curve(NamedTuple):
    """A curve through points (x, y), the area under it, and its target's share of class 1."""

    x: Column
    y: Column
    area: float
    positive: float


class _Curves(NamedTuple):
    """Curves of the targets with labels of both classes, and the number of other targets."""

    curves: list[_Curve]
    left_out: int


class _Kind(NamedTuple):
    """Labels of a curve's axes and area, and the curve of guessing."""

    x: str
    y: str
    area: str
    guessing: Callable[[Axes, Theme], None]
    steps: bool


def roc(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    name: str = "",
    several: str = "targets",
    dark: bool = False,
) -> bytes:
    """Draw the true positives against the false positives: thin lines for targets, and their mean.

    Args:
        y: classes 0 and 1, [k] or [k, t], NaN where not measured.
        probability: of class 1, in the same shape.
        name: of the target, or of all of them.
        several: what the t columns are called.
        dark: for a dark page.

    Returns:
        A picture as PNG, whose title has the area under the curve, and for several targets its
        mean. Targets of which one class only is known have no curve; the title counts them.

    Raises:
        ValueError: the shapes differ, or y holds something else than classes.
        ImportError: matplotlib or scikit-learn is not installed.

    >>> roc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])[:4]
    b'\\x89PNG'
    """
    metrics = _scikit_learn_metrics()

    def curve(classes: Column, p: Column) -> _Curve:
        x, up, _ = metrics.roc_curve(classes, p)
        return _Curve(x, up, float(metrics.roc_auc_score(classes, p)), float(classes.mean()))

    curves = _curves(y, probability, curve)
    kind = _Kind("false positive rate", "true positive rate", "ROC-AUC", diagonal, steps=False)
    return _draw(curves, kind, name, several, dark=dark)


def precision_recall(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    name: str = "",
    several: str = "targets",
    dark: bool = False,
) -> bytes:
    """Draw the precision against the recall: thin lines for targets, and their mean.

    The dashed line is the share of class 1, the precision of guessing. Between two recalls the
    precision is that of the higher one, as the average precision counts it: a straight line would
    show more (Davis and Goadrich, "The relationship between precision-recall and ROC curves",
    ICML 2006).

    Args:
        y: classes 0 and 1, [k] or [k, t], NaN where not measured.
        probability: of class 1, in the same shape.
        name: of the target, or of all of them.
        several: what the t columns are called.
        dark: for a dark page.

    Returns:
        A picture as PNG, as that of :func:`roc`, with the average precision in its title.

    Raises:
        ValueError: the shapes differ, or y holds something else than classes.
        ImportError: matplotlib or scikit-learn is not installed.

    >>> precision_recall([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])[:4]
    b'\\x89PNG'
    """
    metrics = _scikit_learn_metrics()

    def curve(classes: Column, p: Column) -> _Curve:
        precision, recall, _ = metrics.precision_recall_curve(classes, p)
        area = float(metrics.average_precision_score(classes, p))
        return _Curve(recall[::-1], precision[::-1], area, float(classes.mean()))

    curves = _curves(y, probability, curve)

    def guessing(axes: Axes, theme: Theme) -> None:
        share = float(np.mean([one.positive for one in curves.curves]))
        axes.axhline(share, color=theme.muted, linewidth=1, linestyle="--")

    kind = _Kind("recall", "precision", "average precision", guessing, steps=True)
    return _draw(curves, kind, name, several, dark=dark)


def _scikit_learn_metrics() -> ModuleType:
    try:
        from sklearn import metrics
    except ImportError:
        raise ImportError('these plots need scikit-learn: pip install "gattn[molecules]"') from None
    return metrics


def _curves(
    y: ArrayLike,
    probability: ArrayLike,
    curve: Callable[[Column, Column], _Curve],
) -> _Curves:
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
    columns = zip(np.atleast_2d(classes.T), np.atleast_2d(chances.T))
    pairs = [complete_rows(*pair) for pair in columns]
    both = [pair for pair in pairs if len(np.unique(pair[0])) == 2]
    return _Curves([curve(*pair) for pair in both], len(pairs) - len(both))


def _draw(curves: _Curves, kind: _Kind, name: str, several: str, *, dark: bool) -> bytes:
    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        unit_range(axes)
        axes.set_aspect("equal")
        frame(axes, kind.x, kind.y, _areas(name, several, kind.area, curves))
        if not curves.curves:
            return note(axes, f"none of the {several} has both classes", theme)
        kind.guessing(axes, theme)
        _lines(
            axes, curves.curves, theme, f"mean of {len(curves.curves)} {several}", steps=kind.steps
        )

    return render(draw, dark=dark)


def _lines(axes: Axes, curves: Sequence[_Curve], theme: Theme, label: str, *, steps: bool) -> None:
    """Draw one curve, or thin curves and their mean under a label."""
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


def _areas(name: str, several: str, area: str, result: _Curves) -> str:
    curves, left_out = result
    lines = [title(name)] if name else []
    if curves:
        mean = float(np.mean([curve.area for curve in curves]))
        lines.append(f"{'mean ' if len(curves) > 1 else ''}{area} {number(mean)}")
    if left_out and curves:
        lines.append(f"one class only: {left_out} of {left_out + len(curves)} {several}")
    return "\n".join(lines)
