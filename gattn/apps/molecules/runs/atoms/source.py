"""Reader of tables whose label cells contain lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gattn.apps.molecules.atoms.faults import number_faults
from gattn.apps.molecules.atoms.labels import AtomCells, Coding, coding_of, read_cells
from gattn.apps.molecules.atoms.values import KINDS
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.labels import SHARE, SKIP
from gattn.apps.molecules.runs.source import Source, read_source
from gattn.apps.molecules.settings import Task
from gattn.apps.molecules.tables import open_tables

__all__ = ["check_share", "check_values", "read_atom_source", "read_list_cells"]


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
    names = {
        "molecule": settings.target, "atom": settings.atom_target, "bond": settings.bond_target
    }  # fmt: skip
    cells = read_list_cells(settings.files, names, settings.encoding)
    bounded = settings.model.bounded
    try:
        coding = coding_of(cells, _task(settings.task), bounded=bounded)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    check_values(source, cells, coding, skip_bad=settings.skip_bad_labels)
    problems = [
        problem and "" if source.smiles[row] == "" else problem
        for row, problem in enumerate(cells.problems)
    ]
    return source, replace(cells, problems=problems), coding


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
    for fault in number_faults(cells, bounded=coding.bounded):
        if fault.selective and source.smiles[fault.row]:
            raise ValueError(
                f"{source.name}: {fault.reason}, in line {source.lines[fault.row]}; correct it, "
                f"or leave the row out with {SKIP}"
            )


def check_share(source: Source, bad: int, first: str, *, skip_bad: bool) -> None:
    """Raise an error if more than 5 % of the rows have lists that cannot be read.

    Args:
        source: the table.
        bad: number of such rows.
        first: description of the first.
        skip_bad: whether to leave out any number of rows.
    """
    if bad > max(1, SHARE * len(source.smiles)) and not skip_bad:
        raise ValueError(
            f"{source.name}: {bad:,} of {len(source.smiles):,} rows have lists that cannot be "
            f"used, the first is {first}; correct them, or leave them out with {SKIP}"
        )


def _task(task: str) -> Literal["auto"] | Task:
    return task  # pyright: ignore[reportReturnType]  # the settings are checked
