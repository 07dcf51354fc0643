"""Compile every Triton kernel for sm_90 without a GPU and list registers and spills.

    python -m benchmarks.aot             # every shape class; some hundreds of compilations
    python -m benchmarks.aot --quick     # three of them
    python -m benchmarks.aot --table     # write the table of docs/gpu.md from the results

The launchers run on tensors of the meta device, with the compiler told that the card is an H100
and with nothing launched: what is compiled is what a card would be sent. One JSON line per kernel
and shape class goes to benchmarks/results/aot_sm90.jsonl. A kernel spills registers where one of
its instructions reads or writes the stack.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

import gattn.kernels.triton as kernels
from benchmarks import pages
from gattn.kernels import facts
from gattn.kernels.layout import bare
from gattn.ops.library import value_sum

TARGET = GPUTarget("cuda", 90, 32)
RESULTS = Path(__file__).parent / "results"
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
SHAPES = [(8, 16), (4, 32), (1, 128), (4, 64), (8, 8), (1, 7), (3, 5)]
EDGES = 100_000
PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"


class NoCard:
    """Stands in for triton's driver: it knows the card, and has none."""

    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device=None: 0)
    get_current_target = staticmethod(lambda: TARGET)


@contextlib.contextmanager
def compiling_only() -> Iterator[list[tuple[str, Any]]]:
    """Inside the block every launch compiles its kernel and appends (name, kernel)."""
    compiled: list[tuple[str, Any]] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        compiled.append((f"{self.fn.__module__.rsplit('.', 1)[1]}.{self.fn.__name__}", kernel))

    active = triton.runtime.driver._active
    triton.runtime.driver.set_active(NoCard())
    JITFunction.run = compile_only
    try:
        yield compiled
    finally:
        JITFunction.run = run
        triton.runtime.driver._active = active


