"""The command ``gattn molecules predict``, which writes a prediction for every row of a table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gattn.apps.fitting.settings import SettingsError, read_toml
from gattn.apps.molecules.descriptor_columns import InputRow
from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.loading import open_model
from gattn.apps.molecules.pretrained import is_distributed, resolve
from gattn.apps.molecules.runs.columns import prediction_cells, prediction_columns
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.stages import read_run_source
from gattn.apps.molecules.settings import DEFAULT_READING, TableReading
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.run.model_io import RunError, check_files, read_card, read_json
from gattn.apps.run.run_folder import training_folder
from gattn.apps.run.text import plural
from gattn.apps.run.train import Log, no_log
from gattn.files import check_table_ending, new_file, reason

INSIDE = 0.95
"""Fraction of the test molecules that are inside the applicability domain, by definition of the
domain.
"""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Molecules of the training and validation parts, in the order of the model's fingerprints.

    Attributes:
        smiles: n SMILES.
        values: [n, t] measured labels as the table has them; missing labels are NaN or None.
        index: [m] int64, the molecule of each column of the fingerprints; -1 for padding.
        has_numbers: whether the labels are numbers, not classes.
    """

    smiles: list[str]
    values: np.ndarray
    index: np.ndarray
    has_numbers: bool

    def value(self, molecule: int, target: int) -> float | str | None:
        """Return the measured label of a molecule; None if it was not measured."""
        label: Any = self.values[molecule, target]
        if label is None or label != label:
            return None
        # Labels are stored as float32, in which six digits are exact. The other digits differ from
        # the table.
        return float(f"{label:.6g}") if self.has_numbers else str(label)


def read_training_set(folder: Path, model: MoleculeEstimator) -> TrainingSet:
    """Read the training molecules of a run from its table, which must not have changed. A relative
    path in the settings of the run is relative to the working directory; see
    :func:`gattn.apps.run.run_folder.training_folder`.

    Args:
        folder: the folder of the run.
        model: its model.

    Raises:
        ValueError: the folder holds no settings or parts of a run, the table is missing, has
            changed or cannot be read, or the model was trained on other molecules.
    """
    try:
        check_files(folder, "config.toml", "splits.json")
        settings = read_toml(RunSettings, folder / "config.toml")
        splits = read_json(folder / "splits.json", "train", "val", "sha256", remedy="train again")
        source = read_run_source(settings)
        source = source.without({*source.targets} - {*read_card(folder)["targets"]})
    except OSError as error:
        raise ValueError(reason(error)) from error
    except (RunError, SettingsError) as error:
        raise ValueError(str(error)) from error
    if source.sha256 != splits["sha256"]:
        raise ValueError(f"{source.name} has changed since the model was trained")
    parts: list[list[int]] = [splits["train"], splits["val"]]  # pyright: ignore[reportAssignmentType]
    rows = [row for part in parts for row in part]
    index: list[int] = []
    for part in parts:
        begin = len([i for i in index if i >= 0])
        index += [*range(begin, begin + len(part)), *[-1] * (-len(part) % 8)]
    if len(index) != 8 * model.predictor_.fingerprint_bytes:
        raise ValueError(f"the model was trained on other molecules than those of {source.name}")
    values = np.asarray(source.labels.y)[rows]
    smiles = [source.smiles[row].strip() for row in rows]
    return TrainingSet(smiles, values, np.array(index, np.int64), not source.labels.task.is_class)


def read_threshold(folder: Path) -> float:
    """Return the similarity to training molecules that 95 % of the test molecules reach. A molecule
    that reaches it is inside the applicability domain, for which errors were measured. The
    threshold of a model that is distributed with gattn is read from its figures.

    Args:
        folder: the folder of the run.

    Raises:
        ValueError: the folder has no predictions of a test part, or they were changed.
    """
    if is_distributed(folder):
        figures = read_json(folder / "figures.json", "test", remedy="install gattn again")
        return float(figures["test"]["domain"])
    path = folder / "predictions.csv"
    try:
        check_files(folder, path.name)
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            similarities = [float(row["similarity"]) for row in rows if row["part"] == "test"]
    except OSError as error:
        raise ValueError(reason(error)) from error
    except KeyError as error:
        raise ValueError(f"{path} has no column {error}") from error
    if not similarities:
        raise ValueError(f"{path} has no molecule of the test part")
    return float(np.quantile(similarities, 1 - INSIDE, method="lower"))


@dataclass(frozen=True, eq=False)
class MeasuredMolecules:
    """Measured molecules of a run, and the applicability domain of the run's model.

    A prediction is inside the domain if the molecule is at least as similar to a measured molecule
    as 95 % of the molecules of the test part are. The errors of the model were measured on such
    molecules. Outside the domain, errors may be larger than the prediction intervals indicate.

    Attributes:
        model: the model of the run.
        training: the molecules of the training and validation parts.
        threshold: the lowest similarity inside the domain.
        count: number of neighbours of each prediction.
    """

    model: MoleculeEstimator
    training: TrainingSet
    threshold: float
    count: int

    @property
    def columns(self) -> list[str]:
        """Names of the output columns: the SMILES, similarity and values of each neighbour, then
        ``in_domain``.
        """
        values = [f"{target}_measured" for target in self.model.targets_]
        names = ["smiles", "similarity", *(values if len(values) > 1 else ["measured"])]
        numbered = [f"neighbor{i}_{name}" for i in range(1, self.count + 1) for name in names]
        return [*numbered, "in_domain"]

    def cells(self, predicted: Prediction) -> list[list[str]]:
        """Return the output cells of k predictions with neighbours, in the order of
        :attr:`columns`.
        """
        index, similarity = predicted.nearest_index, predicted.nearest_similarity
        assert index is not None
        assert similarity is not None
        width, rows = 2 + len(self.model.targets_), []
        nearest = predicted.max_train_similarity.tolist()
        for columns, values, best in zip(index.tolist(), similarity.tolist(), nearest):
            cells: list[str] = []
            for column, value in zip(columns, values):
                # A molecule without a common bit is no neighbour.
                cells += self._neighbor(column, value) if value > 0 else [""] * width
            cells += [""] * (width * self.count - len(cells))
            rows.append([*cells, str(best >= self.threshold).lower()])
        return rows

    def _neighbor(self, column: int, similarity: float) -> list[str]:
        """Return the cells of the measured molecule in a column of the fingerprints."""
        molecule = int(self.training.index[column])
        values = (self.training.value(molecule, i) for i in range(len(self.model.targets_)))
        texts = (f"{each:.6g}" if isinstance(each, float) else str(each or "") for each in values)
        return [self.training.smiles[molecule], f"{similarity:.6g}", *texts]


