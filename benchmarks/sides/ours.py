"""gattn's operators, by its public names alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import gattn
from benchmarks.core.case import Function, Topology


def graph_of(topology: Topology) -> gattn.Graph:
    """The graph with all that is known of it: that it is a batch, if it is one."""
    if topology.batch is None:
        return gattn.Graph(topology.edge_index, topology.num_nodes)
    ptr = torch.nn.functional.pad(torch.bincount(topology.batch).cumsum(0), (1, 0))
    return gattn.graphs.batched(topology.edge_index, ptr)


def operator(family: str, graph: gattn.Graph, impl: str | None = None) -> Function:
    """An attention on a graph, as a function of its projected inputs by name."""
    functional = gattn.functional
    if family == "additive":
        return lambda query_score, key_score, value: functional.additive_attention(
            query_score, key_score, value, graph, impl=impl
        )
    if family == "mlp":

        def mlp(
            query: Tensor, key: Tensor, weight: Tensor, value: Tensor | None = None, **edges: Any
        ) -> Tensor:
            value = key if value is None else value
            return functional.mlp_attention(query, key, value, weight, graph, **edges, impl=impl)

        return mlp

    def dot_product(query: Tensor, key: Tensor, value: Tensor, **edges: Any) -> Tensor:
        return functional.dot_product_attention(query, key, value, graph, **edges, impl=impl)

    return dot_product
