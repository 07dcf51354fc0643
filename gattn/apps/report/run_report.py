"""Content of the report page of a trained model, for molecules and for nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gattn.apps.fitting.conformal import too_few
from gattn.apps.report import plots
from gattn.apps.report.plots.style import METRICS, number
from gattn.apps.report.report import Cell, Figure, Highlight, ReportContent, Section, Table
from gattn.apps.report.run_figures import (
    TARGETS,
    Words,
    part_figures,
    plot_figure,
)

if TYPE_CHECKING:
    from torch import Tensor

    from gattn.apps.fitting.calibration import Reliability
    from gattn.apps.fitting.types import History

__all__ = [
    "Intervals",
    "RunFacts",
    "best_of",
    "compare",
    "facts",
    "left_out",
    "run_report",
]

LOWER_IS_BETTER = {"rmse", "mae", "log_loss"}


@dataclass(frozen=True)
class Intervals:
    """Coverage and mean width of prediction intervals, or mean size of sets of classes, on the test
    part.

    Attributes:
        coverage: requested coverage.
        observed: fraction of measured values inside the intervals or sets.
        width: mean width of the intervals in the target's unit; for sets the mean number of labels.
        constant_width: width of intervals that have the same width for all rows and the same
            coverage of the validation part; None if not computed.
        in_every_set: number of classes with too few validation rows for the coverage.
        least_class_rows: number of validation rows of the class that has the fewest; None if it is
            unknown.
        promise: sentences on the rows to which the coverage applies.
        infinite: sentences on targets with infinite intervals.
        missed: sentences on a coverage that is clearly below the requested coverage.
        quantiles: metrics of predicted quantiles
            (:func:`gattn.apps.molecules.quantiles.quantile_metrics`); None if none are predicted.
    """

    coverage: float
    observed: float
    width: float
    constant_width: float | None = None
    in_every_set: int = 0
    least_class_rows: int | None = None
    promise: str = ""
    infinite: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    quantiles: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class RunFacts:
    """Results and settings of a finished run that its report shows.

    Attributes:
        title: title of the page.
        summary: a sentence about the model and its data.
        item: plural noun of the rows: "molecules", "nodes".
        task: type of the predictions.
        targets: the names of the t targets, with their units if known.
        metrics: metrics of the test part, with the names of :mod:`gattn.apps.fitting.metrics`.
        validation: metrics of the validation part.
        baselines: metrics of each baseline on the test part, by the baseline's name.
        y: [k, t] measured values or classes of the test part; NaN for missing labels. For
            "multiclass" the t columns are classes, with 1 for the true one and 0 for the others.
        mean: [k, t] predicted values, or probabilities of class 1.
        std: [k, t] standard deviations of the predicted values; ignored for classes.
        histories: training histories of the networks; empty if no network was trained.
        reliability: calibration curve of the intervals or of the probabilities.
        intervals: coverage of the intervals; None if they were not calibrated.
        parts: number of rows of each part.
        rows: number of rows of the input.
        errors: reasons why rows were left out, by their line in the file.
        settings: settings of the run.
        versions: versions of Python and of the packages.
        by_target: metrics of the test part for each target, if there are several.
        undefined: for each part the reasons why metrics are undefined for some or all targets, by
            the name of the metric.
        noise: sentence on a model that is not better than chance, instead of the comparison with
            the baselines; "" for other models.
        notes: additional sentences after the comparison with the baselines.
        decided: sentences about decisions of the reader of the data.
        words: words for several targets and for the event of a probability.
        logarithmic: for each target whether its values are plotted on logarithmic axes; empty for
            none.
    """

    title: str
    summary: str
    item: str
    task: Literal["regression", "classification", "multiclass"]
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
    noise: str = ""
    undefined: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    words: Words = TARGETS
    logarithmic: tuple[bool, ...] = ()


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
    """
    figures = part_figures(
        run.task, run.y, run.mean, run.std, run.targets, run.reliability, words=run.words,
        logarithmic=run.logarithmic,
    )  # fmt: skip
    predictions = tuple(figure for name, figure in figures.items() if name != "calibration")
    losses: dict[str, Figure] = {}
    if run.histories:
        plot = plots.learning_curve(run.histories)
        losses["learning-curve"] = plot_figure(plot, "Losses of training and validation by epoch")
    table, verdict = compare(run.metrics, run.baselines)
    content = ReportContent(
        run.title,
        run.summary,
        (
            Section(
                "Metrics",
                (run.noise or verdict, *_undefined(run), *run.notes),
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
    """Describe the baseline that has the best value of a metric; return "" if there is none."""
    values = [scores.get(metric, math.nan) for scores in run.baselines.values()]
    first = best_of(values, metric)
    return f"best baseline {number(values[first[0]])}" if first else ""


def _undefined(run: RunFacts) -> tuple[str, ...]:
    """Return a sentence for each metric that is undefined on one of the parts."""
    named = {"test": "test", "val": "validation"}
    return tuple(
        f"{METRICS[metric]} of the {named[part]} part: {reason}."
        for part in named
        for metric, reason in run.undefined.get(part, {}).items()
    )


def _validation(run: RunFacts) -> Table:
    rows = tuple((METRICS[key], value) for key, value in run.validation.items())
    caption = "On the validation part" + ", on which the epoch was chosen" * bool(run.histories)
    return Table(("metric", "model"), rows, caption)


def _targets(run: RunFacts) -> tuple[Table, ...]:
    """Return a table with the metrics of each target; it is empty if there is only one target."""
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
    values: dict[str, Cell] = {
        "requested coverage": intervals.coverage,
        "observed coverage": intervals.observed,
        "mean width of the intervals" if numbers else "mean number of labels": intervals.width,
    }
    text: tuple[str, ...] = (
        f"{'Intervals' if numbers else 'Sets of labels'} with a requested coverage of "
        f"{_percent(intervals.coverage)} contain {_percent(intervals.observed)} of the "
        f"{'values' if numbers else 'labels'} of the test part.",
        *intervals.missed,
        intervals.promise,
        *intervals.infinite,
    )
    if intervals.in_every_set:
        least = intervals.least_class_rows
        text += (too_few(intervals.in_every_set, intervals.coverage, run.item, least) + ".",)
    if intervals.constant_width is not None:
        values["for comparison: one width for all rows"] = intervals.constant_width
        text += (_width_text(intervals.width, intervals.constant_width),)
    if intervals.quantiles is not None:
        values["mean quantile loss"] = intervals.quantiles["loss"]
        for level, share in intervals.quantiles["below"].items():
            values[f"share of values below quantile {level}"] = share
    return Section(title, text, (facts(values),), (calibration,))


def _width_text(width: float, constant: float) -> str:
    """Compare the mean width of the intervals with intervals of one width for all rows."""
    if not (math.isfinite(width) and math.isfinite(constant)):
        return "Infinite intervals have no width to compare."
    if width == constant:
        order = "as wide as"
    else:
        order = "narrower than" if width < constant else "wider than"
    return (
        f"On average, the intervals ({number(width)}) are {order} intervals of one width for all "
        f"rows ({number(constant)}), which have the same coverage on the validation part. At equal "
        "coverage, narrower intervals are better. The width of the intervals differs between "
        "rows: it is larger where the model expects larger errors."
    )


def _percent(share: float) -> str:
    # The text contains a non-breaking space before the percent sign.
    return f"{100 * share:.3g}\u00a0%"


def _training(run: RunFacts, losses: Mapping[str, Figure]) -> tuple[Section, ...]:
    """Return a section with a table on the training of the networks; it is empty if there are no
    networks.
    """
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
        text.insert(1, f"{unlabelled:,} more rows have no label.")
    parts = Table(("part", run.item), tuple(run.parts.items()))
    return Section("Data", tuple(text), (parts, *tables))


def compare(
    model: Mapping[str, float],
    baselines: Mapping[str, Mapping[str, float]],
    *,
    where: str = "On the test part",
) -> tuple[Table, str]:
    """Compare a model's metrics on the test part with the metrics of the baselines.

    Args:
        model: values of the model by metric: rmse, mae, r2, roc_auc, pr_auc, accuracy, f1, mcc or
            log_loss.
        baselines: values of each baseline by metric, by the baseline's name; the cell of a missing
            metric is empty.
        where: beginning of the sentence, and caption of the table.

    Returns:
        A table with a row for each metric, or, if there are more baselines than metrics, with a row
        for the model and for each baseline. The best values are marked; without baselines none is.
        The second result is a sentence on the best models.

    Raises:
        ValueError: a metric is unknown.

    >>> table, sentence = compare({"rmse": 0.489}, {"kernel ridge": {"rmse": 0.455}})
    >>> table.rows
    (('RMSE', 0.489, 0.455),)
    >>> sentence
    'On the test part, a baseline is better: kernel ridge by RMSE (0.455 against 0.489).'
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
    columns = ("metric", "model", *names)
    if len(names) > len(rows):
        # With many baselines, the table would be wider than the page, so they become its rows.
        best = [tuple(i for i, at in enumerate(best, 1) if j in at) for j in range(1, len(columns))]
        (_, *columns), *rows = zip(columns, *rows, strict=True)
        columns = ("method", *columns)
    return Table(columns, tuple(rows), where, tuple(best)), _verdict(won, tied, lost, where)


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


def _verdict(won: Sequence[str], tied: Sequence[str], lost: Sequence[str], where: str) -> str:
    """Return a sentence that names the metrics by which the model is better than, equal to or
    worse than the baselines.
    """
    if not (won or tied or lost):
        return f"{where}, there is nothing to compare."
    if won and not tied and not lost:
        return f"{where}, no baseline is better than the model."
    clauses = [f"the model is better than every baseline by {', '.join(won)}"] * bool(won)
    clauses += [f"a baseline is as good as the model: {', '.join(tied)}"] * bool(tied)
    another = " by another metric" * bool(won or tied)
    clauses += [f"a baseline is better{another}: {', '.join(lost)}"] * bool(lost)
    return f"{where}, {'; '.join(clauses)}."


def facts(values: Mapping[str, Cell]) -> Table:
    """Create a table with two columns, names and values, for example for settings or versions.

    >>> facts({"epochs": 60, "device": "cpu"}).rows
    (('epochs', 60), ('device', 'cpu'))
    """
    return Table(("name", "value"), tuple(values.items()))


def left_out(errors: Mapping[int, str], rows: int, *, shown: int = 20) -> tuple[str, list[Table]]:
    """Describe the rows that were left out of the data, and the reasons.

    Args:
        errors: the reason for each row that was left out, by its line in the file.
        rows: number of rows of the input.
        shown: maximum number of rows in the table.

    Returns:
        A sentence, and a table of the first rows that were left out; no table if there are none.

    >>> left_out({7: "not a SMILES"}, 100)[0]
    'Left out: 1 of 100 rows.'
    """
    if not errors:
        return f"No rows were left out of {rows:,}.", []
    sentence = f"Left out: {len(errors):,} of {rows:,} rows."
    caption = "Left out" if len(errors) <= shown else f"The first {shown} rows that were left out"
    listed = tuple(list(errors.items())[:shown])
    return sentence, [Table(("line", "why"), listed, caption)]
