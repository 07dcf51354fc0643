"""Predictions of single rows, as the cells that ``gattn molecules predict`` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.runs.columns import prediction_cells, prediction_columns

__all__ = ["InputRow", "PredictedRow", "predict_rows"]


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
