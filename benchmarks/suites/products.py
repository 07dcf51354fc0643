"""Time of the dense matrix products in a training step, which no attention kernel can reduce.

Every matrix product of gattn's forward and backward pass is recorded and then run alone, on the
same tensors. PyG multiplies the same matrices, or padded ones. The time of PyG divided by the time
of the products is therefore the largest speedup that is possible.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.core import timing, verify
from benchmarks.core.case import Contender, Settings, Topology
from benchmarks.sides.layers import Maker

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "mkldnn::_linear_pointwise")


@dataclass(frozen=True)
class Products:
    """Comparison of the matrix products alone with the whole layer, in gattn and in PyG."""

    topology: Callable[[float], Topology]
    layers: Mapping[str, Maker]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        products = {
            name: self._measure_one(make, topology, settings.seconds / len(self.layers))
            for name, make in self.layers.items()
        }
        return {
            **topology.sizes(),
            "dtype": "float32",
            "check": {"products": min(row["count"] for row in products.values())},
            "products": products,
        }

    @staticmethod
    def _measure_one(make: Maker, topology: Topology, seconds: float) -> dict[str, Any]:
        sides = {side: make(side, topology, torch.float32) for side in ("gattn", "pyg")}
        run = {side: timing.training(contender) for side, contender in sides.items()}
        run["products"], count = _products(sides["gattn"])
        times = timing.alternate(run, seconds)
        peer = times["pyg"]["median"]
        return {
            **times,
            "count": count,
            "ratio": peer / times["gattn"]["median"],
            "ceiling": peer / times["products"]["median"],
        }


class _Noted(TorchDispatchMode):
    """Dispatch mode that records the matrix products that run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name().partition(".")[0] in PRODUCTS:
            self.calls.append(functools.partial(func, *args, **kwargs))
        return func(*args, **kwargs)


def _products(layer: Contender) -> tuple[Callable[[], object], int]:
    """Return a function that runs only the matrix products of a step, and the number of these
    products.
    """
    step = timing.training(layer)
    step()
    with _Noted() as noted:
        step()
    verify.require(bool(noted.calls), "a step without a matrix product")

    def run() -> object:
        with torch.no_grad():
            for call in noted.calls:
                call()
        return None

    return run, len(noted.calls)
