"""Reader of one table in a CSV or Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.tables.csv_table import open_table
from gattn.apps.tables.formats import open_parquet

TABLES = (".csv", ".tsv", ".parquet")
"""Suffixes of the files of tables."""
TEXTS = ("string", "large_string")
"""Arrow's names of the types of texts."""


def read_table(
    path: Path, encoding: str | None, *, compact: bool = False
) -> tuple[pd.DataFrame, Sequence[int], str]:
    """Read a CSV or Parquet table.

    Args:
        path: the file.
        encoding: text encoding of a CSV file; None to detect it.
        compact: True to store equal texts of a Parquet table once, as categories.

    Returns:
        The table, with None for an empty CSV cell; the line of each row in the file; and the
        separator, empty for Parquet.

    Raises:
        FileNotFoundError: the file does not exist.
        GraphError: the file has another ending, is empty, or a row has another number of cells
            than the header.
    """
    if path.suffix.lower() not in TABLES:
        raise GraphError(f"{path} must end in {', '.join(TABLES)}")
    if not path.stat().st_size:
        raise GraphError(f"{path} is empty; expected a table")
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as file:
            texts = [field.name for field in file.schema_arrow if str(field.type) in TEXTS]
        options: dict[str, Any] = {"read_dictionary": texts, "memory_map": True} if compact else {}
        with open_parquet(path, **options) as file:
            table = file.read(use_pandas_metadata=True).to_pandas(split_blocks=compact)
        return table, range(1, len(table) + 1), ""
    table = open_table(path, encoding=encoding)
    rows = list(table.rows())
    bad = next((row for row in rows if row.problem), None)
    if bad is not None:
        raise GraphError(f"{path}, line {bad.line}: {bad.problem}")
    cells = [[cell if cell.strip() else None for cell in row.cells] for row in rows]
    frame = pd.DataFrame(cells, columns=list(table.columns), dtype=object)
    return frame, [row.line for row in rows], table.separator
