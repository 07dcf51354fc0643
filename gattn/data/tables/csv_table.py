"""Tables in CSV files, read and written row by row: in order, as text, and in little memory.

Python's own reader is used, not that of pandas: it tells the line that a row stands on, and a row
with too few or too many cells stays a row.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from gattn.data.tables.encoding import is_wide, marked_encoding
from gattn.data.tables.numbers import NumberFormat, is_missing

__all__ = ["Table", "TableRow", "as_number", "is_missing", "open_table"]

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECLARED = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
"""A first line by which Excel is told the separator."""
PLAIN = NumberFormat()
LARGEST = 3.4028234663852886e38
"""Of float32, which targets are kept in."""
NUL = "\x1a"
"""What a NUL byte is read as, "substitute": Python's reader refused NUL before version 3.11."""
OnBadBytes = Literal["strict", "surrogateescape"]


class TableRow(NamedTuple):
    """A row below the header.

    Attributes:
        line: the line of the file that it begins on, from 1.
        cells: its texts, as many as there are columns. Cells that are missing are empty; those
            too many are joined with the last one, and empty ones behind the header's are ignored.
        problem: how its number of cells differs from the header's, empty where it does not.
    """

    line: int
    cells: list[str]
    problem: str = ""


class RowWriter(Protocol):
    """The interface of ``csv.writer``."""

    def writerow(self, row: Sequence[str], /) -> object:
        """Write one row of texts."""
        ...


@dataclass(frozen=True)
class Table:
    """A CSV file whose header was read; :func:`open_table` makes it.

    Attributes:
        path: the file.
        columns: the names in the header, without the space around them.
        separator: what stands between two cells.
        encoding: of the text.
        on_bad_bytes: what happens to bytes that are no text in ``encoding``: ``"strict"`` makes
            them an error, ``"surrogateescape"`` carries them through, so that :meth:`writer`
            writes them as they came.
        declared: whether the first line names the separator, as ``sep=;``.
    """

    path: Path
    columns: tuple[str, ...]
    separator: str
    encoding: str
    on_bad_bytes: OnBadBytes = "strict"
    declared: bool = False

    def place(self, column: str) -> int:
        """The position of a column that :func:`open_table` was asked for."""
        return self.columns.index(column)

    def rows(self) -> Iterator[TableRow]:
        """Read the rows in order; a line without a character, or of spaces alone, is no row.

        Yields:
            Every row, also those that do not fit the header; a header alone gives none.

        Raises:
            ValueError: a quote that is not closed or stands within a cell, a cell of more than
                131,072 characters, or bytes that are no text.
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
        """Read the file once, which finds what :meth:`rows` raises, and count its rows."""
        return sum(1 for _ in self.rows())

    def _row(self, line: int, cells: list[str]) -> TableRow:
        count, width = len(cells), len(self.columns)
        if count > width and not any(cell.strip() for cell in cells[width:]):
            return TableRow(line, cells[:width])
        if count == width:
            return TableRow(line, cells)
        problem = f"{count} cell{'s' * (count != 1)} where the header has {width}"
        cells = cells + [""] * (width - count)
        last = self.separator.join(cells[width - 1 :])
        return TableRow(line, [*cells[: width - 1], last], problem)

    @contextmanager
    def writer(self, path: Path, added: Sequence[str]) -> Iterator[RowWriter]:
        """Write a table with this one's columns and more: its separator, and always UTF-8.

        Args:
            path: the file to write.
            added: the names of the further columns.

        Yields:
            A ``csv.writer`` that wrote the header; cells are quoted where they have to be.

        Raises:
            ValueError: a column is there already.
        """
        for name in added:
            if name in self.columns:
                raise ValueError(f"{self.path} has a column {name!r} already: rename it")
        encoding = self.encoding if self.encoding == "utf-8-sig" else "utf-8"
        with path.open("w", newline="", encoding=encoding, errors=self.on_bad_bytes) as file:
            # Only with this end of a line is a cell that holds a carriage return quoted.
            out = csv.writer(file, delimiter=self.separator, lineterminator="\r\n")
            out.writerow([*self.columns, *added])
            yield out


def open_table(
    path: str | Path,
    required: Sequence[str] = (),
    *,
    encoding: str | None = None,
    on_bad_bytes: OnBadBytes = "strict",
) -> Table:
    """Read the header of a CSV file, and find its encoding and separator.

    Of comma, semicolon, tab and ``|`` the first is taken that gives the header every wanted column
    once; where none is wanted, that which gives the most columns. A first line such as ``sep=;``,
    which Excel reads and writes, names the separator and is no header.

    Args:
        path: the file, with a header line.
        required: the columns that must be there, each once.
        encoding: of the text; otherwise what the byte order mark says, and UTF-8 without one.
        on_bad_bytes: see :class:`Table`.

    Returns:
        The table, of which no row was read yet.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is empty, a workbook or no text in that encoding, there is no such encoding,
            or a wanted column is missing or there twice.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles;logS\\nCCO;1.1\\n\\nCCC\\n")
    >>> for row in open_table(path, ["smiles", "logS"]).rows():
    ...     print(row)
    TableRow(line=2, cells=['CCO', '1.1'], problem='')
    TableRow(line=4, cells=['CCC', ''], problem='1 cell where the header has 2')
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; wanted a CSV file")
    marked = marked_encoding(path)  # refuses what is no text, whatever encoding was named
    encoding = encoding or marked
    if is_wide(encoding):
        on_bad_bytes = "strict"  # a byte of these is no part of a character
    declared = _declared(Table(path, (), ",", encoding, on_bad_bytes))
    tables = [
        _with_header(Table(path, (), separator, encoding, on_bad_bytes, declared is not None))
        for separator in declared or SEPARATORS
    ]
    widest = max(tables, key=lambda table: len(table.columns))
    if NUL in "".join(widest.columns):
        raise ValueError(f"{path} has a NUL byte in its header; name its encoding, as utf-16-le")
    if not required:
        return widest
    for table in tables:
        if all(table.columns.count(column) == 1 for column in required):
            return table
    raise ValueError(_missing_column(widest, required))


