"""Columns of numbers beside the SMILES: the tables in which they are read, and their checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules.arrays import as_numbers
from gattn.apps.molecules.gaussian_process import FARTHEST
from gattn.apps.molecules.row_format import join_smiles, row_text
from gattn.apps.tables.csv_table import LARGEST, Table, TableRow
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import NumberFormat

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs


class FileLine(int):
    """Line number in one of several files. As text, it includes the name of the file.

    Attributes:
        file: the name of the file.
        part: "val" or "test" if the file is that part, otherwise "".

    >>> line = FileLine.of(7, "more.csv")
    >>> f"in line {line}", line + 1
    ('in line 7 of more.csv', 8)
    """

    file: str
    part: str

    @classmethod
    def of(cls, number: int, file: str, part: str = "") -> FileLine:
        """Create the line number for a line of a file."""
        line = cls(number)
        line.file, line.part = file, part
        return line

    def __str__(self) -> str:
        return f"{int(self)} of {self.file}"

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


@dataclass(frozen=True)
class JoinedTables(Table):
    """Several tables that are read one after the other, with the columns that a run needs.

    The columns of SMILES are the first, and may have another name in each file. Each file has the
    other columns in any order.

    Attributes:
        tables: the open files.
        parts: for each file "val" or "test" if it is that part, or "".
    """

    tables: tuple[Table, ...] = ()
    parts: tuple[str, ...] = ()

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows of all files; see :meth:`gattn.apps.tables.csv_table.Table.rows`."""
        return islice(self._rows(), start, None)

    def _rows(self) -> Iterator[TableRow]:
        """Yield the rows of each table after those of the tables before it, with their cells in the
        order of the joined columns and with the line and the name of their file.
        """
        for table, part in zip(self.tables, self.parts):
            others = self.columns[len(table.smiles) :]
            places = list(map(table.place, (*table.smiles, *others)))
            for row in table.rows():
                line = FileLine.of(row.line, table.path.name, part)
                yield TableRow(line, [row.cells[place] for place in places], row.problem)


