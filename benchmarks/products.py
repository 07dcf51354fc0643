"""The dense products of whole layers: what no attention kernel can save.

Forward and backward of a layer multiply the node features thrice with each of its maps: the output
and the gradients of the features and of the map. PyG's layer and ours call torch for the same
products; the ratio of their times to these is the most that anything else could reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks import timing
from benchmarks.contenders import Contender, Pair, Topology
from benchmarks.settings import Settings
from benchmarks.verify import CheckFailed


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
            run["products"] = _products(pair["pyg"])
            times = timing.alternate(run, settings.seconds / len(self.layers))
            alone = times["products"]["median"]
            found[name] = {
                **times,
                "ratio": times["pyg"]["median"] / times["gattn"]["median"],
                "ceiling": times["pyg"]["median"] / alone,
            }
        return {
            "nodes": topology.num_nodes,
            "edges": topology.edge_index.shape[1],
            "dtype": "float32",
            "check": {"maps": min(len(_maps(make(topology, torch.float32)["pyg"]))
                                  for make in self.layers.values())},
            "products": found,
        }  # fmt: skip


def _maps(layer: Contender) -> list[Tensor]:
    """The weights that multiply the node features."""
    width = layer.leaves["x"].shape[1]
    found = [
        t.detach()
        for name, t in layer.leaves.items()
        if name != "x" and t.dim() == 2 and t.shape[1] == width
    ]
    if not found:
        raise CheckFailed("a layer without a map of the node features")
    return found


def _products(layer: Contender) -> Callable[[], object]:
    x, maps = layer.leaves["x"].detach(), _maps(layer)
    grads = [x.new_ones(x.shape[0], weight.shape[0]) for weight in maps]

    def run() -> object:
        for weight, grad in zip(maps, grads, strict=True):
            x @ weight.t(), grad @ weight, grad.t() @ x
        return None

    return run
