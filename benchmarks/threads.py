"""What more threads bring: forward and backward of whole layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import timing
from benchmarks.contenders import Pair, Topology
from benchmarks.settings import Settings
from benchmarks.verify import FLOOR, CheckFailed, error, step


@dataclass(frozen=True)
class Threads:
    """One thread beside as many as asked for."""

    topology: Callable[[float], Topology]
    layers: dict[str, Callable[[Topology, torch.dtype], Pair]]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        found, apart = {}, 0.0
        for name, make in self.layers.items():
            contender = make(topology, torch.float32)["gattn"]
            counts = {"one": 1, "all": settings.threads}
            steps = [_on(threads, lambda c=contender: step(c))() for threads in counts.values()]
            apart = max(apart, error(*steps))
            if not apart <= FLOOR[torch.float32]:
                raise CheckFailed(f"{name} on one thread and on more differs by {apart:.1e}")
            run = timing.training(contender)
            times = timing.alternate(
                {label: _on(threads, run) for label, threads in counts.items()},
                settings.seconds / len(self.layers),
            )
            speedup = times["one"]["median"] / times["all"]["median"]
            found[name] = {**times, "speedup": speedup}
        return {
            "nodes": topology.num_nodes,
            "edges": topology.edge_index.shape[1],
            "dtype": "float32",
            "check": {"apart": apart},
            "threads": found,
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
