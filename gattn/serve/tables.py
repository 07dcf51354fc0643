"""CSV tables: the table in a request body, and the table in the answer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gattn.data.tables.csv_table import Table, TableRow, open_table
from gattn.molecules.runs.predict import ERROR, row_smiles
from gattn.serve.errors import RequestError
from gattn.serve.molecules import PredictedRow

__all__ = ["CsvBody", "read_csv_body"]

NAME = "the table"
"""Name of the table in error messages. The file name that a client sends is not used."""


@dataclass(frozen=True, eq=False)
class CsvBody:
    """Table that was sent as the CSV body of a request.

    Attributes:
        table: the header and the format of the table.
        column: position of the column of SMILES.
        rows: n rows.
        smiles: the SMILES of each row; "" for a row with a wrong number of cells.
    """

    table: Table
    column: int
    rows: list[TableRow]
    smiles: list[str]

    def cells(self, predicted: Sequence[PredictedRow]) -> list[list[str]]:
        """Return the rows of the answer: the cells of the request, the prediction and the error."""
        return [
            [*row.cells, *one.cells, row.problem or one.error]
            for row, one in zip(self.rows, predicted, strict=True)
        ]

    def columns(self, added: Sequence[str]) -> list[str]:
        """Return the header of the answer's table."""
        return [*self.table.columns, *added, ERROR]

    def write(self, added: Sequence[str], predicted: Sequence[PredictedRow]) -> bytes:
        """Return the content of the file that the command ``gattn molecules predict`` would
        write.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.csv"
            with self.table.writer(path, [*added, ERROR]) as writer:
                for cells in self.cells(predicted):
                    writer.writerow(cells)
            return path.read_bytes()


def read_csv_body(
    body: bytes, column: str, encoding: str | None, added: Sequence[str], max_rows: int
) -> CsvBody:
    """Read the table in the CSV body of a request.

    Args:
        body: the bytes of the file.
        column: the column of SMILES.
        encoding: text encoding; None for that of the byte order mark, or UTF-8.
        added: names of the columns that the answer adds.
        max_rows: maximum number of rows.

    Raises:
        RequestError: the body is no such table (422), or has too many rows (413).
    """
    # The table reader needs a file, so the body is written to a temporary folder that is removed
    # afterwards.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(body)
        try:
            table = open_table(path, [column], encoding=encoding, on_bad_bytes="surrogateescape")
            if duplicates := [name for name in (*added, ERROR) if name in table.columns]:
                raise ValueError(f"{path} has a column {duplicates[0]!r} already: rename it")
            rows = []
            for row in table.rows():
                if len(rows) == max_rows:
                    raise RequestError(413, f"{NAME} must have at most {max_rows:,} rows")
                rows.append(row)
        except (ValueError, LookupError) as error:
            raise RequestError(422, str(error).replace(str(path), NAME)) from error
    get = row_smiles(table, [column])
    return CsvBody(table, table.place(column), rows, list(map(get, rows)))
