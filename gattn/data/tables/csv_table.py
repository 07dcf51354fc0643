"""Reader and writer of CSV files. It processes one row at a time, so a large file needs little
memory.

This module uses Python's ``csv`` reader instead of pandas, because the ``csv`` reader reports the
line number of each row and also returns rows with too few or too many cells.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TextIO

from gattn.data.tables.encoding import is_wide, marked_encoding
from gattn.data.tables.numbers import NumberFormat, is_missing

__all__ = ["Table", "TableRow", "as_number", "is_missing", "open_table"]

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECLARED = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
"""Regular expression for a first line such as ``sep=;``, with which Excel declares the separator.
"""
PLAIN = NumberFormat()
LARGEST = 3.4028234663852886e38
"""Largest finite float32. Targets are stored as float32, in which larger numbers would be
infinite.
"""
NUL = "\x1a"
"""Character that replaces NUL bytes, because ``csv`` rejects them before Python 3.11."""
OnBadBytes = Literal["strict", "surrogateescape"]


class TableRow(NamedTuple):
    """Row of a CSV file below the header.

    Attributes:
        line: the line of the file on which the row begins, counted from 1.
        cells: the text of each cell, one for each column of the header. If the row has too few
            cells, the missing ones are empty. If it has too many, they are joined with the last
            one; empty cells after the header's last column are ignored.
        problem: a sentence that describes a wrong number of cells; empty if the number is right.
        numbers: further numbers of the row, which come from another file.
    """

    line: int
    cells: list[str]
    problem: str = ""
    numbers: tuple[float, ...] = ()


class RowWriter(Protocol):
    """Interface of the objects that ``csv.writer`` returns."""

    def writerow(self, row: Sequence[str], /) -> object:
        """Write one row of strings."""
        ...


@dataclass(frozen=True)
class Table:
    """CSV file with its header, separator and encoding; :func:`open_table` creates it.

    Attributes:
        path: the file.
        columns: the names in the header, without the space around them.
        separator: the character between two cells.
        encoding: the text encoding of the file.
        on_bad_bytes: treatment of bytes that are not valid in ``encoding``: ``"strict"`` raises
            an error, ``"surrogateescape"`` preserves the bytes, so that :meth:`writer` writes
            them unchanged.
        declared: whether the first line declares the separator, for example ``sep=;``.
        compressed: whether the file is compressed by gzip.
    """

    path: Path
    columns: tuple[str, ...]
    separator: str
    encoding: str
    on_bad_bytes: OnBadBytes = "strict"
    declared: bool = False
    compressed: bool = False

    def open(self, newline: str | None = None) -> TextIO:
        """Open the file as text in its encoding."""
        if self.compressed:
            return gzip.open(
                self.path, "rt", encoding=self.encoding, errors=self.on_bad_bytes, newline=newline
            )
        return self.path.open(newline=newline, encoding=self.encoding, errors=self.on_bad_bytes)

    def place(self, column: str) -> int:
        """Return the index of the column with this name, counted from 0."""
        return self.columns.index(column)

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows in order. Empty lines and lines with only spaces are skipped.

        Yields:
            Every row, including rows whose number of cells differs from the header's; nothing
            if the file has only a header.

        Raises:
            ValueError: a quote is not closed or stands within a cell, a cell has more than
                131,072 characters, or some bytes are not valid in the encoding.
        """
        records = _records(self, strict=True)
        next(records, None)
        several = len(self.columns) > 1
        return (
            self._row(line, cells)
            for line, cells in records
            if not (several and len(cells) == 1 and cells[0].isspace())
        )

    def count(self) -> int:
        """Count the rows by reading the whole file; the errors are the same as in :meth:`rows`."""
        return sum(1 for _ in self.rows())

    def _row(self, line: int, cells: list[str]) -> TableRow:
        count, width = len(cells), len(self.columns)
        if count > width and not any(cell.strip() for cell in cells[width:]):
            return TableRow(line, cells[:width])
        if count == width:
            return TableRow(line, cells)
        problem = f"{count} cell{'s' * (count != 1)} but the header has {width}"
        cells = cells + [""] * (width - count)
        last = self.separator.join(cells[width - 1 :])
        return TableRow(line, [*cells[: width - 1], last], problem)

    @contextmanager
    def writer(self, path: Path, added: Sequence[str]) -> Iterator[RowWriter]:
        """Write a new UTF-8 table with the columns of this table, followed by additional columns.

        The new table has the same separator as this one.

        Args:
            path: the file to write.
            added: the names of the additional columns.

        Yields:
            A ``csv.writer`` that quotes cells where necessary. The header is already written.

        Raises:
            ValueError: this table already has a column with the name of an additional column.
        """
        for name in added:
            if name in self.columns:
                raise ValueError(f"{self.path} already has a column {name!r}: rename it")
        encoding = self.encoding if self.encoding == "utf-8-sig" else "utf-8"
        with path.open("w", newline="", encoding=encoding, errors=self.on_bad_bytes) as file:
            # csv.writer quotes a cell that contains "\r" only if the line terminator contains "\r".
            out = csv.writer(file, delimiter=self.separator, lineterminator="\r\n")
            out.writerow([*self.columns, *added])
            yield out


