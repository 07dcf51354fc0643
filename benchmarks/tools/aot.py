"""Compilation of the Triton kernels for sm_90 without a GPU, with their registers and spills.

The launchers run on tensors of the meta device, the compiler compiles for an H100, and no kernel is
launched. The compiled kernels are therefore those that an H100 would run. A kernel spills registers
if one of its instructions reads or writes the stack.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
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
SHAPES = [(8, 16), (4, 32), (1, 128), (4, 64), (8, 8), (1, 7), (3, 5), (4, 25)]
EDGES = 100_000


class NoCard:
    """Replacement for Triton's driver, which describes the GPU without needing one."""

    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device=None: 0)
    get_current_target = staticmethod(lambda: TARGET)


@contextlib.contextmanager
def compiling_only() -> Iterator[list[tuple[str, Any]]]:
    """Compile the kernel of every launch during the block without running it, and record (name,
    kernel).
    """
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
    """Properties that determine the kernels that a call compiles."""

    heads: int
    channels: int
    dtype: torch.dtype
    degree: int
    """Mean number of edges of a destination."""
    options: bool
    """True if the operator uses all of its options."""
    path: str = "general"
    """"general"; "runs", as for complete and causal graphs; "graphs", as for small graphs."""


BANDED = ("dot_product",)
"""Families that have separate kernels for consecutive sources, without edge features and edge
weights.
"""


def call_all(shape: ShapeClass) -> None:
    """Call every launcher that supports a shape class, with inputs as its operator declares
    them.
    """
    launched = families()
    call_families(shape, launched)
    if shape.path != "general":
        return
    launchers, operators, layout = internals.launchers(), internals.operators(), layout_of(shape)
    for name in launchers.__all__:
        operator = operators[name]
        has_options = any(letters.endswith("?") for letters in operator.shapes.values())
        if name.rsplit("_", 1)[0] in launched and name.endswith(("_forward", "_backward")):
            continue
        if has_options or not shape.options:
            call(launchers, operator, shape, {"layout": layout, "transposed": False})
        if "transposed" in operator.settings and not shape.options:
            call(launchers, operator, shape, {"layout": layout, "transposed": True})


def families() -> list[str]:
    """Return the operators that have a forward and a backward kernel."""
    names = internals.operators()
    return [name.removesuffix("_forward") for name in names if name.endswith("_forward")]


def call_families(shape: ShapeClass, chosen: Iterable[str]) -> None:
    """Call the forward and the backward of the chosen families for a shape class."""
    launchers, operators, layout = internals.launchers(), internals.operators(), layout_of(shape)
    for family in BANDED if shape.path == "runs" else chosen:
        arguments: dict[str, Any] = {"layout": layout}
        forward, backward = (operators[f"{family}_{part}"] for part in ("forward", "backward"))
        outputs = call(launchers, forward, shape, arguments)
        outputs["out_acc"] = internals.value_sum(outputs["out"], outputs["out_acc"])
        call(launchers, backward, shape, {**arguments, **outputs})
        if len(forward.flags) > 1:
            # Other flags of forward select other kernels, so compile these as well.
            call(launchers, forward, shape, {**arguments, **dict.fromkeys(forward.flags, False)})


