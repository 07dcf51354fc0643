"""Collection of the results and settings of a run for its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gattn.apps.report.report import Cell
from gattn.apps.report.run_report import RunFacts
from gattn.apps.run.measure import PARTS
from gattn.apps.run.model_io import package_versions
from gattn.apps.run.notes import interval_notes, metric_notes
from gattn.apps.run.train import TrainedRun

PROMISE = (
    "The coverage holds on average over rows from the distribution of the validation rows, not for "
    "each single row or for rows of another kind."
)


def report_facts(
    run: TrainedRun, settings: Any, *, chosen: Mapping[str, Cell], promise: str = PROMISE,
    notes: tuple[str, ...] = (), **special: Any,
) -> RunFacts:  # fmt: skip
    """Collect the results and settings of a run for its report.

    Args:
        run: the trained and evaluated model.
        settings: settings of the run, a dataclass with a nested dataclass in the field ``model``.
        chosen: values of settings that were chosen from the data; they replace those in
            ``settings``.
        promise: sentence on the rows to which the coverage of the intervals applies.
        notes: sentences below those on the metrics.
        **special: the other fields of :class:`gattn.apps.report.run_report.RunFacts`.
    """
    metrics, item = run.metrics, run.estimator.item
    values: dict[str, Any] = asdict(settings)
    values |= values.pop("model")
    about_intervals = interval_notes(metrics, item)
    return RunFacts(
        item=metrics.get("item", item),
        task=run.estimator.task,
        metrics=metrics,
        parts={part: metrics[item][part] for part in PARTS},
        settings={name: _cell(value) for name, value in values.items()} | dict(chosen),
        versions=package_versions(),
        notes=(*metric_notes(metrics, item), *notes),
        interval_notes=(*about_intervals, promise) if about_intervals else (),
        **special,
    )


def _cell(value: Any) -> Any:
    """Return the value of a setting as a table cell; a tuple becomes a list of texts."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, bool) else value
