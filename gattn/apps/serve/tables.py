"""CSV tables: the table in a request body, and the table in the answer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gattn.apps.molecules.descriptor_columns import DescriptorColumns, InputRow
from gattn.apps.molecules.loading import smiles_columns
from gattn.apps.molecules.runs.predict import ERROR, PredictedRow
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.molecules import ServedMolecules
from gattn.apps.tables.csv_table import Table, TableRow
from gattn.apps.tables.formats import open_molecules

NAME = "the table"
"""Name of the table in error messages. The file name that a client sends is not used."""


@dataclass(frozen=True, eq=False)
class CsvBody:
    """Table that was sent as the CSV body of a request.

    Attributes:
        table: the header and the format of the table.
        positions: positions of the columns of SMILES.
        rows: n rows.
        input_rows: the SMILES and the descriptor columns of each row.
    """

    table: Table
    positions: list[int]
    rows: list[TableRow]
    input_rows: list[InputRow]

    def cells(self, predicted: Sequence[PredictedRow]) -> list[list[str]]:
        """Return the rows of the answer: the cells of the request, the prediction and the error.
        ``predicted`` has an entry for each row, in order; another number raises ValueError.
        """
        return [
            [*row.cells, *one.cells, row.problem or one.error]
            for row, one in zip(self.rows, predicted, strict=True)
        ]

    def columns(self, added: Sequence[str]) -> list[str]:
        """Return the header of the answer's table, in which a column of the request with the name
        of an added column is renamed as in the command ``gattn molecules predict``.
        """
        return self.table.header([*added, ERROR])

    def write(self, added: Sequence[str], predicted: Sequence[PredictedRow]) -> bytes:
        """Return the content of the file that the command ``gattn molecules predict`` would
        write. ``added`` are the names of the columns of the predictions.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.csv"
            with self.table.writer(path, [*added, ERROR]) as writer:
                for cells in self.cells(predicted):
                    writer.writerow(cells)
            return path.read_bytes()


def read_csv_body(
    body: bytes, run: ServedMolecules, columns: Sequence[str], encoding: str | None, max_rows: int
) -> CsvBody:
    """Read the table in the CSV body of a request.

    Args:
        body: the bytes of the file.
        run: the model that reads the table.
        columns: the columns of SMILES; none for those of the training.
        encoding: text encoding; None for that of the byte order mark, or UTF-8.
        max_rows: maximum number of rows.

    Raises:
        RequestError: the body is no such table (422), or has too many rows (413).
    """
    descriptors = run.model.descriptors_columns_
    # The table reader needs a file, so the body is written to a temporary folder that is removed
    # afterwards.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(body)
        try:
            names = smiles_columns(run.card, columns, run.model.molecules_per_row)
            table = open_molecules(
                path, names, descriptors, encoding=encoding, on_bad_bytes="surrogateescape"
            )
            style = DescriptorColumns.of(table, descriptors, run.numbers)
            rows = []
            for row in style.checked(table.rows()):
                if len(rows) == max_rows:
                    raise RequestError(413, f"{NAME} must have at most {max_rows:,} rows")
                rows.append(row)
        except (ValueError, LookupError) as error:
            raise RequestError(422, str(error).replace(str(path), NAME)) from error
    return CsvBody(table, list(style.smiles), rows, list(map(style.input_row, rows)))
