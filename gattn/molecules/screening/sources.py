"""Inputs of a screening: CSV, Parquet and SMILES files, whose cells are read as texts."""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.data.tables.csv_table import Table, TableRow, open_table

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

__all__ = ["Source", "find_inputs", "open_source"]

PARQUET, SMILES = (".parquet",), (".smi", ".smiles")
IN_FOLDERS = (".csv", ".tsv", *PARQUET, *SMILES)
"""Suffixes of the files that are read from an input folder. All except ``.parquet`` may be
followed by ``.gz``.
"""
NAME = "name"
"""Name of the column for the text that follows the SMILES in a SMILES file."""
BATCH = 8192
"""Number of rows of a Parquet file that are decoded at once."""


def find_inputs(inputs: Sequence[str], out: Path) -> list[Path]:
    """Return the files that the inputs name, in order and without repetitions.

    Args:
        inputs: files; folders, whose files of the known formats are read, also in subfolders,
            sorted by path; and patterns such as ``data/*.csv.gz``, in which ``**`` stands for any
            subfolders.
        out: the folder of the output, whose files are left out.

    Raises:
        FileNotFoundError: a file does not exist, or no file is in a folder or matches a pattern.
    """
    paths = [path for text in inputs for path in _expand(text)]
    outputs = out.resolve()
    distinct = {path.resolve(): path for path in reversed(paths)}
    return [
        path
        for path in dict.fromkeys(paths)
        if distinct[path.resolve()] is path and outputs not in path.resolve().parents
    ]


def _expand(text: str) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and not _is_hidden(file.relative_to(path)) and _format(file)
        ]
        if not files:
            raise FileNotFoundError(f"{path} contains no file with one of {', '.join(IN_FOLDERS)}")
        return files
    if path.exists():
        return [path]
    if any(sign in text for sign in "*?["):
        files = [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        files = [file for file in files if file.is_file()]
        if not files:
            raise FileNotFoundError(f"no file matches {text}")
        return files
    raise FileNotFoundError(f"{path} does not exist")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _format(path: Path) -> str:
    """Return the suffix that determines the file format, without ``.gz``; "" if the format is
    unknown.
    """
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        return suffix if suffix in IN_FOLDERS and suffix not in PARQUET else ""
    return suffix if suffix in IN_FOLDERS else ""


@dataclass(frozen=True)
class Source:
    """File of molecules and its columns. This class reads CSV files.

    Attributes:
        path: the file.
        table: the header; the cells of :meth:`rows` have the order of its columns.
        smiles: the names of the columns of SMILES, one for each molecule of a row.
    """

    path: Path
    table: Table
    smiles: tuple[str, ...]

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows, beginning with row number ``start``.

        Raises:
            ValueError: the content of the file is damaged.
        """
        with _readable(self.path):
            yield from islice(self.table.rows(), start, None)

    def count(self) -> int:
        """Return the number of rows."""
        return sum(1 for _ in self.rows())

    def narrowed(self, columns: Sequence[str]) -> Source:
        """Return a source that reads at least these columns."""
        return self


@dataclass(frozen=True)
class SmilesSource(Source):
    """SMILES file: each line contains a SMILES, which may be followed by a space or tab and a name.

    A first line whose first word is ``smiles`` is a header. Empty lines are not rows.
    """

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows, beginning with row number ``start``."""
        with _readable(self.path):
            yield from islice(self._rows(), start, None)

    def _rows(self) -> Iterator[TableRow]:
        with _opened(self.path) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                text, _, name = line.strip().partition("\t" if "\t" in line.strip() else " ")
                if number == 1 and text.lower() == "smiles":
                    continue
                yield TableRow(number, [text, name.strip()])


@dataclass(frozen=True)
class ParquetSource(Source):
    """Parquet file; a missing value is an empty text."""

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows, beginning with row number ``start``."""
        names = list(self.table.columns)
        with _parquet(self.path) as file:
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
        with _parquet(self.path) as file:
            return file.metadata.num_rows

    def narrowed(self, columns: Sequence[str]) -> Source:
        """Return a source that decodes only these columns of the file."""
        return replace(self, table=replace(self.table, columns=tuple(dict.fromkeys(columns))))


def open_source(
    path: Path, smiles: Sequence[str], required: Sequence[str], encoding: str | None
) -> Source:
    """Open a file of molecules in one of the supported formats.

    Args:
        path: the file. Its suffix determines the format: ``.parquet``; ``.smi`` or ``.smiles``;
            otherwise CSV. A CSV or SMILES file may be compressed (``.gz``).
        smiles: the columns of SMILES, one for each molecule of a row; a SMILES file has the
            columns ``smiles`` and ``name``.
        required: further columns that the file must have.
        encoding: encoding of a CSV file; by default, the encoding of its byte order mark, or UTF-8
            if there is none.

    Raises:
        ValueError: the file cannot be read, a column is missing or appears twice, or a SMILES file
            is read for a model of several molecules in a row.
    """
    suffix, smiles = _format(path), tuple(smiles)
    if suffix in SMILES:
        if len(smiles) > 1:
            raise ValueError(
                f"{path} has one SMILES in a line, and this model reads {len(smiles)} in a row: "
                f"write a CSV file with the columns {', '.join(smiles)}"
            )
        table = Table(path, ("smiles", NAME), "\t", "utf-8")
        source: Source = SmilesSource(path, table, ("smiles",))
    elif suffix in PARQUET:
        source = ParquetSource(path, Table(path, _parquet_columns(path), ",", "utf-8"), smiles)
    else:
        with _readable(path):
            table = open_table(
                path, [*smiles, *required], encoding=encoding, on_bad_bytes="surrogateescape",
                compressed=path.suffix.lower() == ".gz",
            )  # fmt: skip
        return Source(path, table, smiles)
    for name in (*source.smiles, *required):
        if (times := source.table.columns.count(name)) != 1:
            names = ", ".join(map(repr, source.table.columns))
            fault = f"{times} columns {name!r}" if times else f"no column {name!r}"
            raise ValueError(f"{path} has {fault}; its columns are {names}")
    return source


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Context manager that converts the errors of a damaged compressed file to an error that
    names the file.
    """
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[str]]:
    """Open a SMILES file; bytes that are not UTF-8 are preserved."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape") as file:
            yield file
    else:
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
            yield file


@contextmanager
def _parquet(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a Parquet file; convert pyarrow's errors to an error that names the file."""
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from None


def _parquet_columns(path: Path) -> tuple[str, ...]:
    with _parquet(path) as file:
        return tuple(file.schema_arrow.names)


def _texts(column: pyarrow.Array) -> list[str]:
    """Return a column as texts, with an empty text for a missing value."""
    return ["" if value is None else str(value) for value in column.to_pylist()]
