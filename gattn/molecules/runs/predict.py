"""From a table of SMILES to a table of predictions, a row for a row."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gattn.data.tables import Table, TableRow
from gattn.files import new_file
from gattn.molecules.inputs import Read
from gattn.molecules.loading import open_run
from gattn.molecules.runs.columns import prediction_cells, prediction_columns
from gattn.training.checks import check_fraction

__all__ = ["Counts", "predict_table", "with_rows"]

ERROR = "error"
T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """How many rows a table had, and how many of them could not be read."""

    rows: int
    bad: int


def predict_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    smiles: str | None = None,
    encoding: str | None = None,
    coverage: float = 0.9,
    workers: int = 2,
    tick: Callable[[int], None] = lambda rows: None,
) -> Counts:
    """Predict every row of a CSV file.

    Every row comes out, in order, with the columns that it came with and those of
    :func:`gattn.molecules.runs.columns.prediction_columns`, and ``error``, which says why a row
    has no prediction. Rows are read, predicted and written piece by piece.

    Args:
        run: the folder of a trained model.
        path: the file; bytes that are not UTF-8 are written as they came.
        out: the file to write, which must not exist; it appears when it is whole.
        smiles: the column of SMILES; otherwise the one that the model was trained on.
        encoding: of the file; otherwise what its byte order mark says, and UTF-8 without one.
        coverage: how often the intervals are to hold the truth, above 0 and below 1.
        workers: processes that share the work.
        tick: told how many rows were written, piece by piece.

    Returns:
        The number of rows, and of those without a prediction.

    Raises:
        RunError: the folder holds no model that can be read.
        FileExistsError: ``out`` is there already.
        FileNotFoundError: no file at ``path``.
        ValueError: the column is missing or doubled, or the file has a column of a name that is
            to be added.
    """
    check_fraction("coverage", coverage)
    estimator, table, column = open_run(
        run, path, smiles=smiles, encoding=encoding, workers=workers, on_bad_bytes="surrogateescape"
    )
    added = prediction_columns(estimator)
    rows = bad = 0
    with new_file(out) as temporary, table.writer(temporary, [*added, ERROR]) as writer:
        for kept, found, made in with_rows(table, column, estimator.predictions):
            cells = iter(prediction_cells(estimator, made, coverage))
            for row, error in zip(kept, found.errors):
                told = [""] * len(added) if error else next(cells)
                writer.writerow([*row.cells, *told, row.problem or error])
                bad += bool(error)
            rows += len(kept)
            tick(len(kept))
    return Counts(rows, bad)


def with_rows(
    table: Table, column: str, make: Callable[[Iterator[str]], Iterator[tuple[Read, T]]]
) -> Iterator[tuple[list[TableRow], Read, T]]:
    """Read a table through ``make``, which gives what it makes of its texts piece by piece.

    Args:
        table: what to read.
        column: of the texts; that of a row that does not fit the header is empty.
        make: for instance :meth:`gattn.molecules.MoleculeRegressor.predictions`.

    Yields:
        The rows of each piece, and what was made of them.
    """
    place, waiting = table.place(column), deque[TableRow]()

    def texts() -> Iterator[str]:
        for row in table.rows():
            waiting.append(row)
            yield "" if row.problem else row.cells[place]

    for found, made in make(texts()):
        yield [waiting.popleft() for _ in found.errors], found, made
