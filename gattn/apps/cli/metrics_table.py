"""Tables of metrics that are complete at the width of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

ANY_WIDTH = 100_000
"""Width at which the cells of a table are not shortened."""


def metrics_tables(
    title: str, scores: Mapping[str, Mapping[str, str]], console: Console
) -> list[Table]:
    """Return one or more tables that contain all metrics of all methods.

    The metrics are the rows if the columns of the methods fit into the width of the console.
    Otherwise the methods are the rows. If the columns of the metrics do not fit either, they are
    divided among several tables. No cell is shortened: a table of a single metric that does not fit
    is wider than the console.

    Args:
        title: the line above the first table.
        scores: for each method, a dictionary from each metric to its formatted value.
        console: the console on which the tables are printed.
    """
    metrics = list(next(iter(scores.values()), {}))
    table = _table(title, metrics, scores, console, transposed=True)
    if _width(table) <= console.width:
        return [table]
    groups: list[list[str]] = [metrics[:1]]
    for metric in metrics[1:]:
        wider = [*groups[-1], metric]
        if _width(_table("", wider, scores, console)) <= console.width:
            groups[-1] = wider
        else:
            groups.append([metric])
    return [
        _table(title if i == 0 else "", group, scores, console) for i, group in enumerate(groups)
    ]


def _width(table: Table) -> int:
    assert table.width is not None
    return table.width


def _table(
    title: str,
    metrics: Sequence[str],
    scores: Mapping[str, Mapping[str, str]],
    console: Console,
    *,
    transposed: bool = False,
) -> Table:
    """Return a table of complete cells: one row per method, or one row per metric if transposed."""
    rows = [
        ["", *metrics],
        *([name, *(one[m] for m in metrics)] for name, one in scores.items()),
    ]
    header, *body = zip(*rows) if transposed else rows
    table = Table(title=title or None)
    for name in header:
        table.add_column(name, no_wrap=True)
    for row in body:
        table.add_row(*row)
    # Rich would otherwise shorten the cells to the width of the console.
    table.width = Measurement.get(console, console.options.update(width=ANY_WIDTH), table).maximum
    return table
