"""Measurement of the prediction of a large table: the rate, the memory, and the order of the rows.

    python -m benchmarks.molecules.predict                      # 100,000 rows
    python -m benchmarks.molecules.predict --rows 1000000 --run RUN

The benchmark writes a table with the SMILES of HIV (in the folder GATTN_DATA), which are repeated
and of which one in a hundred is invalid. It predicts the table by ``gattn molecules predict``, with
the default model trained on ESOL or with the model RUN. It then compares every row of the output
with the row of the input, and some predictions with separate predictions of the same molecules.
Measure wall times on an idle machine; processor times depend less on other programs. A JSON line is
appended to benchmarks/results/predict.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.core import record
from benchmarks.molecules.featurise import peak_mib, processor_seconds, spoilt_texts
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.molecules.runs.stages import train_run
from gattn.apps.molecules.settings import TableReading
from gattn.data import data_root, get_dataset

MODULE = "benchmarks.molecules.predict"
ASKED_ALONE = 200
"""Number of rows that are predicted again separately."""
DIGITS = 1e-4
"""Maximum difference between two predictions of one molecule, in standard deviations of the target.
"""


def main(arguments: Sequence[str]) -> None:
    """Predict a table with many rows, and print the rate and the peak memory."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        default=100_000,
        help="number of rows of the table (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="number of processes that predict (default: %(default)s)",
    )
    parser.add_argument(
        "--run",
        type=Path,
        help="folder of a trained regressor; by default, a regressor is trained on ESOL",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "predict.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        if options.run is None:
            # The model is trained in another process, so that the measured memory is that of the
            # prediction.
            child_arguments = [*arguments, "--run", str(_train(Path(scratch) / "run"))]
            subprocess.run([sys.executable, "-m", MODULE, *child_arguments], check=True)
            return
        entry = _measure(options.run, Path(scratch), options.rows, options.workers)
    settings = ["--rows", str(options.rows), "--workers", str(options.workers)]
    record.append(options.out, {**entry, "environment": record.environment(MODULE, settings)})
    print(", ".join(f"{name} {value}" for name, value in entry.items()))


def _measure(run: Path, folder: Path, rows: int, workers: int) -> record.Record:
    table, out = folder / "in.csv", folder / "out.csv"
    _write(table, rows)
    start, used = time.perf_counter(), processor_seconds()
    counts = predict_table(run, table, out, reading=TableReading(workers=workers))
    seconds, used = time.perf_counter() - start, processor_seconds() - used
    parent, other = (peak_mib(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "case": f"predict/{workers} workers",
        "rows": counts.rows,
        "bad": counts.bad,
        "seconds": seconds,
        "rows_per_second": counts.rows / seconds,
        "processor_us_per_row": 1e6 * used / counts.rows,
        "peak_mib": parent,
        "peak_mib_of_another_process": other,
        "peak_mib_at_most_in_all": parent + (workers - 1) * other,
        "apart_from_alone": _compare(run, table, out),
    }


def _train(folder: Path) -> Path:
    esol = get_dataset("esol")
    data = data_root() / esol.folder / esol.files[0].name
    train_run(RunSettings(data=str(data), smiles=esol.smiles, target=esol.targets), folder)
    return folder


def _write(path: Path, rows: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "smiles"])
        writer.writerows(enumerate(spoilt_texts(rows)))


def _compare(run: Path, table: Path, out: Path) -> float:
    """Compare the rows of the output with the rows of the input, and return the difference from
    predictions of single molecules.

    Raises:
        ValueError: a row of the output differs from that of the input, has neither a prediction nor
            an error, or has the prediction of another row.
    """
    some: list[tuple[str, float, float]] = []
    with table.open(newline="", encoding="utf-8") as before, out.open(newline="") as after:
        rows_in, rows_out = csv.DictReader(before), csv.DictReader(after)
        for number, (one, other) in enumerate(zip(rows_in, rows_out, strict=True)):
            if any(other[column] != cell for column, cell in one.items()):
                raise ValueError(f"row {number} is {one} before and {other} after")
            if bool(other["error"]) == bool(other["prediction"]):
                raise ValueError(f"row {number} must have a prediction or an error: {other}")
            if one["smiles"] == "C1CC(" and not other["error"]:
                raise ValueError(f"row {number} must have an error: {other}")
            if other["prediction"] and number % 487 == 0 and len(some) < ASKED_ALONE:
                some.append((one["smiles"], float(other["prediction"]), float(other["std"])))
    estimator = MoleculeRegressor.load(run)
    smiles, mean, std = zip(*some)
    alone = np.asarray(estimator.predict(smiles))
    apart = np.abs(alone - np.array(mean)) / np.array(std)
    if not (apart < DIGITS).all():
        raise ValueError(
            f"single predictions differ by {apart.max()} standard deviations from the output"
        )
    return float(apart.max())


if __name__ == "__main__":
    main(sys.argv[1:])
