"""Collection of the results and settings of a run for its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gattn.apps.report.report import Cell
from gattn.apps.report.run_report import Intervals, RunFacts
from gattn.apps.run.measure import PARTS
from gattn.apps.run.model_io import package_versions
from gattn.apps.run.notes import coverage_note
from gattn.apps.run.product import TrainedRun
from gattn.apps.run.unbounded import infinite_intervals

__all__ = ["report_facts"]

PROMISE = (
    "The coverage holds on average over rows from the distribution of the validation rows, not for "
    "each single row or for rows of another kind."
)


def report_facts(
    run: TrainedRun, settings: Any, *, chosen: Mapping[str, Cell], promise: str = PROMISE,
    **special: Any,
) -> RunFacts:  # fmt: skip
    """Collect the results and settings of a run for its report.

    Args:
        run: the trained and evaluated model.
        settings: settings of the run, a dataclass with a nested dataclass in the field ``model``.
        chosen: values of settings that were chosen from the data; they replace those in
            ``settings``.
        promise: sentence on the rows to which the coverage of the intervals applies.
        **special: the other fields of :class:`gattn.apps.report.run_report.RunFacts`.
    """
    metrics, estimator = run.metrics, run.estimator
    intervals, counts = metrics.get("intervals"), metrics[estimator.item]
    values: dict[str, Any] = asdict(settings)
    values |= values.pop("model")
    values = {name: _cell(value) for name, value in values.items()}
    return RunFacts(
        item=metrics.get("item", estimator.item),
        task=estimator.task,
        metrics=metrics["test"],
        validation=metrics["val"],
        baselines=metrics["baselines"],
        undefined=metrics["undefined"],
        intervals=None if intervals is None else _intervals(metrics, estimator.item, promise),
        parts={part: counts[part] for part in PARTS},
        settings=values | dict(chosen),
        versions=package_versions(),
        **special,
    )


def _cell(value: Any) -> Any:
    """Return the value of a setting as a table cell; a tuple becomes a list of texts."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, bool) else value


def _intervals(metrics: Mapping[str, Any], item: str, promise: str) -> Intervals:
    """Return the coverage and the mean width of intervals (or mean size of class sets) for the
    report.
    """
    values = metrics["intervals"]
    return Intervals(
        coverage=values["coverage"],
        observed=values["held"],
        width=values.get("mean_width", values.get("mean_size", float("nan"))),
        constant_width=values.get("constant_width"),
        in_every_set=values.get("in_every_set", 0),
        least_class_rows=values.get("least_class_rows"),
        quantiles=values.get("quantiles"),
        promise=promise,
        missed=tuple(coverage_note(metrics, item)),
        infinite=tuple(f"{line}." for line in infinite_intervals(metrics, item)),
    )
