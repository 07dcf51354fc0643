"""Write the measured tables of the README and the guide: ``python -m benchmarks.report``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.tools import report

ROOT = Path(__file__).parents[1]
README, SEQUENCES = ROOT / "README.md", ROOT / "docs/guide/sequences.md"
MARK = "benchmark table"


def main(arguments: Sequence[str]) -> None:
    """Fill the pages' marked places from the newest records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--results", type=Path, default=record.RESULTS / "cpu.jsonl")
    parser.add_argument("--readme", type=Path, default=README)
    options = parser.parse_args(arguments)
    tables.write(options.readme, MARK, report.report(record.newest(options.results)))
    found = record.newest(record.RESULTS / "band.jsonl")["band"]
    tables.write(SEQUENCES, "costs of a band", report.band_report(found))


if __name__ == "__main__":
    main(sys.argv[1:])
