"""Readers of molecules from lists of SMILES and from registered data sets."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gattn.data.datasets.download import raw_files
from gattn.data.datasets.registry import DatasetRecord, get_dataset
from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.dataset import BadRow, MoleculeError, Molecules
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit, parse_or_reason

OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class _Row:
    """Row of the input: its SMILES and targets."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()


def read_smiles(
    smiles: Sequence[str],
    y: Sequence[float | None] | Sequence[Sequence[float | None]] | Tensor | None = None,
    *,
    targets: Sequence[str] = (),
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read a list of SMILES, optionally with the targets of each SMILES.

    Args:
        smiles: the k SMILES.
        y: a number for each molecule [k], or a row of numbers [k, t] such as the array of a data
            frame; None or NaN for a target that was not measured.
        targets: the names of the t targets; by default ``"y"`` for one target, and ``"y0"``,
            ``"y1"`` and so on for several.
        on_error: ``"raise"`` reads all rows and then reports every bad row in one error;
            ``"skip"`` omits bad rows and lists them in the attribute ``bad`` of the result.
        max_atoms: see :func:`smiles_to_data`.

    Returns:
        The molecules; an empty list gives an empty data set.

    Raises:
        MoleculeError: there are bad rows and ``on_error`` is ``"raise"``; its attribute ``bad``
            lists them.
        ValueError: y does not have a row for each SMILES and a column for each name, or contains
            something else than numbers; ``on_error`` has another value; or ``max_atoms`` is below
            1.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

    >>> molecules = read_smiles(["CCO", "C1CC", "CN(C)(C)(C)C"], on_error="skip")
    >>> len(molecules), [bad.row for bad in molecules.bad]
    (1, [1, 2])
    >>> print(molecules.bad[1])
    row 2: 'CN(C)(C)(C)C': Explicit valence for atom # 1 N, 5, is greater than permitted
    >>> read_smiles(["CCO", "CCC"], [[1.1, 0.0], [None, 1.0]], targets=["logS", "toxic"]).y
    tensor([[1.1000, 0.0000],
            [   nan, 1.0000]])
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of strings; got a single string {smiles!r}")
    if isinstance(targets, str):
        raise ValueError(f"targets must be a list of names; got a single string {targets!r}")
    rows = [() for _ in smiles] if y is None else [_values(row, i) for i, row in enumerate(y)]
    if len(rows) != len(smiles):
        raise ValueError(
            f"y must have {len(smiles)} rows of numbers, one for each SMILES; got {len(rows)}"
        )
    width = len(targets) or max(map(len, rows), default=0)
    for i, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"y must have {width} numbers in each row; row {i} has {len(row)}")
    names = tuple(targets) or (("y",) if width == 1 else tuple(f"y{i}" for i in range(width)))
    read = [_Row(i, None, text, row) for i, (text, row) in enumerate(zip(smiles, rows))]
    return _featurise(read, names, on_error, max_atoms, "the list")


def _values(row: object, place: int) -> tuple[float, ...]:
    """Convert one target, or a row of targets, to numbers. None becomes NaN. Raises ValueError for
    a cell that is no number.
    """
    cells = row if isinstance(row, Iterable) and not _is_scalar(row) else (row,)
    try:
        return tuple(math.nan if cell is None else float(cell) for cell in cells)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise ValueError(f"y must contain numbers, None or NaN; row {place} is {row!r}") from None


def _is_scalar(value: object) -> bool:
    return isinstance(value, str) or getattr(value, "ndim", 1) == 0