def open_tables(
    paths: Sequence[str],
    smiles: Sequence[str],
    names: Sequence[str],
    *,
    parts: Sequence[str] = (),
    encoding: str | None = None,
) -> Table:
    """Open one or several files, and check that they have the needed columns.

    Args:
        paths: the files.
        smiles: the names of the columns of SMILES; see :func:`open_molecules`.
        names: the names of the other columns.
        parts: for each file "val" or "test" if it is that part, or ""; by default "".
        encoding: encoding of the files; see :func:`open_molecules`.

    Returns:
        The only table, with all its columns; or the rows of several tables one after another, with
        the columns of SMILES and then those of ``names``.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file cannot be read or lacks a column, or a file is listed twice.
    """
    resolved = [Path(path).resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise ValueError(f"each file must be listed once; got {', '.join(paths)}")
    tables = tuple(open_molecules(path, smiles, names, encoding=encoding) for path in paths)
    if len(tables) == 1:
        return tables[0]
    first, columns = tables[0], (*tables[0].smiles, *names)
    return JoinedTables(
        first.path, columns, first.separator, first.encoding, smiles=first.smiles, tables=tables,
        parts=tuple(parts) or ("",) * len(tables),
    )  # fmt: skip


class InputRow(NamedTuple):
    """Row to predict, in the form that the model reads.

    Attributes:
        text: its SMILES, those of several molecules as one text; "" for a row that cannot be read.
        values: its descriptor columns, NaN for a missing value.
    """

    text: str
    values: Sequence[float] = ()


@dataclass(frozen=True)
class DescriptorColumns:
    """Names and places of the descriptor columns in an open table.

    Attributes:
        names: the names of the f columns.
        places: the index of each column in the header.
        style: the format of their numbers.
        smiles: the index of each column of SMILES.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    style: NumberFormat
    smiles: tuple[int, ...] = ()

    @classmethod
    def of(cls, table: Table, names: Sequence[str], style: NumberFormat) -> DescriptorColumns:
        """Return the columns of a table with these names.

        The decimal sign and the thousands separator are those of ``style``. Its other settings
        concern labels. Raises ValueError if the table has no column of a name.
        """
        numbers = NumberFormat(decimal=style.decimal, thousands=style.thousands)
        places, smiles = (tuple(map(table.place, some)) for some in (names, table.smiles))
        return cls(tuple(names), places, numbers, smiles)

    def read(self, row: TableRow) -> tuple[list[float], str]:
        """Convert the f descriptor cells of a row to numbers.

        Returns:
            The numbers, NaN for a missing value, and the problem of the row: a wrong number of
            cells, a cell that is not a finite number, or "" if there is none. With a problem all
            numbers are NaN.
        """
        values = []
        for name, place in zip(self.names, self.places):
            value = self.style.parse(row.cells[place].strip())
            if row.problem or value is None or abs(value) > LARGEST:
                reason = f"{name} must be a finite number or empty; it is {row.cells[place]!r}"
                return [math.nan] * len(self.names), row.problem or reason
            values.append(value)
        return values, row.problem

    def input_row(self, row: TableRow) -> InputRow:
        """Return the SMILES and the descriptors of a row.

        The text is "" for a row with a problem, such as a number of cells that differs from the
        header's, because its cells may be in wrong columns.
        """
        text = "" if row.problem else row_text(row.cells, self.smiles)
        return InputRow(text, tuple(self.read(row)[0]))

    def checked(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """Yield the rows; if a cell is not a number, the attribute ``problem`` of the row
        describes the error.
        """
        if not self.names:
            yield from rows
            return
        for row in rows:
            yield row._replace(problem=self.read(row)[1])


class SmilesRows(NamedTuple):
    """SMILES of n rows, with their descriptors [n, f] float64 and the names of these."""

    smiles: Any
    values: np.ndarray
    names: list[str]


def split_descriptors(table: Any, molecules: int = 1) -> SmilesRows:
    """Split a table whose first column contains SMILES and whose other columns contain descriptors.

    Args:
        table: a data frame or an array [n, c + f]; or n SMILES alone. For several molecules in a
            row also a list of n lists of c SMILES, or n texts of the molecules of a row. A result
            of this function is returned unchanged.
        molecules: number c of molecules in a row, whose SMILES the first columns hold. They are
            joined to one text (:func:`gattn.apps.molecules.row_format.join_smiles`).

    Returns:
        The SMILES, the descriptors [n, f] float64 with NaN for missing values, and their names: a
        data frame's columns, ``x1, x2, ...`` for an array. For SMILES alone, the descriptors have
        the shape [0, 0], and there are no names.

    Raises:
        ValueError: a descriptor is not a number in the range of float32, or there are fewer columns
            than molecules in a row.

    Example:
        >>> smiles, values, names = split_descriptors(np.array([["CCO", 298.0], ["C", None]]))
        >>> list(smiles), values.tolist(), names
        (['CCO', 'C'], [[298.0], [nan]], ['x1'])
    """
    if isinstance(table, SmilesRows):
        return table
    if (
        molecules > 1
        and isinstance(table, (list, tuple))
        and table
        and not isinstance(table[0], str)
    ):
        table = np.array(table, dtype=object)
    shape = getattr(table, "shape", ())
    if len(shape) != 2 or shape[1] < 2:
        return SmilesRows(table, np.empty((0, 0)), [])
    if shape[1] < molecules:
        raise ValueError(f"a row must have {molecules} columns of SMILES; it has {shape[1]}")
    columns = getattr(table, "columns", None)
    names = [f"x{i}" for i in range(shape[1])] if columns is None else list(map(str, columns))
    cells = np.asarray(table, dtype=object)
    values = as_numbers(cells[:, molecules:], f"descriptors ({', '.join(names[molecules:])})")
    smiles = cells[:, 0] if molecules == 1 else list(map(join_smiles, cells[:, :molecules]))
    return SmilesRows(smiles, values, names[molecules:])


def check_columns(expected: Sequence[str], names: Sequence[str]) -> None:
    """Raise an error if the names of descriptor columns differ from those in training.

    Raises:
        ValueError: ``names`` are not the ``expected`` names, in the same order.
    """
    if list(expected) == list(names):
        return
    if expected:
        raise ValueError(
            f"this model needs the descriptor columns {', '.join(expected)} after the column of "
            f"SMILES, in this order; got {', '.join(names) or 'SMILES alone'}"
        )
    raise ValueError(
        f"this model was trained on SMILES alone; got the descriptor columns {', '.join(names)}"
    )


SCALE = ("extra_mean", "extra_scale")
"""Keys of the saved tensors with the mean and the standard deviation of each of the user's
descriptor columns.
"""


def column_tensors(columns: Tensor) -> dict[str, Tensor]:
    """Return the mean and the standard deviation of each descriptor column.

    Args:
        columns: [k, f] float64, the columns of the training part; NaN for missing values.

    Returns:
        Tensors [f] by their keys.
    """
    return dict(zip(SCALE, moments(columns)))


def with_standard_columns(inputs: MoleculeInputs, tensors: dict[str, Tensor]) -> MoleculeInputs:
    """Return the inputs with standardised descriptor columns.

    A missing value becomes 0, the mean. Values beyond 6 standard deviations are clipped.

    Args:
        inputs: k molecules with f descriptor columns.
        tensors: the tensors of :func:`column_tensors`, and possibly others.

    Returns:
        The same molecules, with columns of mean 0 and standard deviation 1 in the training part.
    """
    mean, scale = (tensors[name] for name in SCALE)
    columns = ((inputs.extra_descriptors - mean) / scale).clamp(-FARTHEST, FARTHEST)
    return inputs.described(columns.nan_to_num(0.0))
