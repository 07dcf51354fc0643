"""The dense products of a whole step: what no attention kernel can save.

Every matrix product of our forward and backward is noted and then run alone, on the same tensors.
PyG's side multiplies the same matrices, or padded ones; the ratio of its time to that of the
products is the most that anything else could reach.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import timing
from benchmarks.contenders import Contender, Pair, Topology
from benchmarks.settings import Settings
from benchmarks.verify import CheckFailed

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "mkldnn::_linear_pointwise")


@dataclass(frozen=True)
class Products:
    """The products alone beside the whole layer, in gattn and in PyG."""

    topology: Callable[[float], Topology]
    layers: dict[str, Callable[[Topology, torch.dtype], Pair]]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        found: dict[str, Any] = {}
        for name, make in self.layers.items():
            pair = make(topology, torch.float32)
            run = {side: timing.training(contender) for side, contender in pair.items()}
            run["products"], count = _products(pair["gattn"])
            times = timing.alternate(run, settings.seconds / len(self.layers))
            alone = times["products"]["median"]
            found[name] = {
                **times,
                "count": count,
                "ratio": times["pyg"]["median"] / times["gattn"]["median"],
                "ceiling": times["pyg"]["median"] / alone,
            }
        return {
            "nodes": topology.num_nodes,
            "edges": topology.edge_index.shape[1],
            "dtype": "float32",
            "check": {"products": min(row["count"] for row in found.values())},
            "products": found,
        }


class _Noted(TorchDispatchMode):
    """Notes the matrix products that run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name().partition(".")[0] in PRODUCTS:
            self.calls.append(functools.partial(func, *args, **kwargs))
        return func(*args, **kwargs)


def _products(layer: Contender) -> tuple[Callable[[], object], int]:
    """The products of a step alone, and how many there are."""
    step = timing.training(layer)
    step()
    with _Noted() as noted:
        step()
    if not noted.calls:
        raise CheckFailed("a step without a matrix product")

    def run() -> object:
        with torch.no_grad():
            for call in noted.calls:
                call()
        return None

    return run, len(noted.calls)
