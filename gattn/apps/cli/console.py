"""Console output of the commands: messages and progress go to stderr, results to stdout."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from gattn.apps.report.style import with_digits
from gattn.apps.run.text import count_of, divided, plural, without_temporary

if TYPE_CHECKING:
    from gattn.apps.run.compare import Difference

PAUSE = 10.0
"""Minimum time in seconds between two progress lines if stderr is not a terminal."""
UNITLESS = ("r2",)
"""Metrics of numbers that have the same unit for all targets."""
MAX_TARGETS = 20
"""Maximum number of targets in a table of their metrics."""
COMPARED = ("error", "difference", "95 % interval", "p")
"""Columns of a table of compared runs; only the error is known of the first run."""
MAX_ROWS = 20
"""Maximum number of predictions that are printed."""
NOTES = Console(stderr=True, soft_wrap=True)
RESULTS = Console(soft_wrap=True)


class OnProgress(Protocol):
    """Function that is called with a number of rows or runs, and with a message."""

    def __call__(self, count: int, news: str = "") -> None:
        """Add to the number."""
        ...


def quoted(path: Path) -> str:
    """Return a path as it is written in a command."""
    return shlex.quote(str(path))


def say(line: str) -> None:
    """Print a line to stderr."""
    _print_plain(without_temporary(line), NOTES)


@contextmanager
def watched(title: str, total: int | None = None, done: int = 0) -> Iterator[OnProgress]:
    """Show the progress over rows or training runs.

    If stderr is not a terminal, a line is printed every ten seconds instead of a progress bar.

    Args:
        title: the name of the work.
        total: the number of rows or runs; None if it is not known.
        done: the number of rows that an earlier command has finished.

    Yields:
        A function that adds to the number of rows or runs. It shows the given message, or without
        a message the rows per second.
    """
    # In a narrow terminal, the description continues on a second line, so that it is not cut.
    text = TextColumn("{task.description}", table_column=Column(no_wrap=False))
    bar = BarColumn(20, table_column=Column(min_width=20))
    clock = TimeElapsedColumn() if total is None else TimeRemainingColumn()
    hidden = not NOTES.is_terminal
    with Progress(text, bar, clock, console=NOTES, transient=True, disable=hidden) as progress:
        task = progress.add_task(title, total=total, completed=done)
        start = last = time.monotonic()

        def on_progress(count: int, news: str = "") -> None:
            """Advance the progress bar by ``count`` rows, and show ``news`` or the rows per second;
            without a terminal, print a line from time to time.
            """
            nonlocal last
            progress.advance(task, count)
            now, finished = time.monotonic(), int(progress.tasks[0].completed)
            of = "" if total is None else f" of {total:,}"
            news = news or f"{(finished - done) / max(now - start, 1e-9):,.0f} rows/s"
            line = f"{title}: {finished:,}{of} done, {news}"
            progress.update(task, description=line)
            if hidden and now - last >= PAUSE:
                say(line)
                last = now

        yield on_progress


def show_runs(metrics: Mapping[str, Any]) -> None:
    """Print the mean and the standard deviation of each metric over several training runs; print
    nothing for a single run. ``metrics`` is the content of the ``metrics.json`` of nodes.
    """
    runs = metrics["runs"]
    for metric, values in runs["test"].items() if runs["count"] > 1 else ():
        mean, std = _format(values["mean"]), _format(values["std"])
        _print_plain(f"{metric} of {runs['count']} training runs: {mean} ± {std}")


def show_metrics(metrics: Mapping[str, Any], item: str) -> None:
    """Print a table of the metrics of a run or an evaluation and of the baselines.

    Tables of the metrics of each target and of each component, and notes, follow if there are any.

    Args:
        metrics: content of ``metrics.json``. Its entry ``item`` is the plural noun of the rows.
        item: name of the entry with the numbers of rows, and the noun if there is no ``item``.
    """
    # The imports are inside the function, because the modules import torch, which is slow.
    from gattn.apps.fitting.tasks import TASKS
    from gattn.apps.run.notes import interval_notes, metric_notes

    test, targets = metrics["test"], metrics.get("targets", {})
    noun = metrics.get("item", item)
    caption = _caption(metrics, item, noun)
    if len(targets) > 1:
        caption += f", mean over {len(targets)} targets"
        if not TASKS[metrics["task"]].is_class:
            # Errors in different units have no mean.
            test = {name: value for name, value in test.items() if name in UNITLESS}
    columns = {"model": test, **metrics.get("baselines", {})}
    _print_metrics(
        caption,
        {
            name: {metric: _format(scores.get(metric)) for metric in test}
            for name, scores in columns.items()
        },
    )
    if len(test) < len(metrics["test"]):
        by_target = {
            target: {metric: _format(scores[metric]) for metric in metrics["test"]}
            for target, scores in islice(targets.items(), MAX_TARGETS)
        }
        _print_table("model, each target", by_target)
        if len(targets) > MAX_TARGETS:
            _print_plain(f"and {len(targets) - MAX_TARGETS:,} more targets in metrics.json")
    if components := metrics.get("components"):
        factor = "scores" if item == "links" else TASKS[metrics["task"]].pooled
        # A model of links has weights for two metrics.
        weights = {
            name: each.get("weights") or {"": each["weight"]} for name, each in components.items()
        }
        _print_metrics(
            f"components on the test part; weights multiply {factor}",
            {
                name: {
                    **{f"weight {of}".strip(): f"{w:.3g}" for of, w in weights[name].items()},
                    **{metric: _format(value) for metric, value in component["test"].items()},
                }
                for name, component in components.items()
            },
        )
    for line in (*metric_notes({**metrics, "test": test}, item), *interval_notes(metrics, item)):
        _print_plain(line)


def show_repeats(metrics: Mapping[str, Any]) -> None:
    """Print the mean of each metric over several runs, and the standard error of this mean, for the
    model and the baselines; then print the notes. ``metrics`` is the result of
    :func:`gattn.apps.molecules.runs.repeats.train_repeats`.
    """
    summary = metrics["summary"]
    count = len(metrics["runs"])
    _print_metrics(
        f"{metrics['task']}, mean ± standard error of the mean of {count} runs",
        {
            name: {metric: _mean_and_error(scores[metric]) for metric in summary["model"]}
            for name, scores in summary.items()
        },
    )
    for line in metrics["notes"]:
        _print_plain(line)


def show_rows(path: Path, count: int) -> None:
    """Print at most 20 rows of a table of predictions with four significant digits, and the number
    of further rows. Columns that are empty in these rows are left out.

    Args:
        path: the CSV file.
        count: its number of rows.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a CSV file.
    """
    # NumPy, which this module imports, is not needed for --help.
    from gattn.apps.tables.csv_table import open_table, visible

    table = open_table(path, on_bad_bytes="surrogateescape")
    rows = [[visible(cell) for cell in row.cells] for row in islice(table.rows(), MAX_ROWS)]
    used = [any(column) for column in zip(*rows)]
    names = list(map(visible, table.columns))
    cells = {
        str(number): {n: _short(cell) for n, cell, is_used in zip(names, row, used) if is_used}
        for number, row in enumerate(rows, 1)
    }
    _print_metrics("", cells)
    if count > len(rows):
        _print_plain(f"and {count - len(rows):,} more rows; --out FILE.csv writes all")


def show_differences(differences: Sequence[Difference]) -> None:
    """Print for each target a table with the errors of the runs, and their differences from the
    error of the first run.
    """
    for target in dict.fromkeys(one.target for one in differences):
        of_target = [one for one in differences if one.target == target]
        cells: dict[str, dict[str, str]] = {}
        for one in of_target:
            compared = "", "", ""
            if not math.isnan(one.p):
                interval = f"{one.low:+.3g} to {one.high:+.3g}"
                compared = f"{one.difference:+.3g}", interval, f"{one.p:.2g}"
            cells[one.run] = dict(zip(COMPARED, (_format(one.error), *compared)))
        _print_table(target, cells)


def _short(cell: str) -> str:
    """Return a cell with four significant digits if it is a number, and unchanged if it is not."""
    try:
        return _format(float(cell))
    except ValueError:
        return cell


def _mean_and_error(moments: Mapping[str, float]) -> str:
    return f"{_format(moments['mean'])} ± {_format(moments['standard_error'])}"


def _caption(metrics: Mapping[str, Any], item: str, noun: str) -> str:
    """Return the task and the number of rows of the test part; for a ranking, the number of test
    links and of the negatives among which each was ranked. ``item`` is the key of the counts in the
    metrics, and ``noun`` the plural noun of the rows.
    """
    if item == "links":
        from gattn.apps.links.metrics import negatives_text

        ranked = plural(metrics[item]["ranked"], "test link")
        noun = "negative" if metrics["negatives"] == 1 else "negatives"
        return f"ranking, {ranked}, each among {negatives_text(metrics)} {noun}"
    return f"{metrics['task']}, {count_of(metrics[item]['test'], noun)}"


def _print_metrics(title: str, scores: Mapping[str, Mapping[str, str]]) -> None:
    """Print the formatted metrics of each method."""
    _print_table(title, {name.replace("_", " "): values for name, values in scores.items()})


def _print_table(title: str, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Print a table below its title, if that is not empty. Each column is a dictionary from the
    names of its rows to texts. If the table is wider than the terminal, the columns become rows,
    and the rest continues below.
    """
    # The import takes about a second, which --help does not need.
    import pandas as pd

    table = pd.DataFrame(columns)
    text = table.to_string()
    if max(map(len, text.splitlines())) > RESULTS.width:
        text = table.T.to_string(line_width=RESULTS.width)
    _print_plain(f"\n{title}\n{text}\n" if title else f"{text}\n")


def _print_plain(line: str, console: Console = RESULTS) -> None:
    """Print a line without interpreting Rich markup, because column names may contain brackets.

    In a terminal, long lines are divided between words.
    """
    if console.is_terminal:
        line = divided(line, console.width)
    console.print(line, markup=False, highlight=False)


def _format(value: float | None) -> str:
    return "–" if value is None or value != value else with_digits(value, 4)
