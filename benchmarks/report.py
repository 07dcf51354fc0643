"""Write the measured tables of the README and the documentation.

python -m benchmarks.report
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.tools import report

ROOT = Path(__file__).parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs/benchmarks.md"
SEQUENCES = ROOT / "docs/guide/sequences.md"
ROWS, TABLES = "benchmark rows", "benchmark table"


def main(arguments: Sequence[str]) -> None:
    """Fill the marked sections of the pages from the newest records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        default=record.RESULTS / "cpu.jsonl",
        help="file with the recorded results",
    )
    options = parser.parse_args(arguments)
    records = record.newest(options.results)
    tables.write(README, ROWS, report.chosen(records))
    tables.write(PAGE, TABLES, report.report(records))
    entry = record.newest(record.RESULTS / "band.jsonl")["band"]
    tables.write(SEQUENCES, "costs of a band", report.band_report(entry))


if __name__ == "__main__":
    main(sys.argv[1:])
