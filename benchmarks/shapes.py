"""Comparison of every layer with PyG's layer on graphs of many shapes.

    python -m benchmarks.shapes

measures the forward pass and a training step of both layers in turns, in one thread, and prints
the ratio of the processor time of PyG to that of gattn. A ratio whose upper quartile is below 1 is
marked: gattn is slower there.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch_geometric.nn as pyg
from torch import Tensor

import gattn
from benchmarks.core import timing
from benchmarks.core.case import Contender
from benchmarks.core.seeds import generator

EDGE_DIM, TYPES = 4, 3


PROCESSOR = timing.CpuClock(time.process_time)
"""Clock of the processor time of this process, which other processes that run at the same time
change less than wall time.
"""


class Shape(NamedTuple):
    """Sizes of a graph and of a layer."""

    nodes: int
    edges: int
    features: int = 64
    heads: int = 4
    channels: int = 16
    relations: int = 8
    destinations: int | None = None
    """Number of nodes with incoming edges; None for all nodes."""


SHAPES = {
    "tiny": Shape(20, 60, 16, 1, 8, 2),
    "batch": Shape(1_500, 3_300, 32, 4, 8, 4),
    "sparse": Shape(30_000, 60_000, relations=4),
    "dense": Shape(300, 40_000),
    "narrow": Shape(5_000, 50_000, 4, 1, 2),
    "wide": Shape(500, 2_000, 512, 8, 64, 4),
    "one head": Shape(2_000, 20_000, 128, 1, 128),
    "many heads": Shape(2_000, 20_000, 64, 32, 4),
    "hub": Shape(100_000, 100_000, 16, 4, 8, 4, destinations=1),
    "few destinations": Shape(20_000, 100_000, 32, 4, 8, 4, destinations=20),
    "200 relations": Shape(500, 2_000, relations=200),
    "1000 relations": Shape(200, 400, relations=1_000),
    "many pairs": Shape(30_000, 60_000, relations=200),
    "few nodes": Shape(50, 20_000, 32, 2, 16, 100),
}


class Inputs(NamedTuple):
    """Inputs of the layers on a graph."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    relation: Tensor
    node_type: Tensor
    pos: Tensor


def inputs(shape: Shape) -> Inputs:
    """Return random inputs of a shape."""
    random = generator(0)
    n, e = shape.nodes, shape.edges
    targets = torch.randint(shape.destinations or n, (e,), generator=random)
    return Inputs(
        torch.randn(n, shape.features, generator=random, requires_grad=True),
        torch.stack([torch.randint(n, (e,), generator=random), targets]),
        torch.randn(e, EDGE_DIM, generator=random),
        torch.randint(shape.relations, (e,), generator=random),
        torch.randint(TYPES, (n,), generator=random),
        torch.randn(n, 3, generator=random),
    )


Build = Callable[[Any, Shape], torch.nn.Module]
Call = Callable[[torch.nn.Module, Inputs], Tensor]


def heads(name: str, **options: Any) -> Build:
    """Return a function that makes the layer of a package with the sizes of a shape."""
    return lambda package, s: getattr(package, name)(
        s.features, s.channels, heads=s.heads, **options
    )


def plain(module: Any, data: Inputs) -> Tensor:
    """Call a layer on nodes and edges."""
    return module(data.x, data.edge_index)


def with_edges(module: Any, data: Inputs) -> Tensor:
    """Call a layer on nodes, edges and features of edges."""
    return module(data.x, data.edge_index, edge_attr=data.edge_attr)


def with_relations(module: Any, data: Inputs) -> Tensor:
    """Call a layer on nodes and edges of several relations."""
    return module(data.x, data.edge_index, data.relation)


def rgat(**options: Any) -> tuple[Build, Call]:
    """Return the functions that make and call RGATConv."""

    def build(package: Any, s: Shape) -> torch.nn.Module:
        return package.RGATConv(s.features, s.channels, s.relations, heads=s.heads, **options)

    return build, with_relations


def heat(package: Any, s: Shape) -> torch.nn.Module:
    """Make HEATConv, with edge types of four dimensions."""
    return package.HEATConv(
        s.features, s.channels, TYPES, s.relations, 4, EDGE_DIM, 8, heads=s.heads
    )


def on_types(module: Any, data: Inputs) -> Tensor:
    """Call HEATConv."""
    return module(data.x, data.edge_index, data.node_type, data.relation, data.edge_attr)


def hetero(name: str) -> tuple[Build, Call]:
    """Return the functions that make and call a layer for one type of nodes and as many types of
    edges as there are relations, at most 20.
    """

    def metadata(relations: int) -> tuple[list[str], list[tuple[str, str, str]]]:
        return ["v"], [("v", f"r{r}", "v") for r in range(min(relations, 20))]

    def build(package: Any, s: Shape) -> torch.nn.Module:
        width = s.heads * s.channels
        return getattr(package, name)(s.features, width, metadata(s.relations), heads=s.heads)

    edges: dict[int, tuple[Tensor, Any]] = {}

    def call(module: Any, data: Inputs) -> Tensor:
        key = id(data.edge_index)
        if key not in edges:
            kinds = metadata(int(data.relation.max()) + 1)[1]
            of = [data.edge_index[:, data.relation % len(kinds) == r] for r in range(len(kinds))]
            # With the tensor, whose number another tensor could have after its end.
            edges[key] = data.edge_index, dict(zip(kinds, of))
        return module({"v": data.x}, edges[key][1])["v"]

    return build, call


