"""Prediction and evaluation of tables with models of atoms and bonds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomEstimator, AtomRegressor
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.molecules.rows import smiles_hashes
from gattn.apps.molecules.runs.atoms.columns import (
    prediction_cells,
    prediction_columns,
    prediction_table,
)
from gattn.apps.molecules.runs.atoms.measure import (
    count_labels,
    measure_coverage,
    measure_means,
    measure_targets,
)
from gattn.apps.molecules.runs.atoms.source import check_values, read_list_cells
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.run.model_io import Json, coverage_of, read_model, write_json
from gattn.apps.run.product import Log, no_log
from gattn.apps.run.text import plural
from gattn.apps.tables.csv_table import TableRow
from gattn.apps.tables.formats import open_molecules
from gattn.files import new_file, new_folder, write_rows

__all__ = ["evaluate_lists", "load_atom_model", "predict_lists"]

ERROR = "error"


def load_atom_model(
    folder: str | Path, threads: int, **parameters: object
) -> tuple[AtomEstimator, dict[str, Json]]:
    """Load the model of atoms and bonds in a folder, and its model card.

    Args:
        folder: the folder of the model.
        threads: number of threads inside one operator; 0 to choose it.
        parameters: new values of parameters of the estimator.

    Raises:
        RunError: the folder does not contain a readable model of atoms and bonds.
    """
    tensors, card = read_model(resolve(Path(folder)))
    kind = AtomClassifier if card.get("estimator") == "AtomClassifier" else AtomRegressor
    model = kind.from_state(folder, tensors, card)
    for name, value in parameters.items():
        setattr(model, name, value)
    model.predictor_.threads = threads
    return model, card


def predict_lists(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    smiles: str | None = None,
    encoding: str | None = None,
    coverage: float | None = None,
    workers: int = 2,
    threads: int = 0,
    on_progress: Callable[[int], None] = lambda rows: None,
    log: Log = no_log,
) -> tuple[int, int]:
    """Predict the atoms and bonds of every row of a CSV file; see
    :func:`gattn.apps.molecules.runs.predict.predict_table`.

    Returns:
        The number of rows, and the number of rows without a prediction.
    """
    model, card = load_atom_model(run, threads, workers=workers)
    coverage = coverage_of(card, coverage)
    column = smiles or cast(str, card.get("smiles", "smiles"))
    table = open_molecules(path, [column], encoding=encoding, on_bad_bytes="surrogateescape")
    place = table.place(table.smiles[0])

    def text_of(row: TableRow) -> str:
        return "" if row.problem else row.cells[place]

    columns = prediction_columns(model)
    rows = bad = 0
    every = [*columns, ERROR]
    with new_file(out) as temporary, table.writer(temporary, every, every, log) as writer:
        for piece in model.predictions(table.rows(), smiles=text_of):
            index = piece.row_index.tolist()
            texts = [text_of(piece.items[i]) for i in index]
            cells = dict(zip(index, prediction_cells(model, piece.result, texts, coverage)))
            for i, (row, error) in enumerate(zip(piece.items, piece.errors)):
                problem = row.problem or error
                writer.writerow([*row.cells, *cells.get(i, [""] * len(columns)), problem])
                bad += bool(problem)
            rows += len(piece.items)
            on_progress(len(piece.items))
    return rows, bad


def evaluate_lists(
    run: str | Path,
    path: str | Path,
    out: str | Path | None = None,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    coverage: float | None = None,
    workers: int = 2,
    threads: int = 0,
    log: Log = no_log,
) -> dict[str, Any]:
    """Measure a model on the labelled molecules in a CSV file. Molecules that were used for
    training are left out.

    Args:
        run: the folder of the trained model.
        path: the file.
        out: a new folder for ``metrics.json`` and ``predictions.csv``; None to write no files.
        smiles: the column of SMILES; by default that of the training.
        targets: columns of labels, in the order of the targets of the model: molecules, atoms,
            bonds; by default those of the training.
        encoding: encoding of the file.
        skip_bad: leave out all rows that cannot be read, regardless of their number.
        coverage: coverage of the intervals; None for that of the training.
        workers: number of processes that parse SMILES.
        threads: number of threads inside one operator; 0 to choose it.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder does not contain a readable model.
        ValueError: the file, a column or a label cannot be used; no molecule remains.
    """
    model, card = load_atom_model(run, threads, workers=workers, on_error="skip")
    coverage = coverage_of(card, coverage)
    column = smiles or cast(str, card.get("smiles", "smiles"))
    names = list(targets or model.targets_.names)
    if len(names) != len(model.targets_):
        raise ValueError(
            f"targets must list a column for each target of the model "
            f"({', '.join(model.targets_.names)}); got {len(names)}"
        )
    columns: dict[str, list[str]] = {"molecule": [], "atom": [], "bond": []}
    for name, (kind, _, _) in zip(names, model.targets_):
        columns[kind].append(name)
    source = read_source(str(path), column, (), "regression", encoding=encoding, skip_bad=skip_bad)
    cells = read_list_cells([str(path)], columns, encoding)
    check_values(source, cells, model.coding_, skip_bad=skip_bad)
    renamed = replace(cells, targets=model.targets_, values=_renamed(cells.values, model))
    labelled = model.labelled(source.smiles, renamed)
    new = ~torch.isin(smiles_hashes(labelled.canonical), model.seen_)
    log(
        f"{path}: {plural(len(labelled), 'labelled molecule')}, {int((~new).sum()):,} of them "
        f"left out, because the model was trained on them; {plural(len(labelled.bad), 'row')} "
        "cannot be read"
    )
    if not new.any():
        raise ValueError(
            f"{path} has no labelled molecules other than those that the model was trained on"
        )
    test = labelled[new.nonzero().flatten()]
    predicted = model.predictor_.predict(test.inputs)
    metrics: dict[str, Any] = {
        "task": model.task,
        "test": measure_means(model, test.y, predicted.mean.rows),
        "targets": measure_targets(model, test.y, predicted.mean.rows),
        "labels": count_labels(model, {"test": test}),
        "undefined": {},
        "molecules": {
            "test": len(test),
            "trained_on": len(labelled) - len(test),
            "left_out": len(labelled.bad),
        },
    }
    if model.task == "regression":
        metrics["intervals"] = measure_coverage(model, test.y, predicted, coverage)
    if out is not None:
        texts = {
            name: ["" if each is None else str(each) for each in values]
            for name, values in _renamed(cells.values, model).items()
        }
        with new_folder(out) as folder:
            write_json(folder / "metrics.json", metrics)
            rows = prediction_table(
                model, source, texts, {"test": test}, {"test": predicted}, coverage
            )
            write_rows(folder / "predictions.csv", rows)
        log(f"{out} contains the metrics and the predictions")
    return metrics


def _renamed(values: Any, model: AtomEstimator) -> dict[str, Any]:
    """Return the values under the names of the model's targets; both have the same order."""
    return dict(zip(model.targets_.names, values.values()))