def as_number(cell: str) -> float | None:
    """The number in a cell: NaN where nothing was measured, None where it holds something else.

    What float32 cannot hold is infinite.

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
        raise ValueError(f"{table.path} is empty; wanted a header line")
    return replace(table, columns=tuple(name.strip() for name in header))


def _declared(table: Table) -> str | None:
    """The separator that the first line names; None where it is another line."""
    try:
        with table.path.open(encoding=table.encoding, errors=table.on_bad_bytes) as file:
            match = DECLARED.fullmatch(file.readline(20))
    except UnicodeError:
        return None  # the header is read next, and says where
    if match and match[1] not in SEPARATORS:
        raise ValueError(
            f"{table.path} names the separator {match[1]!r} in line 1; cells may be separated by "
            f"{', '.join(SEPARATORS.values())}"
        )
    return match[1] if match else None


def _missing_column(table: Table, required: Sequence[str]) -> str:
    """Say which column is not there once."""
    header = table.columns
    column = next(column for column in required if header.count(column) != 1)
    times = header.count(column)
    names = ", ".join(repr(name) for name in header[:20]) + ", ..." * (len(header) > 20)
    fault = f"{times} columns {column!r}" if times else f"no column {column!r}"
    alike = next((name for name in header if name.lower() == column.lower() != name), None)
    hint = f"; is {alike!r} meant?" if alike is not None and not times else ""
    message = f"{table.path} has {fault}; its columns are {names}"
    return f"{message} (separated by {SEPARATORS[table.separator]}){hint}"


def _records(table: Table, *, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """The cells of every record that has some, the header first, with the line it begins on."""
    path, line = table.path, 1
    try:
        with path.open(newline="", encoding=table.encoding, errors=table.on_bad_bytes) as file:
            first = int(table.declared)  # the line that names the separator
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
    """Say where the first bytes stand that are no text."""
    raw, message = table.path.read_bytes(), f"{table.path} is not {table.encoding.upper()} text"
    try:
        raw.decode(table.encoding)
    except UnicodeDecodeError as error:
        if not is_wide(table.encoding):
            line = raw.count(b"\n", 0, error.start) + 1
            message += f": byte 0x{raw[error.start]:02x} in line {line}"
    return f"{message}; name its encoding, or save it as UTF-8"
