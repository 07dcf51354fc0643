"""The command ``gattn molecules predict``, which writes a prediction for every row of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.loading import open_run
from gattn.apps.molecules.row_format import row_text
from gattn.apps.molecules.runs.columns import prediction_cells, prediction_columns
from gattn.apps.molecules.runs.training_set import read_measured
from gattn.apps.run.product import Log, no_log
from gattn.apps.tables.csv_table import Table, TableRow
from gattn.files import check_table_ending, new_file

ERROR = "error"
TEXTS = ("set", ERROR)
"""Names of columns that are texts in a Parquet file."""
T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """Number of table rows, and number of rows that could not be read."""

    rows: int
    bad: int


def predict_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    smiles: str | Sequence[str] | None = None,
    encoding: str | None = None,
    coverage: float | None = None,
    workers: int = 2,
    threads: int = 0,
    neighbors: int = 0,
    on_progress: Callable[[int], None] = lambda rows: None,
    log: Log = no_log,
) -> Counts:
    """Predict every row of a CSV file of molecules, and write a prediction table.

    The output has a row for each input row, in order. Its columns are the input's columns, the
    columns of :func:`gattn.apps.molecules.runs.columns.prediction_columns`, and ``error``, the
    reason why a row has no prediction. Rows are read, predicted and written piece by piece.

    Args:
        run: the folder of a trained model.
        path: the file; bytes that are not UTF-8 are copied unchanged.
        out: the file to write, which must not exist; it is created when all rows are predicted. Its
            ending determines its format (:func:`gattn.files.table_writer`).
        smiles: the column of SMILES, or the columns for a model of several molecules in a row; by
            default those that the model was trained on.
        encoding: encoding of the file; by default, the encoding of its byte order mark, or UTF-8 if
            there is none.
        coverage: coverage of the intervals, above 0 and below 1; None for that of the training.
        workers: number of processes.
        threads: number of threads inside one operator if there is one process; 0 to choose it from
            the size of a batch.
        neighbors: number of nearest measured molecules to write beside each prediction, with their
            similarities and measured values, and whether the prediction is inside the
            applicability domain
            (:class:`gattn.apps.molecules.runs.training_set.MeasuredMolecules`).
            They are read from the table of the training, which must not have changed.
        on_progress: called with the number of rows in each piece that was written.
        log: called with each line that the user should read.

    Returns:
        The number of rows, and the number of rows without a prediction.

    Raises:
        RunError: the folder does not contain a readable model.
        FileExistsError: ``out`` exists.
        FileNotFoundError: the file ``path`` does not exist.
        ValueError: the column is missing or appears twice, or ``out`` has another ending.
    """
    check_table_ending(out)
    model, table, names, descriptors, level = open_run(
        run, path, smiles=smiles, encoding=encoding, coverage=coverage, workers=workers,
        threads=threads, on_bad_bytes="surrogateescape", lists=True,
    )  # fmt: skip
    measured = read_measured(run, model, neighbors) if neighbors else None
    columns = prediction_columns(model) + ([] if measured is None else measured.columns)
    text_of = row_smiles(table, names)
    options: dict[str, Any] = {}
    if not model.level_:
        values = descriptors.values if descriptors.names else None
        options = {"descriptors": values, "neighbors": neighbors}
    pieces = model.predictions(descriptors.checked(table.rows()), smiles=text_of, **options)
    empty = [""] * len(columns)
    rows = bad = 0
    columns = [*columns, ERROR]
    texts = [name for name in columns if name in TEXTS or name.endswith("_set") or model.level_]
    with new_file(out) as temporary, table.writer(temporary, columns, texts, log) as writer:
        for piece in pieces:
            index = piece.row_index.tolist()
            smiles_of_rows = [text_of(piece.items[i]) for i in index]
            cells = prediction_cells(model, piece.result, level, smiles_of_rows)
            if measured is not None:
                more = measured.cells(piece.result)
                cells = [[*some, *others] for some, others in zip(cells, more)]
            predicted = dict(zip(index, cells))
            for i, (row, error) in enumerate(zip(piece.items, piece.errors)):
                error = row.problem or error
                writer.writerow([*row.cells, *predicted.get(i, empty), error])
                bad += bool(error)
            rows += len(piece.items)
            on_progress(len(piece.items))
    return Counts(rows, bad)


def row_smiles(table: Table, columns: Sequence[str]) -> Callable[[TableRow], str]:
    """Return a function that reads the SMILES of a table row, from one or several columns.

    The function returns "" for a row with a problem, such as a number of cells that differs from
    the header's, because its cells may be in wrong columns.
    """
    places = list(map(table.place, columns))
    return lambda row: "" if row.problem else row_text(row.cells, places)


class InputRow(NamedTuple):
    """Row to predict, in the form that the model reads.

    Attributes:
        text: its SMILES, those of several molecules as one text; "" for a row that cannot be read.
        values: its descriptor columns, NaN for a missing value.
    """

    text: str
    values: Sequence[float] = ()


class PredictedRow(NamedTuple):
    """Prediction of one row.

    Attributes:
        cells: the cells of the prediction; empty texts for an error.
        error: the reason why the row has no prediction, or "".
    """

    cells: list[str]
    error: str


def predict_rows(
    model: MoleculeEstimator, rows: Sequence[InputRow], coverage: float
) -> list[PredictedRow]:
    """Predict n rows in the same way as the command ``gattn molecules predict``.

    Args:
        model: the model.
        rows: n rows.
        coverage: coverage of the intervals or label sets.
    """
    empty = [""] * len(prediction_columns(model))
    descriptors: Callable[[InputRow], Sequence[float]] | None = None
    if model.descriptors_columns_:
        descriptors = attrgetter("values")
    predicted: list[PredictedRow] = []
    for piece in model.predictions(rows, smiles=attrgetter("text"), descriptors=descriptors):
        index = piece.row_index.tolist()
        cells = dict(zip(index, prediction_cells(model, piece.result, coverage)))
        predicted += [PredictedRow(cells.get(i, empty), e) for i, e in enumerate(piece.errors)]
    return predicted
