"""Analyse the machine code of a kernel's loops over edges from the disassembly.

Kernels are compiled for sm_90 without a GPU (:mod:`benchmarks.tools.aot`) and disassembled by
Triton's disassembler. The instructions of a loop are counted along the path with the most loads
and, among these paths, with the fewest instructions. Branches that only some graphs take are
therefore not counted.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton

from benchmarks.core import tables
from benchmarks.core.record import Record
from benchmarks.tools import aot

TABLES = {
    "gat_forward_kernel": (1,),
    "gat_backward_key_kernel": (1,),
    "dot_product_forward_kernel": (2,),
    "dot_product_backward_query_kernel": (2, 2),
    "weighted_sum_kernel": (2,),
    "gatv2_forward_kernel": (1,),
    "gatv2_backward_query_kernel": (1, 2),
    "gatv2_backward_key_kernel": (2,),
}
"""Number of rows that an edge gathers in each loop over edges; a second loop exists for whole
graphs.
"""
PAIRS = {
    "dot_product_banded_forward_kernel",
    "dot_product_banded_backward_query_kernel",
    "dot_product_banded_backward_key_kernel",
}
"""Kernels whose loop processes pairs of a tile."""
SHAPES = ((8, 16), (1, 128), (4, 25), (1, 7))
DEGREES = {"general": 16, "graphs": 2, "runs": 64}
PATHS = {"general": "rows", "graphs": "whole graphs", "runs": "matrix products"}
REGISTERS, WARPS, BLOCKS, SHARED = 65536, 64, 32, 227 * 1024
"""Resources and limits of a multiprocessor."""
LINE = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+ )?\s*([A-Z0-9_.]+)([^;]*);")


@dataclass(frozen=True)
class Instruction:
    """Instruction of a disassembly."""

    address: int
    name: str
    operands: str
    is_conditional: bool

    def target(self) -> int | None:
        """Return the target address of a branch, or None."""
        match = re.search(r"(0x[0-9a-f]+)\s*$", self.operands)
        return int(match[1], 16) if match and self.name.split(".")[0] == "BRA" else None

    def load_bytes(self) -> int:
        """Number of bytes that a lane loads from global memory; 0 for other instructions."""
        if not self.name.startswith("LDG"):
            return 0
        widths = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
        return next((widths[part] for part in self.name.split(".") if part in widths), 4)


def parse(listing: str) -> list[Instruction]:
    """Parse the instructions, without the code for warps that have diverged."""
    code = [
        Instruction(int(match[1], 16), match[2], match[3], "@" in match[0].split("*/")[1])
        for match in LINE.finditer(listing)
    ]
    cold = [one.target() for one in code if one.name == "BRA.DIV"]
    end = min((target for target in cold if target is not None), default=None)
    return [one for one in code if end is None or one.address < end]


def loops(code: list[Instruction]) -> list[list[Instruction]]:
    """Return the innermost loops that load from global memory."""
    spans = []
    for at, one in enumerate(code):
        target = one.target()
        if target is not None and target < one.address:
            begin = next(i for i, other in enumerate(code) if other.address == target)
            spans.append((begin, at + 1))
    inner = [
        (begin, end)
        for begin, end in spans
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in spans)
    ]
    bodies = (way_round(code[begin:end]) for begin, end in sorted(inner))
    return [body for body in bodies if any(one.load_bytes() for one in body)]


def way_round(body: list[Instruction]) -> list[Instruction]:
    """Return the execution path through a loop that contains the most loads.

    If several paths have the same number of loads, return the one with the fewest instructions.
    """
    place = {one.address: i for i, one in enumerate(body)}
    best: list[tuple[int, int, int] | None] = [None] * len(body)
    # Each entry: minus the number of loads, the number of instructions, the previous instruction.
    best[0] = (0, 1, -1)
    for i, one in enumerate(body[:-1]):
        reached = best[i]
        if reached is None:
            continue
        target = place.get(one.target() or -1, -1)
        after = [target] if target > i else []
        if target <= i or one.is_conditional:
            after.append(i + 1)
        for j in after:
            candidate = (reached[0] - (body[j].load_bytes() > 0), reached[1] + 1, i)
            previous = best[j]
            if previous is None or candidate[:2] < previous[:2]:
                best[j] = candidate
    way, i = [], len(body) - 1
    while i >= 0:
        way.append(body[i])
        step = best[i]
        i = -1 if step is None else step[2]
    return way[::-1]


def loads_in_flight(body: list[Instruction]) -> int:
    """Count the loads of 16 bytes per lane that are issued before the result of one of them is
    used.
    """
    pending: set[int] = set()
    flying = most = 0
    for one in body * 2:
        first, _, rest = one.operands.partition(",")
        named = {int(number) for number in re.findall(r"\bR(\d+)", one.operands)}
        is_wide = one.load_bytes() == 16
        if is_wide:
            named = {int(number) for number in re.findall(r"\bR(\d+)", rest)}
        if named & pending:
            pending, flying = set(), 0
        if is_wide:
            base = re.findall(r"\bR(\d+)", first)
            pending |= {int(base[0]) + word for word in range(4)}
            flying += 1
        most = max(most, flying)
    return most


def blocks(registers: int, warps: int, shared: int) -> int:
    """Return the number of blocks that a multiprocessor can hold at the same time."""
    of_registers = REGISTERS // (-(-registers // 8) * 8 * 32 * warps)
    return min(BLOCKS, WARPS // warps, of_registers, SHARED // (shared + 1024))


def loop_figures(
    body: list[Instruction], constants: dict[str, Any], warps: int, size: int, tables_read: int
) -> Record:
    """Return the number of instructions of a loop per edge and per 128 bytes of gathered rows, or
    per pair of a tile.
    """

    def count(*names: str) -> int:
        return sum(one.name.split(".")[0] in names for one in body)

    narrow = sum(0 < one.load_bytes() < 16 for one in body)
    wide = sum(one.load_bytes() == 16 for one in body)
    counts: Record = {
        "instructions": len(body), "wide_loads": wide, "narrow_loads": narrow,
        "in_flight": loads_in_flight(body), "shuffles": count("SHFL"),
        "barriers": count("BAR"), "exponentials": count("MUFU"),
    }  # fmt: skip
    if not tables_read:
        pairs = constants["BLOCK_M"] * constants["BLOCK_N"]
        return {**counts, "per_pair": round(warps * len(body) / pairs, 3)}
    edges = constants["SLOTS"] * constants["ROWS"] * constants["UNROLL"]
    heads = min(constants["H"], constants["HEADS"])
    row = heads * constants["CHANNELS"] * size
    gathered = edges * tables_read * row
    return {
        **counts, "edges": edges, "row_bytes": row,
        "per_edge": round(warps * len(body) / edges, 1),
        "per_128_bytes": round(warps * len(body) * 128 / gathered, 1),
        # Loads of 16 bytes are possible if the number of bytes of a head is a multiple of 16.
        "could_be_wide": constants["CHANNELS"] * size % 16 == 0,
        "is_wide": wide * 16 * 32 * warps >= gathered,
    }  # fmt: skip


def figures(kernel: Any, path: str) -> Record:
    """Return all counts of one compiled kernel."""
    names = kernel.src.fn.arg_names
    constants = {names[at[0]]: value for at, value in kernel.src.constants.items() if len(at) == 1}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        code = parse(aot.dump("--dump-sass", file.name))
    used, name = aot.resources(kernel), kernel.metadata.name
    rows = TABLES.get(name, (0,))
    rows = rows if path == "graphs" else rows[:1]
    bodies = loops(code)[-len(rows) :]
    size = {"fp32": 4, "bf16": 2}[table_type(kernel)]
    of_loops = [
        loop_figures(body, constants, used["warps"], size, read)
        for body, read in zip(bodies, rows, strict=True)
    ]
    resident = blocks(used["registers"], used["warps"], used["shared"])
    return {**used, "blocks": resident, "loops": of_loops}


def table_type(kernel: Any) -> str:
    """Return the dtype of the tables from which a kernel gathers."""
    types = {str(kind).lstrip("*") for kind in kernel.src.signature.values()}
    return "bf16" if "bf16" in types else "fp32"


def classes() -> Iterator[aot.ShapeClass]:
    """Return the shape classes whose kernels are analysed."""
    for heads, channels in SHAPES:
        for path, degree in DEGREES.items():
            for dtype in (torch.float32, torch.bfloat16):
                yield aot.ShapeClass(heads, channels, dtype, degree, False, path)


def read(shape: aot.ShapeClass, families: Iterable[str] | None = None) -> Iterator[Record]:
    """Return a record for each kernel of a shape class that has a loop over edges.

    Args:
        shape: the shape class.
        families: families of attention operators; None for all.
    """
    expected = PAIRS if shape.path == "runs" else TABLES.keys()
    with aot.compiling_only() as compiled:
        aot.call_families(shape, aot.families() if families is None else families)
    for _, kernel in compiled:
        name = kernel.metadata.name
        if name in expected:
            yield {
                "kernel": name, "heads": shape.heads, "channels": shape.channels,
                "dtype": str(shape.dtype).removeprefix("torch."), "path": PATHS[shape.path],
                "target": "sm_90", "triton": triton.__version__, **figures(kernel, shape.path),
            }  # fmt: skip


def table(records: Iterable[Record]) -> str:
    """Return a Markdown table with a row for each loop over edges."""
    head = ["path", "kernel", "shape", "dtype", "instructions, per edge or pair", "per 128 bytes",
            "wide loads in flight", "barriers", "registers", "blocks"]  # fmt: skip
    rows = []
    for entry in records:
        for loop in entry["loops"]:
            cost = loop.get("per_edge", loop.get("per_pair"))
            rows.append([
                entry["path"], f"`{entry['kernel'].removesuffix('_kernel')}`",
                f"{entry['heads']} x {entry['channels']}", entry["dtype"],
                f"{cost}", f"{loop.get('per_128_bytes', '')}",
                f"{loop['in_flight']}", f"{loop['barriers']}",
                f"{entry['registers']}", f"{entry['blocks']}",
            ])  # fmt: skip
    return tables.markdown(head, rows, text=4)
