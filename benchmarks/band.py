"""Band attention up to a million tokens, beside dense attention with the band as its mask.

``python -m benchmarks.band`` measures all sizes, each in a process of its own, prints a table and
adds a JSON line to benchmarks/results/band.jsonl; ``python -m benchmarks.band KIND TOKENS``
measures one.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import gattn
from benchmarks import memory, record

HEADS, CHANNELS = 4, 16
TOKENS = (1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000)
KINDS = ("band", "dense")
FEWEST = 3
CHECKED = 1_000


def measure(kind: str, tokens: int, width: int) -> dict[str, float]:
    """Time and peak memory of forward and backward, what they need laid out or masked included."""
    inputs = [torch.randn(tokens, HEADS, CHANNELS).requires_grad_() for _ in range(3)]
    memory.reset_peak()
    base = memory.resident()
    start = time.perf_counter()
    attend = _band(tokens, width) if kind == "band" else _dense(tokens, width)
    prepared = time.perf_counter() - start
    samples = []
    for _ in range(FEWEST):
        start = time.perf_counter()
        out = attend(*inputs)
        out.backward(torch.ones_like(out))
        samples.append(time.perf_counter() - start)
    pairs = tokens * (2 * width + 1) - width * (width + 1)  # inside the band
    row = {
        "edges": pairs,
        "prepare_seconds": prepared,
        "seconds": statistics.median(samples),
        "peak_bytes": memory.peak() - base,
    }
    if tokens <= CHECKED:
        with torch.no_grad():
            difference = _band(tokens, width)(*inputs) - _dense(tokens, width)(*inputs)
        row["error"] = float(difference.abs().max())
    return row


def _band(tokens: int, width: int) -> Callable[..., Tensor]:
    graph = gattn.graphs.band([tokens], width)
    return lambda q, k, v: gattn.functional.dot_product_attention(q, k, v, graph)


def _dense(tokens: int, width: int) -> Callable[..., Tensor]:
    place = torch.arange(tokens, dtype=torch.int32)
    mask = torch.ones(tokens, tokens, dtype=torch.bool)
    for rows in place.split(1024):  # the mask, and little beside it
        mask[rows[0] : rows[-1] + 1] = (rows[:, None] - place).abs() <= width

    def attend(*tensors: Tensor) -> Tensor:
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in tensors)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)

    return attend


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| tokens | edges | band: lay out, s | forward + backward, s | memory, MB "
        "| dense with mask: forward + backward, s | memory, MB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        band, dense = row["band"], row["dense"]
        stopped = [dense["stopped"], ""] if "stopped" in dense else None
        cells = [
            f"{row['tokens']:,}", f"{band['edges']:,}", f"{band['prepare_seconds']:.3f}",
            f"{band['seconds']:.3f}", f"{band['peak_bytes'] / 1e6:,.0f}",
            *(stopped or [f"{dense['seconds']:.3f}", f"{dense['peak_bytes'] / 1e6:,.0f}"]),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _apart(kind: str, tokens: int, options: argparse.Namespace) -> dict[str, Any]:
    """One measurement in a process that may take so much memory and time, or why it has none."""
    command = ["-m", "benchmarks.band", kind, str(tokens), "--width", str(options.width)]
    command += ["--threads", str(options.threads), "--gigabytes", str(options.gigabytes)]
    try:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=options.seconds,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"stopped": f"over {options.seconds:.0f} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if "can't allocate memory" in done.stderr or "MemoryError" in done.stderr:
        return {"stopped": f"over {options.gigabytes:.0f} GB"}
    raise RuntimeError(f"python {' '.join(command)} failed:\n{done.stderr}")


def main(arguments: list[str]) -> None:
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.kind:
        limit = int(options.gigabytes * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print(json.dumps(measure(options.kind, options.tokens, options.width)))
        return
    rows, stopped = [], None
    for tokens in (n for n in TOKENS if n <= options.largest):
        print(f"{tokens:,} tokens ...", file=sys.stderr, flush=True)
        row = {"tokens": tokens, "band": _apart("band", tokens, options)}
        row["dense"] = stopped or _apart("dense", tokens, options)
        stopped = row["dense"] if "stopped" in row["dense"] else None
        rows.append(row)
    environment = record.environment(["band", *arguments])
    environment["command"] = " ".join(["python -m benchmarks.band", *arguments])
    measured = {
        "case": "band", "width": options.width, "heads": HEADS, "channels": CHANNELS,
        "dtype": "float32", "rows": rows, "environment": environment,
    }  # fmt: skip
    record.append(options.output, measured)
    print(table(rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("tokens", nargs="?", type=int)
    parser.add_argument("--width", type=int, default=32, help="steps to either side")
    parser.add_argument("--largest", type=int, default=TOKENS[-1], help="most tokens")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--gigabytes", type=float, default=16.0, help="address space of a process")
    parser.add_argument("--seconds", type=float, default=300.0, help="time of a process")
    parser.add_argument("--output", type=Path, default=record.RESULTS / "band.jsonl")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
