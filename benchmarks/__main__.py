"""Run cases: ``python -m benchmarks [PATTERN ...]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.core import record
from benchmarks.core.case import Settings
from benchmarks.core.runs import Runs
from benchmarks.suites.cpu import cases, matching
from benchmarks.tools.lines import lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the selected cases, and return the exit code 0 if all checks passed."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_intermixed_args(arguments)
    every = cases()
    names = matching(every, options.pattern)
    if options.list:
        print("\n".join(names))
        return 0
    settings = Settings(
        options.seconds, options.scale, options.threads, not options.no_memory, options.largest
    )
    torch.set_num_threads(settings.threads)
    environment = record.environment("benchmarks", arguments)
    runs = Runs()
    for name, measured in runs.each(names, lambda name: every[name].measure(settings)):
        entry = {"case": name, "scale": settings.scale, **measured, "environment": environment}
        record.append(options.output, entry)
        print(lines(entry), flush=True)
    return 1 if runs.failed else 0


def _parser() -> argparse.ArgumentParser:
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "pattern",
        nargs="*",
        default=["*"],
        help="patterns of the names of cases to run, for example 'esol-64/*'; by default all cases",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and exit")
    parser.add_argument(
        "--seconds",
        type=float,
        default=default.seconds,
        help="time in seconds for which each case is repeated (default: %(default)s)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=default.scale,
        help="size of the large graph, as a fraction of its full size (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=default.threads,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--no-memory",
        action="store_true",
        help="do not measure the peak memory, which takes an additional process for each case",
    )
    parser.add_argument(
        "--largest",
        type=int,
        default=default.largest,
        help="maximum number of edges in the table of growing graphs (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "cpu.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