def read_measured(folder: str | Path, model: MoleculeEstimator, count: int) -> MeasuredMolecules:
    """Read the measured molecules of a run from its table. Meanwhile, the working directory of the
    process is the one of the training.

    Args:
        folder: the folder of the run.
        model: its model.
        count: number of neighbours of each prediction, at least 1.

    Raises:
        ValueError: ``count`` is below 1, the model does not read single molecules, the folder is
            not a run, or its table is missing or has changed since the training.
    """
    if count < 1:
        raise ValueError(f"neighbors must be at least 1; got {count}")
    if model.level_:
        raise ValueError("neighbors are not available for a model of atoms or bonds")
    if model.row_format.joined:
        raise ValueError(
            "neighbors needs a model of single molecules; this model reads "
            f"{model.row_format.rows_noun}"
        )
    folder = resolve(Path(folder)).absolute()
    if is_distributed(folder):
        raise ValueError(f"{folder.name} is distributed without its training molecules")
    try:
        with training_folder(folder):
            training = read_training_set(folder, model)
        threshold = read_threshold(folder)
    except ValueError as error:
        raise ValueError(f"the measured molecules of {folder} cannot be read: {error}") from error
    return MeasuredMolecules(model, training, threshold, count)


ERROR = "error"
TEXTS = ("set", ERROR)
"""Names of columns that are texts in a Parquet file."""


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
    reading: TableReading = DEFAULT_READING,
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
        reading: rules for reading the file.
        neighbors: number of nearest measured molecules to write beside each prediction, with their
            similarities and measured values, and whether the prediction is inside the
            applicability domain
            (:class:`gattn.apps.molecules.runs.predict.MeasuredMolecules`).
            They are read from the table of the training, which must not have changed.
        on_progress: called with the number of rows in each piece that was written.
        log: called with each line that the user should read.

    Returns:
        The number of rows, and the number of rows without a prediction.

    Raises:
        RunError: the folder does not contain a readable model.
        FileExistsError: ``out`` exists.
        FileNotFoundError: the file ``path`` does not exist.
        ValueError: the column is missing or appears twice, ``out`` has another ending, the coverage
            is not above 0 and below 1, or the measured molecules cannot be read.
    """
    check_table_ending(out)
    opened = open_model(run, reading, lists=True)
    table, descriptors = opened.open(path, reading.encoding, "surrogateescape")
    model, read = opened.model, descriptors.input_row
    measured = read_measured(run, model, neighbors) if neighbors else None
    columns = prediction_columns(model) + ([] if measured is None else measured.columns)
    items = descriptors.checked(table.rows())
    pieces = model.predictions(items, read=read, neighbors=neighbors)
    empty = [""] * len(columns)
    rows = bad = outside = 0
    columns = [*columns, ERROR]
    texts = [name for name in columns if name in TEXTS or name.endswith("_set") or model.level_]
    with new_file(out) as temporary, table.writer(temporary, columns, texts, log) as writer:
        for piece in pieces:
            index = piece.row_index.tolist()
            smiles_of_rows = [read(piece.items[i]).text for i in index]
            cells = prediction_cells(model, piece.result, opened.coverage, smiles_of_rows)
            if measured is not None:
                more = measured.cells(piece.result)
                outside += sum(row[-1] == "false" for row in more)
                cells = [[*some, *others] for some, others in zip(cells, more)]
            predicted = dict(zip(index, cells))
            for i, (row, error) in enumerate(zip(piece.items, piece.errors)):
                error = row.problem or error
                writer.writerow([*row.cells, *predicted.get(i, empty), error])
                bad += bool(error)
            rows += len(piece.items)
            on_progress(len(piece.items))
    if outside:
        log(f"in_domain is false for {plural(outside, 'row')}: intervals or sets may be too small")
    return Counts(rows, bad)


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

    Returns:
        For each row its cells and the reason why it cannot be predicted, or "". The cells of such a
        row are empty.

    Raises:
        ValueError: the coverage is not above 0 and below 1.
        RuntimeError: a worker process was killed.
    """
    empty = [""] * len(prediction_columns(model))
    predicted: list[PredictedRow] = []
    for piece in model.predictions(rows, read=lambda row: row):
        index = piece.row_index.tolist()
        cells = dict(zip(index, prediction_cells(model, piece.result, coverage)))
        predicted += [PredictedRow(cells.get(i, empty), e) for i, e in enumerate(piece.errors)]
    return predicted
