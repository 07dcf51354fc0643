"""Reader of tables whose label cells contain lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomEstimator, AtomRegressor
from gattn.apps.molecules.atoms.faults import number_faults
from gattn.apps.molecules.atoms.labels import AtomCells, Coding, coding_of, read_cells
from gattn.apps.molecules.atoms.values import KINDS
from gattn.apps.molecules.loading import smiles_columns
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.labels import SHARE, SKIP
from gattn.apps.molecules.runs.source import Source, read_source
from gattn.apps.molecules.tables import open_tables
from gattn.apps.run.model_io import Json, read_model
from gattn.data import BadRow

__all__ = ["check_share", "check_values", "load_atoms", "read_atom_source", "read_list_cells"]


def read_atom_source(settings: RunSettings) -> tuple[Source, AtomCells, Coding]:
    """Read the table of a run: SMILES, weights, label cells, and the task of the labels.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table, a column or a label cannot be used.
    """
    source = read_source(
        settings.files, settings.smiles_columns, (), "regression",
        settings.split_rule.column, encoding=settings.encoding,
        skip_bad=settings.skip_bad_labels, weight=settings.weight_column or None,
        time=settings.time or None, file_parts=settings.file_parts,
    )  # fmt: skip
    names = {"atom": settings.atom_target, "bond": settings.bond_target}
    cells = read_list_cells(settings.files, names, settings.encoding)
    try:
        coding = coding_of(cells, settings.task)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    check_values(source, cells, coding, skip_bad=settings.skip_bad_labels)
    problems = [p if smiles else "" for p, smiles in zip(cells.problems, source.smiles)]
    return source, replace(cells, problems=problems), coding


def load_atoms(
    folder: str | Path, smiles: str | Sequence[str] | None, *, threads: int, **parameters: object
) -> tuple[AtomEstimator, dict[str, Json], str]:
    """Load the model of atoms and bonds in a folder, its model card, and its column of SMILES.

    Args:
        folder: the folder of the model.
        smiles: the column that the user passed; None for that of the training.
        threads: number of threads inside one operator; 0 to choose it.
        parameters: new values of parameters of the estimator.

    Raises:
        RunError: the folder does not contain a readable model of atoms and bonds.
        ValueError: there are several columns.
    """
    tensors, card = read_model(resolve(Path(folder)))
    kind = AtomClassifier if card.get("estimator") == "AtomClassifier" else AtomRegressor
    model = kind.from_state(folder, tensors, card)
    for name, value in parameters.items():
        setattr(model, name, value)
    model.predictor_.threads = threads
    (column,) = smiles_columns(card, smiles, 1)
    return model, card, column


def read_list_cells(
    files: Sequence[str], names: Mapping[str, Sequence[str]], encoding: str | None
) -> AtomCells:
    """Return the parsed cells of the label columns in the given files.

    Args:
        files: the files, whose rows follow one another.
        names: the columns by kind: molecule, atom and bond.
        encoding: encoding of the files.
    """
    columns = [name for kind in KINDS for name in names[kind]]
    table = open_tables(files, (), columns, encoding=encoding)
    places = {name: table.place(name) for name in columns}
    texts: dict[str, list[str]] = {name: [] for name in columns}
    for row in table.rows():
        for name, place in places.items():
            texts[name].append("" if row.problem else row.cells[place])
    return read_cells({kind: {name: texts[name] for name in names[kind]} for kind in KINDS})


def check_values(source: Source, cells: AtomCells, coding: Coding, *, skip_bad: bool) -> None:
    """Raise an error if a list of numbers has an infinite value or a limit.

    Leaving out such lists would select labels by their value. Lists with texts are left out later,
    up to the fraction of rows that :func:`check_share` allows.

    Args:
        source: the table.
        cells: its parsed cells.
        coding: task of the labels.
        skip_bad: whether to leave out all such lists.

    Raises:
        ValueError: there is such a value; the message contains its line and its column.
    """
    if coding.task != "regression" or skip_bad:
        return
    for fault in number_faults(cells):
        if fault.selective and source.smiles[fault.row]:
            raise ValueError(
                f"{source.name}: {fault.reason}, in line {source.lines[fault.row]}; correct it, "
                f"or leave the row out with {SKIP}"
            )


def check_share(source: Source, bad: Sequence[BadRow], *, skip_bad: bool) -> None:
    """Raise an error if more than 5 % of the rows have lists that cannot be read.

    Args:
        source: the table.
        bad: these rows.
        skip_bad: whether to leave out any number of rows.
    """
    if len(bad) > max(1, SHARE * len(source.smiles)) and not skip_bad:
        raise ValueError(
            f"{source.name}: {len(bad):,} of {len(source.smiles):,} rows have lists that cannot be "
            f"used, the first is {bad[0]}; correct them, or leave them out with {SKIP}"
        )
