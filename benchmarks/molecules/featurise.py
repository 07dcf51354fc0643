"""Measure how fast SMILES become inputs of models, and in how much memory.

    python -m benchmarks.molecules.featurise            # a minute

Reads the SMILES of HIV (below GATTN_DATA) repeatedly; one in a hundred is invalid. Wall time needs
an idle machine; CPU time is less sensitive. A JSON line goes to
benchmarks/results/featurise.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.core import record
from gattn.data import data_root, get_dataset, open_table
from gattn.molecules.inputs import stream


def main(arguments: Sequence[str]) -> None:
    """Read SMILES piece by piece, and print the rate and the peak of memory."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.featurise", description=main.__doc__
    )
    parser.add_argument("--molecules", type=int, default=40_000, help="number of SMILES to read")
    parser.add_argument("--workers", type=int, default=2, help="processes that read")
    parser.add_argument("--canonical", action="store_true", help="also write canonical SMILES")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "featurise.jsonl")
    options = parser.parse_args(arguments)
    start, used = time.perf_counter(), processor_seconds()
    rows = bad = atoms = 0
    for piece in stream(
        spoilt_texts(options.molecules), workers=options.workers, canonical=options.canonical
    ):
        rows += len(piece.errors)
        bad += sum(map(bool, piece.errors))
        atoms += len(piece.inputs.molecules.arrays.x)
    seconds, used = time.perf_counter() - start, processor_seconds() - used
    entry = {
        "case": f"featurise/{options.workers} workers",
        "rows": rows,
        "bad": bad,
        "atoms_per_molecule": round(atoms / (rows - bad), 1),
        "seconds": seconds,
        "processor_us_per_row": 1e6 * used / rows,
        "peak_mib": peak_mib(resource.RUSAGE_SELF),
        "peak_mib_of_a_worker": peak_mib(resource.RUSAGE_CHILDREN),
    }
    environment = record.environment("benchmarks.molecules.featurise", arguments)
    record.append(options.out, {**entry, "environment": environment})
    print(", ".join(f"{name} {value}" for name, value in entry.items()))
    print(f"{rows / seconds:.0f} rows a second")


def spoilt_texts(count: int) -> Iterator[str]:
    """Yield the SMILES of HIV repeatedly; every hundredth is invalid."""
    repeated = itertools.islice(itertools.cycle(hiv_texts()), count)
    return ("C1CC(" if i % 100 == 99 else text for i, text in enumerate(repeated))


def hiv_texts() -> list[str]:
    """The SMILES of HIV's file."""
    hiv = get_dataset("hiv")
    table = open_table(data_root() / hiv.folder / hiv.files[0].name, [hiv.smiles])
    return [row.cells[table.place(hiv.smiles)] for row in table.rows()]


def processor_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_mib(who: int) -> int:
    """Return the peak memory of this process and of its largest finished child."""
    return resource.getrusage(who).ru_maxrss // 1024


if __name__ == "__main__":
    main(sys.argv[1:])
