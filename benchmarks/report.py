"""Write the measured tables of the README and the documentation.

python -m benchmarks.report
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.tools import large_tables, report

ROOT = Path(__file__).parents[1]
TABLES: dict[tuple[str, str, str], Callable[[Path], str]] = {
    ("cpu", "README.md", "benchmark rows"): lambda path: report.chosen(record.newest(path)),
    ("cpu", "docs/benchmarks.md", "benchmark table"): lambda path: report.report(
        record.newest(path)
    ),
    ("band", "docs/guide/sequences.md", "costs of a band"): lambda path: report.band_report(
        record.newest(path)["band"]
    ),
    ("sampling", "docs/guide/large_graphs.md", "samplers"): lambda path: large_tables.sampling(
        record.every(path)
    ),
    ("huge", "docs/guide/node_memory.md", "sampled and whole"): lambda path: (
        large_tables.sampled_and_whole(record.every(path))
    ),
    ("distributed", "docs/guide/distributed.md", "bytes"): lambda path: large_tables.distributed(
        record.every(path)
    ),
}
"""Table function, page and mark for each results file."""


def main(arguments: Sequence[str]) -> None:
    """Fill the marked sections of the pages from the newest records. A table without results does
    not change.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=main.__doc__)
    parser.add_argument(
        "--results", type=Path, default=record.RESULTS, help="folder with the recorded results"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the pages")
    options = parser.parse_args(arguments)
    for (results, page, place), table in TABLES.items():
        path = options.results / f"{results}.jsonl"
        if path.exists():
            tables.write(options.root / page, place, table(path))
        else:
            print(f"{place}: not measured, there is no {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
