"""Report of a trained model of molecules or nodes, from the facts of its run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gattn.training import plots
from gattn.training.conformal import too_few
from gattn.training.plots.style import METRICS, number
from gattn.training.report import Cell, Figure, Highlight, ReportContent, Section, Table
from gattn.training.sections import (
    TARGETS,
    Words,
    best_of,
    compare,
    facts,
    left_out,
    part_figures,
    themed,
)

if TYPE_CHECKING:
    from torch import Tensor

    from gattn.training.calibration import Reliability
    from gattn.training.types import History

__all__ = ["Intervals", "RunFacts", "run_report"]


@dataclass(frozen=True)
class Intervals:
    """Coverage and width of the intervals, or sets of labels, on the test part.

    Attributes:
        coverage: requested coverage.
        observed: share of measured values that they contain.
        width: their mean width, in the target's unit; for sets the mean number of labels.
        constant_width: width of intervals of equal width for all rows with the same coverage of the
            validation part; None if not computed.
        in_every_set: number of classes with too few validation rows for the coverage.
        promise: sentences on the rows to which the coverage applies.
    """

    coverage: float
    observed: float
    width: float
    constant_width: float | None = None
    in_every_set: int = 0
    promise: str = (
        "The coverage holds on average over rows from the distribution of the validation rows, "
        "not for each single row or for rows of another kind."
    )


@dataclass(frozen=True, eq=False)
class RunFacts:
    """Facts of a finished run for its report.

    Attributes:
        title: of the page.
        summary: one sentence: what was trained, on what.
        item: plural noun of the rows: "molecules", "nodes".
        task: what was predicted.
        targets: the names of the t targets, with their units where they have some.
        metrics: of the test part, by the names of :mod:`gattn.training.metrics`.
        validation: the same of the validation part.
        baselines: the same of the test part, by the name of the baseline.
        y: [k, t] measured values or classes of the test part; NaN where there is none.
        mean: [k, t] predicted values, or probabilities of class 1.
        std: [k, t] standard deviations; not read for classes.
        histories: of the networks; empty where none was trained.
        reliability: of intervals or of probabilities.
        intervals: None where none were calibrated.
        parts: how many rows each part has.
        rows: how many rows were read.
        errors: why rows were left out, by their line in the file.
        settings: of the run.
        versions: of what it ran on.
        by_target: metrics of the test part for each target, where there are several.
        undefined: of each part why metrics are undefined, or means that leave out targets, by
            the name of the metric.
        notes: sentences of the run's own, after the comparison with the baselines.
        decided: what was decided in reading the data, in a sentence each.
        words: what several targets, and the probabilities of a class, are called.
    """

    title: str
    summary: str
    item: str
    task: Literal["regression", "classification"]
    targets: tuple[str, ...]
    metrics: Mapping[str, float]
    validation: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    y: Tensor
    mean: Tensor
    std: Tensor | None
    histories: Sequence[History]
    reliability: Reliability
    intervals: Intervals | None
    parts: Mapping[str, int]
    rows: int
    errors: Mapping[int, str] = field(default_factory=dict)
    settings: Mapping[str, Cell] = field(default_factory=dict)
    versions: Mapping[str, Cell] = field(default_factory=dict)
    by_target: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    words: Words = TARGETS


def run_report(
    run: RunFacts, sections: Sequence[Section] = ()
) -> tuple[ReportContent, dict[str, Figure]]:
    """Make the report of a run: its results and their uncertainty.

    Args:
        run: facts of the run.
        sections: of the run's own, which stand between the plots and the data: the rows that were
            predicted worst, what mattered for them.

    Returns:
        The content of the page, and its plots by file name without the ending ``.png``.
    """
    figures = part_figures(
        run.task, run.y, run.mean, run.std, run.targets, run.reliability, words=run.words
    )
    predictions = tuple(figure for name, figure in figures.items() if name != "calibration")
    losses = _losses(run)
    table, verdict = compare(run.metrics, run.baselines)
    content = ReportContent(
        run.title,
        run.summary,
        (
            Section(
                "Metrics",
                (verdict, *_undefined(run), *run.notes),
                (table, _validation(run), *_targets(run)),
            ),
            Section("Predictions of the test part", (), (), predictions),
            _certainty(run, figures["calibration"]),
            *sections,
            *_training(run, losses),
            _data(run),
            Section("Settings and versions", tables=(facts(run.settings), facts(run.versions))),
        ),
        _highlights(run),
    )
    return content, figures | losses


def _highlights(run: RunFacts) -> tuple[Highlight, ...]:
    highlights = [
        Highlight(f"test {METRICS[metric]}", value, _best_baseline(run, metric))
        for metric, value in list(run.metrics.items())[:2]
    ]
    if run.intervals is not None:
        label = f"inside the {'intervals' if run.task == 'regression' else 'label sets'}"
        requested = f"requested {_percent(run.intervals.coverage)}"
        highlights.append(Highlight(label, _percent(run.intervals.observed), requested))
    highlights.append(Highlight(run.item, sum(run.parts.values()), f"of {run.rows:,} rows"))
    return tuple(highlights)


def _best_baseline(run: RunFacts, metric: str) -> str:
    """Describe the best value of a metric among the baselines; empty if none has one."""
    values = [scores.get(metric, math.nan) for scores in run.baselines.values()]
    first = best_of(values, metric)
    return f"best baseline {number(values[first[0]])}" if first else ""


def _undefined(run: RunFacts) -> tuple[str, ...]:
    """Return a sentence for each metric that is undefined on a part."""
    named = {"test": "test", "val": "validation"}
    return tuple(
        f"{METRICS[metric]} of the {named[part]} part: {reason}."
        for part in named
        for metric, reason in run.undefined.get(part, {}).items()
    )


def _validation(run: RunFacts) -> Table:
    rows = tuple((METRICS[key], value) for key, value in run.validation.items())
    caption = "On the validation part" + ", which chose the epoch" * bool(run.histories)
    return Table(("metric", "model"), rows, caption)


def _targets(run: RunFacts) -> tuple[Table, ...]:
    """Return a table of the metrics of each target; none for a single target."""
    if len(run.by_target) < 2:
        return ()
    rows = tuple(
        (name, *(scores.get(metric) for metric in run.metrics))
        for name, scores in run.by_target.items()
    )
    columns = "target", *(METRICS[metric] for metric in run.metrics)
    return (Table(columns, rows, "On the test part, each target"),)


def _certainty(run: RunFacts, calibration: Figure) -> Section:
    title = "Uncertainty"
    if run.intervals is None:
        return Section(title, figures=(calibration,))
    intervals, numbers = run.intervals, run.task == "regression"
    text = (
        f"{'Intervals' if numbers else 'Sets of labels'} with a requested coverage of "
        f"{_percent(intervals.coverage)} contain {_percent(intervals.observed)} of the "
        f"{'values' if numbers else 'labels'} of the test part.",
        intervals.promise,
    )
    if intervals.in_every_set:
        text += (too_few(intervals.in_every_set, intervals.coverage, run.item) + ".",)
    values: dict[str, Cell] = {
        "requested coverage": intervals.coverage,
        "observed coverage": intervals.observed,
        "mean width" if numbers else "mean number of labels": intervals.width,
    }
    if intervals.constant_width is not None:
        values["width of intervals of equal width"] = intervals.constant_width
    return Section(title, text, (facts(values),), (calibration,))


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\u00a0%"  # no line break before the sign


def _losses(run: RunFacts) -> dict[str, Figure]:
    """Return the curves by file name; none if no network was trained."""
    if not run.histories:
        return {}
    draw = plots.learning_curve(run.histories).png
    return {"learning-curve": themed(draw, "Losses of training and validation by epoch")}


def _training(run: RunFacts, losses: Mapping[str, Figure]) -> tuple[Section, ...]:
    """Return a table of the training of each network; none if none was trained."""
    rows = tuple(
        (
            i + 1,
            len(history.records),
            history.chosen + 1,
            history.records[history.chosen].validation_loss,
            sum(record.seconds for record in history.records),
        )
        for i, history in enumerate(run.histories)
    )
    columns = "network", "epochs", "kept", "its validation loss", "seconds"
    section = Section("Training", tables=(Table(columns, rows),), figures=tuple(losses.values()))
    return (section,) if rows else ()


def _data(run: RunFacts) -> Section:
    sentence, tables = left_out(run.errors, run.rows)
    unlabelled = run.rows - len(run.errors) - sum(run.parts.values())
    text = [sentence, *run.decided]
    if unlabelled > 0:
        text.insert(1, f"Without a label: {unlabelled:,} more.")
    parts = Table(("part", run.item), tuple(run.parts.items()))
    return Section("Data", tuple(text), (parts, *tables))
