"""What the commands show: notes and progress on stderr, results on stdout."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from gattn.training.processes import is_first_process

__all__ = ["counted", "say", "show_metrics", "show_runs", "watched"]

PAUSE = 10.0
"""Seconds between two lines of progress in a log."""
SHOWN = 5
"""The most targets that have a line of their own."""
QUIET = not is_first_process()
NOTES = Console(stderr=True, soft_wrap=True, quiet=QUIET)
RESULTS = Console(soft_wrap=True, quiet=QUIET)


def say(line: str) -> None:
    """Tell the user something in a line."""
    NOTES.print(line, markup=False, highlight=False)


@contextmanager
def counted(what: str) -> Iterator[Callable[[int], None]]:
    """Show how many rows are done; gives what is to be called with the rows of each piece."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    hidden = not NOTES.is_terminal
    with Progress(*columns, console=NOTES, transient=True, disable=hidden) as progress:
        task = progress.add_task(what, total=None)

        def tick(rows: int) -> None:
            progress.advance(task, rows)
            done = int(progress.tasks[0].completed)
            progress.update(task, description=f"{what}: {done:,} rows")

        yield tick


@contextmanager
def watched(what: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show how far some trainings are; gives what is to be called with news, and how many ended.

    Where nobody sees a bar move (a file, a log) it is a line now and then.
    """
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    hidden = not NOTES.is_terminal
    with Progress(*columns, console=NOTES, transient=True, disable=hidden) as progress:
        task = progress.add_task(what, total=total)
        last = time.monotonic()

        def tick(news: str, ended: int) -> None:
            nonlocal last
            progress.advance(task, ended)
            done = int(progress.tasks[0].completed)
            line = f"{what}, {done:,} of {total:,} done, {news}"
            progress.update(task, description=line)
            if hidden and time.monotonic() - last >= PAUSE:
                say(line)
                last = time.monotonic()

        yield tick


def show_runs(metrics: Mapping[str, Any]) -> None:
    """Show the means of several trainings and their spread; nothing for one training."""
    runs = metrics["runs"]
    for metric, found in runs["test"].items() if runs["count"] > 1 else ():
        spreads = {"first weights": found["of_weights"], "splits": found["of_parts"]}
        parts = [
            f"{_shown(value)} over {name}" for name, value in spreads.items() if value == value
        ]
        told = f" ({', '.join(parts)})" if parts else ""
        mean, std = _shown(found["mean"]), _shown(found["std"])
        RESULTS.print(f"{metric} of {runs['count']} trainings: {mean} ± {std}{told}")
        if reason := metrics.get("undefined", {}).get("runs", {}).get(metric):
            _tell(f"{metric} of {runs['count']} trainings: {reason}")


def show_metrics(metrics: Mapping[str, Any], item: str) -> None:
    """Show the metrics of a run or an evaluation of molecules or nodes beside the baselines."""
    from gattn.training.conformal import too_few  # which takes long to import

    columns = {"test": metrics["test"], **metrics.get("baselines", {})}
    table = Table(title=f"{metrics['task']}, {metrics[item]['test']:,} {item}")
    for name in ("", *columns):
        table.add_column(name.replace("_", " "))
    for metric in metrics["test"]:
        table.add_row(metric, *(_shown(scores.get(metric)) for scores in columns.values()))
    RESULTS.print(table)
    for metric, reason in metrics.get("undefined", {}).get("test", {}).items():
        _tell(f"{metric} of the test part: {reason}")
    held = metrics["intervals"]
    what = "intervals" if metrics["task"] == "regression" else "sets of classes"
    RESULTS.print(f"{what} for {held['coverage']:.0%} hold {held['held']:.1%} of the labels")
    if classes := held.get("in_every_set"):
        RESULTS.print(too_few(classes, held["coverage"], item))
    if "labels" in metrics and metrics["task"] == "regression":
        lines = list(_unbounded(metrics["labels"], held["coverage"]))
        for line in lines[:SHOWN]:
            RESULTS.print(line)
        if len(lines) > SHOWN:
            RESULTS.print(f"and so it is for {len(lines) - SHOWN:,} more targets")
    elif held.get("mean_width") == math.inf and (count := metrics[item].get("val")):
        RESULTS.print(
            f"{count:,} validation {item} are too few to promise that: the intervals are infinite; "
            f"a --coverage of up to {math.floor(100 * count / (count + 1)) / 100} has finite ones"
        )


def _unbounded(labels: Mapping[str, Any], coverage: float) -> Iterator[str]:
    """Say of each target whether its validation labels are too few for a coverage."""
    from gattn.training.conformal import least_rows

    for target, parts in sorted(labels.items(), key=lambda item: item[1].get("val", 0)):
        count = parts.get("val")
        if count is None or count >= least_rows(coverage):
            continue
        line = f"{count:,} validation label{'s' * (count != 1)} of {target!r} {_are(count)} too few"
        line += " to promise that: its intervals are infinite"
        most = math.floor(100 * count / (count + 1)) / 100
        yield f"{line}; a --coverage of up to {most} has finite ones" if count else line


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _tell(line: str) -> None:
    """Print a line in which brackets, as those of a column's name, are no markup."""
    RESULTS.print(line, markup=False, highlight=False)


def _shown(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.4g}"
