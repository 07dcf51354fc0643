"""Measurement of the memory of layer-by-layer inference, compared with the whole model at once.

    python -m benchmarks.sampling.make FOLDER        # the graph, once
    python -m benchmarks.layerwise FOLDER

The model is a GAT with two layers of 4 heads with 16 channels, on 100 features, and 47 classes that
are averaged over 4 heads. The graph has the size of ogbn-products. The features and the results of
inference are on disk. The peak memory is that of the process without the graph. Pages of mapped
files count while they are in memory, although the system may reclaim them. The results are compared
with those of the whole model at once, which needs 8 GB more. A JSON line is appended to
benchmarks/results/layerwise.jsonl.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gattn
from benchmarks.core import memory, record
from benchmarks.data.large_graph import features, pairs
from benchmarks.sides import internals
from gattn.models import GAT

FEATURES, CLASSES = 100, 47


def main(arguments: Sequence[str]) -> None:
    """Measure both kinds of inference, compare their results, and print the peak memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layerwise")
    parser.description = main.__doc__
    parser.add_argument("folder", type=Path, help="folder that benchmarks.sampling.make wrote")
    parser.add_argument(
        "--batch-edges",
        type=int,
        default=2**20,
        help="maximum number of edges of a range of nodes (default: %(default)s)",
    )
    parser.add_argument(
        "--skip-once",
        action="store_true",
        help="measure only layer-by-layer inference, not the whole model at once",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "layerwise.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    edges, nodes = pairs(options.folder, torch.int32)
    graph = gattn.Graph(edges, nodes)
    del edges
    x = np.load(options.folder / "x.npy", mmap_mode="r")
    torch.manual_seed(0)
    model = GAT(FEATURES, 64, 2, CLASSES, heads=4, add_self_loops=False).eval()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        inference = internals.public("gattn.models", "layerwise_inference", "inference")
        shape = nodes, CLASSES
        out = np.lib.format.open_memmap(Path(scratch, "out.npy"), "w+", np.float32, shape)

        def layerwise() -> Tensor:
            batch = options.batch_edges
            return inference(model, x, graph, batch_edges=batch, out=out, scratch=scratch)

        results = {"layerwise": _measure(layerwise)}
        if not options.skip_once:
            results["once"] = _measure(lambda: _once(model, options.folder, graph))
            torch.testing.assert_close(
                results["layerwise"].pop("out"), results["once"].pop("out"), atol=1e-4, rtol=1e-4
            )
        results["layerwise"].pop("out", None)
    row: dict[str, Any] = {"case": "layerwise/products", "nodes": nodes, "edges": graph.num_edges}
    row |= {"batch_edges": options.batch_edges, **results}
    environment = record.environment("benchmarks.layerwise", arguments)
    record.append(options.out, {**row, "environment": environment})
    for name, side in results.items():
        print(f"{name}: peak {side['bytes'] / 2**30:.2f} GiB, {side['seconds']:.1f} s")


@torch.no_grad()
def _once(model: GAT, folder: Path, graph: gattn.Graph) -> Tensor:
    return model(features(folder), graph)


def _measure(run: Callable[[], Tensor]) -> dict[str, Any]:
    """Return the peak memory, the seconds and the result of one run."""
    start = time.perf_counter()
    with memory.peak() as peak:
        out = run()
    return {"bytes": peak.bytes, "seconds": time.perf_counter() - start, "out": out}


if __name__ == "__main__":
    main(sys.argv[1:])
