"""Runs of ``gattn molecules train`` for the server: predictions and explanations of SMILES."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gattn.apps.molecules.descriptor_columns import InputRow
from gattn.apps.molecules.estimators import MoleculeEstimator, MoleculeRegressor
from gattn.apps.molecules.explain import Explanation, explain_model
from gattn.apps.molecules.loading import OpenedModel, open_model, smiles_columns
from gattn.apps.molecules.pretrained import is_distributed
from gattn.apps.molecules.runs.columns import SIMILARITY, prediction_columns, target_columns
from gattn.apps.molecules.runs.explain import colour_scale, label_of
from gattn.apps.molecules.runs.predict import (
    ERROR,
    PredictedRow,
    TrainingSet,
    predict_rows,
    read_threshold,
    read_training_set,
)
from gattn.apps.molecules.settings import TableReading
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.paths import fault_of, run_paths
from gattn.apps.serve.schemas import Atom, Domain, ExplainAnswer, Faithfulness, Neighbour, Pictures
from gattn.apps.serve.served import ServedRun, json_value
from gattn.apps.tables.csv_table import Table, TableRow
from gattn.draw import DRAWN_ATOMS, draw_molecule

NEAREST = 6
"""Number of similar training molecules that are shown beside a prediction."""
PICTURE = 220, 150
"""Width and height in pixels of a picture without weights, about as large as on the page, so that
its lines are not thin there.
"""


@dataclass(frozen=True, eq=False)
class ExplainedMolecule:
    """Prediction of one row with its explanation.

    Attributes:
        cells: the cells of its prediction.
        explanation: the weights of its atoms.
        nearest: pairs of a column of the model's fingerprints and its similarity, most similar
            first.
        pictures: pictures of the weights; None if the molecule is too large.
    """

    cells: list[str]
    explanation: Explanation
    nearest: list[tuple[int, float]]
    pictures: Pictures | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedMolecules(ServedRun):
    """Run of ``gattn molecules train`` with its model and its training molecules.

    Attributes:
        opened: the model, with its card and the format of its tables.
        training: the training molecules; None if they cannot be read.
        threshold: the lowest similarity of the applicability domain; None if it is not known.
    """

    kind = "molecules"
    opened: OpenedModel
    training: TrainingSet | None
    threshold: float | None

    def details(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the description; see :meth:`.ServedRun.details`."""
        model = self.model
        return {
            "task": model.task.name, "targets": model.targets_, "coverage": self.opened.coverage,
            "smiles_columns": list(self.opened.smiles),
            "reads_smiles": self.reads_smiles,
            "size": metrics.get("molecules", {}).get("train", 0),
        }  # fmt: skip

    @property
    def model(self) -> MoleculeEstimator:
        """The model."""
        return self.opened.model

    @property
    def unit(self) -> str:
        """Unit of the numbers in the columns of labels; "" if the training did not name one."""
        return "" if self.model.task.is_class else str(self.opened.card.get("unit", ""))

    @property
    def reads_smiles(self) -> bool:
        """Whether a row is one molecule without descriptor columns."""
        return not (self.model.row_format.joined or self.model.descriptors_columns_)

    def input_row(self, smiles: str) -> InputRow:
        """Return the row of one SMILES.

        Raises:
            RequestError: the model reads rows of several molecules or descriptor columns (422).
        """
        if not self.reads_smiles:
            names = [*self.opened.smiles, *self.model.descriptors_columns_]
            raise RequestError(
                422, f"the model {self.name!r} reads tables: send a CSV body with the columns "
                f"{', '.join(names)} to POST /predict",
            )  # fmt: skip
        return InputRow(smiles)

    def answer(self, text: str, explained: ExplainedMolecule, target: int) -> ExplainAnswer:
        """Return the answer of the API to a request for an explanation.

        Args:
            text: the SMILES of the row.
            explained: the prediction and the weights of the atoms.
            target: index of the explained target.
        """
        explanation, values = explained.explanation, as_values(self.model, explained.cells)
        columns, similarity = target_columns(self.model), float(values[SIMILARITY] or 0)
        first = sum(map(len, columns[:target]))
        shown = dict(zip(columns[target], list(values.values())[first:]))
        domain = (
            None
            if self.threshold is None
            else Domain(
                similarity=similarity, threshold=self.threshold, inside=similarity >= self.threshold
            )
        )
        rows = zip(
            explanation.atoms, explanation.symbols, explanation.weights.tolist(),
            explanation.spread.tolist(),
        )  # fmt: skip
        drops = explanation.faithfulness
        return ExplainAnswer(
            model=self.name, target=self.model.targets_[target], unit=self.unit, smiles=text,
            explained=explanation.explained,
            values={**shown, SIMILARITY: similarity}, domain=domain,
            nearest=self._neighbours(explained.nearest, target),
            atoms=[Atom(atom=a, symbol=s, weight=w, spread=json_value(d)) for a, s, w, d in rows],
            faithfulness=Faithfulness(
                top=drops.top, random=drops.random, random_std=drops.random_std
            ),
            pictures=explained.pictures,
        )  # fmt: skip

    def _neighbours(self, nearest: list[tuple[int, float]], target: int) -> list[Neighbour]:
        """Return the nearest training molecules, with their measured values of one target; an empty
        list if the training molecules could not be read.
        """
        if self.training is None:
            return []
        rows = [(int(self.training.index[column]), similarity) for column, similarity in nearest]
        return [
            Neighbour(
                smiles=self.training.smiles[row], similarity=similarity,
                value=self.training.value(row, target),
            )
            for row, similarity in rows
        ]  # fmt: skip


