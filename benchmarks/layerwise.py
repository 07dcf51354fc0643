"""Measure the memory of inference layer by layer, beside that of the model at once.

    python -m benchmarks.layerwise --scale 0.1    # 1 is 2.4 million nodes and 62 million edges

A GAT of two layers with 4 heads of 16 channels on 100 features, over a graph with the skew of
ogbn-products. x is on disk, and so are the results of inference. Peaks are of the process, above
the graph; pages of mapped files count while they are in memory, and the system may take them back.
The results are compared with those at once. A JSON line goes to benchmarks/results/layerwise.jsonl.
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
from benchmarks.data.graphs import power_law
from gattn.models import GAT, inference

NODES, PAIRS, FEATURES, CLASSES = 2_449_029, 30_000_000, 100, 47


def main(arguments: Sequence[str]) -> None:
    """Measure both ways, compare what they give, and print the peaks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layerwise")
    parser.description = main.__doc__
    parser.add_argument("--scale", type=float, default=1.0, help="of the graph's size")
    parser.add_argument("--batch-edges", type=int, default=2**20, help="most edges at a time")
    parser.add_argument("--skip-once", action="store_true", help="measure layer by layer alone")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "layerwise.jsonl")
    options = parser.parse_args(arguments)
    nodes, pairs = int(NODES * options.scale), int(PAIRS * options.scale)
    graph = gattn.Graph(power_law(nodes, pairs), nodes)
    torch.manual_seed(0)
    model = GAT(FEATURES, 64, 2, CLASSES, heads=4, add_self_loops=False).eval()
    with tempfile.TemporaryDirectory() as folder:
        x = _features(Path(folder, "x.npy"), nodes)
        shape = nodes, CLASSES
        out = np.lib.format.open_memmap(Path(folder, "out.npy"), "w+", np.float32, shape)

        def layerwise() -> Tensor:
            batch = options.batch_edges
            return inference(model, x, graph, batch_edges=batch, out=out, scratch=folder)

        found = {"layerwise": _measure(layerwise)}
        if not options.skip_once:
            found["once"] = _measure(lambda: _once(model, x, graph))
            torch.testing.assert_close(
                found["layerwise"].pop("out"), found["once"].pop("out"), atol=1e-4, rtol=1e-4
            )
        found["layerwise"].pop("out", None)
    row: dict[str, Any] = {"case": "layerwise/products", "nodes": nodes, "edges": graph.num_edges}
    row |= {"batch_edges": options.batch_edges, **found}
    environment = record.environment("benchmarks.layerwise", arguments)
    record.append(options.out, {**row, "environment": environment})
    for name, side in found.items():
        print(f"{name}: peak {side['bytes'] / 2**20:,.0f} MiB, {side['seconds']:.1f} s")


@torch.no_grad()
def _once(model: GAT, x: np.ndarray, graph: gattn.Graph) -> Tensor:
    return model(torch.from_numpy(np.array(x)), graph)


def _measure(run: Callable[[], Tensor]) -> dict[str, Any]:
    """Peak bytes, seconds and the result of one run."""
    start = time.perf_counter()
    with memory.peak() as peak:
        out = run()
    return {"bytes": peak.bytes, "seconds": time.perf_counter() - start, "out": out}


def _features(path: Path, nodes: int) -> np.ndarray:
    """Standard normal features in a file that is mapped, [n, FEATURES] float32."""
    made = np.lib.format.open_memmap(path, "w+", np.float32, (nodes, FEATURES))
    random = np.random.default_rng(0)
    for start in range(0, nodes, 2**16):
        rows = made[start : start + 2**16]
        random.standard_normal(out=rows, dtype=np.float32)
    made.flush()
    del made, rows
    return np.load(path, mmap_mode="r")


if __name__ == "__main__":
    main(sys.argv[1:])
