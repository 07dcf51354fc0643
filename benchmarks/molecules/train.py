"""Measurement of the time and memory of a whole training of the default model.

    python -m benchmarks.molecules.train --data hiv      # 41,127 molecules
    python -m benchmarks.molecules.train --data tox21    # 12 targets with gaps

The benchmark runs ``gattn molecules train``, from the table (in the folder GATTN_DATA) to the
report. It appends a JSON line to benchmarks/results/train.jsonl and removes the run. Measure wall
times on an idle machine.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import record
from benchmarks.molecules.featurise import peak_mib, processor_seconds
from gattn.data import data_root, get_dataset
from gattn.molecules.runs.config import RunSettings
from gattn.molecules.runs.train import train_run
from gattn.molecules.settings import MoleculeSettings

MODULE = "benchmarks.molecules.train"


def main(arguments: Sequence[str]) -> None:
    """Train on a data set, and print the rows per second and the peak memory."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--data",
        default="hiv",
        help="name of a registered data set of molecules (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=MoleculeSettings.epochs,
        help="number of training epochs (default: %(default)s)",
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
        default=record.RESULTS / "train.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        entry = _measure(options.data, Path(folder), options.epochs, options.workers)
    environment = record.environment(MODULE, arguments)
    record.append(options.out, {**entry, "environment": environment})
    print(", ".join(f"{name} {value}" for name, value in entry.items()))


def _measure(name: str, folder: Path, epochs: int, workers: int) -> record.Record:
    source = get_dataset(name)
    settings = RunSettings(
        data=str(data_root() / source.folder / source.files[0].name),
        smiles=source.smiles,
        target=source.targets,
        workers=workers,
        model=MoleculeSettings(epochs=epochs),
    )
    start, used = time.perf_counter(), processor_seconds()
    metrics = train_run(settings, folder / "run", log=lambda line: print(line, flush=True))
    seconds = time.perf_counter() - start
    rows = sum(metrics["molecules"].values())
    return {
        "case": f"train/{name}",
        "rows": rows,
        "targets": len(source.targets),
        "epochs": epochs,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "processor_seconds": processor_seconds() - used,
        "peak_mib": peak_mib(resource.RUSAGE_SELF),
        "peak_mib_of_a_worker": peak_mib(resource.RUSAGE_CHILDREN),
        "test": metrics["test"],
        "baselines": metrics["baselines"],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
