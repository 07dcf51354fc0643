"""Readers of molecules from lists of SMILES, CSV files and registered data sets."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gattn.data.datasets.download import raw_files
from gattn.data.datasets.registry import get_dataset
from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.dataset import BadRow, MoleculeError, Molecules
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import MAX_ATOMS, READER, need_rdkit, parse_or_reason
from gattn.data.molecules.store import StaleFile
from gattn.data.tables.csv_table import Table, as_number, open_table
from gattn.data.tables.numbers import WORDS, read_numbers

OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class _Row:
    """Row of the input: its SMILES and targets, or the reason why it cannot be used."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()
    problem: str = ""


def read_smiles(
    smiles: Sequence[str],
    y: Sequence[float | None] | Tensor | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read a list of SMILES, optionally with one target per SMILES.

    Args:
        smiles: the SMILES.
        y: one number for each molecule; None or NaN for a target that was not measured.
        on_error: ``"raise"`` reads all rows and then reports every bad row in one error;
            ``"skip"`` omits bad rows and lists them in the attribute ``bad`` of the result.
        max_atoms: see :func:`smiles_to_data`.

    Returns:
        The molecules; an empty list gives an empty data set.

    Raises:
        MoleculeError: there are bad rows and ``on_error`` is ``"raise"``; its attribute ``bad``
            lists them.
        ValueError: the number of targets is not the number of SMILES, or ``on_error`` has another
            value.

    >>> found = read_smiles(["CCO", "C1CC", "CN(C)(C)(C)C"], on_error="skip")
    >>> len(found), [bad.row for bad in found.bad]
    (1, [1, 2])
    >>> print(found.bad[1])
    row 2: 'CN(C)(C)(C)C': Explicit valence for atom # 1 N, 5, is greater than permitted
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of strings; got a single string {smiles!r}")
    values = None if y is None else [_target(value, row) for row, value in enumerate(y)]
    if values is not None and len(values) != len(smiles):
        raise ValueError(
            f"y must have {len(smiles)} numbers, one for each SMILES; got {len(values)}"
        )
    rows = [
        _Row(i, None, text, () if values is None else (values[i],)) for i, text in enumerate(smiles)
    ]
    return _featurise(rows, () if y is None else ("y",), on_error, max_atoms, "the list")


def _target(value: object, row: int) -> float:
    """Convert a target to a number. None becomes NaN, and a text is parsed like a CSV cell."""
    if value is None:
        return math.nan
    try:
        number = as_number(value) if isinstance(value, str) else float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise ValueError(f"y must contain numbers, None or NaN; row {row} is {value!r}")
    return number


def read_csv(
    path: str | os.PathLike[str],
    *,
    smiles: str,
    targets: Sequence[str] = (),
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
    cache: str | os.PathLike[str] | None = None,
) -> Molecules:
    """Read molecules from a CSV file with a header line.

    The separator is the first of comma, semicolon, tab and ``|`` with which the header contains
    the requested columns. The decimal sign is a point. A target cell that is empty, or ``NA``,
    ``N/A``, ``NaN``, ``None`` or ``null``, becomes NaN. Blank lines are ignored. Rows are counted
    from 0 below the header; errors also contain the line number in the file.

    Args:
        path: the file, UTF-8, or UTF-16 with a byte order mark.
        smiles: the column of SMILES.
        targets: the columns of the numbers to predict; a list, even of one column.
        on_error: treatment of an invalid SMILES, of a row with too few or too many cells, and of
            a target that is not a finite number; see :func:`read_smiles`.
        max_atoms: see :func:`smiles_to_data`.
        cache: a file for the parsed molecules, written by :meth:`Molecules.save`. The file is read
            instead of parsing if the content of ``path``, the columns, ``max_atoms``, the version
            of RDKit and the version of the features are unchanged. Otherwise it is replaced.

    Returns:
        The molecules with ``y`` [k, t].

    Raises:
        MoleculeError: there are bad rows and ``on_error`` is ``"raise"``.
        ValueError: the header is missing, a column is missing or occurs twice, the quoting is
            invalid, the file is not such text, or ``cache`` is another kind of file, which is not
            changed.
        FileNotFoundError: the file does not exist.
        ImportError: RDKit is not installed.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles,logS\\nCCO,1.1\\nCCC,\\n")
    >>> read_csv(path, smiles="smiles", targets=["logS"]).y
    tensor([[1.1000],
            [   nan]])
    """
    path = Path(path)
    if isinstance(targets, str):
        raise ValueError(f"targets must be a list of columns; got a single string {targets!r}")

    def rows() -> list[_Row]:
        table = open_table(path, [smiles, *targets])
        return list(_csv_rows(table, smiles, tuple(targets)))

    return _cached([path], rows, smiles, tuple(targets), on_error, max_atoms, cache)


def load_molecules(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
    cache: str | os.PathLike[str] | None = None,
    download: bool = True,
    verify: bool = True,
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
        cache: see :func:`read_csv`; useful for large data sets such as ``"hiv"`` with its 41,127
            molecules.
        download: download missing files and check their SHA-256.
        verify: also check the SHA-256 of files that are already present.

    Returns:
        The molecules with the registry's targets.

    Raises:
        MoleculeError: there are bad rows and ``on_error`` is ``"raise"``.
        ValueError: there is no such data set, or a file has another SHA-256 than in the registry.
        FileNotFoundError: a file is missing and ``download`` is False, or rdkit was built without
            its Contrib folder.
        OSError: the download failed.

    >>> load_molecules("chembl2321810")
    Molecules(1017 molecules, 33226 atoms, 36366 bonds, 1 target (Act), 0 bad rows)
    """
    record = get_dataset(name)
    if record.kind != "molecules":
        raise ValueError(f"{record.name!r} contains no molecules; load it with load_citation")
    # This call raises an error before the download, which would be useless without RDKit.
    need_rdkit()
    paths = list(raw_files(record, root, download=download, verify=verify).values())
    if record.package:

        def rows() -> list[_Row]:
            return _joined_rows(*paths)

        return _cached(paths, rows, record.smiles, record.targets, on_error, max_atoms, cache)
    return read_csv(
        paths[0],
        smiles=record.smiles,
        targets=record.targets,
        on_error=on_error,
        max_atoms=max_atoms,
        cache=cache,
    )


def _cached(
    paths: Sequence[Path],
    rows: Callable[[], list[_Row]],
    smiles: str,
    targets: tuple[str, ...],
    on_error: OnError,
    max_atoms: int,
    cache: str | os.PathLike[str] | None,
) -> Molecules:
    """Read molecules from a valid cache; otherwise parse the rows and write the cache."""
    _check_options(on_error, max_atoms)
    if cache is None:
        return _featurise(rows(), targets, on_error, max_atoms, str(paths[0]))
    need_rdkit()
    import rdkit

    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    made_from = json.dumps([*digests, smiles, targets, max_atoms, rdkit.__version__, READER])
    try:
        molecules = Molecules.load(cache, made_from=made_from)
    except (FileNotFoundError, StaleFile):
        molecules = _featurise(rows(), targets, "skip", max_atoms, str(paths[0]))
        molecules.save(cache, made_from=made_from)
    if molecules.bad and on_error == "raise":
        raise MoleculeError(molecules.bad, str(paths[0]))
    return molecules


def _csv_rows(table: Table, smiles: str, targets: tuple[str, ...]) -> Iterator[_Row]:
    """Read the SMILES and the targets of every row below the header."""
    place, places = table.place(smiles), [table.place(target) for target in targets]
    for number, row in enumerate(table.rows()):
        text, values, problem = row.cells[place], [], row.problem
        for name, cell in zip(targets, (row.cells[at] for at in places)):
            value = as_number(cell)
            if value is None or math.isinf(value):
                problem = (
                    problem or f"{name} must be a finite number or empty; it is {_shown(cell)}"
                )
            else:
                values.append(value)
        yield _Row(number, row.line, text, tuple(values), problem)


def _shown(cell: str) -> str:
    """Return a cell in quotes for an error message, with a hint if its format is recognised."""
    pattern = read_numbers([cell]).recognised()
    return repr(cell) + "".join(f", which {WORDS[one.kind][0]}" for one in pattern)


def _joined_rows(structures: Path, activities: Path) -> list[_Row]:
    """Join a file with lines "SMILES NAME" and a CSV file with lines "Name,Act", by the names of
    the compounds.
    """
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    rows = []
    for number, line in enumerate(structures.read_text("utf-8").splitlines()):
        smiles, _, name = line.partition(" ")
        value = as_number(activity[name]) if name in activity else None
        if value is None or math.isinf(value):
            problem = f"{activities} has no number for compound {name!r}"
            rows.append(_Row(number, number + 1, smiles, problem=problem))
        else:
            rows.append(_Row(number, number + 1, smiles, (value,)))
    return rows


def _check_options(on_error: OnError, max_atoms: int) -> None:
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
    _check_options(on_error, max_atoms)
    builder = MoleculeBuilder()
    values: list[tuple[float, ...]] = []
    bad: list[BadRow] = []
    for row in _with_progress(rows):
        parsed = row.problem or parse_or_reason(row.text, max_atoms)
        if isinstance(parsed, str):
            bad.append(BadRow(row.row, str(row.text), parsed, row.line))
        else:
            builder.add(plain(parsed, row.text), row.text, row.row)
            values.append(row.values)
    if bad and on_error == "raise":
        raise MoleculeError(bad, source)
    y = torch.tensor(values, dtype=torch.float32).reshape(len(values), len(targets))
    return replace(builder.pack().unpack(), y=y, targets=targets, bad=tuple(bad))
