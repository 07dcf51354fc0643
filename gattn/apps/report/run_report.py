"""Content and pictures of the report page of a trained model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gattn.apps.report import run_plots
from gattn.apps.report.report import Cell, Figure, Highlight, ReportContent, Section, Table
from gattn.apps.report.style import METRICS, number

if TYPE_CHECKING:
    from torch import Tensor

    from gattn.apps.fitting.calibration import Reliability
    from gattn.apps.fitting.tasks import Task
    from gattn.apps.fitting.types import History

LOWER_IS_BETTER = {"rmse", "mae", "log_loss"}
SHOWN = 12
"""Maximum number of targets with separate plots."""
LISTED = 20
"""Maximum number of rows that were left out in the table of these rows."""


class Words(NamedTuple):
    """Words that a report uses for targets and for predicted probabilities.

    Attributes:
        several: plural noun of the columns, for example "targets".
        event: the event whose probability is predicted, for example "class 1".
    """

    several: str
    event: str


TARGETS = Words("targets", "class 1")
CLASSES = Words("classes", "the predicted class")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlotFacts:
    """Predictions for one part that plots show.

    Attributes:
        task: type of the labels.
        targets: the names of the t targets, with their units if known.
        y: [k, t] measured values or classes; NaN for missing labels. For several classes the t
            columns are classes, with 1 for the true one and 0 for the others.
        mean: [k, t] predicted values, or probabilities of class 1.
        std: [k, t] standard deviations of the predicted values; None for no error bars. They are
            ignored for classes.
        reliability: calibration curve of the intervals or of the probabilities.
        words: words for several targets and for the event of a probability.
        logarithmic: whether the values of the targets are plotted on logarithmic axes.
    """

    task: Task
    targets: tuple[str, ...]
    y: Tensor
    mean: Tensor
    std: Tensor | None
    reliability: Reliability
    words: Words = TARGETS
    logarithmic: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFacts(PlotFacts):
    """Results and settings of a finished run that its report shows. The predictions are those for
    the test part.

    Attributes:
        title: title of the page.
        summary: a sentence about the model and its data.
        item: plural noun of the rows: "molecules", "nodes".
        metrics: content of ``metrics.json``.
        parts: number of rows of each part.
        rows: number of rows of the input.
        histories: training histories of the networks; empty if no network was trained.
        errors: reasons why rows were left out, by their line in the file.
        settings: settings of the run.
        versions: versions of Python and of the packages.
        notes: sentences on the metrics.
        interval_notes: sentences on the intervals or the sets of classes.
        decided: sentences about decisions of the reader of the data.
    """

    title: str
    summary: str
    item: str
    metrics: Mapping[str, Any]
    parts: Mapping[str, int]
    rows: int
    histories: Sequence[History]
    errors: Mapping[int, str] = field(default_factory=dict)
    settings: Mapping[str, Cell] = field(default_factory=dict)
    versions: Mapping[str, Cell] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    interval_notes: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()


def run_report(
    run: RunFacts, sections: Sequence[Section] = ()
) -> tuple[ReportContent, dict[str, Figure]]:
    """Create the content of a run's report.

    Args:
        run: results and settings of the run.
        sections: additional sections between the plots and the data, for example about
            the rows with the largest errors.

    Returns:
        The content of the page, and its plots by file name without the suffix ``.png``.

    Raises:
        ValueError: the labels and the predictions have different lengths.
        ImportError: matplotlib is not installed.
    """
    figures = part_figures(run)
    predictions = tuple(figure for name, figure in figures.items() if name != "calibration")
    training = []
    if run.histories:
        plot = run_plots.learning_curve(run.histories)
        losses = Figure(plot, "Losses of training and validation by epoch")
        figures["learning-curve"] = losses
        training = [_training(run.histories, losses)]
    tables = (compare(run.metrics["test"], run.metrics["baselines"]), _validation(run))
    content = ReportContent(
        run.title,
        run.summary,
        (
            Section("Metrics", run.notes, (*tables, *_targets(run)), predictions),
            _uncertainty(run, figures["calibration"]),
            *sections,
            *training,
            _data(run),
            Section("Settings and versions", tables=(facts(run.settings), facts(run.versions))),
        ),
        _highlights(run),
    )
    return content, figures


def part_figures(run: PlotFacts) -> dict[str, Figure]:
    """Draw the plots of one part: predictions against labels, and calibration.

    Returns:
        Figures by file name without its suffix: ``calibration``; for numbers ``parity``, or with
        several targets ``parity-1`` and so on, for at most twelve targets; for classes ``roc`` of
        all targets together.

    Raises:
        ValueError: the labels and the predictions have different lengths.
        ImportError: matplotlib is not installed.
    """
    words, names = run.words, run.targets
    name = names[0] if len(names) == 1 else f"{len(names)} {words.several}"
    figures: dict[str, Figure] = {}
    if run.task.is_class:
        figures["roc"] = Figure(
            run_plots.roc(run.y, run.mean, name=name, several=words.several),
            f"True positive rate against false positive rate of {name}",
        )
        figures["calibration"] = Figure(
            run_plots.reliability(run.reliability, name=name, event=words.event),
            f"Observed frequency of {words.event} of {name}, by predicted probability",
            "On the dashed line, a predicted probability of 30 % occurs in 30 % of the rows.",
        )
        return figures
    for i, target in enumerate(names[:SHOWN]):
        end = f"-{i + 1}" if len(names) > 1 else ""
        bars = None if run.std is None else run.std[:, i]
        figures[f"parity{end}"] = Figure(
            run_plots.parity(
                run.y[:, i], run.mean[:, i], bars, name=target, logarithmic=run.logarithmic
            ),
            f"Predicted against measured values of {target}",
        )
    figures["calibration"] = Figure(
        run_plots.coverage(run.reliability, name=name),
        f"Fraction of the values inside the intervals of {name}, by coverage",
        "If the intervals are exact, 90 % of the points are in the grey band.",
    )
    return figures


def write_plots(folder: Path, figures: Mapping[str, Figure]) -> None:
    """Write the figures of a report as PNG files into a folder, which is created if it is missing.
    Raises OSError if a file cannot be written.
    """
    folder.mkdir(exist_ok=True)
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(figure.picture)


def _highlights(run: RunFacts) -> tuple[Highlight, ...]:
    """Return the main numbers of a run: at most two test metrics with the best baseline of each,
    the coverage if there are intervals, and the number of items.
    """
    highlights = []
    for metric, value in list(run.metrics["test"].items())[:2]:
        others = [scores.get(metric, math.nan) for scores in run.metrics["baselines"].values()]
        best = [f"best baseline {number(others[i])}" for i in best_of(others, metric)]
        highlights.append(Highlight(f"test {METRICS[metric]}", value, "".join(best[:1])))
    if intervals := run.metrics.get("intervals"):
        label = f"inside the {run.task.regions}"
        share, requested = (f"{100 * intervals[key]:.3g}\u00a0%" for key in ("held", "coverage"))
        highlights.append(Highlight(label, share, f"requested {requested}"))
    highlights.append(Highlight(run.item, sum(run.parts.values()), f"of {run.rows:,} rows"))
    return tuple(highlights)


def _validation(run: RunFacts) -> Table:
    """Return the table of the metrics on the validation part."""
    rows = tuple((METRICS[key], value) for key, value in run.metrics["val"].items())
    caption = "On the validation part" + ", on which the epoch of the network was chosen" * bool(
        run.histories
    )
    return Table(("metric", "model"), rows, caption)


def _targets(run: RunFacts) -> tuple[Table, ...]:
    """Return a table with the metrics of each target; it is empty if there is only one target."""
    metrics, by_target = run.metrics["test"], run.metrics.get("targets", {})
    if len(by_target) < 2:
        return ()
    rows = tuple(
        (name, *(scores.get(metric) for metric in metrics)) for name, scores in by_target.items()
    )
    columns = "target", *(METRICS[metric] for metric in metrics)
    return (Table(columns, rows, "On the test part, each target"),)


def _uncertainty(run: RunFacts, calibration: Figure) -> Section:
    """Return the section on intervals or sets: notes, a table of their coverage, and a figure."""
    tables: tuple[Table, ...] = ()
    if intervals := run.metrics.get("intervals"):
        names = {
            "coverage": "requested coverage",
            "held": "observed coverage",
            "mean_width": "mean width of the intervals",
            "mean_size": "mean number of labels",
        }
        values = {name: intervals[key] for key, name in names.items() if key in intervals}
        tables = (facts(values),)
    return Section("Uncertainty", run.interval_notes, tables, (calibration,))


def _training(histories: Sequence[History], losses: Figure) -> Section:
    """Return a section with the plot of the losses, and a table with a row for the training of each
    network.
    """
    rows = tuple(
        (
            i + 1,
            len(history.records),
            history.chosen + 1,
            history.records[history.chosen].validation_loss,
            sum(record.seconds for record in history.records),
        )
        for i, history in enumerate(histories)
    )
    columns = "network", "epochs", "chosen epoch", "its validation loss", "seconds"
    return Section("Training", tables=(Table(columns, rows),), figures=(losses,))


def _data(run: RunFacts) -> Section:
    """Return a section on the numbers of rows of the parts and without a label, and on the rows
    that were left out, the first 20 of them with their reasons.
    """
    count, tables = len(run.errors), [Table(("part", run.item), tuple(run.parts.items()))]
    text = [f"No rows were left out of {run.rows:,}."]
    if run.errors:
        text = [f"Left out: {count:,} of {run.rows:,} rows."]
        caption = f"The first {LISTED} rows that were left out" if count > LISTED else "Left out"
        tables.append(Table(("line", "why"), tuple(run.errors.items())[:LISTED], caption))
    if (unlabelled := run.rows - count - sum(run.parts.values())) > 0:
        text.append(
            f"{unlabelled:,} more {'row has' if unlabelled == 1 else 'rows have'} no label."
        )
    return Section("Data", (*text, *run.decided), tuple(tables))


def compare(
    model: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    caption: str = "On the test part",
) -> Table:
    """Compare a model's metrics with the metrics of the baselines.

    Args:
        model: values of the model by metric.
        baselines: values of each baseline by metric, by the baseline's name; the cell of a missing
            metric is empty.
        caption: caption of the table.

    Returns:
        A table with a row for each metric, or, if there are more baselines than metrics, with a row
        for the model and for each baseline. The best values are marked; without baselines none is.

    >>> compare({"rmse": 0.489}, {"kernel ridge": {"rmse": 0.455}}).rows
    (('RMSE', 0.489, 0.455),)
    """
    names = [name.replace("_", " ") for name in baselines]
    rows, best = [], []
    for metric, value in model.items():
        values = [value, *(scores.get(metric, math.nan) for scores in baselines.values())]
        rows.append((METRICS[metric], *values))
        best.append(tuple(1 + i for i in best_of(values, metric)) if baselines else ())
    columns = ("metric", "model", *names)
    if len(names) > len(rows):
        # With many baselines, the table would be wider than the page, so they become its rows.
        best = [tuple(i for i, at in enumerate(best, 1) if j in at) for j in range(1, len(columns))]
        (_, *columns), *rows = zip(columns, *rows, strict=True)
        columns = ("method", *columns)
    return Table(columns, tuple(rows), caption, tuple(best))


def best_of(values: Sequence[float], metric: str) -> list[int]:
    """Return the indices of the best values of a metric; the list is empty if all values are NaN.

    >>> best_of([0.5, 0.4, 0.4, float("nan")], "rmse"), best_of([0.5, 0.4], "r2")
    ([1, 2], [0])
    """
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return []
    best = min(defined) if metric in LOWER_IS_BETTER else max(defined)
    return [i for i, value in enumerate(values) if value == best]


def facts(values: Mapping[str, Cell]) -> Table:
    """Create a table with two columns, names and values, for example for settings or versions.

    >>> facts({"epochs": 60, "device": "cpu"}).rows
    (('epochs', 60), ('device', 'cpu'))
    """
    return Table(("name", "value"), tuple(values.items()))
