"""Check and benchmark of the Triton kernels on a CUDA device, compared with their peers.

    python -m benchmarks.gpu                     # everything; about an hour
    python -m benchmarks.gpu --quick             # two shapes, three graphs
    python -m benchmarks.gpu --minutes 9         # start no case after nine minutes
    python -m benchmarks.gpu --resume            # continue with the remaining cases
    python -m benchmarks.gpu --table             # print the results as a table
    python -m benchmarks.gpu --dry-run           # test the script at small sizes, without a GPU

JSON lines go to benchmarks/results/gpu.jsonl. :mod:`benchmarks.suites.gpu` describes the
measurements.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.core import record
from benchmarks.data import graphs
from benchmarks.sides.families import OPERATORS
from benchmarks.suites import gpu
from benchmarks.tools import gpu_table

SHAPES = ((8, 16), (4, 32), (1, 128), (4, 64))
FEW = ("arxiv", "products/16", "molecules-1024")


def main(arguments: Sequence[str]) -> int:
    """Measure the selected graphs, and return the exit code 0 if all checks passed."""
    options = parse(arguments)
    if options.dry_run and os.environ.get("TRITON_INTERPRET") != "1":
        # Triton reads this variable at import, so the command starts itself again with it.
        os.environ["TRITON_INTERPRET"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.gpu", *arguments])
    if options.table:
        print(gpu_table.table(record.newest(options.out)))
        return 0
    if not options.dry_run and not torch.cuda.is_available():
        print("no CUDA device here: --dry-run exercises the script without one")
        return 1
    bench = gpu.Bench(options, record.environment("benchmarks.gpu", arguments))
    print(json.dumps(bench.environment))
    bench.run()
    print(f"{bench.failed} failed cases, {bench.left} left; results in {options.out}")
    return int(bench.failed > 0)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="test the script without a GPU: small sizes in Triton's interpreter",
    )
    parser.add_argument("--quick", action="store_true", help="measure fewer shapes and graphs")
    parser.add_argument(
        "--table",
        action="store_true",
        help="print the recorded results as a table, without measuring",
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        choices=graphs.NAMES,
        help="names of the graphs to measure; by default all",
    )
    parser.add_argument(
        "--operators",
        nargs="+",
        choices=OPERATORS,
        default=OPERATORS,
        help="names of the operators to measure; by default all",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=gpu.PEERS,
        default=tuple(gpu.PEERS),
        help="names of the libraries to compare with; by default all",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="start no new case after this number of minutes; by default no limit",
    )
    parser.add_argument(
        "--resume", action="store_true", help="skip the cases that the file --out already contains"
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="factor by which the size of every graph is multiplied (default: %(default)s)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=20,
        help="number of timed runs of each function (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="file to which the results are appended; by default gpu.jsonl in the folder of "
        "results",
    )
    options = parser.parse_args(arguments)
    folder = Path(tempfile.gettempdir()) if options.dry_run else record.RESULTS
    options.out = options.out or folder / "gpu.jsonl"
    options.shapes = SHAPES[::2] if options.quick else SHAPES
    if options.graphs is None:
        options.graphs = FEW if options.quick else graphs.NAMES
    if options.dry_run:
        options.scale, options.runs, options.shapes = 1e-5, 1, ((2, 4),)
    # Triton's interpreter truncates float32 to bfloat16, whereas a GPU rounds.
    options.dtypes = ("float32", "float16" if options.dry_run else "bfloat16")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
