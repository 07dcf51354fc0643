"""Reader of a table for the data check, which keeps every row and never stops at a bad cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gattn.apps.molecules.relations import relation_columns, with_relation
from gattn.apps.molecules.row_format import name_column
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import (
    Cell,
    NumberColumn,
    NumberFormat,
    classify,
    is_missing,
    read_numbers,
)
from gattn.data.molecules.identity import flat, identity, parent
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit, parse_or_reason

if TYPE_CHECKING:
    from rdkit.Chem import Mol

Severity = Literal["error", "warning", "note"]
"""``"error"`` for rows that cannot be used, ``"warning"`` for faults that change the model or its
measured error, ``"note"`` for properties that are not always faults.
"""
SEVERITIES: dict[str, Severity] = {
    "cells": "error",
    "unreadable": "error",
    "labels": "error",
    "empty": "warning",
    "constant": "warning",
    "censored": "warning",
    "decades": "warning",
    "case": "warning",
    "outliers": "warning",
    "same_molecule": "note",
    "conflicts": "warning",
    "salt_twins": "warning",
    "stereo_twins": "note",
    "tautomer_twins": "warning",
    "leaks": "warning",
    "copies": "warning",
    "readability": "warning",
}
"""Severity of each kind of finding, in the order of the output."""


@dataclass(frozen=True)
class Finding:
    """Fault of a table, and the rows in which it occurs.

    Attributes:
        kind: a name of :data:`SEVERITIES`.
        message: a sentence with the facts.
        rows: the rows from 0, in order; empty if the fault belongs to a whole column.
        target: the column of labels; "" if the fault does not belong to one.
        groups: for each row the number of its group, such as a molecule with several SMILES or a
            pair of similar molecules; empty if the rows do not belong together.
        details: for each row a value to show, such as the label or the reason; empty if there is
            none.
        table: 0 for the checked table, 1 for the table of the test part.
    """

    kind: str
    message: str
    rows: tuple[int, ...] = ()
    target: str = ""
    groups: tuple[int, ...] = ()
    details: tuple[str, ...] = ()
    table: int = 0

    @property
    def severity(self) -> Severity:
        """Severity of the finding's kind."""
        return SEVERITIES[self.kind]


NUMERIC = 0.8
"""Minimum fraction of the cells of a label column that must be numbers."""
CLASSES = 2
"""Number of different labels, such as numbers, of a column of two classes."""
TEXT_CLASSES = 20
"""Maximum number of different texts in a column of classes."""


@dataclass(frozen=True, eq=False)
class Target:
    """Column of labels.

    Attributes:
        name: name of the column.
        cells: the n cells.
        parts: the components of each cell.
        numbers: the numbers of the column, and the patterns of the cells that are not plain
            numbers.
        values: [n] float64; the number of a censored cell is its limit; NaN for a cell without a
            number.
        censored: [n] bool, True for cells such as ``>10``.
        is_class: whether the column has two different labels, or texts that are classes.
    """

    name: str
    cells: list[str]
    parts: list[Cell]
    numbers: NumberColumn
    values: np.ndarray
    censored: np.ndarray
    is_class: bool

    @property
    def measured(self) -> np.ndarray:
        """Mask of the rows that contain an uncensored number."""
        return np.isfinite(self.values) & ~self.censored

    @property
    def labelled(self) -> int:
        """Number of cells with a label."""
        return sum(not is_missing(cell) for cell in self.cells)


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """All rows of a table, with the molecules and labels that can be read.

    Attributes:
        path: the file.
        columns: the names of its columns.
        rows: the cells of the n rows.
        lines: the line of each row.
        problems: for each row the description of a wrong number of cells, or "".
        smiles: the n SMILES.
        molecules: the n molecules; None where a SMILES cannot be read.
        errors: the reason for each SMILES that cannot be read, or "".
        targets: the columns of labels.
        smiles_column: name of the column of SMILES.
        part_column: name of the column of parts, or "".
        name_column: name of the column of names, or "".
        relation_column: name of the only column of relations, or "".
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]
    problems: list[str]
    smiles: list[str]
    molecules: list[Mol | None]
    errors: list[str]
    targets: list[Target]
    smiles_column: str
    part_column: str
    name_column: str
    relation_column: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, column: str) -> list[str]:
        """Return the n cells of a column. A row with a wrong number of cells gives an empty
        cell.
        """
        place = self.columns.index(column)
        return [
            "" if problem else row[place].strip() for row, problem in zip(self.rows, self.problems)
        ]

    @cached_property
    def identities(self) -> list[str]:
        """Canonical SMILES of each row; "" if the row's SMILES cannot be parsed."""
        return ["" if molecule is None else identity(molecule) for molecule in self.molecules]

    @cached_property
    def parents(self) -> list[str]:
        """Canonical SMILES of the largest neutral fragment of each row."""
        return self._each(parent)

    @cached_property
    def flats(self) -> list[str]:
        """Canonical SMILES of each row without stereo."""
        return self._each(flat)

    def _each(self, function: Any) -> list[str]:
        results = {text: function(text) for text in dict.fromkeys(self.identities) if text}
        return [results.get(text, "") for text in self.identities]

    def title(self, row: int) -> str:
        """Return the name of a molecule, or "" if the table has no column of names."""
        if not self.name_column or self.problems[row]:
            return ""
        return self.rows[row][self.columns.index(self.name_column)].strip()


