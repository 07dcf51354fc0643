"""Layers, readouts and operators of gattn and of PyG with the same parameters and inputs.

Each function makes one side's contender: ``function(side, topology, dtype)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_geometric.nn as pyg_nn
from torch import Tensor, nn

import gattn
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import generator, leaf
from benchmarks.sides import ours, pyg
from benchmarks.sides.inputs import (
    CHANNELS,
    EDGE_DIM,
    HEADS,
    WIDTH,
    Shape,
    edge_attr,
    operator_inputs,
)

QUERIES = 4

Maker = Callable[[str, Topology, torch.dtype], Contender]


def operator(side: str, topology: Topology, dtype: torch.dtype, *, name: str) -> Contender:
    """Create an operator with projected inputs."""
    shape = Shape(name, dtype=dtype)
    if side == "gattn":
        function = ours.operator(shape.family, gattn.Graph(topology.edge_index, topology.num_nodes))
    else:
        function = pyg.operator(shape, topology)
    return Contender.of(function, operator_inputs(topology, shape))


def layer(
    side: str,
    topology: Topology,
    dtype: torch.dtype,
    *,
    name: str,
    edges: bool = False,
    **options: Any,
) -> Contender:
    """Create a layer on x, and on edge features if the case has them."""
    inputs = [topology.edge_index]
    if edges:
        options["edge_dim"] = EDGE_DIM
        inputs.append(edge_attr(topology, dtype))
    module = _module(side, name, name, **options).to(dtype)
    return _on_nodes(module, topology, dtype, lambda x: module(x, *inputs))


def supervised(side: str, topology: Topology, dtype: torch.dtype) -> Contender:
    """Create SuperGATConv in training, including its attention loss, with fixed negative edges."""
    count = topology.num_edges // 2
    negatives = torch.randint(topology.num_nodes, (2, count), generator=generator(3))
    name = "SuperGATConv"
    module: Any = _module(side, name, name, WIDTH, CHANNELS, heads=HEADS).to(dtype)

    def forward(x: Tensor) -> Tensor:
        out = module(x, topology.edge_index, neg_edge_index=negatives)
        return out + module.get_attention_loss()

    return _on_nodes(module, topology, dtype, forward)


def learned_queries(side: str, topology: Topology, dtype: torch.dtype) -> Contender:
    """Create LearnedQueryReadout, or SetTransformerAggregation with equal numbers of queries and
    heads.

    The two readouts compute different functions of the same shape. The result of gattn's readout is
    therefore compared with gattn's reference implementation.
    """
    if side != "gattn":
        return set_transformer("pyg", topology, dtype)
    torch.manual_seed(0)
    module = gattn.nn.LearnedQueryReadout(WIDTH, WIDTH, num_queries=QUERIES, heads=HEADS)
    return _readout(module, topology, dtype)


def set_transformer(side: str, topology: Topology, dtype: torch.dtype) -> Contender:
    """Create SetTransformerAggregation, or PyG's aggregation."""
    name = "SetTransformerAggregation"
    module = _module(side, name, name, WIDTH, num_seed_points=QUERIES, heads=HEADS)
    return _readout(module, topology, dtype)


def _module(side: str, ours: str, theirs: str, *arguments: Any, **options: Any) -> nn.Module:
    """Create the module of one side; gattn's module gets the parameters of PyG's."""
    torch.manual_seed(0)
    module = getattr(pyg_nn, theirs)(*arguments, **options)
    if side == "pyg":
        return module
    parameters = module.state_dict()
    module = getattr(gattn.nn, ours)(*arguments, **options)
    module.load_state_dict(parameters)
    return module


def _readout(module: nn.Module, topology: Topology, dtype: torch.dtype) -> Contender:
    assert topology.batch is not None
    module, size = module.to(dtype), int(topology.batch[-1]) + 1
    return _on_nodes(module, topology, dtype, lambda x: module(x, topology.batch, dim_size=size))


def _on_nodes(
    module: nn.Module, topology: Topology, dtype: torch.dtype, forward: Callable[[Tensor], Tensor]
) -> Contender:
    x = leaf(topology.num_nodes, WIDTH, seed=1, dtype=dtype)
    return Contender(lambda: forward(x), {"x": x, **dict(module.named_parameters())})
