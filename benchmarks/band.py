"""Comparison of band attention with dense attention that uses the band as a mask.

    python -m benchmarks.band

measures each size in a separate process, prints a table, and appends a JSON line to
benchmarks/results/band.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.core import isolate, record
from benchmarks.suites import band


def main(arguments: list[str]) -> None:
    """Measure every size up to the largest. After its first failure, dense attention is not
    measured for larger sizes.
    """
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows, stopped = [], None
    for tokens in (n for n in band.TOKENS if n <= options.largest):
        print(f"{tokens:,} tokens ...", file=sys.stderr, flush=True)
        row = {"tokens": tokens, "band": _apart("band", tokens, options)}
        row["dense"] = stopped or _apart("dense", tokens, options)
        stopped = row["dense"] if "stopped" in row["dense"] else None
        rows.append(row)
    measured = {
        "case": "band", "width": options.width, "heads": band.HEADS, "channels": band.CHANNELS,
        "dtype": "float32", "rows": rows,
        "environment": record.environment("benchmarks.band", arguments),
    }  # fmt: skip
    record.append(options.output, measured)
    print(band.table(rows))


def _apart(kind: str, tokens: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run a measurement in a process with limited memory and time; return the reason if it was
    stopped.
    """
    try:
        return isolate.call(
            band.measure, kind, tokens, options.width,
            threads=options.threads, gigabytes=options.gigabytes, seconds=options.seconds,
        )  # fmt: skip
    except isolate.Stopped as reason:
        return {"stopped": str(reason)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.band", description=main.__doc__)
    parser.add_argument(
        "--width",
        type=int,
        default=32,
        help="width of the band on each side of a token (default: %(default)s)",
    )
    parser.add_argument(
        "--largest",
        type=int,
        default=band.TOKENS[-1],
        help="maximum number of tokens (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=torch.get_num_threads(),
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--gigabytes",
        type=float,
        default=16.0,
        help="maximum size of the address space of each process, in GB (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        help="maximum run time of each process, in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "band.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
