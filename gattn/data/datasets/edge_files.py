"""Reader of edge files that may be larger than memory; it returns memory-mapped tensors."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["open_edges"]

PIECE = 1 << 20
"""Number of edges of a Parquet table that are read into memory at once."""

INTEGERS = (np.dtype("int32"), np.dtype("int64"))


def open_edges(
    path: str | os.PathLike[str],
    *,
    source: str = "source",
    destination: str = "destination",
    folder: str | os.PathLike[str] | None = None,
) -> Tensor:
    """Open the edges of a file without reading them into memory.

    ``Graph(open_edges(path), num_nodes)`` computes a layout of 16 bytes for each edge and makes no
    copy of the edges: the operating system loads pages of the file when they are needed. A
    ``.npy`` file is mapped directly and is never written to. A table is first converted, batch by
    batch, to a temporary file of 8 bytes for each edge (16 if a column has 64 bits), which is
    deleted with the tensor.

    Args:
        path: a ``.npy`` file of a (2, e) int32 or int64 array in C order, or a ``.parquet`` or
            ``.csv`` table with a row for each edge. The nodes are numbered from 0.
        source: the table's column of source nodes.
        destination: the table's column of destination nodes.
        folder: the folder for the temporary file; None for the system's temporary folder, which on
            some machines is in memory.

    Returns:
        (2, e) int32 or int64 pairs.

    Raises:
        ValueError: the file has another format or is truncated, its shape, dtype or columns do
            not fit, or a row has an empty cell.
        FileNotFoundError: the file does not exist.
        ImportError: the file is a table, and PyArrow is not installed.

    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/edges.npy", np.array([[0, 1], [1, 2]]))
    ...     open_edges(f"{folder}/edges.npy")
    tensor([[0, 1],
            [1, 2]])
    """
    path = Path(path)
    if path.suffix == ".npy":
        return _from_npy(path)
    if path.suffix in (".parquet", ".csv"):
        return _from_table(path, (source, destination), folder)
    raise ValueError(f"edges are read from .npy, .parquet and .csv files; got {path.name}")


def _from_npy(path: Path) -> Tensor:
    try:
        # Mode "c" is copy-on-write: writes to the array change the memory but not the file. A
        # read-only array would cause a warning in torch.from_numpy.
        edges = np.lib.format.open_memmap(path, mode="c")
    except ValueError as error:
        # NumPy raises a ValueError for an invalid header and for a truncated file.
        raise ValueError(f"{path} cannot be read as a .npy file: {error}") from None
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype not in INTEGERS:
        raise ValueError(
            f"{path} must contain a (2, e) array of int32 or int64; it contains {edges.shape} "
            f"of {edges.dtype}"
        )
    return torch.from_numpy(edges)


def _from_table(
    path: Path, columns: tuple[str, str], folder: str | os.PathLike[str] | None
) -> Tensor:
    """Write the two columns of an edge table to a temporary file, and return it as a mapped
    tensor.
    """
    dtype, batches = _open(path, columns)
    with (
        tempfile.TemporaryFile(dir=folder) as file,
        tempfile.TemporaryFile(dir=folder) as destinations,
    ):
        row = 0
        with _readable(path):
            for batch in batches:
                for name, end in zip(columns, (file, destinations)):
                    end.write(_numbers(batch.column(name), dtype, path, name, row).data)
                row += batch.num_rows
        destinations.seek(0)
        shutil.copyfileobj(destinations, file)
        if not row:  # an empty file cannot be mapped into memory
            return torch.empty(2, 0, dtype=torch.from_numpy(np.empty(0, dtype)).dtype)
        return torch.from_numpy(np.memmap(file, dtype, mode="r+", shape=(2, row)))


def _open(path: Path, columns: tuple[str, str]) -> tuple[np.dtype, Iterator[pa.RecordBatch]]:
    """Return an iterator over the batches of a table, and a dtype that can represent both of its
    columns.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError:
        raise ImportError(
            f'reading {path.suffix} files needs PyArrow: pip install "gattn[molecules]"'
        ) from None
    with _readable(path):
        if path.suffix == ".csv":
            options = csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.int64()))
            rows = csv.open_csv(path, convert_options=options)
            schema, batches = rows.schema, iter(rows)
        else:
            file = parquet.ParquetFile(path)
            schema, batches = file.schema_arrow, file.iter_batches(PIECE, columns=list(columns))
    for name in columns:
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            raise ValueError(
                f"{path} must have one column {name!r}; its columns are {', '.join(schema.names)}"
            )
        if not pa.types.is_integer(schema.field(name).type):
            raise ValueError(
                f"column {name!r} of {path} must contain whole numbers, the indices of the "
                f"nodes; it contains {schema.field(name).type}"
            )
    narrow = all(schema.field(name).type.bit_width < 64 for name in columns)
    unsigned = any(schema.field(name).type == pa.uint32() for name in columns)
    return np.dtype(np.int32 if narrow and not unsigned else np.int64), batches


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert PyArrow's errors to a ValueError whose message contains the file's name."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _numbers(column: pa.Array, dtype: np.dtype, path: Path, name: str, row: int) -> np.ndarray:
    """Convert one column of a batch to integers. For an empty cell, raise an error that names
    the row.
    """
    if column.null_count:
        empty = row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"column {name!r} of {path} is empty in row {empty}, counted from 0")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(dtype).max:
        raise ValueError(
            f"column {name!r} of {path} contains {values.max()}, which is not the index of a node"
        )
    return np.ascontiguousarray(values.astype(dtype, copy=False))