def call_all(
    heads: int, channels: int, dtype: torch.dtype, degree: int, options: bool, path: str = "general"
) -> None:
    """Call every launcher, plain or with every option that the operator has.

    Path: "general"; "runs", as for complete and causal graphs; "windows", as for small graphs.
    """
    n = m = max(1, EDGES // degree)
    e, d = EDGES, 16

    def new(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    sizes = (n + 1, e, e, m + 1, e, e)
    layout = [new(size, dtype=torch.int32) for size in sizes]
    graphs = n // 25 + 1 if path == "windows" else 0
    bare_layout = bare(*layout)._replace(graph_ptr=new(graphs, dtype=torch.int32))
    layout = list(facts.with_facts(bare_layout, band_area=EDGES if path == "runs" else 0))
    rows, sources, edges = new(n, heads, channels), new(m, heads, channels), new(e, heads)
    a, b, w = new(n, heads), new(m, heads), new(heads, channels)
    attr, proj = new(e, d), new(heads, channels, d)
    seed, p = (new(1, dtype=torch.int64), 0.5) if options else (None, 0.0)

    has_features = options and path != "runs"
    features = (attr, proj) if has_features else (None, None)
    inputs = rows, sources, sources, edges if options else None, *features
    out, *saved, exact, edge_out = kernels.dot_product_forward(*inputs, layout, seed, 0.25, p, True)
    saved = value_sum(out, exact), *saved, edge_out
    kernels.dot_product_backward(rows, *inputs, *saved, layout, seed, 0.25, p, True)
    if path == "runs":
        return

    extra = edges if options else None
    out, *saved, exact = kernels.additive_forward(
        a, b, sources, extra, layout, seed, 0.2, p, True, True
    )
    saved = value_sum(out, exact), *saved
    kernels.additive_forward(a, b, sources, extra, layout, seed, 0.2, p, False, False)
    kernels.additive_backward(rows, a, b, sources, extra, *saved, layout, seed, 0.2, p)

    inputs = rows, sources, None, w, *((attr, proj) if options else (None, None))
    act = "tanh" if options else "leaky_relu"
    out, *saved, exact = kernels.mlp_forward(*inputs, layout, seed, act, 0.2, p, True)
    saved = value_sum(out, exact), *saved
    kernels.mlp_backward(rows, *inputs, *saved, layout, seed, act, 0.2, p, options)
    if path == "windows":
        return
    kernels.mlp_score(rows, sources, *inputs[3:], layout, act, 0.2)

    if not options:
        kernels.edge_softmax(edges, layout)
        kernels.edge_softmax_backward(edges, edges, layout)
        kernels.aggregate(edges, sources, layout, False)
        kernels.aggregate(edges, rows, layout, True)
        kernels.edge_dot(rows, sources, layout)


def resources(kernel: Any) -> dict[str, int]:
    """Registers a thread, instructions that spill one, bytes of shared memory, and warps."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        listing = dump("--dump-resource-usage", file.name)
        found = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", listing)}
        # some compilers reserve a frame and do not use it
        code = dump("--dump-sass", file.name) if found["STACK"] else ""
    return {
        "registers": found["REG"],
        "spills": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
    }


def dump(*arguments: str) -> str:
    """What cuobjdump prints."""
    command = [str(CUOBJDUMP), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


Class = tuple[int, int, torch.dtype, int, bool, str]


def classes(quick: bool) -> Iterator[Class]:
    """(heads, channels, dtype, mean degree, options, path) of every shape class."""
    fp32, bf16, fp16, fp64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
    if quick:
        yield 8, 16, fp32, 16, True, "general"
        yield 3, 5, bf16, 2, False, "windows"
        yield 4, 32, bf16, 64, False, "runs"
        return
    for heads, channels in SHAPES:
        for dtype in (fp32, bf16):
            yield heads, channels, dtype, 64, False, "general"
            yield heads, channels, dtype, 64, False, "runs"
    for heads, channels in SHAPES[:1] + SHAPES[-1:]:
        for dtype in (fp32, bf16):
            yield heads, channels, dtype, 64, True, "general"
            yield heads, channels, dtype, 64, True, "runs"
            yield heads, channels, dtype, 2, False, "general"
            yield heads, channels, dtype, 2, False, "windows"
            yield heads, channels, dtype, 2, True, "windows"
    for heads, channels, dtype in ((4, 64, bf16), (4, 64, fp32), (1, 256, bf16), (8, 16, fp64)):
        yield heads, channels, dtype, 2, False, "windows"
        yield heads, channels, dtype, 2, True, "windows"
    for dtype in (fp16, fp64):
        yield 8, 16, dtype, 64, False, "general"
        yield 8, 16, dtype, 64, True, "general"
    yield 4, 64, fp64, 64, True, "general"
    yield 1, 256, fp32, 64, True, "general"
    yield 8, 16, fp16, 64, True, "runs"


def table(path: Path) -> str:
    """Markdown: each kernel's registers, shared memory and spills over its shape classes."""
    records: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        found = json.loads(line)
        records.setdefault(found["kernel"], []).append(found)
    lines = [
        "| kernel | compiled | registers | shared memory, bytes | spilling |",
        "|---|---|---|---|---|",
    ]
    for name, of_kernel in sorted(records.items()):
        spans = [
            " to ".join(
                dict.fromkeys(f"{ends([r[what] for r in of_kernel])}" for ends in (min, max))
            )
            for what in ("registers", "shared")
        ]
        spilling = sum(r["spills"] > 0 for r in of_kernel)
        lines.append(f"| `{name}` | {len(of_kernel)} | {spans[0]} | {spans[1]} | {spilling} |")
    found = next(iter(records.values()))[0]
    return "\n".join([f"For {found['target']}, Triton {found['triton']}.", "", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two shape classes only")
    parser.add_argument("--out", type=Path, default=RESULTS / "aot_sm90.jsonl")
    parser.add_argument("--table", action="store_true", help="write the table of docs/gpu.md")
    args = parser.parse_args()
    if args.table:
        pages.write(PAGE, "registers and spills", table(args.out))
        return 0
    args.out.parent.mkdir(parents=True, exist_ok=True)
    spilled = 0
    with args.out.open("w") as file, compiling_only() as compiled:
        for heads, channels, dtype, degree, options, path in classes(args.quick):
            compiled.clear()
            call_all(heads, channels, dtype, degree, options, path)
            for name, kernel in compiled:
                used = resources(kernel)
                spilled += used["spills"] > 0
                record = {
                    "kernel": name, "heads": heads, "channels": channels,
                    "dtype": str(dtype).removeprefix("torch."), "degree": degree,
                    "options": options, "path": path, **used,
                    "target": "sm_90", "triton": triton.__version__,
                }  # fmt: skip
                file.write(json.dumps(record) + "\n")
            known = heads, channels, dtype, degree, options, path
            print(*known, len(compiled), "kernels", flush=True)
    print(f"{spilled} kernels that spill registers; written to {args.out}")
    return int(spilled > 0)


if __name__ == "__main__":
    sys.exit(main())
