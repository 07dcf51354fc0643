"""Compile every Triton kernel for sm_90 without a GPU and list registers and spills.

    python -m benchmarks.aot             # every shape class; some hundreds of compilations
    python -m benchmarks.aot --quick     # three of them
    python -m benchmarks.aot --table     # write the table of docs/gpu.md from the results

One JSON line per kernel and shape class goes to benchmarks/results/aot_sm90.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.tools import aot

PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"


def main(arguments: Sequence[str]) -> int:
    """Compile the kernels for all or some shapes, and return 1 if a kernel spills registers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot", description=main.__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="compile the kernels only for three of the shapes"
    )
    parser.add_argument(
        "--out", type=Path, default=record.RESULTS / "aot_sm90.jsonl", help="file with the results"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="write the recorded results into the table of docs/gpu.md, without compiling",
    )
    options = parser.parse_args(arguments)
    if options.table:
        tables.write(PAGE, "registers and spills", aot.table(record.every(options.out)))
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    spilled = 0
    with options.out.open("w") as file, aot.compiling_only() as compiled:
        for shape in aot.classes(options.quick):
            records = list(aot.compile_class(shape, compiled))
            spilled += sum(entry["spills"] > 0 for entry in records)
            file.writelines(json.dumps(entry) + "\n" for entry in records)
            print(shape, len(records), "kernels", flush=True)
    print(f"{spilled} kernels that spill registers; written to {options.out}")
    return int(spilled > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
