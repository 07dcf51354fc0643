"""What is put side by side: the same parameters and inputs in gattn and in PyG.

A contender is a forward function with the leaves whose gradients its backward computes. Both
sides of a case name their leaves alike, so that gradients can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor

import gattn
from benchmarks.graphs import generator

WIDTH, HEADS, CHANNELS, EDGE_DIM = 128, 8, 16, 16
QUERIES = 4


@dataclass(frozen=True)
class Topology:
    """Edges, number of nodes, and for batches the graph of each node."""

    edge_index: Tensor
    num_nodes: int
    batch: Tensor | None = None


@dataclass(frozen=True)
class Contender:
    """One side of a case."""

    forward: Callable[[], Tensor]
    leaves: dict[str, Tensor]


Pair = dict[str, Contender]


def leaf(*shape: int, dtype: torch.dtype, seed: int) -> Tensor:
    """The same normal numbers in every dtype, asking for a gradient."""
    values = torch.randn(shape, generator=generator(seed))
    return values.to(dtype).requires_grad_()


def layers(
    name: str, topology: Topology, dtype: torch.dtype, *, edges: bool = False, **options: Any
) -> Pair:
    """A PyG layer and gattn's layer of the same name with the same parameters."""
    shape = {"edge_dim": EDGE_DIM} if edges else {}
    torch.manual_seed(0)
    theirs = getattr(pyg, name)(**options, **shape).to(dtype)
    ours = getattr(gattn.nn, name)(**options, **shape).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    inputs = [topology.edge_index]
    if edges:
        inputs.append(_edge_attr(topology, dtype))
    return {
        "gattn": _layer(ours, topology.num_nodes, inputs, dtype),
        "pyg": _layer(theirs, topology.num_nodes, inputs, dtype),
    }


def _layer(
    layer: torch.nn.Module, num_nodes: int, inputs: list[Tensor], dtype: torch.dtype
) -> Contender:
    x = leaf(num_nodes, WIDTH, dtype=dtype, seed=1)
    return Contender(lambda: layer(x, *inputs), {"x": x, **dict(layer.named_parameters())})


def _edge_attr(topology: Topology, dtype: torch.dtype) -> Tensor:
    count = topology.edge_index.shape[1]
    return torch.randn(count, EDGE_DIM, generator=generator(2)).to(dtype)


def supervised(topology: Topology, dtype: torch.dtype) -> Pair:
    """SuperGATConv in training, its attention loss included, on given negative edges."""
    nodes = topology.num_nodes
    count = topology.edge_index.shape[1] // 2
    negatives = torch.randint(nodes, (2, count), generator=generator(3))
    pair = {}
    torch.manual_seed(0)
    theirs = pyg.SuperGATConv(WIDTH, CHANNELS, heads=HEADS).to(dtype)
    ours = gattn.nn.SuperGATConv(WIDTH, CHANNELS, heads=HEADS).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    for side, layer in {"gattn": ours, "pyg": theirs}.items():
        x = leaf(nodes, WIDTH, dtype=dtype, seed=1)

        def forward(layer: Any = layer, x: Tensor = x) -> Tensor:
            out = layer(x, topology.edge_index, neg_edge_index=negatives)
            return out + layer.get_attention_loss()

        pair[side] = Contender(forward, {"x": x, **dict(layer.named_parameters())})
    return pair


def additive(topology: Topology, dtype: torch.dtype) -> Pair:
    """The operator of GATConv, given projected inputs."""
    edge_index, nodes = topology.edge_index, topology.num_nodes
    graph = gattn.Graph(edge_index, nodes)
    layer = pyg.GATConv(1, CHANNELS, heads=HEADS, bias=False)

    def ours(query_score: Tensor, key_score: Tensor, value: Tensor) -> Tensor:
        return gattn.functional.additive_attention(query_score, key_score, value, graph)

    def theirs(query_score: Tensor, key_score: Tensor, value: Tensor) -> Tensor:
        alpha = layer.edge_updater(
            edge_index, alpha=(key_score, query_score), edge_attr=None, size=None
        )
        return layer.propagate(edge_index, x=(value, value), alpha=alpha, size=None)

    shapes = {
        "query_score": (nodes, HEADS),
        "key_score": (nodes, HEADS),
        "value": (nodes, HEADS, CHANNELS),
    }
    return _operators(ours, theirs, shapes, dtype)


def mlp(topology: Topology, dtype: torch.dtype, *, edges: bool = False) -> Pair:
    """The operator of GATv2Conv, given projected inputs; the key is also the value."""
    edge_index, nodes = topology.edge_index, topology.num_nodes
    graph = gattn.Graph(edge_index, nodes)
    shape = {"edge_dim": EDGE_DIM} if edges else {}
    layer = pyg.GATv2Conv(1, CHANNELS, heads=HEADS, bias=False, **shape).to(dtype)
    attr = _edge_attr(topology, dtype) if edges else None

    def ours(query: Tensor, key: Tensor, weight: Tensor, proj: Tensor | None = None) -> Tensor:
        return gattn.functional.mlp_attention(
            query, key, key, weight, graph, edge_attr=attr, edge_proj=proj
        )

    def theirs(query: Tensor, key: Tensor, weight: Tensor, proj: Tensor | None = None) -> Tensor:
        _give(layer, att=weight.unsqueeze(0), proj=proj)
        alpha = layer.edge_updater(edge_index, x=(key, query), edge_attr=attr)
        return layer.propagate(edge_index, x=(key, query), alpha=alpha)

    shapes = {
        "query": (nodes, HEADS, CHANNELS),
        "key": (nodes, HEADS, CHANNELS),
        "weight": (HEADS, CHANNELS),
        **_projection(edges),
    }
    return _operators(ours, theirs, shapes, dtype)


