"""Molecules from lists of SMILES, CSV files and registered data sets; bad rows are told by row."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gattn.data._files import raw_files
from gattn.data.molecules import MAX_ATOMS, BadRow, MoleculeError, Molecules, MolGraph, mol_graph
from gattn.data.registry import dataset

OnError = Literal["raise", "skip"]


def read_smiles(
    smiles: Sequence[str],
    y: Sequence[float | None] | Tensor | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read a list of SMILES, with one target for each if there is one.

    Args:
        smiles: the texts.
        y: one number a molecule; None and NaN mean that it was not measured.
        on_error: ``"raise"`` reads them all and then reports every bad row in one error;
            ``"skip"`` leaves bad rows out and reports them in ``bad``.
        max_atoms: see :func:`mol_graph`.

    Returns:
        The molecules; an empty list gives none.

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``; its ``bad`` lists them.
        ValueError: as many targets as molecules are needed; no such ``on_error``.

    >>> found = read_smiles(["CCO", "C1CC", "CN(C)(C)(C)C"], on_error="skip")
    >>> len(found), [bad.row for bad in found.bad]
    (1, [1, 2])
    >>> print(found.bad[1])
    row 2: 'CN(C)(C)(C)C': Explicit valence for atom # 1 N, 5, is greater than permitted
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {smiles!r}")
    values = None if y is None else [math.nan if value is None else float(value) for value in y]
    if values is not None and len(values) != len(smiles):
        raise ValueError(f"y must hold {len(smiles)} numbers, one a SMILES; got {len(values)}")
    rows = (
        _Row(i, None, text, () if values is None else (values[i],)) for i, text in enumerate(smiles)
    )
    return _featurise(rows, () if y is None else ("y",), on_error, max_atoms, "the list")


def read_csv(
    path: str | os.PathLike[str],
    *,
    smiles: str,
    targets: Sequence[str] = (),
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read molecules from a CSV file with a header line.

    A target cell that is empty, ``NA`` or ``NaN`` was not measured and becomes NaN. Blank lines
    are not rows. Row numbers count from 0 below the header; the line is the one in the file.

    Args:
        path: the file, UTF-8, comma-separated.
        smiles: the column of SMILES.
        targets: the columns of numbers to predict, a list even if there is one.
        on_error: what to do about a bad SMILES, a row with too few or too many cells, and a
            target that is no finite number; see :func:`read_smiles`.
        max_atoms: see :func:`mol_graph`.

    Returns:
        The molecules with ``y`` [k, t].

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``.
        ValueError: no header, a column that is missing or there twice, broken quoting, a file
            that is not UTF-8.
        FileNotFoundError: no such file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles,logS\\nCCO,1.1\\nCCC,\\n")
    >>> read_csv(path, smiles="smiles", targets=["logS"]).y
    tensor([[1.1000],
            [   nan]])
    """
    path = Path(path)
    if isinstance(targets, str):
        raise ValueError(f"targets must be a list of columns; got the one text {targets!r}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            rows = list(_csv_rows(file, path, smiles, tuple(targets)))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a CSV file: {error}") from None
    return _featurise(rows, tuple(targets), on_error, max_atoms, str(path))


def load_molecules(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
    download: bool = True,
    verify: bool = True,
) -> Molecules:
    """Load a registered molecule data set.

    Args:
        name: for example ``"esol"``; :func:`gattn.data.dataset_names` lists them.
            ``"chembl2321810"`` lies inside the rdkit package and needs no download.
        root: the data folder; else ``GATTN_DATA``, else the user's cache directory. The file may
            lie in ``<root>/moleculenet/esol/raw`` or, as torch_geometric has it, in
            ``<root>/esol/raw``.
        on_error: see :func:`read_smiles`; some data sets have molecules that RDKit refuses.
        max_atoms: see :func:`mol_graph`.
        download: fetch what is missing, checked against the registry's SHA-256.
        verify: check the files that are there against it too.

    Returns:
        The molecules with the registry's targets.

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``.
        ValueError: no such data set, or a file that is not the registered one.
        FileNotFoundError: a file is missing and ``download`` is false, or rdkit was built without
            its Contrib folder.
        OSError: the download failed.

    >>> found = load_molecules("chembl2321810")
    >>> len(found), found.targets
    (1017, ('Act',))
    """
    record = dataset(name)
    if record.kind != "molecules":
        raise ValueError(f"{record.name!r} holds no molecules; load it with load_citation")
    paths = list(raw_files(record, root, download=download, verify=verify).values())
    if record.package:
        rows: Iterable[_Row] = _joined_rows(*paths)
        return _featurise(rows, record.targets, on_error, max_atoms, str(paths[0]))
    return read_csv(
        paths[0],
        smiles=record.smiles,
        targets=record.targets,
        on_error=on_error,
        max_atoms=max_atoms,
    )


