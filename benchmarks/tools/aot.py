"""Triton kernels compiled for sm_90 without a GPU, and their registers and spills.

The launchers run on tensors of the meta device, with the compiler told that the card is an H100
and with nothing launched: what is compiled is what a card would be sent. A kernel spills registers
where one of its instructions reads or writes the stack.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from benchmarks.core import tables
from benchmarks.core.record import Record
from benchmarks.sides import internals
from benchmarks.sides.inputs import EDGE_DIM

TARGET = GPUTarget("cuda", 90, 32)
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
SHAPES = [(8, 16), (4, 32), (1, 128), (4, 64), (8, 8), (1, 7), (3, 5)]
EDGES = 100_000


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


@dataclass(frozen=True)
class ShapeClass:
    """What decides which kernels a call compiles."""

    heads: int
    channels: int
    dtype: torch.dtype
    degree: int
    """Edges of a destination, on average."""
    options: bool
    """Whether the operator has every option it can have."""
    path: str = "general"
    """"general"; "runs", as for complete and causal graphs; "graphs", as for small graphs."""


def call_all(shape: ShapeClass) -> None:
    """Call every launcher that serves a shape class."""
    heads, channels, path, options = shape.heads, shape.channels, shape.path, shape.options
    n = m = max(1, EDGES // shape.degree)
    e, d = EDGES, EDGE_DIM

    def new(*shape: int, dtype: torch.dtype = shape.dtype) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    sizes = (n + 1, e, e, m + 1, e, e)
    indices = [new(size, dtype=torch.int32) for size in sizes]
    graph_ptr = new(n // 25 + 1, dtype=torch.int32) if path == "graphs" else None
    layout = internals.layout_of(indices, is_runs=path == "runs", graph_ptr=graph_ptr)
    kernels, value_sum = internals.launchers(), internals.value_sum
    rows, sources, edges = new(n, heads, channels), new(m, heads, channels), new(e, heads)
    a, b, w = new(n, heads), new(m, heads), new(heads, channels)
    attr, proj = new(e, d), new(heads, channels, d)
    seed, p = (new(1, dtype=torch.int64), 0.5) if options else (None, 0.0)

    has_features = options and path != "runs"
    features = (attr, proj) if has_features else (None, None)
    inputs = rows, sources, sources, edges if options else None, *features
    out, *saved, out_acc, edge_out = kernels.dot_product_forward(
        *inputs, layout, seed, 0.25, p, True
    )
    saved = value_sum(out, out_acc), *saved, edge_out
    kernels.dot_product_backward(rows, *inputs, *saved, layout, seed, 0.25, p, True)
    if path == "runs":
        return

    extra = edges if options else None
    out, *saved, out_acc = kernels.additive_forward(
        a, b, sources, extra, layout, seed, 0.2, p, True, True
    )
    saved = value_sum(out, out_acc), *saved
    kernels.additive_forward(a, b, sources, extra, layout, seed, 0.2, p, False, False)
    kernels.additive_backward(rows, a, b, sources, extra, *saved, layout, seed, 0.2, p)

    inputs = rows, sources, None, w, *((attr, proj) if options else (None, None))
    act = "tanh" if options else "leaky_relu"
    out, *saved, out_acc = kernels.mlp_forward(*inputs, layout, seed, act, 0.2, p, True)
    saved = value_sum(out, out_acc), *saved
    kernels.mlp_backward(rows, *inputs, *saved, layout, seed, act, 0.2, p, options)
    if path == "graphs":
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


def classes(quick: bool) -> Iterator[ShapeClass]:
    """Every shape class that is compiled, or three of them."""
    fp32, bf16, fp16, fp64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
    if quick:
        yield ShapeClass(8, 16, fp32, 16, True)
        yield ShapeClass(3, 5, bf16, 2, False, "graphs")
        yield ShapeClass(4, 32, bf16, 64, False, "runs")
        return
    for heads, channels in SHAPES:
        for dtype in (fp32, bf16):
            yield ShapeClass(heads, channels, dtype, 64, False)
            yield ShapeClass(heads, channels, dtype, 64, False, "runs")
    for heads, channels in SHAPES[:1] + SHAPES[-1:]:
        for dtype in (fp32, bf16):
            yield ShapeClass(heads, channels, dtype, 64, True)
            yield ShapeClass(heads, channels, dtype, 64, True, "runs")
            yield ShapeClass(heads, channels, dtype, 2, False)
            yield ShapeClass(heads, channels, dtype, 2, False, "graphs")
            yield ShapeClass(heads, channels, dtype, 2, True, "graphs")
    for heads, channels, dtype in ((4, 64, bf16), (4, 64, fp32), (1, 256, bf16), (8, 16, fp64)):
        yield ShapeClass(heads, channels, dtype, 2, False, "graphs")
        yield ShapeClass(heads, channels, dtype, 2, True, "graphs")
    for dtype in (fp16, fp64):
        yield ShapeClass(8, 16, dtype, 64, False)
        yield ShapeClass(8, 16, dtype, 64, True)
    yield ShapeClass(4, 64, fp64, 64, True)
    yield ShapeClass(1, 256, fp32, 64, True)
    yield ShapeClass(8, 16, fp16, 64, True, "runs")


def compile_class(shape: ShapeClass, compiled: list[tuple[str, Any]]) -> Iterator[Record]:
    """A record for every kernel that a shape class compiles, inside :func:`compiling_only`."""
    compiled.clear()
    call_all(shape)
    for name, kernel in compiled:
        known = {**asdict(shape), "dtype": str(shape.dtype).removeprefix("torch.")}
        yield {
            "kernel": name, **known, **resources(kernel),
            "target": "sm_90", "triton": triton.__version__,
        }  # fmt: skip


def table(records: Iterable[Record]) -> str:
    """Markdown: each kernel's registers, shared memory and spills over its shape classes."""
    kernels: dict[str, list[Record]] = {}
    for found in records:
        kernels.setdefault(found["kernel"], []).append(found)
    head = ["kernel", "compiled", "registers", "shared memory, bytes", "spilling"]
    rows = [
        [f"`{name}`", f"{len(found)}", *(_span(found, what) for what in ("registers", "shared")),
         f"{sum(one['spills'] > 0 for one in found)}"]
        for name, found in sorted(kernels.items())
    ]  # fmt: skip
    first = next(iter(kernels.values()))[0]
    known = f"For {first['target']}, Triton {first['triton']}."
    return f"{known}\n\n{tables.markdown(head, rows, text=len(head))}"


def _span(records: list[Record], what: str) -> str:
    """From the least to the most."""
    values = [found[what] for found in records]
    return " to ".join(map(str, dict.fromkeys((min(values), max(values)))))
