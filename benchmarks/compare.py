"""Comparison of gattn in this working tree with gattn of another commit, in alternating runs.

    python -m benchmarks.compare main~3                              # every case
    python -m benchmarks.compare main~3 'esol-64/*' --seconds 4      # some, for longer
    python -m benchmarks.compare main~3 --other /tmp/old             # built there already

The other commit is checked out and built in a temporary folder, which takes minutes. Each side
runs in a separate process, and the two processes run the same inputs alternately. If the outputs
or gradients of a case differ by more than rounding errors, it is not timed. In each round, the
time of this tree is divided by the time of the other commit. The result is the median of these
ratios, with their quartiles.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import checkout, record
from benchmarks.core.case import Settings
from benchmarks.core.runs import Runs
from benchmarks.suites import turns
from benchmarks.suites.cpu import matching, with_one_side
from benchmarks.tools import lines


def main(arguments: Sequence[str]) -> int:
    """Compare the selected cases, and return the exit code 0 if all results agree."""
    options = _parser().parse_intermixed_args(arguments)
    cases = with_one_side()
    names = matching(cases, options.pattern)
    commit = checkout.git("rev-parse", "--short", options.commit)
    environment = record.environment("benchmarks.compare", arguments)
    if options.other:
        place = contextlib.nullcontext(options.other)
    else:
        print(f"building {commit} ...", file=sys.stderr, flush=True)
        place = checkout.built(commit)
    results: list[record.Record] = []
    runs = Runs()
    with place as folder, turns.Turns(folder, options.threads) as both:
        for name, side in both.descriptions.items():
            print(f"{name}: {side['gattn']}, {side['backend']}", flush=True)

        def measure(name: str) -> record.Record:
            return both.measure(cases[name], options.scale, options.seconds)

        for name, measured in runs.each(names, measure):
            results.append({"case": name, "scale": options.scale, "other": commit, **measured})
            print(lines.compared(results[-1]), flush=True)
            if options.out:
                circumstances = {"sides": both.descriptions, "environment": environment}
                record.append(options.out, {**results[-1], **circumstances})
    if results:
        print(lines.overall(results))
    return 1 if runs.failed else 0


def _parser() -> argparse.ArgumentParser:
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=main.__doc__)
    parser.add_argument("commit", help="commit with which the working tree is compared")
    parser.add_argument(
        "pattern",
        nargs="*",
        default=["*"],
        help="patterns of the names of cases to run, for example 'esol-64/*'; by default all cases",
    )
    parser.add_argument(
        "--other",
        type=Path,
        help="folder with a build of the other commit; by default, the commit is built",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=4.0,
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
        "--out", type=Path, help="file to which the results are appended, one JSON object per line"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
