"""Speed limit: the time for gathering and summing the rows that the operators read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import gattn
from benchmarks.core import timing, verify
from benchmarks.core.case import Settings, Topology
from benchmarks.core.seeds import normal
from benchmarks.sides import internals
from benchmarks.sides.families import FAMILIES
from benchmarks.sides.inputs import CHANNELS, HEADS
from benchmarks.sides.layers import Maker

ROWS_PER_EDGE = {name: family.rows_per_edge for name, family in FAMILIES.items()}


@dataclass(frozen=True)
class Roof:
    """Fraction of the speed of a plain gather that the forward pass of the operators reaches."""

    topology: Callable[[float], Topology]
    operators: Mapping[str, Maker]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        width = HEADS * CHANNELS
        gathers = gather(topology, width)
        apart = _check(gathers)
        kernels = {
            name: timing.forward(self.operators[name]("gattn", topology, torch.float32))
            for name in ROWS_PER_EDGE
        }
        times = timing.alternate({**gathers, **kernels}, settings.seconds)
        best = min(gathers, key=lambda name: times[name]["median"])
        once = times[best]["median"]
        return {
            **topology.sizes(),
            "dtype": "float32",
            "check": {"apart": apart},
            "seconds": {"forward": times},
            "fastest_gather": best,
            "gather_bytes_per_second": topology.num_edges * width * 4 / once,
            "share_of_roof": {
                name: rows * once / times[name]["median"] for name, rows in ROWS_PER_EDGE.items()
            },
        }


def gather(topology: Topology, width: int) -> dict[str, Callable[[], Tensor]]:
    """Return functions that read and sum the source rows of all edges, which attention cannot beat.

    Each function reads one row of ``width`` fp32 numbers per edge, in the order of the graph. The
    functions of torch write one row per node, and the loop of gattn adds all rows.
    """
    graph = gattn.Graph(topology.edge_index, topology.num_nodes)
    rowptr, rows = graph.layout.rowptr, graph.layout.col
    table = normal(topology.num_nodes, width, seed=1, dtype=torch.float32)
    offsets = rowptr[:-1].contiguous()
    matrix = torch.sparse_csr_tensor(
        rowptr, rows, torch.ones(graph.num_edges), check_invariants=False,
        size=(graph.num_dst, graph.num_src),
    )  # fmt: skip
    ways = {
        "embedding_bag": lambda: F.embedding_bag(rows, table, offsets, mode="sum"),
        "sparse_matmul": lambda: matrix @ table,
    }
    bare = internals.row_gather(graph, table)
    return ways if bare is None else {**ways, "gattn row_gather": bare}


def _check(gathers: Mapping[str, Callable[[], Tensor]]) -> float:
    """Check that all of these functions return the same total, up to rounding errors."""
    first, *others = (way().double() for way in gathers.values())
    scale = first.abs().sum()
    apart = max(((other.sum() - first.sum()).abs() / scale).item() for other in others)
    return verify.within_rounding(apart, "two ways to gather differ")
