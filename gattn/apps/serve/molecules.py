"""Runs of ``gattn molecules train`` for the server: predictions and explanations of SMILES."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gattn.apps.molecules.attributions import METHODS
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.estimators import MoleculeRegressor
from gattn.apps.molecules.explain import DEFAULT_METHOD, Explanation, explain_model
from gattn.apps.molecules.explanations import colour_scale, label_of
from gattn.apps.molecules.inputs import DescribedInputs, MoleculeInputs
from gattn.apps.molecules.loading import load_model, smiles_columns
from gattn.apps.molecules.pretrained import is_distributed
from gattn.apps.molecules.row_format import BETWEEN, drawn_smiles, join_smiles
from gattn.apps.molecules.runs.columns import SIMILARITY, target_columns
from gattn.apps.molecules.runs.predict import OUTSIDE, output_cells, output_columns
from gattn.apps.molecules.runs.training_set import (
    Applicability,
    TrainingSet,
    read_applicability,
    read_training_set,
)
from gattn.apps.run.model_io import coverage_of
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.paths import fault_of, run_paths
from gattn.apps.serve.schemas import (
    Atom,
    Domain,
    ExplainAnswer,
    Faithfulness,
    Neighbour,
    Pictures,
)
from gattn.apps.serve.served import ServedRun, json_value
from gattn.apps.tables.numbers import NumberFormat
from gattn.draw import DRAWN_ATOMS, draw_molecule
from gattn.draw.reactions import draw_reaction

__all__ = [
    "ExplainedMolecule",
    "InputRow",
    "PredictedRow",
    "ServedMolecules",
    "as_values",
    "draw_plain",
    "explain_molecule",
    "first_explanation",
    "open_molecules",
    "predict_rows",
]  # fmt: skip

REACTION = re.compile(r"\s*[^\s>]*[^\s>-]>[^\s>]*>")
"""Pattern of the first sides of a reaction. The dative bond ``->`` of a molecule does not match."""
NEAREST = 5
"""Number of similar training molecules that are shown beside a prediction."""


class InputRow(NamedTuple):
    """Row of a request, in the form that the model reads.

    Attributes:
        text: its SMILES, those of its molecules joined by
            :func:`gattn.apps.molecules.row_format.join_smiles`, or its reaction; "" for a row that
            cannot be read.
        values: its descriptor columns, NaN for a missing value.
    """

    text: str
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class PredictedRow:
    """Prediction of one row.

    Attributes:
        cells: the cells of the command ``gattn molecules predict``; empty texts for an error.
        error: the reason why the row has no prediction, or "".
    """

    cells: list[str]
    error: str


@dataclass(frozen=True, eq=False)
class ExplainedMolecule:
    """Prediction of one row with its explanation.

    Attributes:
        cells: the cells of its prediction.
        explanation: the weights of its atoms; None for a reaction or several molecules.
        nearest: pairs of a column of the model's fingerprints and its similarity, most similar
            first.
        pictures: pictures of the weights; None if the molecule is too large.
    """

    cells: list[str]
    explanation: Explanation | None
    nearest: list[tuple[int, float]]
    pictures: Pictures | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedMolecules(ServedRun):
    """Run of ``gattn molecules train`` with its model and its training molecules.

    Attributes:
        model: the model.
        card: the model card.
        training: the training molecules; None if they cannot be read.
        applicability: the applicability domain; None if it is not known.
    """

    kind = "molecules"
    model: MoleculeEstimator
    card: dict[str, Any]
    training: TrainingSet | None
    applicability: Applicability | None

    def details(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the description; see :meth:`.ServedRun.details`."""
        model = self.model
        return {
            "task": model.task, "targets": model.targets_,
            "units": [self.unit] * len(model.targets_), "coverage": coverage_of(self.card),
            "smiles_columns": list(self.smiles_columns), "reaction": model.reaction,
            "descriptors": model.descriptors_columns_,
            "methods": [] if model.row_format.joined else list(METHODS),
            "size": metrics.get("molecules", {}).get("train", 0),
            "domain_threshold": self.applicability.threshold if self.applicability else None,
        }  # fmt: skip

    @property
    def smiles_columns(self) -> tuple[str, ...]:
        """Names of the columns of SMILES that a CSV file must have, unless the request names
        others.
        """
        return smiles_columns(self.card, None, self.model.molecules_per_row)

    @property
    def numbers(self) -> NumberFormat:
        """Format of the numbers in the training table."""
        return NumberFormat(**self.card.get("numbers", {}))

    @property
    def unit(self) -> str:
        """Unit of the numbers in the columns of labels; "" if the training did not name one."""
        return self.card.get("unit", "") if self.model.task == "regression" else ""

    def input_rows(
        self, smiles: Sequence[str | list[str]], columns: Mapping[str, Sequence[float | None]]
    ) -> list[InputRow]:
        """Return the rows of a request.

        Args:
            smiles: n SMILES or reactions; for a model of several molecules in a row, n lists.
            columns: n values of each descriptor column, by its name; None for a missing value.

        Raises:
            RequestError: a row has another number of SMILES, or a column is missing, unknown or of
                another length (422).
        """
        names = self.model.descriptors_columns_
        if list(columns) != names and sorted(columns) != sorted(names):
            needs = f"the columns {', '.join(names)}" if names else "no columns"
            raise RequestError(
                422,
                f"the model {self.name!r} needs {needs}; got {', '.join(columns)[:200] or 'none'}",
            )
        for name in names:
            if len(columns[name]) != len(smiles):
                raise RequestError(
                    422, f"columns.{name} must have {len(smiles)} values, one for each row; got "
                    f"{len(columns[name])}"
                )  # fmt: skip
        values = zip(*(columns[name] for name in names)) if names else [()] * len(smiles)
        return [
            InputRow(self._text(number, row), tuple(_number(each) for each in some))
            for number, (row, some) in enumerate(zip(smiles, values), 1)
        ]

    def _text(self, number: int, row: str | list[str]) -> str:
        """Return the text of a row.

        Raises:
            RequestError: it has another number of SMILES (422).
        """
        count = self.model.molecules_per_row
        if count == 1 and isinstance(row, str):
            return row
        if count > 1 and isinstance(row, list) and len(row) == count:
            return join_smiles(row)
        expected = "one SMILES" if count == 1 else f"a list of {count} SMILES"
        got = "a text" if isinstance(row, str) else f"a list of {len(row)}"
        raise RequestError(
            422,
            f"the model {self.name!r} reads {self.model.row_format.rows_noun}: row {number:,} must "
            f"be {expected}; it is {got}",
        )

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
        percentile = None
        if self.training is not None and isinstance(shown["prediction"], float):
            percentile = self.training.percentile(target, shown["prediction"])
        domain = self.applicability and Domain(
            similarity=similarity, threshold=self.applicability.threshold,
            inside=self.applicability.is_inside(similarity),
        )  # fmt: skip
        outside = {OUTSIDE: values[OUTSIDE]} if OUTSIDE in values else {}
        common = {
            "model": self.name, "target": self.model.targets_[target], "unit": self.unit,
            "smiles": text, "values": {**shown, **outside, SIMILARITY: similarity},
            "percentile": percentile, "domain": domain,
            "nearest": self._neighbours(explained.nearest, target),
        }  # fmt: skip
        if explanation is None:
            return ExplainAnswer(explained=self.model.scale_of(target), **common)
        rows = zip(
            explanation.atoms, explanation.symbols, explanation.weights.tolist(),
            explanation.spread.tolist(),
        )  # fmt: skip
        drops, names = explanation.faithfulness, self.model.descriptors_columns_
        return ExplainAnswer(
            method=explanation.method, explained=explanation.explained,
            atoms=[Atom(atom=a, symbol=s, weight=w, spread=json_value(d)) for a, s, w, d in rows],
            contributions=dict(zip(names, explanation.descriptors.tolist())),
            faithfulness=Faithfulness(
                top=drops.top, random=drops.random, random_std=drops.random_std
            ),
            pictures=explained.pictures, **common,
        )  # fmt: skip

    def _neighbours(self, nearest: list[tuple[int, float]], target: int) -> list[Neighbour]:
        """Return the nearest training molecules, with their measured values of one target."""
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

    Args:
        name: name of the run on this server.
        folder: the folder of the run.
        max_atoms: larger molecules are errors.
        threads: number of threads inside one operator; 0 to choose it by the size.

    Raises:
        RunError: the folder holds no model that can be read.
    """
    model, card = load_model(folder)
    most = min(model.max_atoms, max_atoms)
    model.set_params(workers=1, threads=threads, max_atoms=most)
    notes: list[str] = []
    training = applicability = None
    paths = run_paths(folder)
    if is_distributed(folder):
        notes.append(
            f"{folder.name} is distributed without its training molecules, so the nearest measured "
            "molecules and percentiles are not available."
        )
    else:
        try:
            training = read_training_set(folder, model)
        except ValueError as error:
            notes.append(
                "The nearest measured molecules and percentiles are not available, because "
                f"{fault_of(error, paths)}."
            )
    try:
        applicability = read_applicability(folder)
    except ValueError as error:
        notes.append(
            f"The applicability domain is not available, because {fault_of(error, paths)}."
        )
    return ServedMolecules(
        name=name, folder=folder, notes=tuple(notes), columns=output_columns(model), model=model,
        card=card, training=training, applicability=applicability,
    )  # fmt: skip


def predict_rows(
    model: MoleculeEstimator, rows: list[InputRow], coverage: float
) -> list[PredictedRow]:
    """Predict rows in the same way as the command ``gattn molecules predict``.

    Args:
        model: the model.
        rows: n rows.
        coverage: coverage of the intervals or label sets.

    Returns:
        n rows.
    """
    empty = [""] * len(output_columns(model))
    descriptors: Callable[[InputRow], Sequence[float]] | None = None
    if model.descriptors_columns_:
        descriptors = attrgetter("values")
    predicted: list[PredictedRow] = []
    for piece in model.predictions(rows, smiles=attrgetter("text"), descriptors=descriptors):
        index = piece.row_index.tolist()
        values = [piece.items[i].values for i in index]
        cells = dict(zip(index, output_cells(model, piece.result, coverage, values)))
        predicted += [PredictedRow(cells.get(i, empty), e) for i, e in enumerate(piece.errors)]
    return predicted


def explain_molecule(
    model: MoleculeEstimator, input_row: InputRow, method: str, target: int, coverage: float
) -> ExplainedMolecule:
    """Predict one row, and compute the weights of its atoms, unless it is a reaction or has several
    molecules.

    Args:
        model: the model.
        input_row: the row.
        method: a method of :data:`gattn.apps.molecules.attributions.METHODS`; "" for the default.
        target: index of the target.
        coverage: coverage of the interval or label set.

    Raises:
        RequestError: the row cannot be read, or the model has no such method (422).
    """
    row = predict_rows(model, [input_row], coverage)[0]
    if row.error:
        what = {1: "the reaction" if model.reaction else "the molecule"}
        raise RequestError(
            422, f"{what.get(model.molecules_per_row, 'the row')} cannot be read: {row.error}"
        )
    inputs: MoleculeInputs = model.featurise([input_row.text]).inputs
    if model.descriptors_columns_:
        values = torch.tensor([input_row.values], dtype=torch.float64)
        inputs = DescribedInputs(inputs, values)
    best, similarities = model.predictor_.nearest(inputs, NEAREST)
    nearest = [(i, s) for i, s in zip(best[0].tolist(), similarities[0].tolist()) if s > 0]
    if model.row_format.joined:
        return ExplainedMolecule(row.cells, None, nearest, None)
    method = method or DEFAULT_METHOD
    try:
        explanation = explain_model(model, inputs, method, target=target)[0]
    except ValueError as error:
        raise RequestError(422, str(error)) from error
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


def first_explanation(model: MoleculeEstimator) -> None:
    """Explain one small molecule at the start of the server, so that the first request does not
    wait for imports.
    """
    values = (0.0,) * len(model.descriptors_columns_)
    explain_molecule(model, InputRow(model.row_format.example, values), "", 0, 0.9)


def draw_plain(smiles: str, dark: bool) -> bytes:
    """Draw a molecule without weights, or a reaction, as an SVG. The molecules of a row are drawn
    side by side.

    Raises:
        RequestError: the SMILES cannot be read, or the molecule is too large (422).
    """
    try:
        if REACTION.match(smiles):
            return draw_reaction(smiles, dark=dark)
        return draw_molecule(drawn_smiles(smiles) if BETWEEN in smiles else smiles, dark=dark)
    except ValueError as error:
        raise RequestError(422, f"the molecule cannot be drawn: {error}") from error


def as_values(model: MoleculeEstimator, cells: list[str]) -> dict[str, float | str | None]:
    """Convert the cells of a prediction to JSON values: numbers, class names or None.

    JSON has no infinity: the end of an interval without a bound is None.
    """
    values: dict[str, float | str | None] = {}
    classes = not isinstance(model, MoleculeRegressor)
    short = [name for names in target_columns(model) for name in names]
    for name, bare, cell in zip(output_columns(model), [*short, "", OUTSIDE], cells):
        is_text = bare == OUTSIDE or (classes and bare in ("prediction", "set"))
        values[name] = cell or None if is_text or not cell else json_value(float(cell))
    return values


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
