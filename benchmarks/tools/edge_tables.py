"""Steps from a table of edges on disk to sampled batches, each measured in a separate process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv, parquet
from torch_geometric.data import Data

import gattn
from benchmarks.core import memory
from benchmarks.core.record import Record
from gattn.data import NeighborLoader, open_edges

SEEDS, FAN_OUTS, BATCHES = 1024, [15, 10, 5], 100
_PIECE = 1 << 20
_T = TypeVar("_T")


def write(folder: Path, edges: int, nodes: int) -> list[Path]:
    """Write the same random edges as CSV and as Parquet, with a column of weights."""
    paths = [folder / "edges.csv", folder / "edges.parquet"]
    names = ("source", "destination", "weight")
    schema = pa.schema(zip(names, (pa.int64(), pa.int64(), pa.float32())))
    with csv.CSVWriter(paths[0], schema) as text, parquet.ParquetWriter(paths[1], schema) as binary:
        for columns in _pieces(edges, nodes):
            batch = pa.record_batch(columns, schema=schema)
            text.write_batch(batch)
            binary.write_batch(batch)
    return paths


def _pieces(edges: int, nodes: int) -> Iterator[list[np.ndarray]]:
    draw = np.random.default_rng(0)
    for start in range(0, edges, _PIECE):
        count = min(_PIECE, edges - start)
        ends = [draw.integers(nodes, size=count) for _ in range(2)]
        yield [*ends, draw.random(count, dtype=np.float32)]


def steps(path: Path, nodes: int) -> dict[str, Record]:
    """Measure the seconds and peak memory of reading, of sorting, and of sampling batches.

    A peak is measured relative to the memory of the process before it read the file, and includes
    pages of mapped files.
    """
    results: dict[str, Record] = {}
    base = 0

    def measured(name: str, run: Callable[[], _T]) -> _T:
        nonlocal base
        start = time.perf_counter()
        with memory.peak() as peak:
            result = run()
        base = base or peak.baseline
        seconds = time.perf_counter() - start
        results[name] = {"seconds": seconds, "bytes": peak.bytes + peak.baseline - base}
        return result

    edges = measured("read", lambda: open_edges(path, folder=path.parent))
    graph = measured("laid out", lambda: gattn.Graph(edges, nodes))
    torch.manual_seed(0)
    data = Data(num_nodes=nodes)
    loader = NeighborLoader(data, FAN_OUTS, batch_size=SEEDS, shuffle=True, graph=graph)

    def sample() -> int:
        return sum(batch.graph.num_edges for batch in islice(loader, BATCHES))

    drawn = measured("sampled", sample)
    results["sampled"] |= {"edges": drawn, "batches": min(BATCHES, len(loader))}
    return results
