"""Edges in files that may be larger than memory, as tensors that the file lies behind."""

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
"""How many edges of a table are in memory at once."""

INTEGERS = (np.dtype("int32"), np.dtype("int64"))


def open_edges(
    path: str | os.PathLike[str],
    *,
    source: str = "source",
    destination: str = "destination",
    folder: str | os.PathLike[str] | None = None,
) -> Tensor:
    """Open the edges of a file without reading them into memory.

    ``Graph(open_edges(path), num_nodes)`` lays them out in 16 bytes an edge and holds no copy of
    them: pages of the file come and go as the machine has room. A ``.npy`` file is itself what
    lies behind the tensor, which does not write to it. A table is rewritten piece by piece into a
    temporary file of 8 bytes an edge (16 where its columns are of 64 bits), which goes with the
    tensor.

    Args:
        path: a ``.npy`` file of a (2, e) int32 or int64 array in C order, or a ``.parquet`` or
            ``.csv`` table with a row for each edge. The nodes are numbered from 0.
        source: the table's column of sources.
        destination: the table's column of destinations.
        folder: where the temporary file goes; None for the system's folder, which on some
            machines is in memory.

    Returns:
        (2, e) int32 or int64 pairs.

    Raises:
        ValueError: another kind of file, one that is cut short, a shape, dtype or column that does
            not fit, or a row without a number.
        FileNotFoundError: no such file.
        ImportError: a table, and PyArrow is not installed.

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
        # Of an array that cannot be written to, torch warns; to this one it writes in memory alone.
        edges = np.lib.format.open_memmap(path, mode="c")
    except ValueError as error:  # no such header, or less than it says
        raise ValueError(f"{path} cannot be read as a .npy file: {error}") from None
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype not in INTEGERS:
        raise ValueError(
            f"{path} must hold a (2, e) array of int32 or int64; it holds {edges.shape} of "
            f"{edges.dtype}"
        )
    return torch.from_numpy(edges)


def _from_table(
    path: Path, columns: tuple[str, str], folder: str | os.PathLike[str] | None
) -> Tensor:
    """The sources of a table and then its destinations, in a temporary file."""
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
        if not row:  # of which nothing can be mapped
            return torch.empty(2, 0, dtype=torch.from_numpy(np.empty(0, dtype)).dtype)
        return torch.from_numpy(np.memmap(file, dtype, mode="r+", shape=(2, row)))


def _open(path: Path, columns: tuple[str, str]) -> tuple[np.dtype, Iterator[pa.RecordBatch]]:
    """The type that both columns fit, and the rows piece by piece."""
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
                f"column {name!r} of {path} must hold whole numbers, the nodes' positions; it "
                f"holds {schema.field(name).type}"
            )
    narrow = all(schema.field(name).type.bit_width < 64 for name in columns)
    unsigned = any(schema.field(name).type == pa.uint32() for name in columns)
    return np.dtype(np.int32 if narrow and not unsigned else np.int64), batches


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Tell what PyArrow cannot read with the file's name."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _numbers(column: pa.Array, dtype: np.dtype, path: Path, name: str, row: int) -> np.ndarray:
    """Numbers of one piece; an empty cell is an error that names its row."""
    if column.null_count:
        empty = row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"column {name!r} of {path} is empty in row {empty}, counted from 0")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(dtype).max:
        raise ValueError(f"column {name!r} of {path} holds {values.max()}, which is no position")
    return np.ascontiguousarray(values.astype(dtype, copy=False))
