"""Tables of molecules in CSV, Parquet and SMILES files, whose cells are read as texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gattn.apps.tables.csv_table import (
    OnBadBytes,
    Table,
    TableRow,
    missing_column,
    open_table,
    readable,
    smiles_names,
)
from gattn.apps.tables.encoding import marked_encoding

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

PARQUET, SMILES = (".parquet",), (".smi", ".smiles")
FORMATS = (".csv", ".tsv", *PARQUET, *SMILES)
"""Suffixes of the files that are read from a folder. All except ``.parquet`` may be followed by
``.gz``.
"""
NAME = "name"
"""Name of the column for the text that follows the SMILES in a SMILES file."""
BATCH = 8192
"""Number of rows of a Parquet file that are decoded at once."""


def format_of(path: Path) -> str:
    """Return the suffix that determines the file format, without ``.gz``; "" if the format is
    unknown.
    """
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        return suffix if suffix in FORMATS and suffix not in PARQUET else ""
    return suffix if suffix in FORMATS else ""


@dataclass(frozen=True)
class SmilesTable(Table):
    """SMILES file: each line contains a SMILES, which may be followed by a space or tab and a name.

    A first line whose first word is ``smiles`` is a header. Empty lines are not rows.
    """

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows, each with a SMILES and a name that may be empty, without the first
        ``start`` rows. Raises ValueError if the compressed file is damaged, and the errors of
        :meth:`_lines`.
        """
        with readable(self.path):
            yield from islice(self._lines(), start, None)

    def _lines(self) -> Iterator[TableRow]:
        """Yield the SMILES and the name in each line that is neither empty nor the header. Raises
        OSError if the file cannot be read, and UnicodeError for bytes that are no text.
        """
        with self.open() as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                text, _, name = line.strip().partition("\t" if "\t" in line.strip() else " ")
                if number == 1 and text.lower() == "smiles":
                    continue
                yield TableRow(number, [text, name.strip()])


@dataclass(frozen=True)
class ParquetTable(Table):
    """Parquet file; a missing value is an empty text."""

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows without the first ``start`` rows. The line of a row is its index in the
        file, counted from 0. Raises ValueError if the file is not a Parquet file or lacks a column,
        and FileNotFoundError if it does not exist.
        """
        names = list(self.columns)
        with open_parquet(self.path) as file:
            position = 0
            for batch in file.iter_batches(BATCH, columns=names):
                first = max(start - position, 0)
                if first < len(batch):
                    rest = batch.slice(first)
                    columns = [_texts(rest.column(name)) for name in names]
                    for number, cells in enumerate(zip(*columns), position + first):
                        yield TableRow(number, list(cells))
                position += len(batch)

    def count(self) -> int:
        """Return the number of rows, which is stored at the end of the file."""
        with open_parquet(self.path) as file:
            return file.metadata.num_rows

    def narrowed(self, columns: Sequence[str]) -> Table:
        """Return a table that decodes only these columns of the file."""
        return replace(self, columns=tuple(dict.fromkeys(columns)))


def open_molecules(
    path: str | Path,
    smiles: Sequence[str],
    required: Sequence[str] = (),
    *,
    encoding: str | None = None,
    on_bad_bytes: OnBadBytes = "strict",
) -> Table:
    """Open a file of molecules in one of the supported formats.

    Args:
        path: the file. Its suffix determines the format: ``.parquet``; ``.smi`` or ``.smiles``;
            otherwise CSV. A CSV or SMILES file may be compressed (``.gz``).
        smiles: the columns of SMILES, one for each molecule of a row; see :func:`smiles_names`. A
            SMILES file has the columns ``smiles`` and ``name``.
        required: further columns that the file must have.
        encoding: encoding of a CSV file; None for the encoding of its byte order mark, or UTF-8 if
            there is none. It has no effect on other files.
        on_bad_bytes: see :class:`gattn.apps.tables.csv_table.Table`.

    Returns:
        The table; its attribute ``smiles`` contains the names of its columns of SMILES.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file cannot be read, a column is missing or appears twice, or a SMILES file
            is read for a model of several molecules in a row.
    """
    path = Path(path)
    suffix = "" if path.is_dir() else format_of(path)
    if suffix in SMILES:
        if len(smiles) > 1:
            raise ValueError(
                f"{path} has one SMILES in a line, and this model reads {len(smiles)} in a row: "
                f"write a CSV file with the columns {', '.join(smiles)}"
            )
        with readable(path):
            marked = marked_encoding(path, compressed=path.suffix.lower() == ".gz")
        table: Table = SmilesTable(
            path, ("smiles", NAME), ",", marked, on_bad_bytes, smiles=("smiles",)
        )
    elif suffix in PARQUET:
        with open_parquet(path) as file:
            header = tuple(column_names(file))
        table = ParquetTable(path, header, ",", "utf-8", smiles=smiles_names(header, smiles))
    else:
        return open_table(
            path, required, smiles=smiles, encoding=encoding, on_bad_bytes=on_bad_bytes
        )
    every = [*table.smiles, *required]
    if any(table.columns.count(name) != 1 for name in every):
        raise ValueError(missing_column(table, every))
    return table


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a Parquet file; convert pyarrow's errors to an error that names the file.

    Args:
        path: the file.
        options: arguments of ``pyarrow.parquet.ParquetFile``.

    Raises:
        ValueError: the file is not a Parquet file.
        FileNotFoundError: the file does not exist.
    """
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, **options) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from None


def column_names(file: pyarrow.parquet.ParquetFile) -> list[str]:
    """Return the names of the columns of a table, except those of a data frame's index."""
    schema = file.schema_arrow
    index = list((schema.pandas_metadata or {}).get("index_columns", []))
    return [name for name in schema.names if name not in index]


def _texts(column: pyarrow.Array) -> Iterable[str]:
    """Return a column as texts, with an empty text for a missing value."""
    return ["" if value is None else str(value) for value in column.to_pylist()]
