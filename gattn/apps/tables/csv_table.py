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
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TextIO

from gattn.apps.tables.encoding import is_wide, marked_encoding
from gattn.apps.tables.numbers import NumberFormat
from gattn.files import OnBadBytes, RowWriter, table_writer

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECLARED = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)
"""Regular expression for a first line such as ``sep=;``, with which Excel declares the separator.
"""
OTHER_FORMAT = re.compile(r'\s*(\{\s*("|$)|\[\s*(\{|$)|<(\?xml|!doctype|html)\b)', re.IGNORECASE)
"""Regular expression for the beginning of JSON, XML or a web page."""
PLAIN = NumberFormat()
OTHER_NAMES = ("drug", "mol")
"""Names of columns of SMILES, in lower case, that do not contain the word "smiles"."""
LARGEST = 3.4028234663852886e38
"""Largest finite float32. Targets are stored as float32, in which larger numbers would be
infinite.
"""


class TableRow(NamedTuple):
    """Row of a CSV file below the header.

    Attributes:
        line: the line of the file on which the row begins, counted from 1.
        cells: the text of each cell, one for each column of the header. If the row has too few
            cells, the missing ones are empty. If it has too many, they are joined with the last
            one; empty cells after the header's last column are ignored.
        problem: a sentence that describes a wrong number of cells; empty if the number is right.
    """

    line: int
    cells: list[str]
    problem: str = ""


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
        smiles: the names of the columns of SMILES, if the table was opened as one of molecules.
    """

    path: Path
    columns: tuple[str, ...]
    separator: str
    encoding: str
    on_bad_bytes: OnBadBytes = "strict"
    declared: bool = False
    smiles: tuple[str, ...] = ()

    def open(self, newline: str | None = None) -> TextIO:
        """Open the file, which gzip may have compressed, as text in its encoding. The caller closes
        it. ``newline`` is an argument of the function ``open``. Raises OSError if the file does not
        exist or cannot be opened; a damaged file raises its errors when it is read.
        """
        if _is_compressed(self.path):
            return gzip.open(
                self.path, "rt", encoding=self.encoding, errors=self.on_bad_bytes, newline=newline
            )
        return self.path.open(newline=newline, encoding=self.encoding, errors=self.on_bad_bytes)

    def place(self, column: str) -> int:
        """Return the index of the column with this name, counted from 0."""
        return self.columns.index(column)

    def rows(self, start: int = 0) -> Iterator[TableRow]:
        """Yield the rows in order. Empty lines and lines with only spaces are skipped.

        Args:
            start: number of rows to skip.

        Yields:
            Every row, including rows whose number of cells differs from the header's; nothing
            if the file has only a header.

        Raises:
            ValueError: a quote is not closed or stands within a cell, a cell has more than
                131,072 characters, some bytes are NUL or are not valid in the encoding, or the
                compressed file is damaged.
            OSError: the file cannot be read.
        """
        records = _records(self, strict=True)
        next(records, None)
        several = len(self.columns) > 1
        rows = (
            self._row(line, cells)
            for line, cells in records
            if not (several and len(cells) == 1 and cells[0].isspace())
        )
        return itertools.islice(rows, start, None)

    def count(self) -> int:
        """Count the rows by reading the whole file; the errors are the same as in :meth:`rows`."""
        return sum(1 for _ in self.rows())

    def narrowed(self, columns: Sequence[str]) -> Table:
        """Return a table that reads at least these columns."""
        return self

    def _row(self, line: int, cells: list[str]) -> TableRow:
        """Return a row with one cell per column, and a problem if the line has more or fewer cells.

        Missing cells are empty, and the last cell contains the surplus ones.
        """
        count, width = len(cells), len(self.columns)
        if count > width and not any(cell.strip() for cell in cells[width:]):
            return TableRow(line, cells[:width])
        if count == width:
            return TableRow(line, cells)
        problem = f"{count} cell{'s' * (count != 1)} but the header has {width}"
        cells = cells + [""] * (width - count)
        last = self.separator.join(cells[width - 1 :])
        return TableRow(line, [*cells[: width - 1], last], problem)

    def header(self, added: Sequence[str]) -> list[str]:
        """Return the header of an output: the columns of this table, of which those with the name
        of an additional column are renamed, and the additional columns.
        """
        names = self.renamed(added)
        return [*(names.get(name, name) for name in self.columns), *added]

    def renamed(self, added: Sequence[str]) -> dict[str, str]:
        """Return new names for the columns that have the name of an additional column.

        >>> Table(Path("t.csv"), ("smiles", "error"), ",", "utf-8").renamed(["error"])
        {'error': 'error_input'}
        """
        names = {}
        for name in filter({*added}.__contains__, self.columns):
            names[name] = f"{name}_input"
            while names[name] in (*self.columns, *added):
                names[name] += "_input"
        return names

    def writer(
        self,
        path: Path,
        added: Sequence[str],
        texts: Sequence[str] = (),
        log: Callable[[str], None] = lambda line: None,
    ) -> AbstractContextManager[RowWriter]:
        """Write a new UTF-8 table with the columns of this table, followed by additional columns.

        The new table has the same separator as this one. See :func:`gattn.files.table_writer`.

        Args:
            path: the file to write, whose ending determines its format.
            added: the names of the additional columns. A column of this table that has one of these
                names is renamed.
            texts: the additional columns that are texts in a Parquet file.
            log: called with a line for each column that is renamed.

        Returns:
            A context manager whose value writes one row.

        Raises:
            ValueError: the ending of the path is not that of a table.
            OSError: the file cannot be written.
        """
        for name, other in self.renamed(added).items():
            log(f"the column {name!r} of {self.path} is called {other!r} in the output")
        header = self.header(added)
        encoding = self.encoding if self.encoding == "utf-8-sig" else "utf-8"
        # csv.writer quotes a cell that contains "\r" only if the line terminator contains "\r".
        return table_writer(
            path, header, texts=(*header[: len(self.columns)], *texts), separator=self.separator,
            encoding=encoding, on_bad_bytes=self.on_bad_bytes, end="\r\n",
        )  # fmt: skip


def open_table(
    path: str | Path,
    required: Sequence[str] = (),
    *,
    smiles: Sequence[str] = (),
    encoding: str | None = None,
    on_bad_bytes: OnBadBytes = "strict",
) -> Table:
    """Read the header of a CSV file, and detect its encoding and separator.

    The separator is the first of comma, semicolon, tab and ``|`` with which the header contains
    every required column exactly once. Without required columns, it is the separator that splits
    the header into the most columns. A first line such as ``sep=;``, which Excel reads and writes,
    declares the separator; the header is then the second line.

    Args:
        path: the file, with a header line; compressed by gzip if its name ends with ``.gz``.
        required: the columns that must occur exactly once in the header.
        smiles: the columns of SMILES, which are required, too; see :func:`smiles_names`.
        encoding: the text encoding; None for the encoding of the byte order mark, or UTF-8 if the
            file has no such mark.
        on_bad_bytes: see :class:`Table`.

    Returns:
        The table; its rows are read by :meth:`Table.rows`. Its attribute ``smiles`` contains the
        names that the columns of SMILES have in this file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is a folder, is empty, damaged or a workbook, is not valid text in the
            encoding, or declares another separator; the encoding is unknown; or a required column
            is missing or occurs twice.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles;logS\\nCCO;1.1\\n\\nCCC\\n")
    >>> for row in open_table(path, ["smiles", "logS"]).rows():
    ...     print(row)
    TableRow(line=2, cells=['CCO', '1.1'], problem='')
    TableRow(line=4, cells=['CCC', ''], problem='1 cell but the header has 2')
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a CSV file")
    # This call raises an error if the first bytes show that the file is not a text file.
    with readable(path):
        marked = marked_encoding(path, compressed=_is_compressed(path))
    encoding = encoding or marked
    if is_wide(encoding):
        # In UTF-16 and UTF-32, single invalid bytes cannot be preserved, so they always raise an
        # error.
        on_bad_bytes = "strict"
    plain = Table(path, (), ",", encoding, on_bad_bytes)
    declared = _declared(plain)
    tables = [
        _with_header(replace(plain, separator=separator, declared=declared is not None))
        for separator in declared or SEPARATORS
    ]
    widest = max(tables, key=lambda table: len(table.columns))
    if not required and not smiles:
        return widest
    for table in tables:
        if all(table.columns.count(column) == 1 for column in (*smiles, *required)):
            return replace(table, smiles=tuple(smiles))
    names = smiles_names(widest.columns, smiles)
    if all(widest.columns.count(column) == 1 for column in (*names, *required)):
        return replace(widest, smiles=names)
    raise ValueError(missing_column(widest, [*names, *required]))