def open_molecules(name: str, folder: Path, max_atoms: int, threads: int) -> ServedMolecules:
    """Load a run of molecules.

    If its training molecules or its applicability domain cannot be read, a note gives the reason.

    Args:
        name: name of the run on this server.
        folder: the folder of the run.
        max_atoms: molecules with more atoms than this number, or than the model accepts, are
            errors.
        threads: number of threads inside one operator; 0 to choose it by the size.

    Raises:
        RunError: the folder holds no model that can be read.
    """
    opened = open_model(folder, TableReading(workers=1, threads=threads))
    model = opened.model
    model.set_params(max_atoms=min(model.max_atoms, max_atoms))
    notes: list[str] = []
    training = threshold = None
    paths = run_paths(folder)
    if is_distributed(folder):
        notes.append(
            f"{folder.name} is distributed without its training molecules, so the nearest measured "
            "molecules are not available."
        )
    else:
        try:
            training = read_training_set(folder, model)
        except ValueError as error:
            notes.append(
                "The nearest measured molecules are not available, because "
                f"{fault_of(error, paths)}."
            )
    try:
        threshold = read_threshold(folder)
    except ValueError as error:
        notes.append(
            f"The applicability domain is not available, because {fault_of(error, paths)}."
        )
    return ServedMolecules(
        name=name, folder=folder, notes=tuple(notes), columns=prediction_columns(model),
        opened=opened, training=training, threshold=threshold,
    )  # fmt: skip


def explain_molecule(
    model: MoleculeEstimator, input_row: InputRow, target: int, coverage: float
) -> ExplainedMolecule:
    """Predict one row, and compute the weights of its atoms.

    Args:
        model: the model.
        input_row: the row, which must be one molecule without descriptor columns.
        target: index of the target.
        coverage: coverage of the interval or label set.

    Returns:
        The cells of the prediction, the explanation, at most six nearest training molecules with a
        similarity above 0, and the pictures, which are None for a molecule that is too large to
        draw.

    Raises:
        RequestError: the row cannot be read (422).
    """
    row = predict_rows(model, [input_row], coverage)[0]
    if row.error:
        raise RequestError(422, f"the molecule cannot be read: {row.error}")
    inputs = model.featurise([input_row.text]).inputs
    best, similarities = model.predictor_.nearest(inputs, NEAREST)
    nearest = [(i, s) for i, s in zip(best[0].tolist(), similarities[0].tolist()) if s > 0]
    (explanation,) = explain_model(model, inputs, target=target)
    pictures = None
    if len(explanation.symbols) <= DRAWN_ATOMS:
        scale, label = colour_scale([explanation]), label_of(explanation)
        light, dark = (
            draw_molecule(
                explanation.smiles, explanation.weights, label=label, scale=scale, dark=is_dark
            ).decode()
            for is_dark in (False, True)
        )
        pictures = Pictures(light=light, dark=dark)
    return ExplainedMolecule(row.cells, explanation, nearest, pictures)


