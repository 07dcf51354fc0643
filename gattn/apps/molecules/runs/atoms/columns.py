"""Prediction columns of a table, for models of atoms and bonds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from gattn.apps.molecules.atoms.estimators import AtomEstimator
from gattn.apps.molecules.atoms.lists import format_list
from gattn.apps.molecules.atoms.predictor import AtomPrediction
from gattn.apps.molecules.atoms.values import LabelledAtoms, Values
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
    return [*columns, *(f"{kind}_radius" for kind in model.targets_.kinds if kind != "molecule")]


def prediction_cells(
    model: AtomEstimator, predicted: AtomPrediction, smiles: Sequence[str], coverage: float
) -> list[list[str]]:
    """Return the cells for k molecules. A cell contains a number for a molecule, or a JSON list for
    atoms or bonds.

    Args:
        model: the model.
        predicted: the predictions of the molecules.
        smiles: SMILES of the molecules.
        coverage: coverage of the intervals.
    """
    columns: list[list[str]] = []
    ends = model.predictor_.interval(predicted, coverage) if model.task == "regression" else ()
    for number, (kind, column, _) in enumerate(model.targets_):
        if model.task == "regression":
            means = {k: mean[..., 0] for k, mean in predicted.mean.rows.items()}
            values = [Values(means, predicted.mean.ptr), predicted.std, *ends]
            columns += [_cells(model, each, kind, column, predicted, smiles) for each in values]
            continue
        kinds = model.coding_.classes[number]
        chances = _lists(model, predicted.mean, kind, column, predicted, smiles)
        columns += _class_cells(kind, chances, kinds, model.predictor_.width)
    for kind in model.targets_.kinds:
        if kind != "molecule":
            radius = {kind: predicted.radius[kind].double()[:, None]}
            values = Values(radius, predicted.mean.ptr)
            lists = _lists(model, values, kind, 0, predicted, smiles)
            columns.append([format_list(map(_integer, each)) for each in lists])
    return [list(cells) for cells in zip(*columns)]


def prediction_table(
    model: AtomEstimator, source: Source, cells: Mapping[str, Sequence[object]],
    parts: Mapping[str, LabelledAtoms], predictions: Mapping[str, AtomPrediction],
    coverage: float,
) -> Iterator[Sequence[object]]:  # fmt: skip
    """Yield the rows of a table that contains predictions and labels.

    Args:
        model: the model.
        source: the table of the molecules.
        cells: the cells of the labels of all rows, by target.
        parts: molecules by the name of their part.
        predictions: predictions for these molecules.
        coverage: coverage of the intervals.
    """
    names = model.targets_.names
    yield ["row", "smiles", "part", *(f"{n}_measured" for n in names), *prediction_columns(model)]
    for part, molecules in parts.items():
        rows = molecules.rows.tolist()
        texts = [source.smiles[row].strip() for row in rows]
        predicted = prediction_cells(model, predictions[part], texts, coverage)
        for row, text, each in zip(rows, texts, predicted):
            yield [row, text, part, *(cells[name][row] for name in names), *each]


def _lists(
    model: AtomEstimator, values: Values, kind: str, column: int, predicted: AtomPrediction,
    smiles: Sequence[str],
) -> list[Any]:  # fmt: skip
    """Return the values of each molecule as a list, in the order of the molecule's lists of
    labels.
    """
    pieces = values.lists(kind, column)
    if kind == "molecule":
        return [piece.tolist() for piece in pieces]
    ordered = model.in_order(pieces, kind, smiles, predicted.graphs)
    return [array.tolist() for array in ordered]


def _cells(
    model: AtomEstimator, values: Values, kind: str, column: int, predicted: AtomPrediction,
    smiles: Sequence[str],
) -> list[str]:  # fmt: skip
    lists = _lists(model, values, kind, column, predicted, smiles)
    if kind == "molecule":
        return [f"{value:.6g}" for (value,) in lists]
    return list(map(format_list, lists))


def _class_cells(
    kind: str, chances: Sequence[Any], kinds: Sequence[float | str], width: int
) -> list[list[str]]:
    """Return the cells of the predicted classes and of their probabilities."""
    labels, shown = [], []
    for molecule in chances:
        rows = torch.tensor(molecule, dtype=torch.float64).reshape(-1, width)
        full = torch.cat([1 - rows, rows], 1) if rows.shape[1] == 1 else rows[:, : len(kinds)]
        chosen = [None if bool(row.isnan().any()) else kinds[int(row.argmax())] for row in full]
        several: list[Any] = full.tolist() if len(kinds) > 2 else full[:, 1].tolist()
        if kind == "molecule":
            labels.append(str(chosen[0]))
            shown.append(format_list(several[0]) if len(kinds) > 2 else f"{several[0]:.6g}")
        else:
            labels.append(format_list(chosen))
            shown.append(format_list(several))
    return [labels, shown]


def _integer(value: float) -> int | None:
    return None if value != value else int(value)
