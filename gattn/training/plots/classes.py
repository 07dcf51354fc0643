"""Predicted probabilities beside known classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gattn.training.plots.style import known, note, number, render, title
from gattn.training.theme import Theme

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


def roc(y: ArrayLike, probability: ArrayLike, *, name: str = "", dark: bool = False) -> bytes:
    """Draw the true positives against the false positives: thin lines for targets, and their mean.

    Args:
        y: classes 0 and 1, [k] or [k, t], NaN where not measured.
        probability: of class 1, in the same shape.
        name: of the target, or of all of them.
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

    curves, left_out = _curves(y, probability, curve)

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        if curves:
            axes.plot([0, 1], [0, 1], color=theme.muted, linewidth=1, linestyle="--")
        _lines(axes, curves, theme, steps=False)
        _square(axes, "false positive rate", "true positive rate")
        axes.set_title(_areas(name, "ROC-AUC", curves, left_out))

    return render(draw, dark=dark)


def precision_recall(
    y: ArrayLike, probability: ArrayLike, *, name: str = "", dark: bool = False
) -> bytes:
    """Draw the precision against the recall: thin lines for targets, and their mean.

    The dashed line is the share of class 1, the precision of guessing. Between two recalls the
    precision is that of the higher one, as the average precision counts it: a straight line would
    promise more (Davis and Goadrich, "The relationship between precision-recall and ROC curves",
    ICML 2006).

    Args:
        y: classes 0 and 1, [k] or [k, t], NaN where not measured.
        probability: of class 1, in the same shape.
        name: of the target, or of all of them.
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

    curves, left_out = _curves(y, probability, curve)

    def draw(panels: list[Axes], theme: Theme) -> None:
        (axes,) = panels
        if curves:
            share = float(np.mean([found.positive for found in curves]))
            axes.axhline(share, color=theme.muted, linewidth=1, linestyle="--")
        _lines(axes, curves, theme, steps=True)
        _square(axes, "recall", "precision")
        axes.set_title(_areas(name, "average precision", curves, left_out))

    return render(draw, dark=dark)


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
) -> tuple[list[_Curve], int]:
    """The curve of every target of which both classes are known, and how many others there are."""
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
    pairs = [known(*pair) for pair in columns]
    both = [pair for pair in pairs if len(np.unique(pair[0])) == 2]
    return [curve(*pair) for pair in both], len(pairs) - len(both)


def _lines(axes: Axes, curves: Sequence[_Curve], theme: Theme, *, steps: bool) -> None:
    """One curve, or thin ones and their mean."""
    if not curves:
        return note(axes, "no target has both classes", theme)
    style = "steps-pre" if steps else "default"
    if len(curves) == 1:
        axes.plot(curves[0].x, curves[0].y, color=theme.first, drawstyle=style)
        return
    for found in curves:
        axes.plot(found.x, found.y, color=theme.first, linewidth=0.8, alpha=0.45, drawstyle=style)
    heights = [
        found.y[np.searchsorted(found.x, GRID)] if steps else np.interp(GRID, found.x, found.y)
        for found in curves
    ]
    label = f"mean of {len(curves)} targets"
    axes.plot(GRID, np.mean(heights, axis=0), color=theme.second, linewidth=2.2, label=label)
    axes.legend(loc="lower center")


def _square(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-0.01, 1.02)
    axes.set_aspect("equal")


def _areas(name: str, area: str, curves: Sequence[_Curve], left_out: int) -> str:
    lines = [title(name)] if name else []
    if curves:
        mean = float(np.mean([found.area for found in curves]))
        lines.append(f"{'mean ' if len(curves) > 1 else ''}{area} {number(mean)}")
    if left_out and curves:
        lines.append(f"one class only: {left_out} of {left_out + len(curves)} targets")
    return "\n".join(lines)
