"""Descriptor columns of a table: measured or computed numbers in the same row as the SMILES."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gattn.apps.molecules.arrays import is_missing
from gattn.apps.molecules.row_format import join_smiles
from gattn.apps.molecules.tables import JoinedTables
from gattn.apps.tables.csv_table import LARGEST, Table, TableRow
from gattn.apps.tables.numbers import NumberFormat

__all__ = [
    "DescriptorArray", "DescriptorColumns", "array_columns", "check_columns", "read_array",
    "split_descriptors",
]  # fmt: skip

PREFIX = "npz_"
"""First characters of the names of columns that come from a file of NumPy."""


@dataclass(frozen=True, eq=False)
class DescriptorArray:
    """Descriptors of the rows of a table that are stored in a file of NumPy.

    Attributes:
        path: the file.
        values: [n, f] float64, NaN for a missing value.
    """

    path: Path
    values: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: ``npz_1``, ``npz_2`` and so on."""
        return tuple(f"{PREFIX}{i}" for i in range(1, self.values.shape[1] + 1))


def read_array(path: str | Path) -> DescriptorArray:
    """Read descriptors from a file that ``numpy.savez`` or ``numpy.save`` wrote.

    Args:
        path: a file ``.npz`` with one array [n, f] or [n] of numbers, or a file ``.npy``.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file holds several arrays, or none that fits.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "descriptors.npz"
        >>> np.savez(file, [[25.0, 7.4], [37.0, 7.0]])
        >>> array = read_array(file)
        >>> array.names, array.values.shape
        (('npz_1', 'npz_2'), (2, 2))
    """
    path = Path(path)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays = [loaded]
        else:
            with loaded:
                arrays = [loaded[name] for name in loaded.files]
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} must be a file of numbers that numpy.savez or numpy.save wrote, without "
            "objects"
        ) from error
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise ValueError(f"{path} must contain arrays of NumPy; it contains other files")
    if len(arrays) != 1:
        raise ValueError(f"{path} must contain one array; it contains {len(arrays)}")
    values = arrays[0]
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(
            f"{path} must contain an array [n, f] of numbers; it contains an array of shape "
            f"{list(values.shape)} and type {values.dtype}"
        )
    return DescriptorArray(path, values.reshape(len(values), -1).astype(np.float64))