def dot_product(topology: Topology, dtype: torch.dtype, *, edges: bool = False) -> Pair:
    """The operator of TransformerConv, given projected inputs."""
    edge_index, nodes = topology.edge_index, topology.num_nodes
    graph = gattn.Graph(edge_index, nodes)
    shape = {"edge_dim": EDGE_DIM} if edges else {}
    layer = pyg.TransformerConv(1, CHANNELS, heads=HEADS, bias=False, **shape).to(dtype)
    attr = _edge_attr(topology, dtype) if edges else None

    def ours(query: Tensor, key: Tensor, value: Tensor, proj: Tensor | None = None) -> Tensor:
        return gattn.functional.dot_product_attention(
            query, key, value, graph, edge_attr=attr, edge_proj=proj
        )

    def theirs(query: Tensor, key: Tensor, value: Tensor, proj: Tensor | None = None) -> Tensor:
        _give(layer, proj=proj)
        return layer.propagate(edge_index, query=query, key=key, value=value, edge_attr=attr)

    names = ("query", "key", "value")
    shapes = dict.fromkeys(names, (nodes, HEADS, CHANNELS))
    return _operators(ours, theirs, {**shapes, **_projection(edges)}, dtype)


def _projection(edges: bool) -> dict[str, tuple[int, ...]]:
    return {"proj": (HEADS, CHANNELS, EDGE_DIM)} if edges else {}


def _give(layer: Any, *, att: Tensor | None = None, proj: Tensor | None = None) -> None:
    """Put plain tensors where a PyG layer keeps its parameters."""
    if att is not None:
        layer._parameters["att"] = att
    if proj is not None:
        layer.lin_edge._parameters["weight"] = proj.flatten(0, 1)


def _operators(
    ours: Callable[..., Tensor],
    theirs: Callable[..., Tensor],
    shapes: dict[str, tuple[int, ...]],
    dtype: torch.dtype,
) -> Pair:
    pair = {}
    for side, function in {"gattn": ours, "pyg": theirs}.items():
        leaves = {
            name: leaf(*shape, dtype=dtype, seed=seed)
            for seed, (name, shape) in enumerate(shapes.items())
        }

        def forward(
            function: Callable[..., Tensor] = function, leaves: dict[str, Tensor] = leaves
        ) -> Tensor:
            return function(*leaves.values()).flatten(1)

        pair[side] = Contender(forward, leaves)
    return pair


def learned_queries(topology: Topology, dtype: torch.dtype) -> Pair:
    """LearnedQueryReadout and SetTransformerAggregation with as many queries and heads.

    They are different functions of the same shape: gattn's is verified against its reference.
    """
    torch.manual_seed(0)
    ours = gattn.nn.LearnedQueryReadout(WIDTH, WIDTH, num_queries=QUERIES, heads=HEADS)
    theirs = pyg.SetTransformerAggregation(WIDTH, num_seed_points=QUERIES, heads=HEADS)
    return _readouts({"gattn": ours, "set_transformer": theirs}, topology, dtype)


def set_transformers(topology: Topology, dtype: torch.dtype) -> Pair:
    """SetTransformerReadout and PyG's, with the same parameters."""
    torch.manual_seed(0)
    theirs = pyg.SetTransformerAggregation(WIDTH, num_seed_points=QUERIES, heads=HEADS)
    ours = gattn.nn.SetTransformerReadout(WIDTH, num_seed_points=QUERIES, heads=HEADS)
    ours.load_state_dict(theirs.state_dict())
    return _readouts({"gattn": ours, "pyg": theirs}, topology, dtype)


def _readouts(modules: dict[str, torch.nn.Module], topology: Topology, dtype: torch.dtype) -> Pair:
    assert topology.batch is not None
    size = int(topology.batch[-1]) + 1
    pair = {}
    for side, module in modules.items():
        module = module.to(dtype)
        x = leaf(topology.num_nodes, WIDTH, dtype=dtype, seed=1)

        def forward(module: Any = module, x: Tensor = x) -> Tensor:
            return module(x, topology.batch, dim_size=size)

        pair[side] = Contender(forward, {"x": x, **dict(module.named_parameters())})
    return pair


def gather(topology: Topology, width: int) -> dict[str, Callable[[], Tensor]]:
    """Ways to read and sum the source rows of all edges: what attention cannot beat.

    Each reads one row of ``width`` fp32 numbers per edge, in the graph's own order. torch's write
    one row per node; gattn's own bare loop adds all rows up.
    """
    graph = gattn.Graph(topology.edge_index, topology.num_nodes)
    layout = graph.layout
    table = leaf(topology.num_nodes, width, dtype=torch.float32, seed=1).detach()
    offsets, rows = layout.rowptr[:-1].contiguous(), layout.col
    matrix = torch.sparse_csr_tensor(
        layout.rowptr, layout.col, torch.ones(graph.num_edges), check_invariants=False,
        size=(graph.num_dst, graph.num_src),
    )  # fmt: skip
    ways = {
        "embedding_bag": lambda: F.embedding_bag(rows, table, offsets, mode="sum"),
        "sparse_matmul": lambda: matrix @ table,
    }
    kernel = getattr(gattn.kernels.cpu, "row_gather", None)
    if kernel is not None and gattn.kernels.cpu.serves(table.device):
        ways["gattn row_gather"] = lambda: torch.tensor(kernel(table, list(layout)))
    return ways
