"""Cost of edge weights and biases in a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.core import timing, verify
from benchmarks.core.case import Settings, Topology
from benchmarks.sides import terms
from benchmarks.suites.comparison import CHECK_SCALE


@dataclass(frozen=True)
class Terms:
    """Layer with each kind of edge term, compared with the layer without edge terms, in alternating
    runs.

    The terms are in the caller's order of edges, which on this graph is random. For comparison, the
    time in which torch gathers the [e, h] numbers into the order of the layout is also measured.
    """

    name: str
    topology: Callable[[float], Topology]
    layer: str

    def measure(self, settings: Settings) -> dict[str, Any]:
        """Check each variant in float64, and then time forward and backward."""
        small = self.topology(settings.scale * CHECK_SCALE)
        errors = [self._check(side, small) for side in terms.SIDES]
        topology = self.topology(settings.scale)
        runs: dict[str, timing.Run] = {
            side: timing.training(terms.layer(side, topology, torch.float32, name=self.layer))
            for side in terms.SIDES
        }
        order = torch.randperm(topology.num_edges)
        term = torch.randn(topology.num_edges, terms.HEADS)
        runs["a gather of [e, h]"] = lambda: term[order]
        return {
            **topology.sizes(),
            "dtype": "float32",
            "check": {"error": max(errors)},
            "seconds": {"training": timing.alternate(runs, settings.seconds)},
        }

    def _check(self, side: str, topology: Topology) -> float:
        ours, exact = (
            terms.layer(side, topology, dtype, name=self.layer)
            for dtype in (torch.float32, torch.float64)
        )
        verify.repeatable(ours)
        check = verify.against_float64({"gattn": ours}, {"gattn": exact}, torch.float32)
        return check["error"]
