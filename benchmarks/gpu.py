"""Check and benchmark the Triton kernels on a CUDA device, beside their peers, in one command.

    python -m benchmarks.gpu                     # everything; about an hour
    python -m benchmarks.gpu --quick             # two shapes, three graphs
    python -m benchmarks.gpu --minutes 9         # begin no case later
    python -m benchmarks.gpu --resume            # go on with the cases that are left
    python -m benchmarks.gpu --table             # the table of docs/gpu.md from the results
    python -m benchmarks.gpu --tune              # better tiles for this card, if there are any
    python -m benchmarks.gpu --dry-run           # every line of it at toy size, with no card

Each case is first checked against float64: all of it on a small graph of its kind, and sampled
rows at full size. No time is taken where a check fails, and of a case that raises there is kept
what it raised. Forward, forward + backward and peak memory are measured apart; the layout is built
outside and timed once; times are medians of CUDA events, with warm caches, with the L2 cache
overwritten before each run, and as a replayed CUDA graph. The roofs, copy and row-gather
bandwidth, are measured on the same card. JSON lines go to benchmarks/results/gpu.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch
import triton
import triton.language as tl
from torch import Tensor

import gattn
from benchmarks import gpu_cases, record
from benchmarks.gpu_cases import CannotRun, Case, Function, Inputs
from gattn.kernels.triton import tiles
from gattn.kernels.triton.launch import launch

OPERATORS = ("additive", "mlp", "dot_product", "dot_product+edges")
SHAPES = ((8, 16), (4, 32), (1, 128), (4, 64))
CHECK_EDGES = 100_000
SAMPLED_ROWS = 64
DRY_EDGES = 120
SPACE: list[dict[str, int]] = [
    {}, {"warps": 2}, {"warps": 4}, {"unroll": 2}, {"unroll": 8}, {"rows": 2}, {"rows": 4},
    {"rows": 4, "warps": 4}, {"rows": 4, "unroll": 2},
]  # fmt: skip
"""Tiles to try, as what differs from the rule's."""
LEAST_GAIN = 1.05
"""How much faster a tile must be than the rule's to be kept."""


def main() -> int:
    options = parse()
    if options.table:
        print(table(record.newest(options.out)))
        return 0
    if not options.dry_run and not torch.cuda.is_available():
        print("no CUDA device here: --dry-run exercises the script without one")
        return 1
    bench = Bench(options)
    print(json.dumps(bench.environment))
    # the interpreter takes as long for a large tile as for a small one
    with tiles.override(rows=8, unroll=1) if options.dry_run else contextlib.nullcontext():
        bench.roofs()
        for name in options.graphs:
            bench.tune(name) if options.tune else bench.graph(name)
    print(f"{bench.failed} failed cases, {bench.left} left; results in {options.out}")
    return int(bench.failed > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="toy sizes in the interpreter")
    parser.add_argument("--quick", action="store_true", help="fewer shapes and graphs")
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    parser.add_argument("--tune", action="store_true", help="search tiles and write them")
    parser.add_argument("--tiles", type=Path, help="where tiles go")
    parser.add_argument("--graphs", nargs="+", choices=gpu_cases.NAMES)
    parser.add_argument("--operators", nargs="+", choices=OPERATORS, default=OPERATORS)
    parser.add_argument("--peers", nargs="*", choices=gpu_cases.PEERS, default=gpu_cases.PEERS)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case later")
    parser.add_argument("--resume", action="store_true", help="skip what --out holds already")
    parser.add_argument("--scale", type=float, default=1.0, help="of the size of every graph")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each function")
    parser.add_argument("--out", type=Path, help="where results go")
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir()) if options.dry_run else record.RESULTS
    options.out = options.out or folder / "gpu.jsonl"
    options.tiles = options.tiles or folder / "tiles.jsonl"
    options.shapes = SHAPES[::2] if options.quick else SHAPES
    few = ["arxiv", "products/16", "molecules-1024"]
    if options.graphs is None:
        options.graphs = few if options.quick else gpu_cases.NAMES
    if options.dry_run:
        options.scale, options.runs, options.shapes = 1e-5, 1, ((2, 4),)
    # the interpreter cuts float32 short where a card rounds it to bfloat16
    options.dtypes = ("float32", "float16" if options.dry_run else "bfloat16")
    return options


