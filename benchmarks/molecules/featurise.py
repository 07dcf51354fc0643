"""Measure how fast SMILES become inputs of models, and in how much memory.

    python -m benchmarks.molecules.featurise            # a minute

Reads the SMILES of HIV (below GATTN_DATA) again and again, one in a hundred of them spoilt. Wall
time needs a machine that does nothing else; the processors' time less so. A JSON line goes to
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
    parser.add_argument("--molecules", type=int, default=40_000, help="how many texts to read")
    parser.add_argument("--workers", type=int, default=2, help="processes that read")
    parser.add_argument("--canonical", action="store_true", help="write canonical SMILES, too")
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
    found = {
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
    record.append(options.out, {**found, "environment": environment})
    print(", ".join(f"{name} {value}" for name, value in found.items()))
    print(f"{rows / seconds:.0f} rows a second")


def spoilt_texts(count: int) -> Iterator[str]:
    """The texts of HIV's file again and again, of which every hundredth is no SMILES."""
    repeated = itertools.islice(itertools.cycle(hiv_texts()), count)
    return ("C1CC(" if i % 100 == 99 else text for i, text in enumerate(repeated))


def hiv_texts() -> list[str]:
    """The SMILES of HIV's file."""
    known = get_dataset("hiv")
    table = open_table(data_root() / known.folder / known.files[0].name, [known.smiles])
    return [row.cells[table.place(known.smiles)] for row in table.rows()]


def processor_seconds() -> float:
    """Seconds that this process and those that it waited for have computed."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_mib(who: int) -> int:
    """The most memory that this process, or the largest of those it waited for, has taken."""
    return resource.getrusage(who).ru_maxrss // 1024


if __name__ == "__main__":
    main(sys.argv[1:])
