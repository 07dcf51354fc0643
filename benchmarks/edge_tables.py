"""Measurement of the seconds and memory for reading, sorting and sampling a table of edges.

    python -m benchmarks.edge_tables          # 10 million edges as CSV and as Parquet

Each table is read in a separate process. The peak memory does not include the memory of this
process before it reads. Batches have 1,024 seeds and fan-outs 15, 10 and 5. A JSON line for each
table is appended to benchmarks/results/edge_tables.jsonl.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import isolate, record
from benchmarks.tools.edge_tables import steps, write


def main(arguments: Sequence[str]) -> None:
    """Write both tables, measure all steps, and print a line for each step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edge_tables")
    parser.description = main.__doc__
    parser.add_argument(
        "--edges",
        type=int,
        default=10_000_000,
        help="number of edges of the table (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        default=1_000_000,
        help="number of nodes of the graph (default: %(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder for the temporary tables; by default, the temporary folder of the system",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "edge_tables.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    environment = record.environment("benchmarks.edge_tables", arguments)
    environment["threads"] = options.threads
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for path in write(Path(folder), options.edges, options.nodes):
            measured_steps = isolate.call(steps, path, options.nodes, threads=options.threads)
            row = {
                "case": f"edge-tables/{path.suffix[1:]}", "edges": options.edges,
                "nodes": options.nodes, "file_bytes": path.stat().st_size, "steps": measured_steps,
            }  # fmt: skip
            record.append(options.out, {**row, "environment": environment})
            for name, step in measured_steps.items():
                print(f"{path.name} {name}: {step['seconds']:.1f} s, {step['bytes'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
