"""Compare torch's dense attention with the edge kernels to find the rule for dense blocks.

Both kinds of attention are timed on complete, bipartite and causal graphs, with blocks of equal and
of different sizes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

import gattn
from benchmarks.core import timing
from benchmarks.core.case import Contender, Function
from benchmarks.core.record import Record
from benchmarks.core.seeds import leaf
from benchmarks.sides import internals
from benchmarks.sides.inputs import Shape

SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
SHAPES = ((8, 16), (4, 64))
TOKENS = 2048
ASPECTS = {"complete": 1, "few queries": 4, "fewer queries": 16, "few keys": 1 / 4,
           "fewer keys": 1 / 16, "causal": 1}  # fmt: skip
"""Kinds of blocks: the square root of the number of keys per query."""
EVERY = {"complete": 1, "causal": 1}


def graph_of(kind: str, mean: int, ragged: bool, device: str) -> gattn.Graph:
    """Create blocks of about mean x mean pairs, with equal sizes or with sizes that differ by a
    factor of three.
    """
    count = max(TOKENS // mean, 1)
    size = torch.full((count,), float(mean))
    if ragged:
        size = torch.linspace(mean / 2, 3 * mean / 2, count)
        size = size[torch.randperm(count, generator=torch.Generator().manual_seed(0))]
    queries, keys = (
        (size * aspect).round().long().clamp(min=1).tolist()
        for aspect in (1 / ASPECTS[kind], ASPECTS[kind])
    )
    if kind == "causal":
        return gattn.graphs.causal(queries, device=device)
    return gattn.graphs.bipartite(queries, keys, device=device)


def run(sizes: Sequence[int], device: str, seconds: float) -> Iterator[Record]:
    """Measure every kind of graph, with one size and with different sizes, for every width and
    mean size.
    """
    for kind, ragged, (heads, channels), mean in itertools.product(
        ASPECTS, (False, True), SHAPES, sizes
    ):
        graph = graph_of(kind, mean, ragged, device)
        times = compare(graph, Shape("dot_product", heads, channels), seconds)
        yield {
            "kind": kind, "ragged": ragged, "mean": mean, "heads": heads, "channels": channels,
            **times,
        }  # fmt: skip


def compare(graph: gattn.Graph, shape: Shape, seconds: float) -> Record:
    """Measure both kinds of attention on one graph: forward, and forward with backward."""
    assert graph.blocks is not None
    device = graph.device
    plan = internals.dense_plan(graph.blocks, EVERY)
    on_edges = functools.partial(
        gattn.functional.dot_product_attention,
        backend={"cpu": "cpu", "cuda": "triton"}[device.type],
    )

    def dense(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scale = shape.channels**-0.5
        return internals.attend_densely(query, key, value, graph, scale, plan, on_edges)

    sizes = {"query": graph.num_dst, "key": graph.num_src, "value": graph.num_src}
    inputs = {
        name: leaf(rows, shape.heads, shape.channels, seed=seed, dtype=shape.dtype, device=device)
        for seed, (name, rows) in enumerate(sizes.items())
    }
    functions: dict[str, Function] = {
        "edges": functools.partial(on_edges, graph=graph),
        "dense": dense,
    }
    ways = {name: Contender.of(function, inputs) for name, function in functions.items()}
    results = [timing.forward(way)() for way in ways.values()]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    clock = timing.clock(device)
    times = {
        what: timing.alternate({way: prepare(c) for way, c in ways.items()}, seconds, clock)
        for what, prepare in {"forward": timing.forward, "both": timing.training}.items()
    }
    chosen = internals.dense_plan(graph.blocks)
    return {
        "blocks": len(graph.blocks.query_sizes), "edges": graph.num_edges,
        "seconds": {
            what: {way: spread["median"] for way, spread in spreads.items()}
            for what, spreads in times.items()
        },
        "chosen": "edges" if not chosen.groups else "both" if chosen.small else "dense",
    }  # fmt: skip


HEAD = (
    "graph", "mean size", "blocks", "h x c", "dense faster, forward", "with backward", "chosen"
)  # fmt: skip


def cells(row: Record) -> list[str]:
    """Return a row of the table: the ratios of the times of edge and dense attention."""
    gains = [f"{times['edges'] / times['dense']:.2f}" for times in row["seconds"].values()]
    return [
        f"{row['kind']}{', ragged' if row['ragged'] else ''}", str(row["mean"]),
        str(row["blocks"]), f"{row['heads']} x {row['channels']}", *gains, row["chosen"],
    ]  # fmt: skip
