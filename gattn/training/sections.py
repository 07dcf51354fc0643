"""Parts of the report of any model: comparison with baselines, plots, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from gattn.training import plots
from gattn.training.plots.style import METRICS, number
from gattn.training.report import Cell, Figure, Table

if TYPE_CHECKING:
    from torch import Tensor

    from gattn.training.calibration import Reliability

__all__ = [
    "CLASSES",
    "TARGETS",
    "Words",
    "best_of",
    "compare",
    "facts",
    "left_out",
    "part_figures",
    "themed",
    "write_plots",
]

LOWER_IS_BETTER = {"rmse", "mae"}
SHOWN = 12  # targets with plots of their own


class Words(NamedTuple):
    """Names of the columns of predicted probabilities.

    Attributes:
        several: plural noun of the columns.
        event: the event of a probability.
        positive: the positive rows, of which recall counts the detected share.
    """

    several: str
    event: str
    positive: str


TARGETS = Words("targets", "class 1", "class 1")
CLASSES = Words("classes", "the predicted class", "a class, in the mean")


def compare(
    model: Mapping[str, float], baselines: Mapping[str, Mapping[str, float]]
) -> tuple[Table, str]:
    """Compare a model's metrics on the test part with those of the baselines.

    Args:
        model: values by metric: rmse, mae, r2, roc_auc, pr_auc, accuracy.
        baselines: the same by the name of the baseline; a metric that one lacks is left empty.

    Returns:
        A table with a row for each metric and the best value marked, and a sentence on the winner.
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
    names = [name.replace("_", " ") for name in baselines]
    rows, best = [], []
    won: list[str] = []
    tied: list[str] = []
    lost: list[str] = []
    for metric, value in model.items():
        values = [value, *(scores.get(metric, math.nan) for scores in baselines.values())]
        first = best_of(values, metric) if baselines else []
        rows.append((METRICS[metric], *values))
        best.append(tuple(1 + i for i in first))
        if first == [0]:
            won.append(METRICS[metric])
        elif 0 in first:
            tied.append(f"{names[first[1] - 1]} by {METRICS[metric]} ({number(value)})")
        elif first:
            name = names[first[0] - 1]
            lost.append(
                f"{name} by {METRICS[metric]} ({number(values[first[0]])} against {number(value)})"
            )
    table = Table(("metric", "model", *names), tuple(rows), "On the test part", tuple(best))
    return table, _verdict(won, tied, lost)


def best_of(values: Sequence[float], metric: str) -> list[int]:
    """Return the positions of the best values of a metric; empty if all are NaN.

    >>> best_of([0.5, 0.4, 0.4, float("nan")], "rmse"), best_of([0.5, 0.4], "r2")
    ([1, 2], [0])
    """
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return []
    best = min(defined) if metric in LOWER_IS_BETTER else max(defined)
    return [i for i, value in enumerate(values) if value == best]


def _verdict(won: Sequence[str], tied: Sequence[str], lost: Sequence[str]) -> str:
    """Describe the metrics by which the model or a baseline is better, or equal."""
    if not (won or tied or lost):
        return "There is nothing to compare on the test part."
    if won and not tied and not lost:
        return "No baseline is better than the model on the test part."
    clauses = [f"the model is best by {', '.join(won)}"] * bool(won)
    clauses += [f"a baseline is as good as the model: {', '.join(tied)}"] * bool(tied)
    another = " by another measure" * bool(won or tied)
    clauses += [f"a baseline is better{another}: {', '.join(lost)}"] * bool(lost)
    return f"On the test part {'; '.join(clauses)}."


def facts(values: Mapping[str, Cell]) -> Table:
    """Make a table of names and values: settings, versions, sizes.

    >>> facts({"epochs": 60, "device": "cpu"}).rows
    (('epochs', 60), ('device', 'cpu'))
    """
    return Table(("name", "value"), tuple(values.items()))


