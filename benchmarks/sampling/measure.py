"""Measurement of the sampled edges and batches per second, for 1,024 seeds and fan-outs 15, 10 and
5.

    python -m benchmarks.sampling.measure FOLDER gattn pyg [--features] [--workers 0 1 2]

Every library is measured with each number of workers, which are threads in gattn and processes in
the other libraries. Compare the best result of each library. One JSON line is printed for each
measurement. Without workers, the processor time is also printed, which depends less on other
programs; with ``--threads 1``, it is the time of one core.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import torch

from benchmarks.sampling.sides import SIDES

_PACKAGES = ("torch", "torch_geometric", "torch_sparse", "pyg_lib", "dgl")


def main(arguments: Sequence[str]) -> None:
    """Measure the loaders of the named libraries, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling.measure")
    parser.add_argument("folder", type=Path, help="folder that benchmarks.sampling.make wrote")
    parser.add_argument(
        "sides", nargs="+", choices=sorted(SIDES), help="libraries whose loaders are measured"
    )
    parser.add_argument(
        "--features", action="store_true", help="also read the features of the sampled nodes"
    )
    parser.add_argument(
        "--workers",
        nargs="+",
        type=int,
        default=[0, 1, 2],
        help="numbers of worker processes or threads of the loader (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="time in seconds for which each loader is measured (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    for name in options.sides:
        for workers in options.workers:
            torch.manual_seed(0)
            batches = SIDES[name](options.folder, options.features, workers)
            entry = {"side": name, "workers": workers, "features": options.features}
            entry |= _rates(batches, options.seconds) | {"threads": options.threads}
            if workers:
                # The measured processor time does not include the worker processes.
                del entry["edges_per_cpu_second"]
            print(json.dumps(entry | _environment()), flush=True)


def _rates(batches: Iterator[int], seconds: float) -> dict[str, float]:
    """Return the edges and batches per second, after a few batches that are not counted."""
    for _ in range(4):
        next(batches)
    start, used = time.perf_counter(), time.process_time()
    edges, count, spent = 0, 0, 0.0
    while spent < seconds:
        edges, count = edges + next(batches), count + 1
        spent = time.perf_counter() - start
    return {
        "edges_per_second": round(edges / spent),
        "batches_per_second": round(count / spent, 2),
        "edges_per_batch": round(edges / count),
        "edges_per_cpu_second": round(edges / (time.process_time() - used)),
    }


def _environment() -> dict[str, str]:
    installed = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    versions = {name: installed[name] for name in _PACKAGES if name in installed}
    return {"python": platform.python_version(), **versions}


if __name__ == "__main__":
    main(sys.argv[1:])
