"""GPU benchmark of every operator on every graph, compared with the peers that can run it.

Each case is first checked against float64: all rows on a small graph of the same kind, and sampled
rows at full size. If a check fails, the case is not timed. If a case raises an error, the error is
recorded. Forward, forward + backward and peak memory are measured separately. The layout is built
before and timed once. Times are medians that are measured by CUDA events: with warm caches, with an
L2 cache that is overwritten before each run, and as a replayed CUDA graph. The limits of the speed,
which are the bandwidths for copying and for gathering rows, are measured on the same GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

import gattn
from benchmarks.core import memory, record, timing
from benchmarks.core.case import CannotRun, Contender, Function, Topology
from benchmarks.core.record import Record
from benchmarks.data import graphs
from benchmarks.sides import flex, internals, ours, pyg, sdpa
from benchmarks.sides.families import FAMILIES
from benchmarks.sides.inputs import EDGE_DIM, Shape, operator_inputs
from benchmarks.suites.gpu_check import Ground, check

CHECK_EDGES = 100_000
DRY_EDGES = 120


def pyg_compiled(shape: Shape, topology: Topology) -> Function:
    """Create PyG's operator compiled by torch.compile."""
    return pyg.compiled(pyg.on_card(shape, topology))


PEERS: dict[str, Callable[[Shape, Topology], Function]] = {
    "pyg": pyg.on_card,
    "pyg_compiled": pyg_compiled,
    "flex_attention": flex.operator,
    "padded_sdpa": sdpa.operator,
}


class Bench:
    """Run of the benchmark: its settings, its device and its number of failed cases."""

    def __init__(self, options: argparse.Namespace, machine: Record) -> None:
        self.options = options
        self.device = torch.device("cpu" if options.dry_run else "cuda")
        self.clock = timing.clock(self.device)
        self.environment = environment(self.device, machine)
        self.failed = self.left = 0
        self.end = time.monotonic() + 60 * options.minutes
        self.settings = {"scale": options.scale, "runs": options.runs, "peers": list(options.peers)}
        self.done = self.finished() if options.resume and options.out.exists() else set()

    def run(self) -> None:
        """Measure all selected graphs."""
        # The tile has a fixed size, because tuning it in the interpreter would be useless: all
        # tiles take equally long.
        tile = internals.tiles().override(rows=8, unroll=1)
        with tile if self.options.dry_run else contextlib.nullcontext():
            self.roofs()
            for name in self.options.graphs:
                self.graph(name)

    def write(self, case: str, **fields: Any) -> None:
        """Write one record to the results."""
        line = {"case": case, **fields, "asked": self.settings, "environment": self.environment}
        record.append(self.options.out, line)
        print(case, json.dumps(fields), flush=True)

    def finished(self) -> set[str]:
        """Return the cases that an earlier run measured with the same commit, card and settings."""

        def is_same(entry: dict[str, Any]) -> bool:
            there = entry["environment"]
            same = all(there[what] == self.environment[what] for what in ("commit", "card"))
            return same and entry["asked"] == self.settings and "raised" not in entry

        newest = record.newest(self.options.out)
        return {
            name for name, entry in newest.items()
            if ("sides" in entry or name == "roofs") and is_same(entry)
        }  # fmt: skip

    def roofs(self) -> None:
        """Measure the bandwidth of copies, and of gathers from tables with the sizes of the
        graphs.
        """
        if "roofs" in self.done:
            return
        size = 2**12 if self.options.dry_run else 2**30
        rates = {"copy": 2 * size / self.median(copying(size, self.device))}
        count = 64 * (2 if self.options.dry_run else 2**17)
        for nodes in (2**15, 2**18, 2**21):
            for width in (256, 512, 1024):
                rows = max(4, int(nodes * self.options.scale))
                seconds = self.median(gathering(rows, width, count, self.device))
                rates[f"gather {nodes}x{width}B"] = count * width / seconds
        self.write("roofs", bytes_per_second=rates)

    def median(self, function: timing.Run, *, cold: bool = False) -> float:
        """Return the median time in seconds, after a run that is not timed."""
        if not self.options.dry_run:
            function()
        return timing.median(function, self.options.runs, self.clock, cold=cold)

    def graph(self, name: str) -> None:
        """Measure all operators, shapes and dtypes on one graph."""
        options = self.options
        shapes = {
            f"{name}/{operator}/{heads}x{channels}/{kind}": Shape(
                operator, heads, channels, getattr(torch, kind)
            )
            for operator, (heads, channels), kind in itertools.product(
                options.operators, options.shapes, options.dtypes
            )
        }
        missing = {key: shape for key, shape in shapes.items() if key not in self.done}
        if not missing or self.is_late(len(missing)):
            return
        try:
            ground = self.ground(name)
        except Exception as problem:
            self.give_up(name, problem)
            return
        for number, (key, shape) in enumerate(missing.items()):
            if self.is_late(len(missing) - number):
                return
            try:
                entry = self.case(ground, shape)
            except Exception as problem:
                self.give_up(key, problem)
                continue
            self.failed += "sides" not in entry
            self.write(key, **entry)
            memory.free(self.device)

    def is_late(self, left: int) -> bool:
        """Return True if the time is over, and count the remaining cases."""
        late = time.monotonic() > self.end
        self.left += left * late
        return late

    def give_up(self, key: str, problem: Exception) -> None:
        """Record the error of a case, free its memory, and continue."""
        self.failed += 1
        self.write(key, raised=f"{type(problem).__name__}: {problem}")
        memory.free(self.device)

    def ground(self, name: str) -> Ground:
        """Create the graph with a name, and the data that its cases need."""
        scale = self.scale(name)
        topology = graphs.make(name, scale, self.device)
        scale *= min(1.0, CHECK_EDGES / max(topology.num_edges, 1))
        seconds = self.clock.seconds(lambda: gattn.Graph(topology.edge_index, topology.num_nodes))
        small = graphs.make(name, scale, self.device)
        return Ground(topology, ours.graph_of(topology), small, seconds)

    def scale(self, name: str) -> float:
        """Return the factor for the size of a graph."""
        return DRY_EDGES / graphs.EDGES[name] if self.options.dry_run else self.options.scale

    def case(self, ground: Ground, shape: Shape) -> dict[str, Any]:
        """Check one case, and measure it if the check passed."""
        entry: dict[str, Any] = {
            **ground.topology.sizes(), "layout": ground.layout_seconds,
            "check": check(ground, shape),
        }  # fmt: skip
        if entry["check"]["passed"]:
            entry["floor_bytes"] = floor_bytes(ground.topology, shape)
            entry["sides"] = self.sides(ground, shape)
        return entry

    def sides(self, ground: Ground, shape: Shape) -> dict[str, Any]:
        """Return the times and memory of gattn and of every peer that can run the case."""
        sides: dict[str, Any] = {}
        topology = ground.topology
        makers: dict[str, Callable[[], Function]] = {
            "gattn": lambda: ours.operator(shape.family, ground.graph, "triton")
        }
        if topology.batch is not None:
            # For a batch of graphs, also time the kernels for graphs of any structure.
            plain = internals.as_any_graph(gattn.Graph(topology.edge_index, topology.num_nodes))
            makers["gattn_general"] = lambda: ours.operator(shape.family, plain, "triton")
        for side in self.options.peers:
            makers[side] = lambda make=PEERS[side]: make(shape, topology)
        for side, maker in makers.items():
            if self.options.dry_run and side in ("pyg_compiled", "flex_attention"):
                sides[side] = {"cannot_run": "not in a dry run: it would compile for minutes"}
                continue
            inputs = operator_inputs(topology, shape, edge_gradient=True)
            try:
                sides[side] = self.measure(Contender.of(maker(), inputs))
            except CannotRun as reason:
                sides[side] = {"cannot_run": str(reason)}
            except Exception as problem:
                if side.startswith("gattn"):
                    raise
                sides[side] = {"cannot_run": f"{type(problem).__name__}: {str(problem)[:200]}"}
            memory.free(self.device)
        return sides

    def measure(self, contender: Contender) -> dict[str, Any]:
        """Return the seconds of forward and of forward + backward, and the peak memory of the
        latter.
        """
        forward, both = (prepare(contender) for prepare in timing.PASSES.values())
        first = self.times(forward)
        second = self.times(both, captures=not isinstance(first.get("graph"), str))
        with memory.peak(self.device) as peak:
            both()
        return {"forward": first, "both": second, "peak_bytes": peak.bytes}

    def times(self, function: timing.Run, captures: bool = True) -> dict[str, float | str]:
        """Return the seconds with warm caches, with an overwritten L2 cache, and as a CUDA
        graph.
        """
        times: dict[str, float | str] = {
            "warm": self.median(function),
            "cold": self.median(function, cold=True),
        }
        if self.device.type == "cuda" and captures:
            try:
                times["graph"] = self.median(timing.captured(function).replay)
            except RuntimeError as problem:
                times["graph"] = f"cannot be captured: {str(problem)[:100]}"
        return times


