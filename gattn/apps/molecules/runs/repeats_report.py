"""Report page of repeated runs: folds of a cross-validation, or replicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gattn.apps.report.plots.style import METRICS, number
from gattn.apps.report.report import Cell, Highlight, Link, ReportContent, Section, Table
from gattn.apps.report.run_report import best_of

__all__ = ["repeats_report", "scores_of"]


def scores_of(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the test metrics of the model and of each baseline for one run."""
    return {"model": metrics["test"], **metrics["baselines"]}


def repeats_report(
    results: Mapping[str, Mapping[str, Any]], summary: Mapping[str, Any], title: str
) -> ReportContent:
    """Return the report page of repeated runs.

    Args:
        results: the content of ``metrics.json`` of each run, by the name of its folder.
        summary: the content of ``metrics.json`` of all runs.
        title: targets and table of the runs.

    Returns:
        The means of the metrics with their standard errors, and the metrics of each run with a
        link to its report.
    """
    runs = _runs_text(summary)
    metrics = list(summary["summary"]["model"])
    highlights = [
        Highlight(
            f"test {METRICS[metric]}",
            number(float(summary["summary"]["model"][metric]["mean"])),
            f"standard error {number(summary['summary']['model'][metric]['standard_error'])}",
        )
        for metric in metrics[:2]
    ]
    if intervals := summary.get("intervals"):
        share, requested = (
            f"{100 * each:.3g}\u00a0%"
            for each in (intervals["held"]["mean"], intervals["coverage"])
        )
        label = "inside the intervals or sets"
        highlights.append(Highlight(label, share, f"requested {requested}"))
    highlights.append(Highlight("runs", len(results)))
    return ReportContent(
        f"{runs}: {title}",
        f"{len(results)} runs of one training ({runs}). Each row of a test part was predicted by a "
        "model that was trained without it.",
        (_means(summary, metrics), _single_runs(results, metrics)),
        tuple(highlights),
    )


def _runs_text(summary: Mapping[str, Any]) -> str:
    folds, replicates = summary["folds"], summary["replicates"]
    texts = [f"{replicates} replicates"] if replicates > 1 else []
    return " of ".join([*texts, *([f"{folds} folds"] if folds else [])]) or "1 run"


def _means(summary: Mapping[str, Any], metrics: Sequence[str]) -> Section:
    names = list(summary["summary"])
    rows: list[tuple[Cell, ...]] = []
    best = []
    for metric in metrics:
        moments = [summary["summary"][name][metric] for name in names]
        means = [float(each["mean"]) for each in moments]
        cells = [f"{number(c['mean'])} ± {number(c['standard_error'])}" for c in moments]
        rows.append((METRICS[metric], *cells))
        best.append(tuple(1 + i for i in best_of(means, metric)))
    columns = ("metric", *(name.replace("_", " ") for name in names))
    text = (
        *summary["notes"],
        "The number after ± is the standard error of the mean: the standard deviation over the "
        "runs, divided by the square root of their number. The training parts of folds overlap, so "
        "that it is usually too small.",
    )
    table = Table(columns, tuple(rows), "Means over the test parts", tuple(best))
    return Section("Metrics", text, (table,))


def _single_runs(results: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    with_intervals = all("intervals" in each for each in results.values())
    for name, each in results.items():
        cells: list[Cell] = [each["test"][metric] for metric in metrics]
        if with_intervals:
            cells.append(each["intervals"]["held"])
        link = Link(name, str(Path(name, "report.html").as_posix()))
        rows.append((link, each["molecules"]["test"], *cells))
    item = next(iter(results.values())).get("item", "molecules")
    columns = ["run", f"test {item}", *(METRICS[metric] for metric in metrics)]
    columns += ["coverage"] * with_intervals
    text = ("The name of a run is a link to its report.",)
    return Section("Runs", text, (Table(tuple(columns), tuple(rows), "On the test parts"),))