def first_call(model: MoleculeEstimator) -> None:
    """Compute one small row at the start of the server, so that the first request does not wait for
    imports: an explanation, or a prediction if the model reads rows that cannot be explained.
    """
    row = InputRow(model.row_format.example, (0.0,) * len(model.descriptors_columns_))
    if model.row_format.joined or row.values:
        predict_rows(model, [row], 0.9)
    else:
        explain_molecule(model, row, 0, 0.9)


def draw_plain(smiles: str, dark: bool) -> bytes:
    """Return an SVG drawing of a molecule without weights.

    Raises:
        RequestError: the SMILES cannot be read, or the molecule is too large (422).
    """
    try:
        return draw_molecule(smiles, size=PICTURE, dark=dark)
    except ValueError as error:
        raise RequestError(422, f"the molecule cannot be drawn: {error}") from error


def as_values(model: MoleculeEstimator, cells: list[str]) -> dict[str, float | str | None]:
    """Convert the cells of a prediction, in the order of :func:`prediction_columns`, to JSON values
    by column: numbers, class names, or None for an empty cell.

    JSON has no infinity: the end of an interval without a bound is None.
    """
    values: dict[str, float | str | None] = {}
    classes = not isinstance(model, MoleculeRegressor)
    short = [name for names in target_columns(model) for name in names]
    for name, bare, cell in zip(prediction_columns(model), [*short, ""], cells):
        is_text = classes and bare in ("prediction", "set")
        values[name] = cell or None if is_text or not cell else json_value(float(cell))
    return values


NAME = "the table"
"""Name of the table in error messages. The file name that a client sends is not used."""


@dataclass(frozen=True, eq=False)
class CsvBody:
    """Table that was sent as the CSV body of a request.

    Attributes:
        table: the header and the format of the table.
        positions: positions of the columns of SMILES.
        rows: n rows.
        input_rows: the SMILES and the descriptor columns of each row.
    """

    table: Table
    positions: list[int]
    rows: list[TableRow]
    input_rows: list[InputRow]

    def cells(self, predicted: Sequence[PredictedRow]) -> list[list[str]]:
        """Return the rows of the answer: the cells of the request, the prediction and the error.
        ``predicted`` has an entry for each row, in order; another number raises ValueError.
        """
        return [
            [*row.cells, *one.cells, row.problem or one.error]
            for row, one in zip(self.rows, predicted, strict=True)
        ]

    def columns(self, added: Sequence[str]) -> list[str]:
        """Return the header of the answer's table, in which a column of the request with the name
        of an added column is renamed as in the command ``gattn molecules predict``.
        """
        return self.table.header([*added, ERROR])

    def write(self, added: Sequence[str], predicted: Sequence[PredictedRow]) -> bytes:
        """Return the content of the file that the command ``gattn molecules predict`` would
        write. ``added`` are the names of the columns of the predictions.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.csv"
            with self.table.writer(path, [*added, ERROR]) as writer:
                for cells in self.cells(predicted):
                    writer.writerow(cells)
            return path.read_bytes()


def read_csv_body(
    body: bytes, run: ServedMolecules, columns: Sequence[str], encoding: str | None, max_rows: int
) -> CsvBody:
    """Read the table in the CSV body of a request.

    Args:
        body: the bytes of the file.
        run: the model that reads the table.
        columns: the columns of SMILES; none for those of the training.
        encoding: text encoding; None for that of the byte order mark, or UTF-8.
        max_rows: maximum number of rows.

    Raises:
        RequestError: the body is no such table (422), or has too many rows (413).
    """
    opened = run.opened
    # The table reader needs a file, so the body is written to a temporary folder that is removed
    # afterwards.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(body)
        try:
            names = smiles_columns(opened.card, columns, run.model.molecules_per_row)
            opened = opened._replace(smiles=names)
            table, style = opened.open(path, encoding, "surrogateescape")
            rows = []
            for row in style.checked(table.rows()):
                if len(rows) == max_rows:
                    raise RequestError(413, f"{NAME} must have at most {max_rows:,} rows")
                rows.append(row)
        except (ValueError, LookupError) as error:
            raise RequestError(422, str(error).replace(str(path), NAME)) from error
    return CsvBody(table, list(style.smiles), rows, list(map(style.input_row, rows)))
