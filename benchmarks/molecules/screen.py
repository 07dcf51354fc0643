"""Measure how fast a folder is screened, and in how much memory; extrapolate to 10^7 rows.

    pip install molsets --no-deps                               # 1,584,663 SMILES, MIT
    python -m benchmarks.molecules.screen                       # 100,000 rows, the model bbb
    python -m benchmarks.molecules.screen --rows 1000000 --run RUN --engine ray

Writes the SMILES of MOSES (the package ``molsets``), or those of ESOL (below GATTN_DATA) if it is
not installed, again and again to SMILES files, and screens them as ``gattn molecules predict RUN
FOLDER --out OUT`` does. Then the same command runs again, which reads the finished shards and
writes nothing. The time for 10^7 rows is an extrapolation: the start plus the rows at the rate of
this run. The memory of all processes is sampled while they run: the sum of their proportional set
sizes (PSS), which counts a page of a library once, and the sum of their resident set sizes (RSS),
which counts it in each process. A JSON line goes to benchmarks/results/screen.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.core import record
from benchmarks.core.memory import TreePeak
from benchmarks.molecules.featurise import peak_mib, processor_seconds
from gattn.data import data_root, get_dataset
from gattn.molecules.screening.screen import screen
from gattn.molecules.screening.settings import ScreenSettings

MODULE = "benchmarks.molecules.screen"
FILES = 4
"""Number of files among which the rows are divided."""
LARGE = 10_000_000
"""Number of rows to which the time is extrapolated."""


def main(arguments: Sequence[str]) -> None:
    """Screen a folder of SMILES files, and print the rate and the peaks of memory."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of all files together")
    parser.add_argument("--workers", type=int, default=2, help="processes that predict")
    parser.add_argument("--run", default="bbb", help="folder of a trained model, or bbb")
    parser.add_argument("--engine", default="local", choices=["local", "ray"])
    parser.add_argument("--out", type=Path, default=record.RESULTS / "screen.jsonl")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        entry = _measure(Path(scratch), options)
    settings = ["--rows", str(options.rows), "--workers", str(options.workers)]
    settings += ["--run", Path(options.run).name, "--engine", options.engine]
    record.append(options.out, {**entry, "environment": record.environment(MODULE, settings)})
    print(", ".join(f"{name} {value}" for name, value in entry.items()))


def _measure(folder: Path, options: argparse.Namespace) -> record.Record:
    name, texts = smiles()
    (folder / "in").mkdir()
    for number in range(FILES):
        rows = itertools.islice(texts, options.rows // FILES)
        lines = (f"{text} {number}-{i}\n" for i, text in enumerate(rows))
        (folder / "in" / f"{number}.smi").write_text("".join(lines), "utf-8")
    chosen = ScreenSettings(engine=options.engine)
    seconds, processor = [], []
    peaks = []
    for _ in range(2):
        start, used = time.perf_counter(), processor_seconds()
        with TreePeak() as peak:
            counts = screen(
                options.run, [str(folder / "in")], folder / "out", chosen, workers=options.workers
            )
        peaks.append(peak)
        seconds.append(time.perf_counter() - start)
        processor.append(processor_seconds() - used)
    if counts.rows != options.rows // FILES * FILES or counts.unfinished:
        raise ValueError(f"{options.rows} rows were written, {counts} were read")
    parent, other = (peak_mib(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    rate = counts.rows / (seconds[0] - seconds[1])
    return {
        "case": f"screen/{options.engine}/{options.workers} workers",
        "data": name,
        "rows": counts.rows,
        "errors": counts.errors,
        "seconds": seconds[0],
        "seconds_of_a_finished_folder": seconds[1],
        "rows_per_second": rate,
        # The processes of Ray are not child processes of this process, so their time is not
        # included.
        "processor_us_per_row": 1e6 * (processor[0] - processor[1]) / counts.rows,
        "peak_mib": parent,
        "peak_mib_of_another_process": other,
        "peak_pss_mib_of_all_processes": peaks[0].pss / 2**20,
        "peak_rss_mib_of_all_processes": peaks[0].rss / 2**20,
        "hours_for_1e7_rows_extrapolated": (seconds[1] + LARGE / rate) / 3600,
    }


def smiles() -> tuple[str, Iterator[str]]:
    """Return the name of the data, and an endless iterator over their SMILES."""
    package = importlib.util.find_spec("moses")
    if package is not None and package.origin is not None:
        path = Path(package.origin).parent / "dataset" / "data" / "train.csv.gz"
        return "MOSES", _cycle(path, "SMILES")
    esol = get_dataset("esol")
    return "ESOL", _cycle(data_root() / esol.folder / esol.files[0].name, esol.smiles)


def _cycle(path: Path, column: str) -> Iterator[str]:
    """Yield the cells of a column again and again, without storing them."""
    while True:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            yield from (row[column] for row in csv.DictReader(file))


if __name__ == "__main__":
    main(sys.argv[1:])
