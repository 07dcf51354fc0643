"""Rows of SMILES and numbers, as they stand in files."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gattn.data.tables.csv_table import Table, as_number
from gattn.data.tables.numbers import WORDS, read_numbers

__all__ = ["Row", "csv_rows", "joined_rows"]


@dataclass(frozen=True)
class Row:
    """A row as it came: its SMILES and targets, or what is wrong with it."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()
    problem: str = ""


def csv_rows(table: Table, smiles: str, targets: tuple[str, ...]) -> Iterator[Row]:
    """Every row below the header."""
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
        yield Row(number, row.line, text, tuple(values), problem)


def _shown(cell: str) -> str:
    """A cell with the pattern that it has, where that is not just any text."""
    pattern = read_numbers([cell]).recognised()
    return repr(cell) + "".join(f", which {WORDS[one.kind][0]}" for one in pattern)


def joined_rows(structures: Path, activities: Path) -> list[Row]:
    """Join lines ``SMILES NAME`` with a CSV of ``Name,Act`` by the compound's name."""
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    rows = []
    for number, line in enumerate(structures.read_text("utf-8").splitlines()):
        smiles, _, name = line.partition(" ")
        value = as_number(activity[name]) if name in activity else None
        if value is None or math.isinf(value):
            problem = f"{activities} gives no number for compound {name!r}"
            rows.append(Row(number, number + 1, smiles, problem=problem))
        else:
            rows.append(Row(number, number + 1, smiles, (value,)))
    return rows
