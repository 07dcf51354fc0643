"""Runs of ``gattn molecules train`` for the server: predictions and explanations of SMILES."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gattn.draw import DRAWN_ATOMS, draw_molecule
from gattn.molecules.attributions import METHODS
from gattn.molecules.explain import DEFAULT_METHOD, Explanation, explain
from gattn.molecules.explanations import label_of
from gattn.molecules.fitted import MoleculeModel, RegressionModel
from gattn.molecules.loading import load_model
from gattn.molecules.runs.columns import prediction_cells, prediction_columns, target_columns
from gattn.molecules.runs.training_set import (
    Applicability,
    TrainingSet,
    read_applicability,
    read_training_set,
)
from gattn.serve.errors import RequestError
from gattn.training.model_io import RunError

__all__ = [
    "METHODS", "ExplainedMolecule", "PredictedRow", "ServedMolecules", "as_values", "draw_plain",
    "explain_molecule", "first_explanation", "open_molecules", "predict_rows",
]  # fmt: skip

NEAREST = 5
"""Number of similar training molecules that are shown beside a prediction."""


@dataclass(frozen=True)
class PredictedRow:
    """Prediction of one SMILES.

    Attributes:
        cells: the cells of the command ``gattn molecules predict``; empty texts for an error.
        error: the reason why the SMILES has no prediction, or "".
    """

    cells: list[str]
    error: str


@dataclass(frozen=True, eq=False)
class ExplainedMolecule:
    """Explanation of one molecule.

    Attributes:
        cells: the cells of its prediction.
        explanation: the weights of its atoms.
        nearest: pairs of a column of the model's fingerprints and its similarity, most similar
            first.
        light: picture of the weights for a light page, an SVG; "" if the molecule is too large.
        dark: the same picture for a dark page.
    """

    cells: list[str]
    explanation: Explanation
    nearest: list[tuple[int, float]]
    light: str
    dark: str


@dataclass(frozen=True, eq=False)
class ServedMolecules:
    """Run of ``gattn molecules train`` with its model and its training molecules.

    Attributes:
        name: name of the run on this server.
        folder: the folder of the run.
        model: the model.
        card: the model card.
        training: the training molecules; None if they cannot be read.
        applicability: the applicability domain; None if it is not known.
        notes: sentences about missing parts of the run.
    """

    name: str
    folder: Path
    model: MoleculeModel
    card: dict[str, Any]
    training: TrainingSet | None
    applicability: Applicability | None
    notes: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Names of the prediction columns."""
        return prediction_columns(self.model)

    def target_columns(self, target: int) -> dict[str, int]:
        """Return the names of the prediction columns of one target, without the target's name,
        and their positions.
        """
        columns = target_columns(self.model)
        first = sum(map(len, columns[:target]))
        return {name: first + i for i, name in enumerate(columns[target])}

    def neighbours(self, nearest: list[tuple[int, float]], target: int) -> list[dict[str, Any]]:
        """Return the nearest training molecules, with their measured values of one target."""
        if self.training is None:
            return []
        rows = []
        for column, similarity in nearest:
            molecule = int(self.training.index[column])
            rows.append(
                {
                    "smiles": self.training.smiles[molecule],
                    "similarity": similarity,
                    "value": self.training.value(molecule, target),
                }
            )
        return rows


def open_molecules(name: str, folder: Path, max_atoms: int, threads: int) -> ServedMolecules:
    """Load a run of molecules.

    Args:
        name: name of the run on this server.
        folder: the folder of the run.
        max_atoms: larger molecules are errors.
        threads: number of threads inside one operator; 0 to choose it by the size.

    Raises:
        RunError: the folder holds no model that can be read, or the model reads descriptor columns,
            several molecules in a row or reactions.
    """
    model, card = load_model(folder)
    if model.descriptors_columns_:
        raise RunError(
            f"{folder} cannot be served, because its model reads the descriptor columns "
            f"{', '.join(model.descriptors_columns_)}; use gattn molecules predict"
        )
    if model.row_format.joined:
        raise RunError(
            f"{folder} cannot be served, because its model reads {model.row_format.rows_noun}; use "
            "gattn molecules predict"
        )
    model.workers, model.max_atoms = 1, min(model.max_atoms, max_atoms)
    model.predictor_.threads = threads
    notes = []
    training = applicability = None
    try:
        training = read_training_set(folder)
        if len(training.index) != 8 * model.predictor_.fingerprint_bytes:
            training = None
            notes.append("The training molecules are not those of the model's fingerprints.")
    except ValueError as error:
        notes.append(f"The nearest measured molecules and percentiles are not available: {error}.")
    try:
        applicability = read_applicability(folder)
    except ValueError as error:
        notes.append(f"The applicability domain is not available: {error}.")
    return ServedMolecules(name, folder, model, card, training, applicability, tuple(notes))


