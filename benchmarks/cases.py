"""The cases by name. Those of one peer are comparisons; the others measure one thing each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from benchmarks import (
    contenders,
    cora,
    graphs,
    growth,
    layout,
    memory,
    products,
    roof,
    threads,
    timing,
    verify,
)
from benchmarks.contenders import CHANNELS, HEADS, WIDTH, Pair, Topology
from benchmarks.settings import Settings

CHECK_SCALE = 1 / 16


class Case(Protocol):
    """Something that can be measured, and says so if its check fails."""

    def measure(self, settings: Settings) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Comparison:
    """gattn beside a peer on one graph: verified, then timed, then weighed."""

    name: str
    topology: Callable[[float], Topology]
    make: Callable[[Topology, torch.dtype], Pair]
    dtype: torch.dtype = torch.float32
    large: bool = False

    def pair(self, scale: float) -> Pair:
        """Both sides on the case's graph."""
        return self.make(self.topology(scale), self.dtype)

    def check(self, scale: float) -> dict[str, float]:
        """Raise :class:`benchmarks.verify.CheckFailed` or tell the errors found.

        Float64 on a large graph would not fit: there it is asked of a smaller one of its kind,
        and the full size must agree with the peer.
        """
        topology = self.topology(scale * CHECK_SCALE if self.large else scale)
        exact = self.make(topology, torch.float64)
        found = verify.against_float64(self.make(topology, self.dtype), exact, self.dtype)
        pair = self.pair(scale)
        if "pyg" in pair:
            found |= verify.against_peer(pair)
        verify.repeatable(pair["gattn"])
        return found

    def measure(self, settings: Settings) -> dict[str, Any]:
        """Verify, time and, on a large graph, measure the peak memory."""
        checked = self.check(settings.scale)
        topology = self.topology(settings.scale)
        pair = self.make(topology, self.dtype)
        sides = {
            "forward": {side: timing.forward(c) for side, c in pair.items()},
            "training": {side: timing.training(c) for side, c in pair.items()},
        }
        times = {
            what: timing.alternate(functions, settings.seconds / 2)
            for what, functions in sides.items()
        }
        peaks = {}
        if self.large and settings.memory:
            peaks = {side: self._peaks(side, settings) for side in pair}
        return {
            "nodes": topology.num_nodes,
            "edges": topology.edge_index.shape[1],
            "dtype": str(self.dtype).removeprefix("torch."),
            "check": checked,
            "seconds": times,
            "peak_bytes": peaks,
        }

    def _peaks(self, side: str, settings: Settings) -> dict[str, int]:
        return {
            what: memory.measure(self.name, side, what, settings.scale, settings.threads)
            for what in memory.PASSES
        }


@functools.cache
def _power_law(scale: float) -> Topology:
    return Topology(*graphs.power_law(scale))


@functools.cache
def _molecules(count: int, scale: float) -> Topology:
    edge_index, batch, num_nodes = graphs.molecules(count)
    return Topology(edge_index, num_nodes, batch)


def _layer(name: str, **options: Any) -> Callable[[Topology, torch.dtype], Pair]:
    options = options or {"in_channels": WIDTH, "out_channels": CHANNELS, "heads": HEADS}
    return functools.partial(contenders.layers, name, **options)


def _precisions(
    make: Callable[[Topology, torch.dtype], Pair], topology: Topology, dtype: torch.dtype
) -> Pair:
    """gattn in a precision beside gattn in fp32."""
    pair = {"gattn": make(topology, dtype)["gattn"]}
    if dtype == torch.bfloat16:
        pair["gattn_fp32"] = make(topology, torch.float32)["gattn"]
    return pair


LAYERS = {
    "GATConv": _layer("GATConv"),
    "GATv2Conv": _layer("GATv2Conv"),
    "TransformerConv": _layer("TransformerConv"),
}
LAYERS_WITH_EDGES = {
    f"{name}+edges": functools.partial(make, edges=True) for name, make in LAYERS.items()
}
OTHER_LAYERS = {
    "AGNNConv": _layer("AGNNConv", requires_grad=True),
    "SuperGATConv": contenders.supervised,
}
OPERATORS = {
    "additive": contenders.additive,
    "mlp": contenders.mlp,
    "mlp+edges": functools.partial(contenders.mlp, edges=True),
    "dot_product": contenders.dot_product,
    "dot_product+edges": functools.partial(contenders.dot_product, edges=True),
}
READOUTS = {
    "LearnedQueryReadout": contenders.learned_queries,
    "SetTransformerReadout": contenders.set_transformers,
}


@functools.cache
def comparisons() -> dict[str, Comparison]:
    """The cases with a peer."""
    found = []
    for name, make in {**LAYERS, **LAYERS_WITH_EDGES, **OTHER_LAYERS}.items():
        found.append(Comparison(f"power-law/{name}", _power_law, make, large=True))
    for name, make in OPERATORS.items():
        found.append(Comparison(f"power-law/operator/{name}", _power_law, make, large=True))
    small = functools.partial(_molecules, 64)
    for name, make in {**LAYERS, **LAYERS_WITH_EDGES}.items():
        narrow = functools.partial(_precisions, make)
        found += [
            Comparison(f"power-law/bf16/{name}", _power_law, narrow, torch.bfloat16, large=True),
            Comparison(f"esol-64/bf16/{name}", small, narrow, torch.bfloat16),
        ]
    for count in (64, 512):
        topology = functools.partial(_molecules, count)
        for name, make in {**LAYERS, **LAYERS_WITH_EDGES}.items():
            found.append(Comparison(f"esol-{count}/{name}", topology, make))
        for name, make in READOUTS.items():
            found.append(Comparison(f"esol-{count}/{name}", topology, make))
    return {case.name: case for case in found}


def cases() -> dict[str, Case]:
    """Every case, in the order of the report."""
    return {
        **comparisons(),
        "esol-64/products": products.Products(
            functools.partial(_molecules, 64), {**LAYERS, **LAYERS_WITH_EDGES}
        ),
        "esol-512/products": products.Products(
            functools.partial(_molecules, 512),
            {**LAYERS, "SetTransformerReadout": READOUTS["SetTransformerReadout"]},
        ),
        "cora/epoch": cora.Epoch(sparse=("gattn",)),
        "cora/epoch+sparse": cora.Epoch(sparse=("gattn", "pyg")),
        "cora/epoch+dense": cora.Epoch(sparse=()),
        "power-law/layout": layout.LayoutBuilding(_power_law),
        "power-law/roof": roof.Roof(_power_law, OPERATORS),
        "power-law/threads": threads.Threads(_power_law, LAYERS),
        "growth": growth.Growth(),
    }
