"""Analysis of the machine code of the Triton kernels for sm_90, without a GPU.

    python -m benchmarks.sass             # compile, disassemble and count; some minutes
    python -m benchmarks.sass --table     # write the table of docs/gpu.md from the results

One JSON line per kernel goes to benchmarks/results/sass_sm90.jsonl.
:mod:`benchmarks.tools.sass` defines the counted quantities.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.aot import PAGE
from benchmarks.core import record, tables
from benchmarks.tools import sass


def main(arguments: Sequence[str]) -> None:
    """Count the instructions of the kernels for every shape, or write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sass", description=main.__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "sass_sm90.jsonl",
        help="JSONL file of the results, which --table reads",
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="write the recorded results into the table of docs/gpu.md, without compiling",
    )
    options = parser.parse_args(arguments)
    if options.table:
        tables.write(PAGE, "machine code", sass.table(record.every(options.out)))
        return
    options.out.unlink(missing_ok=True)
    for shape in sass.classes():
        entries = list(sass.read(shape))
        for one in entries:
            record.append(options.out, one)
        print(shape, len(entries), "kernels", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