def left_out(errors: Mapping[int, str], rows: int, *, shown: int = 20) -> tuple[str, list[Table]]:
    """Report the rows that were left out, and the reasons.

    Args:
        errors: what is wrong, by the line of the row in its file.
        rows: how many rows were read.
        shown: how many of them the table lists.

    Returns:
        A sentence, and a table of the first of them; no table where nothing was left out.

    >>> left_out({7: "not a SMILES"}, 100)[0]
    'Left out: 1 of 100 rows.'
    """
    if not errors:
        return f"Left out: none of {rows:,} rows.", []
    sentence = f"Left out: {len(errors):,} of {rows:,} rows."
    caption = "Left out" if len(errors) <= shown else f"The first {shown} that were left out"
    listed = tuple(list(errors.items())[:shown])
    return sentence, [Table(("line", "why"), listed, caption)]


def themed(draw: Callable[..., bytes], alt: str, caption: str = "") -> Figure:
    """Draw a figure for light and for dark pages.

    Args:
        draw: draws it; its option ``dark`` says for which page.
        alt: what it shows, in words.
        caption: a sentence below it.
    """
    return Figure(draw(dark=False), alt, caption, draw(dark=True))


def part_figures(
    task: Literal["regression", "classification"],
    y: Tensor,
    mean: Tensor,
    std: Tensor | None,
    names: Sequence[str],
    reliability: Reliability,
    *,
    words: Words = TARGETS,
) -> dict[str, Figure]:
    """Draw the plots of a predicted part: predictions beside labels, and calibration.

    Args:
        task: what was predicted.
        y: measured values or classes [k, t], NaN where there is none.
        mean: predicted values, or probabilities of class 1, [k, t].
        std: standard deviations of predicted values [k, t]; no bars without them, and not read for
            classes.
        names: of the t targets, with their units.
        reliability: of the intervals, or of the probabilities.
        words: what these are called.

    Returns:
        Figures by file name without its ending. For numbers ``parity`` and ``residuals``, with
        several targets ``parity-1``, ``residuals-1`` and so on, at most of the first twelve; for
        classes ``roc`` and ``precision-recall`` of all targets together; and ``calibration``.
    """
    name = names[0] if len(names) == 1 else f"{len(names)} {words.several}"
    figures: dict[str, Figure] = {}
    if task == "regression":
        for i, target in enumerate(names[:SHOWN]):
            end = f"-{i + 1}" if len(names) > 1 else ""
            bars = None if std is None else std[:, i]
            figures[f"parity{end}"] = themed(
                plots.parity(y[:, i], mean[:, i], bars, name=target).png,
                f"Predicted against measured values of {target}",
            )
            figures[f"residuals{end}"] = themed(
                plots.residuals(y[:, i], mean[:, i], name=target).png,
                f"Histogram of the errors of {target}",
            )
        figures["calibration"] = themed(
            plots.coverage(reliability, name=name).png,
            f"Share of values inside intervals of {name}, by coverage",
            "The grey band contains nine in ten points of exact intervals.",
        )
        return figures
    figures["roc"] = themed(
        plots.roc(y, mean, name=name, several=words.several).png,
        f"True against false positives of {name}",
    )
    figures["precision-recall"] = themed(
        plots.precision_recall(y, mean, name=name, several=words.several).png,
        f"Precision against recall of {name}",
        f"The dashed line is the share of {words.positive}: the precision of guessing.",
    )
    figures["calibration"] = themed(
        plots.reliability(reliability, name=name, event=words.event).png,
        f"Frequency of {words.event} of {name}, by predicted probability",
        "On the dashed line, a predicted probability of 30 % occurs in 30 % of the rows.",
    )
    return figures


def write_plots(folder: Path, figures: Mapping[str, Figure]) -> None:
    """Write the figures of a report, as they are on a light page, as PNG."""
    folder.mkdir(exist_ok=True)
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(figure.picture)
