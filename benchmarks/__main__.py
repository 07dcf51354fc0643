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
    """Measure the selected cases. The exit code is 0 if all checks passed."""
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
        "pattern", nargs="*", default=["*"], help="patterns of case names, for example 'esol-64/*'"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="seconds per case")
    parser.add_argument(
        "--scale", type=float, default=default.scale, help="scale of the large graph"
    )
    parser.add_argument("--threads", type=int, default=default.threads)
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument(
        "--largest",
        type=int,
        default=default.largest,
        help="maximum number of edges of the growth table",
    )
    parser.add_argument("--output", type=Path, default=record.RESULTS / "cpu.jsonl")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