def _joined_rows(structures: Path, activities: Path) -> list[_Row]:
    """Join lines ``SMILES NAME`` with a CSV of ``Name,Act`` by the compound's name."""
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    rows = []
    for number, line in enumerate(structures.read_text("utf-8").splitlines()):
        smiles, _, name = line.partition(" ")
        value = _number(activity[name]) if name in activity else None
        if value is None:
            problem = f"{activities} gives no number for compound {name!r}"
            rows.append(_Row(number, number + 1, smiles, problem=problem))
        else:
            rows.append(_Row(number, number + 1, smiles, (value,)))
    return rows


@dataclass(frozen=True)
class _Row:
    """A row as it came: its SMILES and targets, or what is wrong with it."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()
    problem: str = ""


def _csv_rows(
    file: Iterable[str], path: Path, smiles: str, targets: tuple[str, ...]
) -> Iterator[_Row]:
    reader = csv.reader(file, strict=True)
    header = [name.strip() for name in next(reader, [])]
    for column in (smiles, *targets):
        if header.count(column) != 1:
            raise ValueError(
                f"{path} must have one column {column!r}; it has {', '.join(header) or 'nothing'}"
            )
    place, places = header.index(smiles), [header.index(target) for target in targets]
    row = 0
    for cells in reader:
        if not cells:
            continue
        yield _csv_row(row, reader.line_num, cells, len(header), place, places, targets)
        row += 1


def _csv_row(
    row: int,
    line: int,
    cells: list[str],
    width: int,
    place: int,
    places: list[int],
    targets: tuple[str, ...],
) -> _Row:
    if len(cells) != width:
        problem = f"{len(cells)} cells where the header has {width}"
        return _Row(row, line, ",".join(cells), problem=problem)
    values = []
    for name, at in zip(targets, places):
        value = _number(cells[at])
        if value is None:
            problem = f"{name} must be a finite number or empty; it is {cells[at]!r}"
            return _Row(row, line, cells[place], problem=problem)
        values.append(value)
    return _Row(row, line, cells[place], tuple(values))


_LARGEST = 3.4028234663852886e38  # of fp32, which targets are kept in


def _number(cell: str) -> float | None:
    """The cell's number, NaN where it was not measured, None where it is no number."""
    cell = cell.strip()
    if cell.lower() in ("", "na", "nan"):
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None


def _featurise(
    rows: Iterable[_Row],
    targets: tuple[str, ...],
    on_error: OnError,
    max_atoms: int,
    source: str,
) -> Molecules:
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip"; got {on_error!r}')
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    graphs: list[MolGraph] = []
    kept: list[_Row] = []
    bad: list[BadRow] = []
    for row in rows:
        graph = _graph_or_reason(row, max_atoms)
        if isinstance(graph, MolGraph):
            graphs.append(graph)
            kept.append(row)
        else:
            bad.append(BadRow(row.row, str(row.text), graph, row.line))
    if bad and on_error == "raise":
        raise MoleculeError(bad, source)
    y = torch.tensor([row.values for row in kept], dtype=torch.float32)
    return Molecules(
        tuple(graphs),
        y.reshape(len(kept), len(targets)),
        targets,
        tuple(row.row for row in kept),
        tuple(bad),
    )


def _graph_or_reason(row: _Row, max_atoms: int) -> MolGraph | str:
    if row.problem:
        return row.problem
    try:
        return mol_graph(row.text, max_atoms=max_atoms)
    except ValueError as error:
        return str(error)
