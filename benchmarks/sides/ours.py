"""Operators of gattn, used only by their public names."""

from __future__ import annotations

from torch import Tensor

import gattn
from benchmarks.core.case import Function, Topology
from benchmarks.sides.families import FAMILIES


def graph_of(topology: Topology) -> gattn.Graph:
    """Return the graph."""
    return gattn.Graph(topology.edge_index, topology.num_nodes)


def operator(family: str, graph: gattn.Graph, backend: str | None = None) -> Function:
    """Return a function that computes attention on a graph from projected inputs, by name."""
    entry = FAMILIES[family]
    attention, shared = getattr(gattn.functional, entry.attention), entry.shared

    def attend(**inputs: Tensor) -> Tensor:
        for name, other in shared.items():
            inputs.setdefault(name, inputs[other])
        return attention(**inputs, graph=graph, backend=backend)

    return attend