def read_table(
    path: str | Path,
    *,
    smiles: str = "smiles",
    targets: Sequence[str] = (),
    part_column: str = "",
    encoding: str | None = None,
    style: NumberFormat | None = None,
    max_atoms: int = MAX_ATOMS,
) -> CheckedTable:
    """Read a table of molecules for the data check.

    Args:
        path: the file.
        smiles: its column of SMILES.
        targets: its columns of labels; without them, every column whose cells are mostly numbers,
            except columns of row numbers or identifiers.
        part_column: its column of parts, or "".
        encoding: encoding of the file; None for the encoding of its byte order mark, or UTF-8 if it
            has none.
        style: format of the numbers; None for plain numbers.
        max_atoms: larger molecules are errors.

    Returns:
        The table with all its rows.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a CSV file, has no rows, or lacks a column.
        ImportError: RDKit is not installed.
    """
    need_rdkit()
    required = [smiles, *targets, *([part_column] if part_column else [])]
    if len(set(required)) < len(required):
        raise ValueError(f"a column can be used only once; got {', '.join(required)}")
    table = open_molecules(
        path, [smiles], required[1:], encoding=encoding, on_bad_bytes="surrogateescape"
    )
    (smiles,) = table.smiles
    records = list(table.rows())
    if not records:
        raise ValueError(f"{path} has a header but no rows")
    relations = relation_columns(
        (record.cells for record in records if not record.problem), table.columns
    )
    place = table.place(smiles)
    texts = [record.cells[place].strip() for record in records]
    parsed = [parse_or_reason(text, max_atoms) for text in texts]
    checked = CheckedTable(
        path=Path(path),
        columns=table.columns,
        rows=[record.cells for record in records],
        lines=[record.line for record in records],
        problems=[record.problem for record in records],
        smiles=texts,
        molecules=[None if isinstance(molecule, str) else molecule for molecule in parsed],
        errors=[molecule if isinstance(molecule, str) else "" for molecule in parsed],
        targets=[],
        smiles_column=smiles,
        part_column=part_column,
        name_column=name_column(table.columns),
        relation_column=relations[0] if len(relations) == 1 else "",
    )
    style = style or NumberFormat()
    for name in targets or _number_columns(checked, style):
        checked.targets.append(_target(checked, name, style))
    return checked


def _target(table: CheckedTable, name: str, style: NumberFormat) -> Target:
    cells = table.cells(name)
    if table.relation_column not in ("", name):
        cells = list(map(with_relation, cells, table.cells(table.relation_column)))
    parts = [classify(cell) for cell in cells]
    numbers = read_numbers(cells, style)
    limits = replace(style, censored="bound")
    values = numbers.values.copy()
    censored = np.array([bool(part.relation) for part in parts])
    for row in numbers.unread:
        value = limits.parse(cells[row])
        if value is not None and np.isfinite(value):
            values[row] = value
    labels = {cell for cell in cells if not is_missing(cell)}
    is_text = all(part.kind in ("text", "missing") for part in parts)
    is_class = len(labels) == CLASSES or (is_text and CLASSES < len(labels) <= TEXT_CLASSES)
    is_class = is_class and not censored.any()
    return Target(name, cells, parts, numbers, values, censored, is_class)


def _number_columns(table: CheckedTable, style: NumberFormat) -> list[str]:
    """Return the columns of numbers that may be labels."""
    names = []
    for name in table.columns:
        if name in (table.smiles_column, table.part_column, table.name_column):
            continue
        if table.columns.count(name) > 1:
            continue
        target = _target(table, name, style)
        readable = np.isfinite(target.values)
        whole = (target.values[readable] % 1 == 0).all()
        distinct = len(np.unique(target.values[readable]))
        is_identifier = whole and distinct == readable.sum() > max(CLASSES, len(table) / 2)
        is_numeric = readable.any() and readable.sum() >= NUMERIC * target.labelled
        if is_numeric and not is_identifier:
            names.append(name)
    return names
