"""The parts of a report that every model needs: errors beside baselines, plots, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from gattn.training import plots
from gattn.training.plots.style import METRICS, number
from gattn.training.report import Cell, Figure, Table

__all__ = [
    "classification_figures",
    "compare",
    "facts",
    "left_out",
    "regression_figures",
    "themed",
]

LOWER_IS_BETTER = {"rmse", "mae"}
SHOWN = 12  # targets with plots of their own


def compare(
    model: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]], *, part: str = "test"
) -> tuple[Table, str]:
    """Put a model's metrics beside those of the baselines.

    Args:
        model: values by metric: rmse, mae, r2, roc_auc, pr_auc, accuracy.
        baselines: the same by the name of the baseline; a metric that one lacks is left empty.
        part: what was predicted.

    Returns:
        A table of a row a metric with the best value marked, and a sentence that says who wins.
        Without baselines nothing is marked.

    Raises:
        ValueError: a metric that is not known to be better high or low.

    >>> table, sentence = compare({"rmse": 0.489}, {"kernel ridge": {"rmse": 0.455}})
    >>> table.rows
    (('RMSE', 0.489, 0.455),)
    >>> sentence
    'On the test part a baseline is better: kernel ridge by RMSE (0.455 against 0.489).'
    """
    unknown = set(model) - set(METRICS)
    if unknown:
        raise ValueError(f"metrics must be among {', '.join(METRICS)}; got {sorted(unknown)[0]!r}")
    rows, best, lost, won = [], [], [], []
    for metric, own in model.items():
        values = [own, *(scores.get(metric, math.nan) for scores in baselines.values())]
        first = _best(values, metric) if baselines else []
        rows.append((METRICS[metric], *values))
        best.append(tuple(1 + i for i in first))
        if 0 in first:
            won.append(METRICS[metric])
        elif first:
            name = list(baselines)[first[0] - 1]
            lost.append(
                f"{name} by {METRICS[metric]} ({number(values[first[0]])} against {number(own)})"
            )
    table = Table(("metric", "model", *baselines), tuple(rows), f"On the {part} part", tuple(best))
    return table, _verdict(won, lost, part)


def _best(values: Sequence[float], metric: str) -> list[int]:
    """Positions of the best values; none where none is known."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return []
    best = min(known) if metric in LOWER_IS_BETTER else max(known)
    return [i for i, value in enumerate(values) if value == best]


def _verdict(won: Sequence[str], lost: Sequence[str], part: str) -> str:
    if won and not lost:
        return f"On the {part} part the model is better than every baseline."
    if lost and not won:
        return f"On the {part} part a baseline is better: {', '.join(lost)}."
    if won and lost:
        return (
            f"On the {part} part the model is best by {', '.join(won)}; "
            f"a baseline is better by another measure: {', '.join(lost)}."
        )
    return f"There is nothing to compare on the {part} part."


def facts(values: Mapping[str, Cell], caption: str = "") -> Table:
    """A table of names and values: settings, versions, sizes.

    >>> facts({"epochs": 60, "device": "cpu"}).rows
    (('epochs', 60), ('device', 'cpu'))
    """
    return Table(("name", "value"), tuple(values.items()), caption)


def left_out(errors: Mapping[int, str], rows: int, *, shown: int = 20) -> tuple[str, list[Table]]:
    """Say how many rows were left out, and why.

    Args:
        errors: what is wrong, by the number of the row.
        rows: how many rows were read.
        shown: how many of them the table lists.

    Returns:
        A sentence, and a table of the first of them; no table where nothing was left out.

    >>> left_out({7: "not a SMILES"}, 100)[0]
    '1 of 100 rows was left out.'
    """
    if not errors:
        return f"None of the {rows:,} rows was left out.", []
    was = "row was" if rows == 1 else "rows was" if len(errors) == 1 else "rows were"
    sentence = f"{len(errors):,} of {rows:,} {was} left out."
    caption = "Left out" if len(errors) <= shown else f"The first {shown} that were left out"
    listed = tuple(list(errors.items())[:shown])
    return sentence, [Table(("row", "why"), listed, caption)]


def themed(plot: Callable[..., bytes], alt: str, caption: str = "") -> Figure:
    """A figure for light and for dark pages.

    Args:
        plot: draws it; its option ``dark`` says for which page.
        alt: what it shows, in words.
        caption: a sentence below it.
    """
    return Figure(plot(dark=False), alt, caption, plot(dark=True))


def regression_figures(
    y: ArrayLike, predicted: ArrayLike, std: ArrayLike, names: Sequence[str]
) -> dict[str, Figure]:
    """Parity and residuals of every target, of the first twelve where there are more.

    Args:
        y: measured values [k, t], NaN where there is none.
        predicted: predicted values [k, t].
        std: their standard deviations [k, t].
        names: of the t targets, with their units.

    Returns:
        Figures by file name without its ending: ``parity`` and ``residuals``, with several targets
        ``parity-1``, ``residuals-1`` and so on.
    """
    measured, guess, spread = (np.asarray(values, np.float64) for values in (y, predicted, std))
    found: dict[str, Figure] = {}
    for i, name in enumerate(names[:SHOWN]):
        end = f"-{i + 1}" if len(names) > 1 else ""
        pair = measured[:, i], guess[:, i]
        found[f"parity{end}"] = themed(
            partial(plots.parity, *pair, spread[:, i], name=name),
            f"Predicted against measured values of {name}",
        )
        found[f"residuals{end}"] = themed(
            partial(plots.residuals, *pair, name=name),
            f"Histogram of the errors of {name}",
        )
    return found


def classification_figures(
    y: ArrayLike, probability: ArrayLike, names: Sequence[str]
) -> dict[str, Figure]:
    """ROC, and precision against recall, of all targets together.

    Args:
        y: classes 0 and 1, [k, t], NaN where not measured.
        probability: of class 1, [k, t].
        names: of the t targets.

    Returns:
        Figures by file name without its ending: ``roc`` and ``precision-recall``.
    """
    name = names[0] if len(names) == 1 else f"{len(names)} targets"
    return {
        "roc": themed(
            partial(plots.roc, y, probability, name=name),
            f"True against false positives of {name}",
        ),
        "precision-recall": themed(
            partial(plots.precision_recall, y, probability, name=name),
            f"Precision against recall of {name}",
            "The dashed line is the share of class 1: the precision of guessing.",
        ),
    }
