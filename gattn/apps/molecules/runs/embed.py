"""The command ``gattn molecules embed``, which writes the hidden vector of every molecule in a
table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from gattn.apps.molecules.loading import open_run
from gattn.apps.molecules.row_format import row_text
from gattn.apps.molecules.rows import scatter_rows
from gattn.apps.molecules.runs.predict import Counts, row_errors, row_smiles
from gattn.files import new_file


def embed_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    smiles: str | Sequence[str] | None = None,
    encoding: str | None = None,
    workers: int = 2,
    threads: int = 0,
    on_progress: Callable[[int], None] = lambda rows: None,
) -> Counts:
    """Compute the hidden vector of every molecule in a CSV file, and write all vectors to one file.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: file to write, which must not exist: ``.npy`` for an array [n, d] float32, or
            ``.parquet`` for a table of columns ``smiles``, ``error``, ``e0``, ``e1``, ... The
            features of an ensemble's networks are concatenated. A row that cannot be read has
            NaN in the array and null in the table.
        smiles: the column of SMILES, or the columns for a model of several molecules in a row; by
            default those that the model was trained on.
        encoding: encoding of the file; by default, the encoding of its byte order mark, or UTF-8 if
            there is none.
        workers: number of processes that share the work.
        threads: number of threads inside one operator if there is one process; 0 to choose it
            from the size of a batch.
        on_progress: called with the number of rows in each piece that was written.

    Returns:
        The number of rows, and the number of rows without an embedding.

    Raises:
        RunError: the folder does not contain a readable model.
        FileExistsError: ``out`` exists.
        ValueError: the file or its column cannot be used, ``out`` has another ending, or
            the model has no network.
    """
    out = Path(out)
    writers = {".npy": _ArrayWriter, ".parquet": _ParquetWriter}
    if out.suffix not in writers:
        raise ValueError(f"{out} must end in .parquet or .npy")
    estimator, table, names, *_ = open_run(
        run, path, smiles=smiles, encoding=encoding, workers=workers, threads=threads,
        molecule_alone=True,
    )  # fmt: skip
    rows = bad = 0
    count, size, writer_of = table.count(), estimator.embedding_size, writers[out.suffix]
    places = list(map(table.place, names))
    with new_file(out) as temporary, closing(writer_of(temporary, count, size)) as writer:
        for piece in estimator.embeddings(table.rows(), smiles=row_smiles(table, names)):
            errors = [error for _, error in row_errors(piece)]
            texts = [row_text(row.cells, places) for row in piece.items]
            writer.write(texts, errors, scatter_rows(piece.result, piece).numpy())
            rows, bad = rows + len(errors), bad + sum(map(bool, errors))
            on_progress(len(errors))
    return Counts(rows, bad)


class _ArrayWriter:
    """Writer of an array [n, d] float32 in NumPy's format, row by row.

    It does not use a memory map, because writing to one on a full disk kills the process.
    """

    def __init__(self, path: Path, rows: int, size: int) -> None:
        self.file = path.open("wb")
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, size)}
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, texts: Sequence[str], errors: Sequence[str], vectors: np.ndarray) -> None:
        """Write the embeddings [k, d] of the next k rows; this format does not store SMILES and
        errors.
        """
        self.file.write(vectors.astype("<f4").tobytes())

    def close(self) -> None:
        """Close the array file."""
        self.file.close()


class _ParquetWriter:
    """Writer of a Parquet table with columns for SMILES, errors and each feature of the
    embedding.
    """

    def __init__(self, path: Path, rows: int, size: int) -> None:
        numbers = [(f"e{i}", pyarrow.float32()) for i in range(size)]
        texts = [("smiles", pyarrow.string()), ("error", pyarrow.string())]
        self.schema = pyarrow.schema([*texts, *numbers])
        self.file = pyarrow.parquet.ParquetWriter(path, self.schema)

    def write(self, texts: Sequence[str], errors: Sequence[str], vectors: np.ndarray) -> None:
        """Write the SMILES, errors and embeddings [k, d] of the next k rows."""
        # The dtype is set, because NumPy would convert an empty list to a float64 array.
        bad = np.array([bool(error) for error in errors], bool)
        numbers = [pyarrow.array(column, mask=bad) for column in vectors.T]
        self.file.write(pyarrow.record_batch([list(texts), list(errors), *numbers], self.schema))

    def close(self) -> None:
        """Write the footer of the Parquet file and close it."""
        self.file.close()
