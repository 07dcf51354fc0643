"""Measurement of a training on a large table: rows per second, and memory that depends on the rows.

    python -m benchmarks.molecules.large --rows 20000
    python -m benchmarks.molecules.large --rows 60000   # a process of its own: the slope a row

The benchmark adds chains to the molecules of HIV (in the folder GATTN_DATA) until there are enough
different SMILES, and runs ``gattn molecules train``, from the table to the report. A JSON line is
appended to benchmarks/results/molecules-large.jsonl. Anonymous memory is the memory of a process
without memory-mapped files, which the system can reclaim. Measure wall times on an idle machine.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.core import record
from benchmarks.molecules.featurise import hiv_texts, peak_mib, processor_seconds
from gattn.molecules.runs.config import RunSettings
from gattn.molecules.runs.train import train_run
from gattn.molecules.settings import MoleculeSettings

MODULE = "benchmarks.molecules.large"
HEADS = ("C", "O", "N", "F", "Cl", "Br", "S")
INTERVAL = 0.05
"""Seconds between two samples of the memory."""


def main(arguments: Sequence[str]) -> None:
    """Write a table, train on it, and print the rows per second and the peak memory."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        default=20_000,
        help="number of rows of the table (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=1, help="number of training epochs (default: %(default)s)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="number of processes that parse SMILES (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "molecules-large.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        entry = _measure(options.rows, Path(folder), options.epochs, options.workers)
    environment = record.environment(MODULE, arguments)
    record.append(options.out, {**entry, "environment": environment})
    print(", ".join(f"{name} {value}" for name, value in entry.items()))


def different_texts(count: int) -> Iterator[str]:
    """Return distinct SMILES: the SMILES of HIV, and then the same SMILES with an additional chain
    at the beginning.
    """
    texts = list(dict.fromkeys(hiv_texts()))
    chains = (head + "C" * length for length in itertools.count() for head in HEADS)
    fronts = itertools.chain([""], chains)
    return itertools.islice((front + text for front in fronts for text in texts), count)


def label(text: str) -> int:
    """Return the label of a SMILES: the number of letters C and c minus the number of letters N
    and O.
    """
    count = text.lower().count
    return count("c") - count("n") - count("o")


class PeakOfAnonymousMemory:
    """Sampler of the anonymous memory of this process during a block (Linux only)."""

    def __enter__(self) -> PeakOfAnonymousMemory:
        self.mib, self._over = anonymous_mib(), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(INTERVAL):
            self.mib = max(self.mib, anonymous_mib())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def anonymous_mib() -> int:
    """Return the anonymous memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon:"))


def _measure(rows: int, folder: Path, epochs: int, workers: int) -> record.Record:
    table = folder / "large.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "letters"])
        writer.writerows((text, label(text)) for text in different_texts(rows))
    settings = RunSettings(
        data=str(table),
        target=("letters",),
        workers=workers,
        model=MoleculeSettings(epochs=epochs),
    )
    before, start, used = anonymous_mib(), time.perf_counter(), processor_seconds()
    with PeakOfAnonymousMemory() as peak:
        metrics = train_run(settings, folder / "run", log=lambda line: print(line, flush=True))
    seconds = time.perf_counter() - start
    cache = sum(path.stat().st_size for path in (folder / ".gattn").iterdir())
    return {
        "case": f"large/{rows}",
        "rows": rows,
        "molecules": sum(metrics["molecules"].values()) - metrics["molecules"]["left_out"],
        "epochs": epochs,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "processor_seconds": processor_seconds() - used,
        "anonymous_mib_before": before,
        "peak_anonymous_mib": peak.mib,
        "peak_mib": peak_mib(resource.RUSAGE_SELF),
        "peak_mib_of_a_worker": peak_mib(resource.RUSAGE_CHILDREN),
        "cache_mib": cache // 2**20,
        "test": metrics["test"],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