def floor_bytes(topology: Topology, shape: Shape) -> dict[str, int]:
    """Return the minimum number of bytes of a pass: each tensor once, and with a gather for each
    edge.
    """
    n, e, h, s = topology.num_nodes, topology.num_edges, shape.heads, shape.dtype.itemsize
    row = h * shape.channels * s
    edges = EDGE_DIM * s * e if shape.has_edges else 0
    floor = FAMILIES[shape.family].floor
    once, gathered = (
        count * (rows * row + of_head * h + more)
        for count, (rows, of_head, more) in ((n, floor.once), (e, floor.gathered))
    )
    gathered += n * floor.written * row
    return {"both_once": once + 8 * e + 4 * edges, "both_gathered": gathered + 4 * edges}


@triton.jit
def _gather_rows(table, index, out, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Sum ROWS rows of a table."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    row = tl.load(index + program * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    x = tl.load(table + row[:, None] * WIDTH + column)
    tl.store(out + program * WIDTH + column, tl.sum(x, 0))


def copying(size: int, device: torch.device) -> timing.Run:
    """Create a function that copies a number of bytes."""
    source = torch.randn(size // 4, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def gathering(rows: int, width: int, count: int, device: torch.device) -> timing.Run:
    """Create a function that gathers random rows of ``width`` bytes from a table."""
    table = torch.randn(rows, width // 4, device=device)
    index = torch.randint(rows, (count,), device=device, dtype=torch.int32)
    out = torch.empty(count // 64, width // 4, device=device)
    launch: Any = _gather_rows[(count // 64,)]
    return lambda: launch(table, index, out, width // 4, 64, num_warps=4)


def environment(device: torch.device, machine: Record) -> Record:
    """Return the GPU, the driver and the versions, in addition to the description of the
    machine.
    """
    card, driver = "none: dry run in Triton's interpreter", ""
    if device.type == "cuda":
        card = torch.cuda.get_device_name(device)
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with contextlib.suppress(FileNotFoundError):
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            driver = done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""
    versions = {**machine["versions"], "triton": triton.__version__}
    return {
        **machine, "versions": versions, "card": card, "driver": driver, "cuda": torch.version.cuda
    }  # fmt: skip
