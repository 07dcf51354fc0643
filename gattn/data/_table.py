"""Rows of SMILES and numbers, as they stand in files."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

__all__ = ["Row", "csv_rows", "joined_rows"]


@dataclass(frozen=True)
class Row:
    """A row as it came: its SMILES and targets, or what is wrong with it."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()
    problem: str = ""


SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def csv_rows(file: TextIO, path: Path, smiles: str, targets: tuple[str, ...]) -> Iterator[Row]:
    """Every row below the header, blank lines left out."""
    separator = _separator(file, path, (smiles, *targets))
    reader = csv.reader(file, delimiter=separator, strict=True)
    header = [name.strip() for name in next(reader, [])]
    place, places = header.index(smiles), [header.index(target) for target in targets]
    row = 0
    for cells in reader:
        if not cells:
            continue
        yield _csv_row(row, reader.line_num, cells, len(header), place, places, targets)
        row += 1


def _separator(file: TextIO, path: Path, columns: tuple[str, ...]) -> str:
    """The separator under which the header has every column once."""
    headers: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        header = next(csv.reader(file, delimiter=separator), [])
        headers[separator] = [name.strip() for name in header]
        file.seek(0)
    for separator, header in headers.items():
        if all(header.count(column) == 1 for column in columns):
            return separator
    separator = max(headers, key=lambda separator: len(headers[separator]))
    header = headers[separator]
    column = next(column for column in columns if header.count(column) != 1)
    raise ValueError(
        f"{path} must have one column {column!r}; it has {', '.join(header) or 'nothing'} "
        f"(separated by {SEPARATORS[separator]})"
    )


def _csv_row(
    row: int,
    line: int,
    cells: list[str],
    width: int,
    place: int,
    places: list[int],
    targets: tuple[str, ...],
) -> Row:
    if len(cells) != width:
        problem = f"{len(cells)} cells where the header has {width}"
        return Row(row, line, ",".join(cells), problem=problem)
    values = []
    for name, at in zip(targets, places):
        value = _number(cells[at])
        if value is None:
            problem = f"{name} must be a finite number or empty; it is {cells[at]!r}"
            return Row(row, line, cells[place], problem=problem)
        values.append(value)
    return Row(row, line, cells[place], tuple(values))


def joined_rows(structures: Path, activities: Path) -> list[Row]:
    """Join lines ``SMILES NAME`` with a CSV of ``Name,Act`` by the compound's name."""
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    rows = []
    for number, line in enumerate(structures.read_text("utf-8").splitlines()):
        smiles, _, name = line.partition(" ")
        value = _number(activity[name]) if name in activity else None
        if value is None:
            problem = f"{activities} gives no number for compound {name!r}"
            rows.append(Row(number, number + 1, smiles, problem=problem))
        else:
            rows.append(Row(number, number + 1, smiles, (value,)))
    return rows


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