def open_table(
    path: str | Path,
    required: Sequence[str] = (),
    *,
    encoding: str | None = None,
    on_bad_bytes: OnBadBytes = "strict",
    compressed: bool = False,
) -> Table:
    """Read the header of a CSV file, and detect its encoding and separator.

    The separator is the first of comma, semicolon, tab and ``|`` with which the header contains
    every required column exactly once. Without required columns, it is the separator that splits
    the header into the most columns. A first line such as ``sep=;``, which Excel reads and writes,
    declares the separator; the header is then the second line.

    Args:
        path: the file, with a header line.
        required: the columns that must occur exactly once in the header.
        encoding: the text encoding; None for the encoding of the byte order mark, or UTF-8 if the
            file has no such mark.
        on_bad_bytes: see :class:`Table`.
        compressed: whether the file is compressed by gzip.

    Returns:
        The table; its rows are read by :meth:`Table.rows`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is empty, is a workbook or is not valid text in the encoding; the
            encoding is unknown; or a required column is missing or occurs twice.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles;logS\\nCCO;1.1\\n\\nCCC\\n")
    >>> for row in open_table(path, ["smiles", "logS"]).rows():
    ...     print(row)
    TableRow(line=2, cells=['CCO', '1.1'], problem='', numbers=())
    TableRow(line=4, cells=['CCC', ''], problem='1 cell but the header has 2', numbers=())
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a CSV file")
    # This call raises an error if the first bytes show that the file is not a text file.
    marked = marked_encoding(path, compressed=compressed)
    encoding = encoding or marked
    if is_wide(encoding):
        # In UTF-16 and UTF-32, single invalid bytes cannot be preserved, so they always raise an
        # error.
        on_bad_bytes = "strict"
    plain = Table(path, (), ",", encoding, on_bad_bytes, compressed=compressed)
    declared = _declared(plain)
    tables = [
        _with_header(replace(plain, separator=separator, declared=declared is not None))
        for separator in declared or SEPARATORS
    ]
    widest = max(tables, key=lambda table: len(table.columns))
    if NUL in "".join(widest.columns):
        raise ValueError(
            f"{path} has a NUL byte in its header; set its encoding, for example utf-16-le"
        )
    if not required:
        return widest
    for table in tables:
        if all(table.columns.count(column) == 1 for column in required):
            return table
    raise ValueError(_missing_column(widest, required))


def as_number(cell: str) -> float | None:
    """Return the number in a cell; NaN if the value is missing, and None if the cell is not a
    number.

    A number outside the range of float32 becomes an infinity of the same sign.

    >>> as_number("1.5"), as_number("NA"), as_number("1e99"), as_number("1,5")
    (1.5, nan, inf, None)
    >>> as_number("−1.5"), as_number("1_000")
    (-1.5, None)
    """
    value = PLAIN.parse(cell)
    return value if value is None or not abs(value) > LARGEST else math.copysign(math.inf, value)


def _with_header(table: Table) -> Table:
    _, header = next(_records(table, strict=False), (0, []))
    if not header:
        raise ValueError(f"{table.path} is empty; expected a header line")
    return replace(table, columns=tuple(name.strip() for name in header))


def _declared(table: Table) -> str | None:
    """Return the separator that the first line declares, or None if the line is a normal header."""
    try:
        with table.open() as file:
            match = DECLARED.fullmatch(file.readline(20))
    except UnicodeError:
        # If the file contains invalid bytes, reading the header raises an error with the line
        # number.
        return None
    if match and match[1] not in SEPARATORS:
        raise ValueError(
            f"{table.path} declares the separator {match[1]!r} in line 1; the separator must "
            f"be one of {', '.join(SEPARATORS.values())}"
        )
    return match[1] if match else None


def _missing_column(table: Table, required: Sequence[str]) -> str:
    """Return an error message about a required column that is missing or occurs twice."""
    header = table.columns
    column = next(column for column in required if header.count(column) != 1)
    times = header.count(column)
    names = ", ".join(repr(name) for name in header[:20]) + ", ..." * (len(header) > 20)
    fault = f"{times} columns {column!r}" if times else f"no column {column!r}"
    alike = next((name for name in header if name.lower() == column.lower() != name), None)
    hint = f"; did you mean {alike!r}?" if alike is not None and not times else ""
    message = f"{table.path} has {fault}; its columns are {names}"
    return f"{message} (separated by {SEPARATORS[table.separator]}){hint}"


def _records(table: Table, *, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each nonempty row (including the header) with the number of its first
    line.
    """
    path, line = table.path, 1
    try:
        with table.open(newline="") as file:
            # If the first line only declares the separator, it is skipped.
            first = int(table.declared)
            lines = (text.replace("\0", NUL) for text in itertools.islice(file, first, None))
            reader = csv.reader(lines, delimiter=table.separator, strict=strict)
            line += first
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1 + first
    except UnicodeError:
        raise ValueError(_bad_bytes(table)) from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file: line {line}: {error}") from None


def _bad_bytes(table: Table) -> str:
    """Return an error message about bytes that are not valid in the encoding of a table."""
    raw = table.path.read_bytes()
    raw = gzip.decompress(raw) if table.compressed else raw
    message = f"{table.path} is not {table.encoding.upper()} text"
    try:
        raw.decode(table.encoding)
    except UnicodeDecodeError as error:
        if not is_wide(table.encoding):
            line = raw.count(b"\n", 0, error.start) + 1
            message += f": byte 0x{raw[error.start]:02x} in line {line}"
    return f"{message}; set its encoding, or save it as UTF-8"
