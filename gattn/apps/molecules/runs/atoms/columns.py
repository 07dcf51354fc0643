"""Prediction columns of a table, for models of atoms and bonds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gattn.apps.molecules.atoms.estimators import AtomEstimator, class_probabilities
from gattn.apps.molecules.atoms.labels import AtomCells
from gattn.apps.molecules.atoms.lists import format_list
from gattn.apps.molecules.atoms.predictor import AtomPrediction
from gattn.apps.molecules.atoms.values import LabelledAtoms, Values
from gattn.apps.molecules.runs.columns import table_rows
from gattn.apps.molecules.runs.source import Source

__all__ = ["prediction_cells", "prediction_columns", "prediction_table"]


def prediction_columns(model: AtomEstimator) -> list[str]:
    """Return the names of the prediction columns.

    They begin with the name of the target: for numbers ``prediction``, ``std``, ``lower`` and
    ``upper``; for classes ``prediction`` and ``probability``, that of the second class, or a list
    of those of all classes. ``atom_radius`` and ``bond_radius`` are the largest radius of the
    environment that the training molecules contain, -1 for an unknown atom.
    """
    names = ("prediction", "std", "lower", "upper")
    if model.task != "regression":
        names = ("prediction", "probability")
    columns = [f"{target}_{name}" for target in model.targets_.names for name in names]
    return [*columns, *(f"{kind}_radius" for kind in model.targets_.kinds)]


def prediction_cells(
    model: AtomEstimator, predicted: AtomPrediction, smiles: Sequence[str], coverage: float
) -> list[list[str]]:
    """Return the cells for k molecules. A cell contains a JSON list.

    Args:
        model: the model.
        predicted: the predictions of the molecules.
        smiles: SMILES of the molecules.
        coverage: coverage of the intervals.
    """
    columns: list[list[str]] = []

    def add(lists: Iterable[Iterable[Any]]) -> None:
        columns.append(list(map(format_list, lists)))

    def lists_of(values: Values, kind: str, column: int) -> list[np.ndarray]:
        return model.lists(values, kind, column, smiles, predicted.graphs)

    ends = model.predictor_.interval(predicted, coverage) if model.task == "regression" else ()
    for number, (kind, column, _) in enumerate(model.targets_):
        if model.task == "regression":
            for values in (predicted.numbers, predicted.std, *ends):
                add([each.tolist() for each in lists_of(values, kind, column)])
            continue
        kinds = model.coding_.classes[number]
        chances = [
            class_probabilities(each, len(kinds))
            for each in lists_of(predicted.mean, kind, column)
        ]  # fmt: skip
        add([model.decide(each, kinds) for each in chances])
        add([(each if len(kinds) > 2 else each[:, 1]).tolist() for each in chances])
    for kind in model.targets_.kinds:
        radius = Values({kind: predicted.radius[kind].double()[:, None]}, predicted.mean.ptr)
        lists = lists_of(radius, kind, 0)
        add([[None if r != r else int(r) for r in each.tolist()] for each in lists])
    return [list(cells) for cells in zip(*columns)]


def prediction_table(
    model: AtomEstimator, source: Source, cells: AtomCells, parts: Mapping[str, LabelledAtoms],
    predictions: Mapping[str, AtomPrediction], coverage: float,
) -> Iterator[Sequence[object]]:  # fmt: skip
    """Yield the rows of a table that contains predictions and labels.

    Args:
        model: the model.
        source: the table of the molecules.
        cells: the labels of all rows, whose targets have the order of the model's.
        parts: molecules by the name of their part.
        predictions: predictions for these molecules.
        coverage: coverage of the intervals.
    """
    names = model.targets_.names

    def labels_of(row: int) -> list[object]:
        lists = (cells.values[name][row] for name in cells.targets.names)
        return ["" if values is None else format_list(values) for values in lists]

    def cells_of(part: str) -> list[list[str]]:
        texts = [source.smiles[row].strip() for row in parts[part].rows.tolist()]
        return prediction_cells(model, predictions[part], texts, coverage)

    columns = [*(f"{name}_measured" for name in names), *prediction_columns(model)]
    return table_rows(source, parts, columns, labels_of, cells_of)