def call(
    launchers: ModuleType, operator: Any, shape: ShapeClass, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Call the launcher of an operator on empty tensors and the given values; return its outputs
    by name.
    """
    n = m = nodes(shape)
    lengths = {"n": n, "m": m, "k": m, "e": EDGES, "h": shape.heads, "u": shape.heads}
    lengths |= {"c": shape.channels, "w": shape.channels, "d": EDGE_DIM, "b": shape.heads}
    args: dict[str, Any] = {"seed": None, **dict.fromkeys(operator.flags, True)}
    if shape.options:
        args["seed"] = empty(2, dtype=torch.int64)
    for name, letters in operator.shapes.items():
        size = [lengths[letter] for letter in letters.rstrip("?").split()]
        # The kernels for runs of edges support no edge weights and no edge features.
        is_of_general = name == "edge_weight" or "d" in letters
        is_left_out = not shape.options or (shape.path == "runs" and is_of_general)
        if letters.endswith("?") and (is_left_out or name in operator.fallback_input):
            args[name] = None
        else:
            args[name] = empty(*size, dtype=shape.dtype)
    for name, kind in operator.settings.items():
        args[name] = kind[-1 if shape.options else 0] if isinstance(kind, tuple) else 0.25
    args["dropout"] = 0.5 if shape.options else 0.0
    args |= {f"wants_{name}": args[name] is not None for name in operator.shapes}
    args |= arguments
    launch = getattr(launchers, operator.name)
    outputs = launch(*(args[name] for name in operator.parameters if name != "backend"))
    return dict(zip(operator.outputs, outputs if isinstance(outputs, tuple) else (outputs,)))


def nodes(shape: ShapeClass) -> int:
    """Return the numbers of sources and of destinations of the graph of a shape class."""
    return max(1, EDGES // shape.degree)


def layout_of(shape: ShapeClass) -> list[torch.Tensor]:
    """Create a layout with the sizes of a graph, but without values."""
    n = m = nodes(shape)
    sizes = (n + 1, EDGES, EDGES, m + 1, EDGES, EDGES)
    indices = [empty(size, dtype=torch.int32) for size in sizes]
    graph_ptr = empty(n // 25 + 1, dtype=torch.int32) if shape.path == "graphs" else None
    return internals.layout_of(indices, is_runs=shape.path == "runs", graph_ptr=graph_ptr)


def empty(*size: int, dtype: torch.dtype) -> torch.Tensor:
    """Create a tensor without memory."""
    return torch.empty(*size, dtype=dtype, device="meta")


def resources(kernel: Any) -> dict[str, int]:
    """Return the registers per thread, the spill instructions, the bytes of shared memory, and
    the warps.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        listing = dump("--dump-resource-usage", file.name)
        usage = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", listing)}
        # Some compilers reserve a stack frame that the code does not use.
        code = dump("--dump-sass", file.name) if usage["STACK"] else ""
    return {
        "registers": usage["REG"],
        "spills": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "shared": kernel.metadata.shared,
        "warps": kernel.metadata.num_warps,
    }


def dump(*arguments: str) -> str:
    """Return the output of cuobjdump."""
    command = [str(CUOBJDUMP), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def classes(quick: bool) -> Iterator[ShapeClass]:
    """Return all shape classes that are compiled, or three of them."""
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
    """Return a record for each kernel that is compiled for a shape class, inside
    :func:`compiling_only`.
    """
    compiled.clear()
    call_all(shape)
    for name, kernel in compiled:
        shape_fields = {**asdict(shape), "dtype": str(shape.dtype).removeprefix("torch.")}
        yield {
            "kernel": name, **shape_fields, **resources(kernel),
            "target": "sm_90", "triton": triton.__version__,
        }  # fmt: skip


def table(records: Iterable[Record]) -> str:
    """Return a Markdown table of each kernel's registers, shared memory and spills over its
    shape classes.
    """
    kernels: dict[str, list[Record]] = {}
    for entry in records:
        kernels.setdefault(entry["kernel"].rpartition(".")[2], []).append(entry)
    head = ["kernel", "compiled", "registers", "shared memory, bytes", "spilling"]
    rows = [
        [f"`{name}`", f"{len(entries)}", _span(entries, "registers"), _span(entries, "shared"),
         f"{sum(entry['spills'] > 0 for entry in entries)}"]
        for name, entries in sorted(kernels.items())
    ]  # fmt: skip
    first = next(iter(kernels.values()))[0]
    caption = f"The kernels were compiled for {first['target']} by Triton {first['triton']}."
    return f"{caption}\n\n{tables.markdown(head, rows, text=len(head))}"


def _span(records: list[Record], what: str) -> str:
    """Format the range from the minimum to the maximum of some numbers."""
    values = [entry[what] for entry in records]
    return " to ".join(map(str, dict.fromkeys((min(values), max(values)))))