def load_molecules(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
    download: bool = True,
) -> Molecules:
    """Load a registered molecule data set.

    Args:
        name: for example ``"esol"``; :func:`gattn.data.dataset_names` lists them.
            ``"chembl2321810"`` is part of the rdkit package and needs no download.
        root: the data folder. The default is the environment variable ``GATTN_DATA``, or the
            user's cache directory if it is not set. The file may be in
            ``<root>/moleculenet/esol/raw`` or in ``<root>/esol/raw``, where torch_geometric puts
            it.
        on_error: see :func:`read_smiles`; RDKit cannot read all molecules of some data sets.
        max_atoms: see :func:`smiles_to_data`.
        download: download missing files.

    Returns:
        The molecules with the registry's targets.

    Raises:
        MoleculeError: there are bad rows and ``on_error`` is ``"raise"``.
        ValueError: there is no such data set of molecules, a file has another SHA-256 than in the
            registry, or an option has an invalid value.
        FileNotFoundError: a file is missing and ``download`` is False, or rdkit was built without
            its Contrib folder.
        OSError: the download failed.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

    >>> load_molecules("chembl2321810")
    Molecules(1017 molecules, 33226 atoms, 36366 bonds, 1 target (Act), 0 bad rows)
    """
    record = get_dataset(name)
    if record.kind != "molecules":
        raise ValueError(f"{record.name!r} contains no molecules; load it with load_citation")
    # This call raises an error before the download, which would be useless without RDKit.
    need_rdkit()
    paths = list(raw_files(record, root, download=download).values())
    read = _joined_rows(*paths) if record.package else _table_rows(paths[0], record)
    return _featurise(read, record.targets, on_error, max_atoms, str(paths[0]))


def _table_rows(path: Path, record: DatasetRecord) -> list[_Row]:
    """Read the SMILES and the targets of a registered CSV file; an empty cell becomes NaN. Raises
    ValueError for a cell that is no number, and KeyError for a missing column.
    """
    with path.open(newline="", encoding="utf-8") as file:
        return [
            _Row(number, number + 2, row[record.smiles], tuple(
                float(row[name] or math.nan) for name in record.targets
            ))
            for number, row in enumerate(csv.DictReader(file))
        ]  # fmt: skip


def _joined_rows(structures: Path, activities: Path) -> list[_Row]:
    """Join a file with lines "SMILES NAME" and a CSV file with lines "Name,Act", by the names of
    the compounds. Raises FileNotFoundError or ValueError if a file cannot be read, and KeyError
    for a compound without activity.
    """
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: float(row["Act"]) for row in csv.DictReader(file)}
    lines = [line.partition(" ") for line in structures.read_text("utf-8").splitlines()]
    return [
        _Row(number, number + 1, smiles, (activity[name],))
        for number, (smiles, _, name) in enumerate(lines)
    ]


def _check_options(on_error: OnError, max_atoms: int) -> None:
    """Raise ValueError for an unknown ``on_error``, or a ``max_atoms`` below 1."""
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip"; got {on_error!r}')
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")


def _with_progress(rows: list[_Row]) -> Iterable[_Row]:
    """Show a progress bar on a terminal if reading the rows takes more than two seconds."""
    from tqdm import tqdm

    return tqdm(rows, "reading molecules", unit="", delay=2, leave=False, disable=None)


def _featurise(
    rows: list[_Row],
    targets: tuple[str, ...],
    on_error: OnError,
    max_atoms: int,
    source: str,
) -> Molecules:
    """Convert rows of SMILES and targets to molecules; y is float32 [k, targets]. A row that cannot
    be read is reported in ``bad``. With ``on_error="raise"``, such rows raise MoleculeError. A
    terminal shows a progress bar. Raises ValueError for invalid options, ImportError without RDKit,
    and RuntimeError if RDKit cannot read the canonical SMILES that it wrote.
    """
    _check_options(on_error, max_atoms)
    builder = MoleculeBuilder()
    values: list[tuple[float, ...]] = []
    bad: list[BadRow] = []
    for row in _with_progress(rows):
        parsed = parse_or_reason(row.text, max_atoms)
        if isinstance(parsed, str):
            bad.append(BadRow(row.row, str(row.text), parsed, row.line))
        else:
            builder.add(plain(parsed, row.text), row.text, row.row)
            values.append(row.values)
    if bad and on_error == "raise":
        raise MoleculeError(bad, source)
    y = torch.tensor(values, dtype=torch.float32).reshape(len(values), len(targets))
    return replace(builder.pack().unpack(), y=y, targets=targets, bad=tuple(bad))
