"""Checks of the input files of ``gattn molecules`` before PyTorch is imported, which takes seconds.

The commands check the same facts again when they read the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gattn.apps.cli.console import say
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.run.model_files import CARD, check_model_files

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.config import RunSettings

SMILES = "name the column of SMILES with --smiles"
TARGET = "name the column of labels with --target"


def check_training_inputs(run: RunSettings, out: Path) -> None:
    """Check the tables of a training run, unless ``out`` contains a finished run or the run reads a
    built-in data set. Of several files, only the columns of the first are checked.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a table whose columns are checked has no header, or lacks a column.
    """
    if not run.files or (out / "metrics.json").exists():
        return
    for path in (*run.files, *filter(None, [run.also])):
        Path(path).stat()
    columns = dict.fromkeys(run.target, TARGET)
    columns |= dict.fromkeys(run.atom_target, "name the column of labels with --atom-target")
    columns |= dict.fromkeys(run.bond_target, "name the column of labels with --bond-target")
    _check_columns(run.data, run.smiles_columns, columns, run.encoding)
    if run.also:
        columns = dict.fromkeys(run.also_target, "name the column of labels with --also-target")
        _check_columns(run.also, run.smiles_columns, columns, run.encoding)


def check_run_inputs(
    run: Path,
    table: Path | None,
    settings: Mapping[str, Any],
    *,
    targets: Sequence[str] | None = (),
) -> None:
    """Check the folder of a trained model, and the table that it reads.

    Args:
        run: the folder, or the name of a model that is distributed with gattn.
        table: the table; None if the input is not one CSV file.
        settings: the options of the command; ``smiles`` and ``encoding`` are read.
        targets: columns of labels that the table must have; None for those of the training.

    Raises:
        RunError: a file of the model is missing.
        FileNotFoundError: the table does not exist.
        ValueError: the table has no header, or lacks a column.
    """
    folder = resolve(run)
    check_model_files(folder)
    if table is None:
        return
    smiles = settings.get("smiles") or _trained_columns(folder, "smiles")
    labels = _trained_columns(folder, "targets") if targets is None else targets
    check_table_inputs(table, {**settings, "smiles": smiles}, targets=labels)


def check_table_inputs(
    table: Path, settings: Mapping[str, Any], *, targets: Sequence[str] = ()
) -> None:
    """Check that a table exists, and that it has the columns of SMILES and labels. If another
    column than the expected one contains the SMILES, its name is printed to stderr.

    Args:
        table: the table.
        settings: the options of the command; ``smiles`` and ``encoding`` are read.
        targets: columns of labels that the table must have.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table has no header, or lacks a column.
    """
    smiles = settings.get("smiles", ())
    names = (smiles,) if isinstance(smiles, str) else tuple(smiles)
    _check_columns(table, names, dict.fromkeys(targets, TARGET), settings.get("encoding"))


def _check_columns(
    path: str | Path, smiles: Sequence[str], columns: Mapping[str, str], encoding: str | None
) -> None:
    """Raise ValueError for the first missing column of a table, with the advice for this column,
    and for a table that cannot be read; raise FileNotFoundError if it does not exist. ``columns``
    contains the advice by column. Print the name of the column of SMILES if it is not the expected
    name.
    """
    # NumPy, which this module imports, is not needed for --help.
    from gattn.apps.tables import formats
    from gattn.apps.tables.csv_table import missing_column, smiles_names

    read = smiles if formats.format_of(Path(path)) in formats.SMILES else ()
    table = formats.open_molecules(
        path, read, encoding=encoding or None, on_bad_bytes="surrogateescape"
    )
    names = smiles_names(table.columns, smiles)
    for name, advice in {**dict.fromkeys(names, SMILES), **columns}.items():
        if name not in table.columns:
            raise ValueError(f"{missing_column(table, [name])}; {advice}")
    if names != tuple(smiles):
        say(f"the SMILES are read from the column {names[0]!r} of {path}")


def _trained_columns(folder: Path, key: str) -> Any:
    """Return the columns under a key of the model card; empty if they are unknown or the card is
    damaged, for which the reader of the model has an error with advice. Raises OSError if the card
    cannot be read.
    """
    try:
        card = json.loads((folder / CARD).read_bytes())
    except (ValueError, RecursionError):
        return ()
    return card.get(key, ()) if isinstance(card, dict) else ()