def predict_rows(model: MoleculeModel, smiles: list[str], coverage: float) -> list[PredictedRow]:
    """Predict SMILES in the same way as the command ``gattn molecules predict``.

    Args:
        model: the model.
        smiles: n SMILES.
        coverage: coverage of the intervals or label sets.

    Returns:
        n rows.
    """
    empty = [""] * len(prediction_columns(model))
    rows: list[PredictedRow] = []
    for piece in model.predictions(smiles):
        predicted = prediction_cells(model, piece.result, coverage)
        cells = dict(zip(piece.row_index.tolist(), predicted))
        rows += [PredictedRow(cells.get(i, empty), e) for i, e in enumerate(piece.errors)]
    return rows


def explain_molecule(
    model: MoleculeModel, smiles: str, method: str, target: int, coverage: float
) -> ExplainedMolecule:
    """Predict the molecule of one SMILES, and compute the weights of its atoms.

    Args:
        model: the model.
        smiles: the SMILES.
        method: a method of :data:`gattn.molecules.attributions.METHODS`; "" for the default.
        target: index of the target.
        coverage: coverage of the interval or label set.

    Raises:
        RequestError: the SMILES cannot be read, or the model has no such method (422).
    """
    row = predict_rows(model, [smiles], coverage)[0]
    if row.error:
        raise RequestError(422, f"the molecule cannot be read: {row.error}")
    inputs = model.featurise([smiles]).inputs
    method = method or DEFAULT_METHOD
    output = target
    if model.class_counts:  # the explained output is the probability of the predicted class
        columns = target_columns(model)
        output = model.output_of(target, row.cells[sum(map(len, columns[:target]))])
    try:
        explanation = explain(model.predictor_, inputs, method, target=output)[0]
    except ValueError as error:
        raise RequestError(422, str(error)) from error
    best, similarities = model.predictor_.nearest(inputs, NEAREST)
    nearest = [(i, s) for i, s in zip(best[0].tolist(), similarities[0].tolist()) if s > 0]
    light = dark = ""
    if len(explanation.symbols) <= DRAWN_ATOMS:
        label = label_of(method, model.scale_of(target))
        light, dark = (
            draw_molecule(
                explanation.smiles, explanation.weights, label=label,
                signed=method != "attention", dark=is_dark,
            ).decode()
            for is_dark in (False, True)
        )  # fmt: skip
    return ExplainedMolecule(row.cells, explanation, nearest, light, dark)


def first_explanation(model: MoleculeModel) -> None:
    """Explain methane, so that the modules are imported before the first request."""
    explain_molecule(model, "C", "", 0, 0.9)


def draw_plain(smiles: str, dark: bool) -> bytes:
    """Draw a molecule without weights, as an SVG.

    Raises:
        RequestError: the SMILES cannot be read, or the molecule is too large (422).
    """
    try:
        return draw_molecule(smiles, dark=dark)
    except ValueError as error:
        raise RequestError(422, f"the molecule cannot be drawn: {error}") from error


def as_values(model: MoleculeModel, cells: list[str]) -> dict[str, float | str | None]:
    """Convert the cells of a prediction to JSON values: numbers, class names or None.

    JSON has no infinity: the end of an interval without a bound is None.
    """
    values: dict[str, float | str | None] = {}
    classes = not isinstance(model, RegressionModel)
    short = [name for names in target_columns(model) for name in names]
    for name, bare, cell in zip(prediction_columns(model), [*short, ""], cells):
        is_text = classes and bare in ("prediction", "set")
        if is_text or not cell:
            values[name] = cell or None
        else:
            number = float(cell)
            values[name] = number if math.isfinite(number) else None
    return values
