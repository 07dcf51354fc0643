"""Plots of a run, drawn with matplotlib without opening a window or changing global settings.

Each function returns the bytes of a PNG file.
The width is 4.1 inches, so that on a telephone with 400 pixels the text is still 11 pixels high.
Rows whose label is NaN are ignored. A plot without rows is empty and has a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gattn.apps.fitting.metrics import regression_metrics
from gattn.apps.report.style import number, title
from gattn.draw.figure import line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gattn.apps.fitting.calibration import Reliability
    from gattn.apps.fitting.types import History

BARS = 400
"""For more points, error bars are omitted, because they would hide the points."""
GRID = np.linspace(0, 1, 201)
"""Values of x at which the curves of several targets are averaged."""
UNIT: dict[str, Any] = {"xlim": (-0.01, 1.01), "ylim": (-0.02, 1.02)}
"""Range of axes from 0 to 1, with a margin so that no marker is cut off."""


def learning_curve(histories: Sequence[History]) -> bytes:
    """Return a PNG plot of the training and validation losses of each epoch, in which the selected
    epoch of each network is marked.

    Args:
        histories: the training history of each member of the ensemble; at least one.

    >>> from gattn.apps.fitting.types import EpochRecord, History
    >>> records = EpochRecord(0, 1.0, 1.1, 1e-3, 2.5), EpochRecord(1, 0.5, 0.8, 1e-3, 2.5)
    >>> learning_curve([History(records, chosen=1)])[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the training loss on the upper panel and the validation loss on the lower one."""
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        upper, lower = panels
        several = len(histories) > 1
        width, opacity = (0.9, 0.75) if several else (1.8, 1.0)
        for history in histories:
            epochs = [record.epoch + 1 for record in history.records]
            train = [record.train_loss for record in history.records]
            validation = history.validation_losses
            for axes, curve in ((upper, train), (lower, validation)):
                axes.plot(epochs, curve, color=theme.first, linewidth=width, alpha=opacity)
                axes.axvline(history.chosen + 1, color=theme.second, linewidth=0.8, linestyle=":")
            chosen = history.chosen + 1, validation[history.chosen]
            lower.plot(*chosen, "o", color=theme.second, markersize=5)
        members = f" of {len(histories)} members" if several else ""
        upper.set_title(f"Training loss{members}")
        lower.set_title("Validation loss, with the chosen epoch marked")
        lower.set_xlabel("epoch")
        lower.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        losses = [record.train_loss for history in histories for record in history.records]
        if min(losses) > 0 and max(losses) > 5 * min(losses):
            # The losses have a logarithmic axis only if they differ by more than a factor of 5.
            # Otherwise this axis would have few ticks.
            upper.set_yscale("log")
            upper.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            upper.yaxis.set_major_formatter("{x:g}")
            upper.yaxis.set_minor_formatter(NullFormatter())

    return render(draw, ratios=(1, 1))


def parity(
    y: ArrayLike,
    predicted: ArrayLike,
    std: ArrayLike | None = None,
    *,
    name: str = "",
    logarithmic: bool = False,
) -> bytes:
    """Return a PNG plot of predicted against measured values, with the diagonal of equal values.

    The title contains the root mean square error, the mean absolute error and R².

    Up to 400 points have error bars of one standard deviation.

    Args:
        y: measured values [k], NaN for missing values.
        predicted: predicted values [k], in the same unit.
        std: standard deviations of the predicted values [k]; None for no error bars.
        name: name of the target with its unit, for the title.
        logarithmic: whether both axes are logarithmic; all values must then be above 0.

    Raises:
        ValueError: the columns have different lengths.

    >>> parity([0.1, 0.9, 2.2], [0.0, 1.0, 2.0], [0.1, 0.1, 0.2])[:4]
    b'\\x89PNG'
    """
    spread = np.zeros(np.shape(y)) if std is None else std
    measured, guess, spread = _complete_rows(y, predicted, spread)

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the predicted against the measured values, with error bars if there are few."""
        (axes,) = panels
        axes.set(xlabel="measured", ylabel="predicted", title=title(name))
        if not len(measured):
            return _note(axes, "no measured value", theme)
        errors = regression_metrics(torch.from_numpy(measured), torch.from_numpy(guess))
        limits = _limits(measured, guess, logarithmic=logarithmic)
        scale = "log" if logarithmic else "linear"
        axes.set(
            title=title(name, errors), xlim=limits, ylim=limits, xscale=scale, yscale=scale,
            aspect="equal",
        )  # fmt: skip
        _diagonal(axes, theme)
        few = len(measured) <= BARS
        if few and std is not None:
            bars = {"ecolor": theme.first, "elinewidth": 0.8, "alpha": 0.45}
            axes.errorbar(measured, guess, spread, fmt="none", **bars)
            axes.set_ylabel("predicted ± standard deviation")
        size, opacity = (18, 0.75) if few else (9, 0.4)
        axes.scatter(measured, guess, s=size, color=theme.first, alpha=opacity, linewidths=0)

    return render(draw)


def _limits(
    measured: NDArray[np.float64], guess: NDArray[np.float64], *, logarithmic: bool
) -> tuple[float, float]:
    """Return the limits of both axes. They contain all values with a margin, which is positive even
    if all values are equal. Both arrays [k] have at least one value, and no NaN; on logarithmic
    axes, all values are above 0.
    """
    values = np.concatenate([measured, guess])
    values = np.log10(values) if logarithmic else values
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    low, high = low - margin, high + margin
    return (10**low, 10**high) if logarithmic else (low, high)


def roc(y: ArrayLike, probability: ArrayLike, *, name: str = "", several: str = "targets") -> bytes:
    """Return a PNG plot of the ROC curve, the true positive rate against the false positive rate.

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

    Raises:
        ValueError: the columns of classes and probabilities have different lengths.

    >>> roc([[0], [0], [1], [1]], [[0.1], [0.4], [0.35], [0.8]])[:4]
    b'\\x89PNG'
    """
    from sklearn.metrics import auc, roc_curve

    columns = [_complete_rows(*pair) for pair in zip(np.asarray(y).T, np.asarray(probability).T)]
    curves = [roc_curve(*pair)[:2] for pair in columns if len(np.unique(pair[0])) == 2]
    lines = [title(name)] if name else []
    if curves:
        area = number(float(np.mean([auc(*curve) for curve in curves])))
        lines.append(f"{'mean ' if len(curves) > 1 else ''}ROC-AUC {area}")
    if 0 < len(curves) < len(columns):
        left_out = len(columns) - len(curves)
        lines.append(f"only one class: {left_out} of {len(columns)} {several}")

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the ROC curve of each target or class, and their mean if there are several."""
        (axes,) = panels
        axes.set(
            xlabel="false positive rate", ylabel="true positive rate", title="\n".join(lines),
            aspect="equal", **UNIT,
        )  # fmt: skip
        if not curves:
            return _note(axes, f"none of the {several} has both classes", theme)
        _diagonal(axes, theme)
        style: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.45} if len(curves) > 1 else {}
        for curve in curves:
            axes.plot(*curve, color=theme.first, **style)
        if len(curves) > 1:
            mean = np.mean([np.interp(GRID, *curve) for curve in curves], axis=0)
            label = f"mean of {len(curves)} {several}"
            axes.plot(GRID, mean, color=theme.second, linewidth=2.2, label=label)
            axes.legend(loc="lower center")

    return render(draw)


def coverage(curve: Reliability, *, name: str = "") -> bytes:
    """Return a PNG plot of the observed against the requested coverage of intervals.

    The grey band would contain 90 % of the points if the intervals had exactly the requested
    coverage.

    Args:
        curve: result of :func:`gattn.apps.fitting.calibration.coverage_reliability`.
        name: name of the target, or a name for all targets, for the title.

    >>> from gattn.apps.fitting.calibration import Reliability
    >>> coverage(Reliability((0.5, 0.9), (0.48, 0.93), (100, 100)))[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the observed against the requested coverage, with the band that chance explains."""
        (axes,) = panels
        axes.set(
            xlabel="requested coverage", ylabel="measured values inside", title=title(name),
            aspect="equal", **UNIT,
        )  # fmt: skip
        _diagonal(axes, theme)
        if not curve.count:
            return _note(axes, "no measured value", theme)
        level = np.linspace(0, 1, 101)
        chance = 1.645 * np.sqrt(level * (1 - level) / min(curve.count))
        low, high = (level - chance).clip(0), (level + chance).clip(max=1)
        band = {"color": theme.muted, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(level, low, high, label="by chance", **band)
        points = curve.expected, curve.observed
        axes.plot(*points, "o-", color=theme.first, markersize=4.5, label="observed")
        axes.legend(loc="upper left")

    return render(draw)


def reliability(curve: Reliability, *, name: str = "", event: str = "class 1") -> bytes:
    """Return a PNG plot of the observed frequency of a class against its predicted probability.

    Error bars are the standard errors of the frequencies. A second panel shows the number of rows.

    Args:
        curve: result of :func:`gattn.apps.fitting.calibration.probability_reliability`.
        name: name of the target, or a name for all targets, for the title.
        event: name of the class, for the label of the axis.

    >>> from gattn.apps.fitting.calibration import Reliability
    >>> reliability(Reliability((0.1, 0.8), (0.2, 0.7), (40, 60)))[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the observed against the predicted frequency above, and the numbers of
        rows below.
        """
        upper, lower = panels
        upper.set(ylabel=line(f"frequency of {event}"), title=title(name), **UNIT)
        lower.set(xlabel="predicted probability", ylabel="rows")
        lower.grid(visible=False, axis="x")
        _diagonal(upper, theme)
        if not curve.count:
            return _note(upper, "no known class", theme)
        observed, count = np.array(curve.observed), np.array(curve.count)
        error = np.sqrt(observed * (1 - observed) / count)
        upper.errorbar(curve.expected, observed, error, fmt="o-", color=theme.first, markersize=4.5)
        lower.bar(curve.expected, count, 0.06, color=theme.first, alpha=0.6)

    return render(draw, ratios=(3, 1))


def _complete_rows(*columns: ArrayLike) -> list[NDArray[np.float64]]:
    """Convert columns [k] to float64, and remove the rows in which at least one value is NaN.

    Raises:
        ValueError: the columns have different lengths.
    """
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or arrays[0].ndim != 1:
        shown = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"a plot needs columns of one length [k]; got {shown}")
    complete = ~np.isnan(np.stack(arrays)).any(axis=0)
    return [array[complete] for array in arrays]


def _diagonal(axes: Axes, theme: Theme) -> None:
    """Draw the dashed diagonal on which x and y are equal; both axes have the same scale."""
    # These two points define the line on logarithmic axes, too, which have no slope.
    axes.axline((1, 1), (10, 10), color=theme.muted, linewidth=1, linestyle="--", zorder=1)


def _note(axes: Axes, text: str, theme: Theme) -> None:
    """Write a text into the middle of an empty panel, for example the reason why it is empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=theme.muted)
