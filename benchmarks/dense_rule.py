"""Where torch's dense attention beats the operator on edges: the rule of gattn/ops/dense.py.

``python -m benchmarks.dense_rule`` times both on complete, bipartite and causal graphs, in blocks
of one size and of many, and prints a table and a JSON line.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gattn
from benchmarks import record, timing
from gattn.ops import dense

SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
SHAPES = ((8, 16), (4, 64))
TOKENS = 2048
ASPECTS = {"complete": 1, "few queries": 4, "fewer queries": 16, "few keys": 1 / 4,
           "fewer keys": 1 / 16, "causal": 1}  # fmt: skip
"""Kinds of blocks: the square root of how many keys there are per query."""
EVERY = {"complete": 1, "causal": 1}


def graph_of(kind: str, mean: int, ragged: bool, device: str) -> gattn.Graph:
    """Blocks of about mean x mean pairs, all alike or from half that size to one and a half."""
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


def compare(
    kind: str, mean: int, ragged: bool, heads: int, channels: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Time of both, forward and forward with backward, on one graph."""
    graph = graph_of(kind, mean, ragged, options.device)
    assert graph.blocks is not None
    plan = dense.cut(graph.blocks, EVERY, 1)
    on_edges = functools.partial(
        gattn.functional.dot_product_attention,
        impl={"cpu": "cpu", "cuda": "triton"}[options.device],
    )
    inputs = [
        torch.randn(rows, heads, channels, device=options.device).requires_grad_()
        for rows in (graph.num_dst, graph.num_src, graph.num_src)
    ]
    ways: dict[str, Callable[..., torch.Tensor]] = {
        "edges": lambda q, k, v: on_edges(q, k, v, graph),
        "dense": lambda q, k, v: dense.attend(q, k, v, graph, channels**-0.5, plan, on_edges),
    }
    with torch.no_grad():
        results = [way(*inputs) for way in ways.values()]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)

    def forward(way: Callable[..., torch.Tensor]) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                way(*inputs)
            _finish(options.device)

        return run

    def both(way: Callable[..., torch.Tensor]) -> Callable[[], object]:
        def run() -> None:
            way(*inputs).backward(results[0])
            _finish(options.device)

        return run

    seconds = {}
    for name, make in {"forward": forward, "both": both}.items():
        turns = {way: make(function) for way, function in ways.items()}
        times = timing.alternate(turns, options.seconds)
        seconds[name] = {way: time["median"] for way, time in times.items()}
    chosen = dense.cut(graph.blocks)
    return {
        "kind": kind, "ragged": ragged, "mean": mean, "heads": heads, "channels": channels,
        "blocks": len(graph.blocks.query_sizes), "edges": graph.num_edges, "seconds": seconds,
        "chosen": "edges" if not chosen.groups else "both" if chosen.small else "dense",
    }  # fmt: skip


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def line(row: dict[str, Any]) -> str:
    """A row of the table: how many times faster dense attention is."""
    gain = {name: t["edges"] / t["dense"] for name, t in row["seconds"].items()}
    label = f"{row['kind']}{', ragged' if row['ragged'] else ''}"
    return (
        f"| {label} | {row['mean']} | {row['blocks']} | {row['heads']} x {row['channels']} "
        f"| {gain['forward']:.2f} | {gain['both']:.2f} | {row['chosen']} |"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each comparison")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="mean sizes of blocks")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--output", type=Path, default=record.RESULTS / "dense_rule.jsonl")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    print("| graph | mean size | blocks | h x c | dense faster, forward | with backward | chosen |")
    print("|---|---:|---:|---:|---:|---:|---|")
    rows = []
    for kind in ASPECTS:
        for ragged in (False, True):
            for heads, channels in SHAPES:
                for mean in options.sizes:
                    rows.append(compare(kind, mean, ragged, heads, channels, options))
                    print(line(rows[-1]), flush=True)
    environment = record.environment([])
    environment["command"] = " ".join(["python -m benchmarks.dense_rule", *arguments])
    record.append(options.output, {"case": "dense_rule", "rows": rows, "environment": environment})


if __name__ == "__main__":
    main(sys.argv[1:])