def array_columns(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Divide the names of a model's descriptor columns into those of its table and those of an
    array.

    >>> array_columns(["T", "npz_1", "npz_2"])
    (['T'], ['npz_1', 'npz_2'])
    """
    of_array = [name for name in names if re.fullmatch(rf"{PREFIX}\d+", name)]
    return [name for name in names if name not in of_array], of_array


@dataclass(frozen=True)
class DescriptorColumns:
    """Names and places of the descriptor columns in an open table.

    Attributes:
        names: the names of the f columns.
        places: the index of each column in the header.
        style: the format of their numbers.
        array: further descriptors of each row of the table, in order; None if there are none. The
            last names are those of its columns.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    style: NumberFormat
    array: DescriptorArray | None = None

    @classmethod
    def of(
        cls,
        table: Table | JoinedTables,
        names: Sequence[str],
        style: NumberFormat,
        array: DescriptorArray | None = None,
    ) -> DescriptorColumns:
        """Return the columns of a table with these names, and the columns of an array.

        The decimal sign and the thousands separator are those of ``style``. Its other settings
        concern labels.
        """
        numbers = NumberFormat(decimal=style.decimal, thousands=style.thousands)
        names, places = tuple(names), tuple(map(table.place, names))
        if array is None:
            return cls(names, places, numbers)
        return cls(names + array.names, places, numbers, array)

    def read(self, row: TableRow) -> tuple[list[float], str]:
        """Convert the f descriptor cells of a row to numbers.

        Args:
            row: a row of :meth:`joined` if there is an array.

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
        if self.array is not None:
            for name, value in zip(self.array.names, row.numbers):
                if abs(value) > LARGEST:
                    reason = f"{name} of {self.array.path} must be a finite number; it is {value:g}"
                    return [math.nan] * len(self.names), row.problem or reason
            values.extend(row.numbers)
        return values, row.problem

    def values(self, row: TableRow) -> list[float]:
        """Return the f descriptors of a row, with NaN for missing numbers."""
        return self.read(row)[0]

    def joined(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """Yield all rows of the table with the rows of the array, which have the same order.

        Raises:
            ValueError: the numbers of rows differ.
        """
        if self.array is None:
            yield from rows
            return
        count, values = 0, self.array.values
        for row in rows:
            if count < len(values):
                yield row._replace(numbers=tuple(values[count].tolist()))
            count += 1
        if count != len(values):
            raise ValueError(
                f"{self.array.path} must have a row for each row of the table, {count:,}; it has "
                f"{len(values):,}"
            )

    def checked(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """Yield the rows; if a cell is not a number, the attribute ``problem`` of the row
        describes the error.
        """
        if not self.names:
            yield from rows
            return
        for row in self.joined(rows):
            yield row._replace(problem=self.read(row)[1])


def split_descriptors(table: Any, molecules: int = 1) -> tuple[Any, np.ndarray, list[str]]:
    """Split a table whose first column contains SMILES and whose other columns contain descriptors.

    Args:
        table: a data frame or an array [n, c + f]; or n SMILES alone. For several molecules in a
            row also a list of n lists of c SMILES, or n texts of the molecules of a row.
        molecules: number c of molecules in a row, whose SMILES the first columns hold. They are
            joined to one text (:func:`gattn.apps.molecules.row_format.join_smiles`).

    Returns:
        The SMILES, the descriptors [n, f] float64 with NaN for missing values, and their names: a
        data frame's columns, ``x1, x2, ...`` for an array; empty for SMILES alone.

    Raises:
        ValueError: a descriptor is not a number or not finite.

    Example:
        >>> smiles, values, names = split_descriptors(np.array([["CCO", 298.0], ["C", None]]))
        >>> list(smiles), values.tolist(), names
        (['CCO', 'C'], [[298.0], [nan]], ['x1'])
    """
    if (
        molecules > 1
        and isinstance(table, (list, tuple))
        and table
        and not isinstance(table[0], str)
    ):
        table = np.array(table, dtype=object)
    shape = getattr(table, "shape", ())
    if len(shape) != 2 or shape[1] < 2:
        return table, np.empty((0, 0)), []
    if shape[1] < molecules:
        raise ValueError(f"a row must have {molecules} columns of SMILES; it has {shape[1]}")
    columns = getattr(table, "columns", None)
    names = [f"x{i}" for i in range(shape[1])] if columns is None else list(map(str, columns))
    cells = np.asarray(table, dtype=object)
    values = np.empty((shape[0], shape[1] - molecules))
    for i, name in enumerate(names[molecules:]):
        values[:, i] = _numbers(cells[:, i + molecules], name)
    smiles = cells[:, 0] if molecules == 1 else list(map(join_smiles, cells[:, :molecules]))
    return smiles, values, names[molecules:]


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


def _numbers(column: np.ndarray, name: str) -> np.ndarray:
    """Return a column of objects as float64, with NaN for None and pandas' missing values."""
    values = np.full(len(column), np.nan)
    for row in np.flatnonzero(~is_missing(column)):
        if isinstance(column[row], str) or not hasattr(column[row], "__float__"):
            raise ValueError(
                f"descriptor {name} must contain numbers, or NaN if missing; row {row} is "
                f"{column[row]!r}"
            )
        values[row] = float(column[row])
    beyond = np.flatnonzero(np.abs(values) > LARGEST)
    if len(beyond):
        raise ValueError(
            f"descriptor {name} must be finite and representable in float32; row {beyond[0]} is "
            f"{values[beyond[0]]:g}"
        )
    return values
