"""Measurement of one graph in 1, 2 and 4 processes: bytes between them, time, and memory of each
process.

    python -m benchmarks.distributed              # some minutes, 2 GB

The nodes are arranged in a ring. Most edges are short, and some edges lead to random nodes. Each
process creates only the edges into its local nodes. A step consists of the forward and backward
pass of a layer, and the sum of the gradients over the processes. The benchmark compares three
numbers of bytes: halo rows x width x element size together with gattn's counter, the bytes that
were passed to all_to_all of torch.distributed, and the bytes that the loopback device of the
machine sent in this time. The last number also contains the gradients (with p processes, each
process sends 2 (p - 1) / p of the parameters' size in a ring), packet headers, and the data of
other programs. The results are appended to benchmarks/results/distributed.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import gattn
from benchmarks.core import memory, record
from gattn.distributed import DistributedGraph, Partition, Processes, init_processes, sum_gradients

HEADS, CHANNELS = 4, 16
WIDTHS: dict[str, tuple[type[torch.nn.Module], int]] = {
    "GATConv": (gattn.nn.GATConv, HEADS * (CHANNELS + 1)),
    "GATv2Conv": (gattn.nn.GATv2Conv, HEADS * CHANNELS),
    "TransformerConv": (gattn.nn.TransformerConv, 2 * HEADS * CHANNELS),
}
"""Number of elements per row that each layer sends to other processes: those of values and scores,
of keys, or of keys and values.
"""
BLOCK = 1 << 12
"""Number of consecutive nodes whose edges share a seed, so that any process can draw them."""
ELEMENT = 4


def main(arguments: Sequence[str]) -> None:
    """Measure every layer with each number of processes, and print the sent bytes."""
    options = _parser().parse_args(arguments)
    if "RANK" in os.environ:
        work(options)
        return
    environment = record.environment("benchmarks.distributed", arguments)
    for size in options.processes:
        for result in _in_processes(size, arguments):
            record.append(options.out, {**result, "environment": environment})
            print(_line(result), flush=True)


def work(options: argparse.Namespace) -> None:
    """Measure the layers in one process, and write the results into a folder."""
    with init_processes("gloo", timeout=600) as processes:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // processes.size))
        results = [measure(name, processes, options) for name in WIDTHS]
    (options.folder / f"{processes.rank}.json").write_text(json.dumps(results))


def measure(name: str, processes: Processes, options: argparse.Namespace) -> record.Record:
    """Measure the bytes, the seconds and the memory of one training step with one layer in this
    process.
    """
    partition = Partition.contiguous(options.nodes, processes.size)
    first, last = partition.bounds[processes.rank : processes.rank + 2]
    layer, width = WIDTHS[name]
    torch.manual_seed(0)
    conv = layer(options.features, CHANNELS, heads=HEADS)
    with memory.peak() as peak:
        edges = own_edges(first, last, options.nodes, options.degree)
        graph = DistributedGraph.from_local_edges(edges, partition)
        del edges
        x = torch.randn(last - first, options.features)

        def step() -> None:
            conv.zero_grad()
            conv(x, graph).sum().backward()
            sum_gradients(conv.parameters())

        step()
        sent, loopback = graph.comm_stats.bytes_sent, loopback_bytes()
        with handed_over() as handed:
            seconds = [timed(step) for _ in range(options.steps)]
        dist.barrier()
        loopback = (loopback_bytes() - loopback) / options.steps
    sent = (graph.comm_stats.bytes_sent - sent) / options.steps
    rows = torch.randn(last - first, width)
    halo = graph.halo.num_rows - graph.num_dst
    parameters = sum(parameter.numel() for parameter in conv.parameters()) * ELEMENT
    return {
        "case": f"ring/{name}", "nodes": options.nodes, "edges": options.nodes * options.degree,
        "width": width, "own_edges": graph.num_edges, "halo_rows": halo,
        "sent_rows": graph.halo.send_index.numel(), "bytes_sent": sent,
        "formula": (graph.halo.send_index.numel() + halo) * width * ELEMENT,
        "handed": handed.bytes / options.steps,
        "gradients": 2 * (processes.size - 1) / processes.size * parameters,
        "loopback_bytes": loopback, "seconds": median(seconds), "peak_bytes": peak.bytes,
        "exchange_seconds": timed(lambda: exchange(graph, rows)) if processes.size > 1 else 0.0,
    }  # fmt: skip


def own_edges(first: int, last: int, nodes: int, degree: int) -> Tensor:
    """Create the incoming edges of a range of nodes, (2, e), which do not depend on the number
    of processes.
    """
    parts = []
    for block in range(first // BLOCK, -(-last // BLOCK)):
        draw = torch.Generator().manual_seed(block)
        destination = torch.arange(block * BLOCK, (block + 1) * BLOCK).repeat_interleave(degree)
        near = destination + torch.randint(-500, 501, destination.shape, generator=draw)
        far = torch.randint(nodes, destination.shape, generator=draw)
        is_far = torch.rand(destination.shape, generator=draw) < 0.01
        source = torch.where(is_far, far, near % nodes)
        local = (destination >= first) & (destination < last)
        parts.append(torch.stack([source[local], destination[local]]))
    return torch.cat(parts, 1)


def exchange(graph: DistributedGraph, rows: Tensor) -> None:
    """Exchange the rows of the forward and backward pass without computing attention."""
    graph.halo.scatter_add(graph.halo.gather((rows,)))


@dataclass
class Handed:
    """Number of bytes that were passed to all_to_all for other processes."""

    bytes: int = 0


@contextmanager
def handed_over() -> Iterator[Handed]:
    """Count the bytes that are passed to torch, without the overhead of the backend."""
    counter, plain = Handed(), dist.all_to_all_single

    def counting(output: Tensor, sent: Tensor, *arguments: Any, **options: Any) -> Any:
        counter.bytes += sent.nbytes
        return plain(output, sent, *arguments, **options)

    dist.all_to_all_single = counting
    try:
        yield counter
    finally:
        dist.all_to_all_single = plain


def timed(function: Callable[[], None]) -> float:
    """Return the seconds of a call that all processes start together."""
    dist.barrier()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def loopback_bytes() -> int:
    """Return the bytes sent over the loopback device, or 0 if the system does not report them."""
    listing = Path("/proc/net/dev")
    for line in listing.read_text().splitlines() if listing.exists() else ():
        device, _, numbers = line.partition(":")
        if device.strip() == "lo":
            return int(numbers.split()[8])
    return 0


def _in_processes(size: int, arguments: Sequence[str]) -> list[record.Record]:
    """Measure in several processes and return one record for each layer."""
    with tempfile.TemporaryDirectory() as folder:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
        command = [sys.executable, *launch, "-m", "benchmarks.distributed", *arguments]
        subprocess.run([*command, "--folder", folder], check=True)
        every = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]
    common = "case", "nodes", "edges", "width"
    return [
        {
            **{key: ranks[0][key] for key in common},
            "processes": size,
            "ranks": [{k: v for k, v in rank.items() if k not in common} for rank in ranks],
        }
        for ranks in zip(*every)
    ]


def _line(entry: record.Record) -> str:
    ranks = entry["ranks"]
    keys = "formula", "handed", "gradients"
    formula, handed, gradients = (sum(rank[key] for rank in ranks) for key in keys)
    worst = {key: max(rank[key] for rank in ranks) for key in ranks[0]}
    return (
        f"{entry['case']} in {entry['processes']}: {handed / 1e6:.2f} MB a step, "
        f"{formula / 1e6:.2f} by the formula; with {gradients / 1e6:.2f} of gradients "
        f"{worst['loopback_bytes'] / 1e6:.2f} over the loopback device; {worst['seconds']:.3f} s, "
        f"rows there and back alone {worst['exchange_seconds']:.3f} s; "
        f"{worst['peak_bytes'] / 1e6:.0f} MB in a process"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed")
    parser.add_argument(
        "--nodes",
        type=int,
        default=200_000,
        help="number of nodes of the graph (default: %(default)s)",
    )
    parser.add_argument(
        "--degree",
        type=int,
        default=16,
        help="number of incoming edges of each node (default: %(default)s)",
    )
    parser.add_argument(
        "--features",
        type=int,
        default=64,
        help="number of features of each node (default: %(default)s)",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=5,
        help="number of training steps; the result is their median time (default: %(default)s)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        nargs="+",
        default=[1, 2, 4],
        help="numbers of processes to measure (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "distributed.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