def network(width: int, hidden: int) -> torch.nn.Module:
    """Return a network with two linear layers."""
    first, last = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, hidden)
    return torch.nn.Sequential(first, torch.nn.ReLU(), last)


def point(with_networks: bool) -> tuple[Build, Call]:
    """Return the functions that make and call PointTransformerConv."""

    def build(package: Any, s: Shape) -> torch.nn.Module:
        width = s.heads * s.channels
        networks = (network(3, width), network(width, width)) if with_networks else (None, None)
        return package.PointTransformerConv(s.features, width, *networks)

    return build, lambda module, data: module(data.x, data.pos, data.edge_index)


def pooling(package: Any, s: Shape) -> torch.nn.Module:
    """Make SAGPooling with the package's GATConv."""
    return pyg.SAGPooling(s.features, GNN=package.GATConv)


LAYERS: dict[str, tuple[Build, Call]] = {
    "AGNNConv": (lambda package, s: package.AGNNConv(), plain),
    "FAConv": (
        lambda package, s: package.FAConv(s.features),
        lambda module, data: module(data.x, data.x, data.edge_index),
    ),
    "GATConv": (heads("GATConv"), plain),
    "GATConv, edges": (heads("GATConv", edge_dim=EDGE_DIM), with_edges),
    "GATv2Conv": (heads("GATv2Conv"), plain),
    "GATv2Conv, edges": (heads("GATv2Conv", edge_dim=EDGE_DIM), with_edges),
    "TransformerConv": (heads("TransformerConv"), plain),
    "TransformerConv, edges": (heads("TransformerConv", edge_dim=EDGE_DIM), with_edges),
    "GeneralConv": (heads("GeneralConv", attention=True), plain),
    "SuperGATConv": (heads("SuperGATConv"), plain),
    "ResGatedGraphConv": (
        lambda package, s: package.ResGatedGraphConv(s.features, s.heads * s.channels), plain
    ),
    "HEATConv": (heat, on_types),
    "HGTConv": hetero("HGTConv"),
    "HANConv": hetero("HANConv"),
    "RGATConv": rgat(),
    "RGATConv, bases": rgat(num_bases=2),
    "RGATConv, blocks": rgat(num_blocks=2),
    "RGATConv, within": rgat(attention_mechanism="within-relation"),
    "RGATConv, multiplicative": rgat(attention_mode="multiplicative-self-attention"),
    "PointTransformerConv": point(False),
    "PointTransformerConv, networks": point(True),
    # The scores of the chosen nodes: nodes of almost equal scores may be chosen in another order.
    "SAGPooling": (pooling, lambda module, data: module(data.x, data.edge_index)[5]),
}  # fmt: skip


def compare(name: str, shape: Shape, seconds: float) -> dict[str, timing.Spread]:
    """Check that both layers compute the same, and return the spread of PyG's time divided by
    gattn's, for the forward pass and for training.
    """
    build, call = LAYERS[name]
    data = inputs(shape)
    sides = {}
    parameters: dict[str, Tensor] = {}
    for side, package in (("pyg", pyg), ("gattn", gattn.nn)):
        torch.manual_seed(0)
        module = build(package, shape)
        parameters = parameters or module.state_dict()
        module.load_state_dict(parameters)
        leaves = {"x": data.x, **dict(module.named_parameters())}
        sides[side] = Contender(partial(call, module, data), leaves)
    torch.testing.assert_close(
        sides["gattn"].forward(), sides["pyg"].forward(), rtol=1e-3, atol=1e-3
    )
    ratios = {}
    for step, of in timing.PASSES.items():
        runs = {side: of(contender) for side, contender in sides.items()}
        calls = {side: timing.calls_a_turn(run, PROCESSOR) for side, run in runs.items()}
        samplers = {
            side: partial(timing.sample, run, calls[side], PROCESSOR) for side, run in runs.items()
        }
        samples = timing.take_turns(samplers, seconds)
        pairs = zip(samples["pyg"], samples["gattn"])
        ratios[step] = timing.summary([theirs / ours for theirs, ours in pairs])
        ratios[step]["ms"] = 1000 * timing.summary(samples["gattn"])["median"]
    return ratios


def main(arguments: list[str]) -> None:
    """Compare the layers whose names match a pattern on every shape."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="*", help="pattern of names of layers")
    parser.add_argument("--shapes", default="*", help="pattern of names of shapes")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each comparison")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in fnmatch.filter(LAYERS, options.pattern):
        for key in fnmatch.filter(SHAPES, options.shapes):
            for step, ratio in compare(name, SHAPES[key], options.seconds).items():
                mark = "  slower" if ratio["high"] < 1 else ""
                spread = f"{ratio['median']:.2f} ({ratio['low']:.2f}, {ratio['high']:.2f})"
                print(f"{name}, {key}, {step}: {spread} {ratio['ms']:.2f} ms{mark}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
