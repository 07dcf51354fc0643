"""Time and memory over graphs of ten thousand edges to a hundred million.

``python -m benchmarks.growth OPERATOR --edges E`` measures one size, in this process.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

import gattn
from benchmarks import graphs, memory, timing
from benchmarks.contenders import Contender, leaf
from benchmarks.settings import Settings
from benchmarks.verify import FLOOR, CheckFailed, error, on_reference, repeatable, step

OPERATORS = ("additive", "mlp", "dot_product")
SMALLEST = 4
CHANNELS = 16
EDGES_PER_NODE = 15
CHECKED = 10**5


@dataclass(frozen=True)
class Growth:
    """Forward and backward at one head of 16 channels, each size in a process of its own."""

    def measure(self, settings: Settings) -> dict[str, Any]:
        powers = range(SMALLEST, int(math.log10(settings.largest)) + 1)
        rows = [self._row(name, power, settings) for name in OPERATORS for power in powers]
        worst = max(row["error"] for row in rows if "error" in row)
        return {"dtype": "float32", "check": {"error": worst}, "growth": rows}

    @staticmethod
    def _row(name: str, power: int, settings: Settings) -> dict[str, Any]:
        arguments = [name, "--edges", str(10**power), "--threads", str(settings.threads)]
        return {"operator": name, **memory.run_apart(["-m", "benchmarks.growth", *arguments])}


def grow(name: str, edges: int) -> dict[str, float]:
    """Lay out a graph of about this many edges, check the operator on it and time it."""
    nodes = max(edges // EDGES_PER_NODE, 2)
    edge_index = graphs.skewed(nodes, (edges - nodes) // 2)
    memory.reset_peak()
    base = memory.resident()
    start = time.perf_counter()
    graph = gattn.Graph(edge_index, nodes)
    row: dict[str, float] = {
        "nodes": nodes,
        "edges": graph.num_edges,
        "layout_seconds": time.perf_counter() - start,
        "layout_peak_bytes": memory.peak() - base,
    }
    del edge_index
    contender = operator(name, graph)
    if edges <= CHECKED:
        row["error"] = _check(contender)
    memory.reset_peak()
    base = memory.resident()
    run = timing.training(contender)
    samples = []
    for _ in range(timing.FEWEST):
        start = time.perf_counter()
        run()
        samples.append(time.perf_counter() - start)
    return {
        **row,
        "seconds": statistics.median(samples),
        "peak_bytes": memory.peak() - base,
    }


def operator(name: str, graph: gattn.Graph) -> Contender:
    """One head of an operator with inputs for this graph."""
    nodes, float32 = graph.num_dst, torch.float32
    if name == "additive":
        inputs = [leaf(nodes, 1, dtype=float32, seed=seed) for seed in range(2)]
        inputs.append(leaf(nodes, 1, CHANNELS, dtype=float32, seed=2))
        function = gattn.functional.additive_attention
    elif name == "mlp":
        inputs = [leaf(nodes, 1, CHANNELS, dtype=float32, seed=seed) for seed in range(3)]
        inputs.append(leaf(1, CHANNELS, dtype=float32, seed=3))
        function = gattn.functional.mlp_attention
    else:
        inputs = [leaf(nodes, 1, CHANNELS, dtype=float32, seed=seed) for seed in range(3)]
        function = gattn.functional.dot_product_attention
    leaves = {str(position): tensor for position, tensor in enumerate(inputs)}
    return Contender(lambda: function(*inputs, graph), leaves)


def _check(contender: Contender) -> float:
    repeatable(contender)
    with on_reference():
        want = step(contender)
    found = error(step(contender), want)
    if not found <= FLOOR[torch.float32]:
        raise CheckFailed(f"differs from the reference by {found:.1e}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=grow.__doc__)
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("--edges", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(json.dumps(grow(asked.operator, asked.edges)))