class Bench:
    """One run of the benchmark: what it is asked, where it runs, and how many cases failed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device("cpu" if options.dry_run else "cuda")
        self.timer = Timer(self.device, options.runs)
        self.environment = environment(self.device, sys.argv[1:])
        self.failed = self.left = 0
        self.end = time.monotonic() + 60 * options.minutes
        self.asked = {"scale": options.scale, "runs": options.runs, "peers": list(options.peers)}
        self.done = self.finished() if options.resume and options.out.exists() else set()

    def write(self, case: str, **found: Any) -> None:
        """Record one line."""
        line = {"case": case, **found, "asked": self.asked, "environment": self.environment}
        record.append(self.options.out, line)
        print(case, json.dumps(found), flush=True)

    def finished(self) -> set[str]:
        """The cases that an earlier run measured as this one would: same commit, card, question."""

        def is_same(found: dict[str, Any]) -> bool:
            there = found["environment"]
            same = all(there[what] == self.environment[what] for what in ("commit", "card"))
            return same and found["asked"] == self.asked and "raised" not in found

        newest = record.newest(self.options.out)
        return {
            name for name, found in newest.items()
            if ("sides" in found or name == "roofs") and is_same(found)
        }  # fmt: skip

    def roofs(self) -> None:
        """Copy bandwidth, and that of gathering rows from tables of the graphs' sizes."""
        if "roofs" in self.done:
            return
        found = {"copy": copy_bandwidth(self.timer, 2**30 if not self.options.dry_run else 2**12)}
        for nodes in (2**15, 2**18, 2**21):
            for width in (256, 512, 1024):
                rows = max(4, int(nodes * self.options.scale))
                found[f"gather {nodes}x{width}B"] = gather_bandwidth(self.timer, rows, width)
        self.write("roofs", bytes_per_second=found)

    def graph(self, name: str) -> None:
        """All operators, shapes and types on one graph."""
        options = self.options
        shapes = itertools.product(options.operators, options.shapes, options.dtypes)
        keys = {f"{name}/{op}/{h}x{c}/{kind}": (op, h, c, kind) for op, (h, c), kind in shapes}
        wanted = {key: shape for key, shape in keys.items() if key not in self.done}
        if not wanted or self.is_late(len(wanted)):
            return
        try:
            graphs = self.graphs(name)
        except Exception as problem:
            self.give_up(name, problem)
            return
        for number, (key, shape) in enumerate(wanted.items()):
            if self.is_late(len(wanted) - number):
                return
            try:
                found = self.case(*graphs, *shape)
            except Exception as problem:
                self.give_up(key, problem)
                continue
            self.failed += "sides" not in found
            self.write(key, **found)
            self.timer.free()

    def is_late(self, left: int) -> bool:
        """Whether the time is over; counts what is left then."""
        late = time.monotonic() > self.end
        self.left += left * late
        return late

    def give_up(self, key: str, problem: Exception) -> None:
        """Record what was raised, and go on with free memory."""
        self.failed += 1
        self.write(key, raised=f"{type(problem).__name__}: {problem}")
        self.timer.free()

    def graphs(self, name: str) -> tuple[Case, Case, gattn.Graph, float]:
        """A small case of a kind for the checks; the case, its graph, and how long that takes."""
        scale = self.scale(name)
        case = gpu_cases.make(name, scale, self.device)
        scale *= min(1.0, CHECK_EDGES / max(case.num_edges, 1))
        small = gpu_cases.make(name, scale, self.device)
        layout = self.timer.once(lambda: gattn.Graph(case.edge_index, case.num_nodes))
        return small, case, gpu_cases.graph_of(case), layout

    def case(
        self, small: Case, case: Case, graph: gattn.Graph, layout: float,
        operator: str, heads: int, channels: int, kind: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Check one case, and measure it where the check passed."""
        shape = operator, heads, channels, getattr(torch, kind)
        found: dict[str, Any] = {
            "nodes": case.num_nodes, "edges": case.num_edges, "layout": layout,
            "check": self.check(small, case, graph, *shape),
        }  # fmt: skip
        if found["check"]["passed"]:
            found["floor_bytes"] = floor_bytes(case, *shape)
            found["sides"] = self.sides(case, graph, *shape)
        return found

    def scale(self, name: str) -> float:
        """What to multiply a graph's size by."""
        return DRY_EDGES / gpu_cases.EDGES[name] if self.options.dry_run else self.options.scale

    def tune(self, name: str) -> None:
        """Try tiles around the rule for every shape class of a graph's cases; keep the fastest."""
        case = gpu_cases.make(name, self.scale(name), self.device)
        graph = gpu_cases.graph_of(case)
        for operator in self.options.operators:
            if self.is_late(1):
                continue
            function = gpu_cases.ours(operator, graph, "triton")
            for heads, channels in self.options.shapes:
                for dtype in (getattr(torch, kind) for kind in self.options.dtypes):
                    leaves = gpu_cases.inputs(operator, case, heads, channels, dtype)
                    self.tune_classes(function, leaves)

    def tune_classes(self, function: Function, leaves: Inputs) -> None:
        """Search each shape class that a step meets, the others held."""
        grad = torch.ones_like(function(**leaves))

        def step() -> None:
            torch.autograd.grad(function(**leaves), list(leaves.values()), grad)

        tiles.seen.clear()
        step()
        for shape_class in sorted(tiles.seen):
            before = tiles.tuned.pop(shape_class, {})
            times = {}
            for fields in SPACE[:2] if self.options.dry_run else SPACE:
                tiles.tuned[shape_class] = fields
                times[tuple(fields.items())] = self.timer.median(step)
            best = min(times, key=lambda fields: times[fields])
            gain = times[()] / times[best]
            tiles.tuned[shape_class] = dict(best) if gain > LEAST_GAIN else before
            if gain > LEAST_GAIN:
                found = {"shape_class": shape_class, "fields": dict(best), "gain": gain}
                record.append(self.options.tiles, {**found, "card": self.environment["card"]})
                print(json.dumps(found), flush=True)

    def check(self, small: Case, case: Case, graph: gattn.Graph, *shape: Any) -> dict[str, Any]:
        """Errors against float64: of everything on the small graph, of sampled rows on this."""
        whole = compare(small, gpu_cases.graph_of(small), *shape)
        again = repeats(small, *shape)
        sampled = compare_rows(case, graph, *shape)
        return {
            "small": whole, "rows": sampled, "same_bits": again,
            "passed": again and all(side["ours"] <= side["bound"] for side in (whole, sampled)),
        }  # fmt: skip

    def sides(self, case: Case, graph: gattn.Graph, operator: str, *shape: Any) -> dict[str, Any]:
        """Times and memory of gattn and of every peer that can run."""
        found: dict[str, Any] = {}
        makers = {"gattn": lambda: gpu_cases.ours(operator, graph, "triton")}
        if case.batch is not None:  # the general path beside that for its kind
            plain = gpu_cases.graph_of(case, plain=True)
            makers["gattn_general"] = lambda: gpu_cases.ours(operator, plain, "triton")
        peers = dict(gpu_cases.peers(operator, case))
        makers |= {side: maker for side, maker in peers.items() if side in self.options.peers}
        for side, maker in makers.items():
            if self.options.dry_run and side in ("pyg_compiled", "flex_attention"):
                found[side] = {"cannot_run": "not in a dry run: it would compile for minutes"}
                continue
            leaves = gpu_cases.inputs(operator, case, *shape)
            try:
                found[side] = self.measure(maker(), leaves)
            except CannotRun as reason:
                found[side] = {"cannot_run": str(reason)}
            except Exception as problem:
                if side.startswith("gattn"):
                    raise
                found[side] = {"cannot_run": f"{type(problem).__name__}: {str(problem)[:200]}"}
            self.timer.free()
        return found

    def measure(self, function: Function, leaves: Inputs) -> dict[str, Any]:
        """Seconds of forward and of forward + backward, and peak bytes of the latter."""
        grad = torch.ones_like(function(**leaves))

        def forward() -> None:
            with torch.no_grad():
                function(**leaves)

        def both() -> None:
            torch.autograd.grad(function(**leaves), list(leaves.values()), grad)

        first = self.timer.all(forward)
        return {
            "forward": first,
            "both": self.timer.all(both, captures=not isinstance(first.get("graph"), str)),
            "peak_bytes": self.timer.peak(both),
        }


class Timer:
    """Times functions on a device; on the CPU (a dry run) by the clock, with no cache to clear."""

    def __init__(self, device: torch.device, runs: int) -> None:
        self.device, self.runs = device, runs
        self.cuda = device.type == "cuda"
        size = 2**26 if self.cuda else 1
        self.scratch = torch.empty(size, dtype=torch.int32, device=device)

    def all(self, function: Callable[[], None], captures: bool = True) -> dict[str, float | str]:
        """Seconds with warm caches, with the L2 cache overwritten, and as a CUDA graph."""
        found: dict[str, float | str] = {
            "warm": self.median(function),
            "cold": self.median(function, cold=True),
        }
        if self.cuda and captures:
            try:
                found["graph"] = self.median(captured(function).replay)
            except RuntimeError as problem:
                found["graph"] = f"cannot be captured: {str(problem)[:100]}"
        return found

    def median(self, function: Callable[[], object], cold: bool = False) -> float:
        """Median seconds, after a run that is not timed."""
        if self.cuda:
            function()
        return statistics.median(self.once(function, cold) for _ in range(self.runs))

    def once(self, function: Callable[[], object], cold: bool = False) -> float:
        """Seconds of one run."""
        if cold:
            self.scratch.zero_()
        if not self.cuda:
            start = time.perf_counter()
            function()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def peak(self, function: Callable[[], object]) -> int:
        """Bytes that a run takes at most beyond what is held already."""
        if not self.cuda:
            return 0
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held

    def free(self) -> None:
        """Return cached memory, so that a peer starts from nothing; raise what a kernel left."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def captured(function: Callable[[], object]) -> Any:
    """A CUDA graph of a function."""
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        function()
    current.wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            function()
    finally:
        torch.cuda.set_stream(current)  # what cannot be captured leaves the stream of the capture
    return graph


def outcome(function: Function, leaves: Inputs) -> list[Tensor]:
    """Output and gradients under the same random gradient."""
    out = function(**leaves)
    generator = torch.Generator(out.device).manual_seed(2)
    grad = torch.randn(out.shape, generator=generator, device=out.device).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, list(leaves.values()), grad)]


def distance(found: list[Tensor], exact: list[Tensor]) -> float:
    """Largest of |x - y| / |y| over the outputs; NaN counts as infinite."""
    worst = 0.0
    for x, y in zip(found, exact, strict=True):
        apart = (x.double() - y).norm() / y.norm().clamp_min(1e-300)
        worst = max(worst, float(apart.nan_to_num(nan=torch.inf)))
    return worst


def bound(own: float, dtype: torch.dtype) -> float:
    """Twice the reference's own error, and no less than a rounding."""
    return 2 * own + torch.finfo(dtype).eps


def compare(
    case: Case, graph: gattn.Graph, operator: str, heads: int, channels: int, dtype: torch.dtype
) -> dict[str, float]:
    """Errors of the kernels and of the reference in the same type, both against float64."""
    leaves = gpu_cases.inputs(operator, case, heads, channels, dtype)
    exact_leaves = {k: v.detach().double().requires_grad_() for k, v in leaves.items()}
    reference = gpu_cases.ours(operator, graph, "reference")
    exact = outcome_like(reference, exact_leaves, dtype)
    own = distance(outcome(reference, leaves), exact)
    found = distance(outcome(gpu_cases.ours(operator, graph, "triton"), leaves), exact)
    return {"ours": found, "reference": own, "bound": bound(own, dtype)}


def outcome_like(function: Function, leaves: Inputs, dtype: torch.dtype) -> list[Tensor]:
    """The outcome in float64 under the gradient as ``dtype`` holds it."""
    out = function(**leaves)
    generator = torch.Generator(out.device).manual_seed(2)
    grad = torch.randn(out.shape, generator=generator, device=out.device).to(dtype).double()
    return [out.detach(), *torch.autograd.grad(out, list(leaves.values()), grad)]


def compare_rows(
    case: Case, graph: gattn.Graph, operator: str, heads: int, channels: int, dtype: torch.dtype
) -> dict[str, float]:
    """The same for the outputs of sampled destinations of the full graph, the largest included."""
    leaves = gpu_cases.inputs(operator, case, heads, channels, dtype)
    with torch.no_grad():
        full = gpu_cases.ours(operator, graph, "triton")(**leaves)
    degree = graph.in_degree()
    generator = torch.Generator(degree.device).manual_seed(3)
    count = min(SAMPLED_ROWS, case.num_nodes)
    rows = torch.randint(case.num_nodes, (count,), generator=generator, device=degree.device)
    rows = torch.cat([rows, degree.argmax().view(1)]).unique()
    chosen = torch.isin(case.edge_index[1], rows).nonzero().squeeze(1)
    sub = gattn.Graph(case.edge_index[:, chosen], case.num_nodes)
    kept = {k: v.detach()[chosen] if k == "edge_attr" else v.detach() for k, v in leaves.items()}
    reference = gpu_cases.ours(operator, sub, "reference")
    with torch.no_grad():
        exact = reference(**{k: v.double() for k, v in kept.items()})[rows]
        own = distance([reference(**kept)[rows]], [exact])
    found = distance([full[rows]], [exact])
    return {"ours": found, "reference": own, "bound": bound(own, dtype)}


def repeats(case: Case, operator: str, heads: int, channels: int, dtype: torch.dtype) -> bool:
    """Whether two runs give the same bits."""
    graph = gpu_cases.graph_of(case)
    function = gpu_cases.ours(operator, graph, "triton")
    leaves = gpu_cases.inputs(operator, case, heads, channels, dtype)
    first, second = outcome(function, leaves), outcome(function, leaves)
    return all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def floor_bytes(
    case: Case, operator: str, heads: int, channels: int, dtype: torch.dtype
) -> dict[str, int]:
    """Bytes that a pass must move: each tensor once, and with a gather for every edge."""
    n, e, h, s = case.num_nodes, case.num_edges, heads, dtype.itemsize
    row = heads * channels * s
    edges = gpu_cases.FEATURES * s * e if operator.endswith("edges") else 0
    once, gathered = {
        "additive": (n * (7 * row + 40 * h + 8), e * (2 * row + 16 * h + 8) + n * 6 * row),
        "mlp": (n * (9 * row + 24 * h + 8), e * (4 * row + 8 * h + 12) + n * 8 * row),
        "dot_product": (n * (12 * row + 24 * h + 8), e * (6 * row + 8 * h + 12) + n * 10 * row),
    }[operator.removesuffix("+edges")]
    return {"both_once": once + 8 * e + 4 * edges, "both_gathered": gathered + 4 * edges}


@triton.jit
def _gather_rows(table, index, out, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Sum ROWS rows of a table."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    row = tl.load(index + program * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    x = tl.load(table + row[:, None] * WIDTH + column)
    tl.store(out + program * WIDTH + column, tl.sum(x, 0))


def copy_bandwidth(timer: Timer, size: int) -> float:
    """Bytes read and written a second by a copy of so many bytes."""
    source = torch.randn(size // 4, device=timer.device)
    target = torch.empty_like(source)
    return 2 * size / timer.median(lambda: target.copy_(source))


def gather_bandwidth(timer: Timer, rows: int, width: int) -> float:
    """Bytes read a second by gathers of random rows of ``width`` bytes from a table."""
    table = torch.randn(rows, width // 4, device=timer.device)
    count = 64 * (2**17 if timer.cuda else 2)
    index = torch.randint(rows, (count,), device=timer.device, dtype=torch.int32)
    out = torch.empty(count // 64, width // 4, device=timer.device)

    def run() -> None:
        launch(_gather_rows, (count // 64,), 4, table, index, out, width // 4, 64)

    return count * width / timer.median(run)


def environment(device: torch.device, arguments: list[str]) -> dict[str, Any]:
    """Card, driver, versions, commit and command."""
    card, driver = "none: dry run in Triton's interpreter", ""
    if device.type == "cuda":
        card = torch.cuda.get_device_name(device)
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        with contextlib.suppress(FileNotFoundError):
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            driver = done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""
    known = record.environment(arguments)
    known["command"] = " ".join(["python -m benchmarks.gpu", *arguments])
    known["versions"]["triton"] = triton.__version__
    return {**known, "card": card, "driver": driver, "cuda": torch.version.cuda}


def table(records: dict[str, Any]) -> str:
    """Markdown: forward + backward of every side, the share of the roof, peak memory."""
    cases = {name: found for name, found in records.items() if "sides" in found}
    roofs = records.get("roofs", {}).get("bytes_per_second", {})
    sides = sorted({side for found in cases.values() for side in found["sides"]} - {"gattn"})
    lines = [
        "| case | gattn ms | of roof | " + " | ".join(sides) + " | peak MB, gattn / PyG |",
        "|---" * (len(sides) + 4) + "|",
    ]
    lines += [row(name, found, sides, roofs) for name, found in cases.items()]
    return "\n".join(lines)


def row(name: str, found: dict[str, Any], sides: list[str], roofs: dict[str, float]) -> str:
    """One case of the table; peers as multiples of gattn's time."""
    own = found["sides"]["gattn"]
    seconds = own["both"]["warm"]
    cells = [name, f"{1e3 * seconds:.3f}", f"{roof_seconds(found, roofs) / seconds:.0%}"]
    for side in sides:
        peer = found["sides"].get(side, {})
        cells.append(f"{peer['both']['warm'] / seconds:.1f}x" if "both" in peer else "-")
    peaks = [found["sides"].get(side, {}).get("peak_bytes") for side in ("gattn", "pyg")]
    cells.append(" / ".join("-" if peak is None else f"{peak / 2**20:.0f}" for peak in peaks))
    return "| " + " | ".join(cells) + " |"


def roof_seconds(found: dict[str, Any], roofs: dict[str, float]) -> float:
    """The longer of: every tensor once at copy speed, every gather at the speed of gathers."""
    floors = found["floor_bytes"]
    if not roofs:
        return float("nan")
    gathers = list(gather_roofs(roofs))
    nearest = min(gathers, key=lambda roof: abs(roof[0] - found["nodes"]))
    return max(floors["both_once"] / roofs["copy"], floors["both_gathered"] / nearest[1])


def gather_roofs(roofs: dict[str, float]) -> Iterator[tuple[int, float]]:
    """(rows of the table, bytes a second) of the gathers of 512 bytes."""
    for name, speed in roofs.items():
        if name.endswith("x512B"):
            yield int(name.removeprefix("gather ").split("x")[0]), speed


if __name__ == "__main__":
    sys.exit(main())
