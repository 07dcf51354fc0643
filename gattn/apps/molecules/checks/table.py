"""Reader of a table for the data check, which keeps every row and never stops at a bad cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from gattn.apps.molecules.relations import relation_columns, with_relation
from gattn.apps.molecules.row_format import name_column
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import (
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
    "units": "warning",
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
        details: for each row, counted from 0, a value to show, such as the label or the reason;
            empty if the fault belongs to a whole column.
        target: the column of labels; "" if the fault does not belong to one.
        groups: for each row the number of its group, such as a molecule with several SMILES or a
            pair of similar molecules; empty if the rows do not belong together.
        table: 0 for the checked table, 1 for the table of the test part.
    """

    kind: str
    message: str
    details: Mapping[int, str] = field(default_factory=dict)
    target: str = ""
    groups: Mapping[int, int] = field(default_factory=dict)
    table: int = 0

    @property
    def severity(self) -> Severity:
        """Severity of the finding's kind."""
        return SEVERITIES[self.kind]


Column: TypeAlias = Any
"""Series or data frame of pandas, whose types are incomplete."""
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
        numbers: the numbers of the column, and the patterns of the cells that are not plain
            numbers.
        values: [n] float64; the number of a censored cell is its limit; NaN for a cell without a
            number.
        censored: [n] bool, True for cells such as ``>10``.
        is_class: whether the column has two different labels, or texts that are classes.
    """

    name: str
    cells: Column
    numbers: NumberColumn
    values: Column
    censored: Column
    is_class: bool

    @property
    def measured(self) -> Column:
        """Uncensored numbers that float32 can hold, and NaN for other cells."""
        return self.values.mask(self.censored | ~(self.values.abs() <= LARGEST))


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """All rows of a table, with the molecules and labels that can be read.

    Attributes:
        path: the file.
        rows: for each row its ``line``, the ``problem`` of a wrong number of cells, its ``smiles``,
            the ``error`` of a SMILES that cannot be read, and the ``name`` of the molecule.
        cells: the cells of each column whose name is unique; empty in a row with a problem.
        molecules: the n molecules; None where a SMILES cannot be read.
        targets: the columns of labels.
        smiles_column: name of the column of SMILES.
        part_column: name of the column of parts, or "".
    """

    path: Path
    rows: Column
    cells: Column
    molecules: list[Mol | None]
    targets: list[Target]
    smiles_column: str
    part_column: str

    @cached_property
    def keys(self) -> Column:
        """For each row the canonical SMILES of the molecule (``identity``), of its largest neutral
        fragment (``parent``) and without stereo (``flat``); "" if the SMILES cannot be read.
        """
        texts = pd.Series(["" if one is None else identity(one) for one in self.molecules])
        functions = {"identity": str, "parent": parent, "flat": flat}
        return pd.DataFrame({
            name: texts.map({text: function(text) for text in texts.unique() if text} | {"": ""})
            for name, function in functions.items()
        })  # fmt: skip


def read_table(
    path: str | Path,
    *,
    smiles: str = "smiles",
    targets: Sequence[str] = (),
    part_column: str = "",
    encoding: str | None = None,
    style: NumberFormat,
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
        style: format of the numbers.

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
    table = open_molecules(path, [smiles], required[1:], encoding=encoding)
    (smiles,) = table.smiles
    records = list(table.rows())
    if not records:
        raise ValueError(f"{path} has a header but no rows")
    relations = relation_columns(
        (record.cells for record in records if not record.problem), table.columns
    )
    unique = [name for name in table.columns if table.columns.count(name) == 1]
    cells = pd.DataFrame({
        name: ["" if row.problem else row.cells[place].strip() for row in records]
        for name, place in zip(unique, map(table.place, unique))
    })  # fmt: skip
    names = name_column(unique)
    texts = [record.cells[table.place(smiles)].strip() for record in records]
    parsed = [parse_or_reason(text, MAX_ATOMS) for text in texts]
    rows = pd.DataFrame({
        "line": [int(record.line) for record in records],
        "problem": [record.problem for record in records],
        "smiles": texts,
        "error": [one if isinstance(one, str) else "" for one in parsed],
        "name": cells[names] if names else "",
    })  # fmt: skip
    molecules = [None if isinstance(one, str) else one for one in parsed]
    signs = cells[relations[0]] if len(relations) == 1 else None
    columns = {name: _target(cells[name], signs, style) for name in targets or unique}
    if not targets:
        others = (smiles, part_column, names)
        columns = {n: t for n, t in columns.items() if n not in others and _is_numeric(t)}
    return CheckedTable(
        Path(path), rows, cells, molecules, list(columns.values()), smiles, part_column
    )


def _target(cells: Column, signs: Column | None, style: NumberFormat) -> Target:
    name = str(cells.name)
    if signs is not None and signs.name != name:
        cells = pd.Series(list(map(with_relation, cells, signs)), name=name)
    parts = [classify(cell) for cell in cells]
    numbers = read_numbers(list(cells), style)
    limits = replace(style, censored="bound")
    values = numbers.values.copy()
    for row in numbers.unread:
        value = limits.parse(cells[row])
        if value is not None and np.isfinite(value):
            values[row] = value
    censored = pd.Series([bool(part.relation) for part in parts])
    labels = {cell for cell in cells if not is_missing(cell)}
    is_text = all(part.kind in ("text", "missing") for part in parts)
    is_class = len(labels) == CLASSES or (is_text and CLASSES < len(labels) <= TEXT_CLASSES)
    is_class = is_class and not censored.any()
    return Target(name, cells, numbers, pd.Series(values), censored, is_class)


def _is_numeric(target: Target) -> bool:
    """Return True for a column of numbers that may be labels."""
    values = target.values[np.isfinite(target.values)]
    whole, distinct = (values % 1 == 0).all(), values.nunique()
    is_identifier = whole and distinct == len(values) > max(CLASSES, len(target.values) / 2)
    is_numeric = len(values) > 0 and len(values) >= NUMERIC * target.numbers.labelled
    return is_numeric and not is_identifier
