"""Speedup of the forward and backward pass of layers with several threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.core import timing, verify
from benchmarks.core.case import Settings, Topology
from benchmarks.sides.layers import Maker


@dataclass(frozen=True)
class Threads:
    """Comparison of one thread with several threads."""

    topology: Callable[[float], Topology]
    layers: Mapping[str, Maker]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        counts = {"one": 1, "all": settings.threads}
        layers, apart = {}, 0.0
        for name, make in self.layers.items():
            contender = make("gattn", topology, torch.float32)
            steps = [_on(n, lambda c=contender: verify.step(c))() for n in counts.values()]
            problem = f"{name} on one thread and on more differs"
            apart = max(apart, verify.within_rounding(verify.error(*steps), problem))
            run = timing.training(contender)
            times = timing.alternate(
                {label: _on(threads, run) for label, threads in counts.items()},
                settings.seconds / len(self.layers),
            )
            speedup = times["one"]["median"] / times["all"]["median"]
            layers[name] = {**times, "speedup": speedup}
        return {
            **topology.sizes(),
            "dtype": "float32",
            "check": {"apart": apart},
            "threads": layers,
        }


def _on(threads: int, run: Callable[[], Any]) -> Callable[[], Any]:
    def counted() -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return run()
        finally:
            torch.set_num_threads(before)

    return counted
