"""Operators of gattn, used only by their public names."""

from __future__ import annotations

import torch
from torch import Tensor

import gattn
from benchmarks.core.case import Function, Topology
from benchmarks.sides.families import FAMILIES


def graph_of(topology: Topology) -> gattn.Graph:
    """Return the graph; if it is a batch, it contains the node offsets of the small graphs."""
    if topology.batch is None:
        return gattn.Graph(topology.edge_index, topology.num_nodes)
    ptr = torch.nn.functional.pad(torch.bincount(topology.batch).cumsum(0), (1, 0))
    return gattn.graphs.from_batch(topology.edge_index, ptr)


def operator(family: str, graph: gattn.Graph, backend: str | None = None) -> Function:
    """Return a function that computes attention on a graph from projected inputs, by name."""
    entry = FAMILIES[family]
    attention, shared = getattr(gattn.functional, entry.attention), entry.shared

    def attend(**inputs: Tensor) -> Tensor:
        for name, other in shared.items():
            inputs.setdefault(name, inputs[other])
        return attention(**inputs, graph=graph, backend=backend)

    return attend
