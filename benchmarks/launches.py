"""Measure the host time of a GPU call of each operator, without a GPU.

    python -m benchmarks.launches             # a few seconds, once the kernels are compiled
    python -m benchmarks.launches --table     # write the table of docs/gpu.md from the results

JSON lines go to benchmarks/results/launches.jsonl. :mod:`benchmarks.tools.launches` describes the
measurements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import triton

from benchmarks.aot import PAGE
from benchmarks.core import record, tables
from benchmarks.tools import launches


def main(arguments: Sequence[str]) -> None:
    """Measure every operator, or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launches", description=main.__doc__)
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="time in seconds for which each case is repeated (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=record.RESULTS / "launches.jsonl", help="file with the results"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="write the recorded results into the table of docs/gpu.md, without measuring",
    )
    options = parser.parse_args(arguments)
    if options.table:
        newest = list(record.newest(options.out).values())
        tables.write(PAGE, "host times", launches.table(newest))
        return
    torch.set_num_threads(1)
    machine = record.environment("benchmarks.launches", arguments)
    environment = {**machine, "triton": triton.__version__}
    for entry in launches.run(options.seconds):
        record.append(options.out, {**entry, "environment": environment})
        times = {k: f"{v['median'] * 1e6:.1f} us" for k, v in entry["seconds"].items()}
        print(entry["case"], times, entry["launches"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
