"""The roof: a bare gather and sum of as many rows as the operators read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import contenders, timing
from benchmarks.contenders import CHANNELS, HEADS, Pair, Topology
from benchmarks.settings import Settings
from benchmarks.verify import FLOOR, CheckFailed

ROWS_PER_EDGE = {"additive": 1, "mlp": 1, "dot_product": 2}


@dataclass(frozen=True)
class Roof:
    """What share of the gather's speed the operators' forward reaches."""

    topology: Callable[[float], Topology]
    operators: dict[str, Callable[[Topology, torch.dtype], Pair]]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        width, edges = HEADS * CHANNELS, topology.edge_index.shape[1]
        gathers = contenders.gather(topology, width)
        apart = _check(gathers)
        kernels = {
            name: timing.forward(self.operators[name](topology, torch.float32)["gattn"])
            for name in ROWS_PER_EDGE
        }
        times = timing.alternate({**gathers, **kernels}, settings.seconds)
        best = min(gathers, key=lambda name: times[name]["median"])
        once = times[best]["median"]
        return {
            "nodes": topology.num_nodes,
            "edges": edges,
            "dtype": "float32",
            "check": {"apart": apart},
            "seconds": {"forward": times},
            "fastest_gather": best,
            "gather_bytes_per_second": edges * width * 4 / once,
            "share_of_roof": {
                name: rows * once / times[name]["median"] for name, rows in ROWS_PER_EDGE.items()
            },
        }


def _check(gathers: dict[str, Callable[[], torch.Tensor]]) -> float:
    """Every way must give the same total, within the rounding of so many additions."""
    first, *others = (way().double() for way in gathers.values())
    scale = first.abs().sum()
    apart = max(((other.sum() - first.sum()).abs() / scale).item() for other in others)
    if not apart <= FLOOR[torch.float32]:
        raise CheckFailed(f"two ways to gather differ by {apart:.1e}")
    return apart
