"""Measurement of the block size from which torch's dense attention is faster than the operator on
edges.

    python -m benchmarks.dense_rule

prints a table and adds a JSON line to benchmarks/results/dense_rule.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.core import record, tables
from benchmarks.tools import dense_rule


def main(arguments: Sequence[str]) -> None:
    """Measure dense attention and attention on edges for every kind of graph."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dense_rule", description=main.__doc__
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.3,
        help="time in seconds for which each comparison is repeated (default: %(default)s)",
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="*",
        default=dense_rule.SIZES,
        help="mean sizes of the blocks (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=torch.get_num_threads(),
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="device on which the operators run (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "dense_rule.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for row in dense_rule.run(options.sizes, options.device, options.seconds):
        rows.append(row)
        print(*dense_rule.cells(row), sep="  ", file=sys.stderr, flush=True)
    print(tables.markdown(dense_rule.HEAD, map(dense_rule.cells, rows)))
    environment = record.environment("benchmarks.dense_rule", arguments)
    record.append(options.output, {"case": "dense_rule", "rows": rows, "environment": environment})


if __name__ == "__main__":
    main(sys.argv[1:])
