"""Laying out a graph, beside the stable sorts of torch that specify it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import gattn
from benchmarks import timing
from benchmarks.contenders import Topology
from benchmarks.settings import Settings
from benchmarks.verify import CheckFailed
from gattn.kernels import layout as reference


@dataclass(frozen=True)
class LayoutBuilding:
    """What a layer pays once for each edge_index."""

    topology: Callable[[float], Topology]

    def measure(self, settings: Settings) -> dict[str, Any]:
        topology = self.topology(settings.scale)
        edge_index, nodes = topology.edge_index, topology.num_nodes
        graph = gattn.Graph(edge_index, nodes)
        want = reference.build(edge_index[0], edge_index[1], nodes, nodes)
        for name, tensor in zip(want._fields, want):
            if not torch.equal(getattr(graph.layout, name), tensor):
                raise CheckFailed(f"{name} is not the reference's")
        functions = {
            "gattn": lambda: gattn.Graph(edge_index, nodes),
            "with_self_loops": graph.with_self_loops,
            "torch_sort": lambda: reference.build(edge_index[0], edge_index[1], nodes, nodes),
        }
        return {
            "nodes": nodes,
            "edges": graph.num_edges,
            "check": {"error": 0.0},
            "seconds": {"layout": timing.alternate(functions, settings.seconds)},
        }
