"""Time for sorting a graph into a layout, compared with torch's stable sorts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import gattn
from benchmarks.core import timing, verify
from benchmarks.core.case import Settings, Topology
from benchmarks.sides import internals
from benchmarks.suites.alone import Alone


@dataclass(frozen=True)
class LayoutBuilding:
    """Time of computing the layout, once for each edge_index."""

    name: str
    topology: Callable[[float], Topology]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        edge_index, nodes = topology.edge_index, topology.num_nodes
        graph = gattn.Graph(edge_index, nodes)
        want = internals.sorted_layout(edge_index, nodes)
        for name, tensor in want.items():
            same = torch.equal(getattr(graph.layout, name), tensor)
            verify.require(same, f"{name} is not the reference's")
        runs = self.alone(topology).runs
        functions = {
            "gattn": runs["layout"],
            "with_self_loops": runs["with_self_loops"],
            "torch_sort": lambda: internals.sorted_layout(edge_index, nodes),
        }
        return {
            **topology.sizes(),
            "check": {"error": 0.0},
            "seconds": {"layout": timing.alternate(functions, settings.seconds)},
        }

    def inputs(self, scale: float) -> Topology:
        """Return the graph of the case."""
        return self.topology(scale)

    def alone(self, inputs: Topology) -> Alone:
        """Return gattn's side of the case."""

        def lay_out() -> gattn.Graph:
            return gattn.Graph(inputs.edge_index, inputs.num_nodes)

        graph = lay_out()

        def outcome() -> verify.Outcome:
            out = graph.with_self_loops().transpose()
            return {"out": out.edge_index.double(), "in_degree": out.in_degree().double()}

        return Alone(outcome, {"layout": lay_out, "with_self_loops": graph.with_self_loops})
