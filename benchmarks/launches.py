"""What a call of each operator on a GPU takes of the host, measured without a GPU.

    python -m benchmarks.launches             # a few seconds, once the kernels are compiled
    python -m benchmarks.launches --table     # write the table of docs/gpu.md from the results

Everything happens as for a CUDA tensor, from the checks to the kernel's arguments, but that tensors
are taken from torch's CPU allocator and a prepared launch is counted and dropped: what the driver
takes for it is not in these times, and no result is looked at. A batch of small molecules is where
that time decides. JSON lines go to benchmarks/results/launches.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton

from benchmarks import aot, gpu_cases, pages, record, timing
from gattn.kernels import facts
from gattn.ops import backend

OPERATORS = ("additive", "mlp", "dot_product")
PATHS = ("whole graphs", "rows and segments")
MOLECULES = 64
HEADS, CHANNELS = 8, 16


class IdleCard(aot.NoCard):
    """A card that takes every launch and does nothing."""

    launches = 0
    utils = SimpleNamespace(
        load_binary=lambda *binary: ("module", "function", 0, 0, 1024),
        get_device_properties=lambda device: {"max_shared_mem": 227 * 1024},
    )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """What launches a compiled kernel."""

        def launch(*arguments: Any) -> None:
            self.launches += 1

        return launch


def everywhere() -> bool:
    """Make the operators believe that Triton serves the CPU's tensors; a Mock would take time."""
    return True


def measure(card: IdleCard, operator: str, path: str, seconds: float) -> dict[str, Any]:
    """Times of one operator on one batch of molecules, and how many kernels it launches."""
    scale = MOLECULES / gpu_cases.BATCHES["molecules-1024"]
    case = gpu_cases.make("molecules-1024", scale, torch.device("cpu"))
    graph = gpu_cases.graph_of(case, plain=path != PATHS[0])
    for transposed in (False, True):  # a graph on a card has read these where it was laid out
        facts.max_degree(graph.layout, transposed)
    leaves = gpu_cases.inputs(operator, case, HEADS, CHANNELS, torch.float32)
    function = gpu_cases.ours(operator, graph, "triton")
    grad = torch.ones_like(function(**leaves))

    @torch.no_grad()
    def inference() -> None:
        function(**leaves)

    def training() -> None:
        torch.autograd.grad(function(**leaves), list(leaves.values()), grad)

    def count(call: Any) -> int:
        before = card.launches
        call()
        return card.launches - before

    functions = {"forward": inference, "forward+backward": training}
    return {
        "case": f"{operator}/{path}",
        "nodes": case.num_nodes, "edges": case.num_edges, "heads": HEADS, "channels": CHANNELS,
        "launches": {name: count(call) for name, call in functions.items()},
        "seconds": timing.alternate(functions, seconds),
    }  # fmt: skip


def table(path: Path) -> str:
    """Markdown: host time and launches of every operator."""
    found = list(record.newest(path).values())
    environment = found[0]["environment"]
    lines = [
        f"{environment['cpu']}, torch {environment['versions']['torch']}, "
        f"Triton {environment['triton']}: {MOLECULES} molecules, {HEADS} heads of {CHANNELS} "
        "channels, fp32.",
        "",
        "| operator | path | forward | launches | forward + backward | launches |",
        "|---|---|---|---|---|---|",
    ]
    for line in found:
        operator, path_name = line["case"].split("/")
        cells = [f"`{operator}`", path_name]
        for name in ("forward", "forward+backward"):
            cells += [f"{line['seconds'][name]['median'] * 1e6:.0f} us", line["launches"][name]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "launches.jsonl")
    parser.add_argument("--table", action="store_true", help="write the table of docs/gpu.md")
    options = parser.parse_args()
    if options.table:
        pages.write(aot.PAGE, "host times", table(options.out))
        return 0
    torch.set_num_threads(1)
    environment = record.environment(sys.argv[1:])
    environment |= {"triton": triton.__version__, "command": "python -m benchmarks.launches"}
    card = IdleCard()
    triton.runtime.driver.set_active(card)
    with mock.patch.object(backend, "interpreted", everywhere):
        for operator in OPERATORS:
            for path in PATHS:
                found = measure(card, operator, path, options.seconds)
                record.append(options.out, {**found, "environment": environment})
                times = {k: f"{v['median'] * 1e6:.1f} us" for k, v in found["seconds"].items()}
                print(found["case"], times, found["launches"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
