"""Tables that consist of several files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gattn.apps.tables.csv_table import Table, TableRow
from gattn.apps.tables.formats import open_molecules


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
class JoinedTables:
    """Several tables that are read one after the other, with the columns that a run needs.

    Attributes:
        tables: the open files.
        columns: the names of the columns, which each file has in any order. The columns of SMILES
            are the first, and may have another name in each file.
        parts: for each file "val" or "test" if it is that part, or "".
    """

    tables: tuple[Table, ...]
    columns: tuple[str, ...]
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The first file."""
        return self.tables[0].path

    @property
    def separator(self) -> str:
        """Separator of the first file."""
        return self.tables[0].separator

    @property
    def smiles(self) -> tuple[str, ...]:
        """Columns of SMILES of the first file."""
        return self.tables[0].smiles

    def place(self, column: str) -> int:
        """Return the index of a column by its name."""
        return self.columns.index(column)

    def rows(self) -> Iterator[TableRow]:
        """Yield the rows of all files; see :meth:`gattn.apps.tables.csv_table.Table.rows`."""
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
) -> Table | JoinedTables:
    """Open one or several files, and check that they have the needed columns.

    Args:
        paths: the files.
        smiles: the names of the columns of SMILES; see :func:`open_molecules`.
        names: the names of the other columns.
        parts: for each file "val" or "test" if it is that part, or ""; by default "".
        encoding: encoding of the files; see :func:`open_molecules`.

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
    return JoinedTables(tables, (*tables[0].smiles, *names), tuple(parts) or ("",) * len(tables))
