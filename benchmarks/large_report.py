"""Write the measurements of large graphs into the guide.

python -m benchmarks.large_report

The tables show the results of ``benchmarks.full_graph``, ``.edge_tables``,
``.distributed``, ``.huge`` and ``.sampling.measure``. A table without new results does not change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.tools import large_tables

GUIDE = Path(__file__).parents[1] / "docs/guide"
TABLES: dict[tuple[str, str, str], Callable[[Path], str]] = {
    ("full_graph", "large_graphs.md", "full-graph training"): lambda path: large_tables.training(
        record.newest(path)
    ),
    ("sampling", "large_graphs.md", "samplers"): lambda path: large_tables.sampling(
        record.every(path)
    ),
    ("edge_tables", "large_graphs.md", "edge tables"): lambda path: large_tables.edge_tables(
        record.newest(path)
    ),
    ("huge", "large_graphs.md", "sampled and whole"): lambda path: large_tables.sampled_and_whole(
        record.every(path)
    ),
    ("distributed", "distributed.md", "bytes"): lambda path: large_tables.distributed(
        record.every(path)
    ),
}
"""Table function, page and mark for each results file."""


def main(arguments: Sequence[str]) -> None:
    """Fill the marked sections of the guide from the newest records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_report")
    parser.description = main.__doc__
    parser.add_argument(
        "--results", type=Path, default=record.RESULTS, help="folder with the recorded results"
    )
    parser.add_argument(
        "--guide", type=Path, default=GUIDE, help="folder of the pages that are written"
    )
    options = parser.parse_args(arguments)
    for (results, page, place), table in TABLES.items():
        path = options.results / f"{results}.jsonl"
        if path.exists():
            tables.write(options.guide / page, place, table(path))
        else:
            print(f"{place}: not measured, there is no {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