def smiles_names(header: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a header from which the SMILES are read.

    If there is a single column of SMILES with a usual name, such as ``smiles``, and the header has
    no such column, the only column of the header with a usual name is read. A usual name contains
    the word "smiles" in any case, or is "Drug" or "mol".

    Args:
        header: the names of all columns.
        names: the names of the columns of SMILES that a command or a model expects.

    >>> smiles_names(["ID", "Canonical_SMILES"], ["smiles"])
    ('Canonical_SMILES',)
    >>> smiles_names(["SMILES", "Canonical_SMILES"], ["smiles"])
    ('smiles',)
    """
    if len(names) == 1 and names[0] not in header and _is_usual(names[0]):
        candidates = [name for name in header if "smiles" in name.lower()]
        candidates = candidates or [name for name in header if name.lower() in OTHER_NAMES]
        if len(candidates) == 1:
            return tuple(candidates)
    return tuple(names)


def _is_usual(name: str) -> bool:
    return "smiles" in name.lower() or name.lower() in OTHER_NAMES


def as_number(cell: str) -> float | None:
    """Return the number in a cell; NaN if the value is missing, and None if the cell is not a
    number.

    A number outside the range of float32 becomes an infinity of the same sign.

    >>> as_number("1.5"), as_number("NA"), as_number("1e99"), as_number("1,5")
    (1.5, nan, inf, None)
    >>> as_number("-1.5"), as_number("1_000")
    (-1.5, None)
    """
    value = PLAIN.parse(cell)
    return value if value is None or not abs(value) > LARGEST else math.copysign(math.inf, value)


def _with_header(table: Table) -> Table:
    """Return a table with the columns of the header.

    A ValueError is raised if the file is empty, is JSON, XML or a web page, or begins with bytes
    that are not valid text.
    """
    _, header = next(_records(table, strict=False), (0, []))
    if not header:
        raise ValueError(f"{table.path} is empty; expected a header line")
    if OTHER_FORMAT.match(header[0]):
        raise ValueError(
            f"{table.path} begins with {header[0][:30]!r}, as JSON, XML or a web page do; expected "
            "a CSV file"
        )
    return replace(table, columns=tuple(name.strip() for name in header))


def _declared(table: Table) -> str | None:
    """Return the separator that the first line declares, or None if the line is a normal header or
    not valid text. Raises ValueError if it declares a separator that is not supported, or if the
    compressed file is damaged.
    """
    try:
        with readable(table.path), table.open() as file:
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


def visible(cell: str) -> str:
    """Replace bytes that are invalid in the file's encoding, which JSON and a terminal cannot
    contain.
    """
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def missing_column(table: Table, required: Sequence[str]) -> str:
    """Return an error message about the first required column that does not occur exactly once in
    the header; there must be such a column. For a CSV file without the column, the first lines of
    the file are read to find its header; this raises ValueError if they cannot be read as CSV.
    """
    header = table.columns
    column = next(column for column in required if header.count(column) != 1)
    times = header.count(column)
    names = ", ".join(repr(name) for name in header[:20]) + ", ..." * (len(header) > 20)
    fault = f"{times} columns {column!r}" if times else f"no column {column!r}"
    alike = next((name for name in header if name.lower() == column.lower()), None)
    hint = f"; did you mean {alike!r}?" if alike is not None and not times else ""
    message = f"{table.path} has {fault}; its columns are {names}"
    if type(table) is Table:
        message += f" (separated by {SEPARATORS[table.separator]})"
        hint = hint or _later_header(table, required)
    return message + hint


def _later_header(table: Table, required: Sequence[str]) -> str:
    """Return a hint if a line below the first contains the names of all required columns. Raises
    ValueError if the file cannot be read as CSV.
    """
    for separator in SEPARATORS:
        records = _records(replace(table, separator=separator), strict=False)
        for line, cells in itertools.islice(records, 1, 20):
            names = [cell.strip() for cell in cells]
            if all(smiles_names(names, [name])[0] in names for name in required):
                return f"; line {line} seems to be the header: remove the lines above it"
    return ""


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert the errors of a damaged compressed file to a ValueError that names the file."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def _is_compressed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _without_nul(table: Table, lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines; raise ValueError for a NUL byte, with which ``csv`` before Python 3.11
    fails.

    A NUL byte is in no text. Usually, such a file is UTF-16 without a byte order mark.
    """
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise ValueError(
                f"{table.path} has a NUL byte in line {number}; remove it, or set the encoding of "
                "the file, for example utf-16-le"
            )
        yield line


def _records(table: Table, *, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each nonempty row (including the header) with the number of its first
    line. Raises OSError if the file cannot be opened, and ValueError for a damaged compressed file,
    for bytes that are not valid text, for a cell that is too long and, if ``strict`` is True, for a
    quote that is not closed or stands within a cell.
    """
    path, line = table.path, 1
    try:
        with readable(path), table.open(newline="") as file:
            # If the first line only declares the separator, it is skipped.
            first = int(table.declared)
            lines = itertools.islice(_without_nul(table, file), first, None)
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
    """Return an error message about the first byte that is not valid in the encoding of a table;
    the whole file is read again to find its line.
    """
    raw = table.path.read_bytes()
    raw = gzip.decompress(raw) if _is_compressed(table.path) else raw
    message = f"{table.path} is not {table.encoding.upper()} text"
    try:
        raw.decode(table.encoding)
    except UnicodeDecodeError as error:
        if not is_wide(table.encoding):
            line = raw.count(b"\n", 0, error.start) + 1
            message += f": byte 0x{raw[error.start]:02x} in line {line}"
    return f"{message}; set its encoding, or save it as UTF-8"
