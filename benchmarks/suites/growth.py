"""Time and memory for graphs of ten thousand to a hundred million edges."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

import gattn
from benchmarks.core import isolate, memory, timing, verify
from benchmarks.core.case import Contender, Settings, Topology
from benchmarks.core.seeds import leaf
from benchmarks.data import graphs
from benchmarks.sides import ours
from benchmarks.sides.families import FAMILIES
from benchmarks.sides.inputs import Shape, operator_inputs

SMALLEST = 4
CHANNELS = 16
EDGES_PER_NODE = 15
CHECKED = 10**5


@dataclass(frozen=True)
class Growth:
    """Forward and backward with one head of 16 channels, with each size in a separate process."""

    def measure(self, settings: Settings) -> dict[str, Any]:
        powers = range(SMALLEST, int(math.log10(settings.largest)) + 1)
        rows = [self._row(name, power, settings) for name in FAMILIES for power in powers]
        worst = max(row["error"] for row in rows if "error" in row)
        return {"dtype": "float32", "check": {"error": worst}, "growth": rows}

    @staticmethod
    def _row(name: str, power: int, settings: Settings) -> dict[str, Any]:
        entry = isolate.call(grow, name, 10**power, threads=settings.threads)
        return {"operator": name, **entry}


def grow(name: str, edges: int) -> dict[str, float]:
    """Create a graph of about this many edges, and check and time the operator on it."""
    nodes = max(edges // EDGES_PER_NODE, 2)
    topology = Topology(graphs.power_law(nodes, (edges - nodes) // 2), nodes)
    with memory.peak() as laid_out:
        start = time.perf_counter()
        graph = gattn.Graph(topology.edge_index, nodes)
        layout_seconds = time.perf_counter() - start
    row: dict[str, float] = {
        "nodes": nodes,
        "edges": graph.num_edges,
        "layout_seconds": layout_seconds,
        "layout_peak_bytes": laid_out.bytes,
    }
    inputs = operator_inputs(topology, Shape(name, heads=1, channels=CHANNELS))
    for shared, other in FAMILIES[name].shared.items():
        # Use separate tensors, because key and value may differ in general.
        inputs[shared] = leaf(*inputs[other].shape, seed=3, dtype=torch.float32)
    del topology
    contender = Contender.of(ours.operator(name, graph), inputs)
    if edges <= CHECKED:
        row["error"] = _check(contender)
    with memory.peak() as trained:
        run = timing.training(contender)
        samples = [timing.CPU.seconds(run) for _ in range(timing.FEWEST)]
    return {**row, "seconds": statistics.median(samples), "peak_bytes": trained.bytes}


def _check(contender: Contender) -> float:
    verify.repeatable(contender)
    with verify.on_reference():
        want = verify.step(contender)
    return verify.within_rounding(
        verify.error(verify.step(contender), want), "differs from the reference"
    )
