"""From a table of SMILES to a folder of weights of atoms: tables of numbers, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gattn.data.tables.csv_table import Table, TableRow
from gattn.files import new_folder, write_rows
from gattn.molecules.attributions import METHODS
from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.explain import explain
from gattn.molecules.explanations import PICTURES, write_explanations
from gattn.molecules.inputs import featurise
from gattn.molecules.loading import open_run
from gattn.molecules.network import MoleculeNetwork
from gattn.molecules.runs.predict import Counts

__all__ = ["explain_table"]


def explain_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    methods: Sequence[str] = (),
    target: str | None = None,
    smiles: str | None = None,
    encoding: str | None = None,
    workers: int = 2,
    pictures: int = PICTURES,
    say: Callable[[str], None] = lambda line: None,
) -> Counts:
    """Weigh the atoms of every molecule of a CSV file.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: a new folder. :func:`gattn.molecules.explanations.write_explanations` says what is
            written; ``errors.csv`` has the rows that could not be read.
        methods: what to weigh by, of :data:`gattn.molecules.attributions.METHODS`; otherwise all
            that the model has.
        target: the name of the target; it may be left out where there is one.
        smiles: the column of SMILES; otherwise the one that the model was trained on.
        encoding: of the file; otherwise what its byte order mark says, and UTF-8 without one.
        workers: processes that read SMILES.
        pictures: how many molecules are drawn, the first of the file; the tables have all.
        say: told in a line each what a user should know.

    Returns:
        The number of rows, and of those that could not be read.

    Raises:
        RunError: the folder holds no model that can be read.
        FileExistsError: ``out`` is there already.
        ValueError: the file or its column is not what was asked for, no such method or target,
            or no molecule that can be read.
    """
    if pictures < 0:
        raise ValueError(f"pictures must be at least 0; got {pictures}")
    estimator, table, column = open_run(
        run, path, smiles=smiles, encoding=encoding, workers=workers
    )
    number, place = estimator.place_of(target), table.place(column)
    rows = list(table.rows())
    texts = ["" if row.problem else row.cells[place] for row in rows]
    found = featurise(texts, max_atoms=estimator.max_atoms, workers=workers)
    if not len(found.inputs):
        raise ValueError(f"{path} has no molecule that can be read")
    errors = [row.problem or error for row, error in zip(rows, found.errors)]
    explained = {
        method: explain(estimator.predictor_, found.inputs, method, target=number)
        for method in dict.fromkeys(methods or _methods(estimator))
    }
    name, titles = estimator.targets_[number], _titles(table, rows, found.row_index.tolist())
    with new_folder(out) as folder:
        written = write_explanations(
            folder, found.row_index.tolist(), explained, name=name, titles=titles, pictures=pictures
        )
        bad = [[i, texts[i], error] for i, error in enumerate(errors) if error]
        write_rows(folder / "errors.csv", [["row", "smiles", "error"], *bad])
    if len(found.row_index) > pictures:
        say(
            f"{pictures:,} of {len(found.row_index):,} molecules have pictures; the tables have all"
        )
    if written.not_drawn:
        say(f"{len(written.not_drawn)} molecules are too large for a picture")
    return Counts(len(rows), len(bad))


def _titles(table: Table, rows: Sequence[TableRow], places: Sequence[int]) -> list[str] | None:
    """The cells of the first column "name", in any letters, of some rows; None without one."""
    named = [i for i, column in enumerate(table.columns) if column.lower() == "name"]
    return [rows[place].cells[named[0]].strip() for place in places] if named else None


def _methods(estimator: MoleculeEstimator) -> list[str]:
    """The methods that a model has: attention is that of learned queries."""
    networks = estimator.predictor_.networks
    attends = any(isinstance(network, MoleculeNetwork) for network in networks)
    return [method for method in METHODS if attends or method != "attention"]
