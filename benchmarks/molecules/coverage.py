"""Measurement of the coverage and the width of intervals over many random splits.

    python -m benchmarks.molecules.coverage                               # ESOL and FreeSolv
    python -m benchmarks.molecules.coverage --datasets freesolv --seeds 20 --settings model=gp
    python -m benchmarks.molecules.coverage --csv LIPO.csv --target exp   # any table of SMILES
    python -m benchmarks.molecules.coverage --table                       # earlier measurements
    python -m benchmarks.molecules.coverage --page                        # them, in the docs

For each seed, a random split 8:1:1 is drawn and one model is trained. A JSON line for each seed,
with the coverage, the mean width and the RMSE on the test part, is appended to
benchmarks/results/coverage.jsonl. With a hundred test molecules, the coverage of one seed has a
standard deviation of about 4 percentage points, so only the means over seeds are informative.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.core import record, tables
from benchmarks.molecules import parts
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.tables.csv_table import open_table
from gattn.data import random_split

COVERAGE = 0.9
DATASETS = ("esol", "freesolv")
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "molecule_intervals.md"


def main(arguments: list[str]) -> None:
    """Train a model for each seed and data set, and print the means over the seeds."""
    options = _parser().parse_args(arguments)
    if options.page:
        return tables.write(PAGE, "coverage", table(record.every(options.output)))
    if not options.table:
        torch.set_num_threads(options.threads)
        environment = record.environment("benchmarks.molecules.coverage", arguments)
        settings: dict[str, Any] = dict(_setting(text) for text in options.settings)
        for name, smiles, y in _sources(options):
            regressor = MoleculeRegressor(**settings, on_error="skip")
            molecules = regressor.read(smiles, y)
            for seed in range(options.first, options.first + options.seeds):
                row = _measure(regressor.set_params(seed=seed), molecules, seed)
                row |= {"dataset": name, "settings": settings, "label": options.label}
                print(f"{name} {seed}: {row['coverage']:.3f}", file=sys.stderr, flush=True)
                record.append(options.output, row | {"environment": environment})
    print(table(record.every(options.output)))


def _sources(options: argparse.Namespace) -> list[tuple[str, list[str], list[float]]]:
    """Yield the name, the SMILES and the labels of every data set."""
    if options.csv is not None:
        opened = open_table(options.csv, [options.smiles, options.target])
        places = [opened.place(name) for name in (options.smiles, options.target)]
        smiles, labels = zip(*([row.cells[place] for place in places] for row in opened.rows()))
        return [(Path(options.csv).stem, list(smiles), [float(text) for text in labels])]
    sources = []
    for name in options.datasets:
        molecules = parts.load(name)
        sources.append((name, molecules.smiles, molecules.y[:, 0].double().tolist()))
    return sources


def _measure(
    regressor: MoleculeRegressor, molecules: LabelledMolecules, seed: int
) -> record.Record:
    """Return the coverage, the mean width and the RMSE on the test part of a seed's split."""
    split = random_split(len(molecules), seed=seed, groups=molecules.canonical)
    train, val, test = (molecules[part] for part in (split.train, split.val, split.test))
    begin = time.perf_counter()
    regressor.fit_labelled(train, val)
    seconds = time.perf_counter() - begin
    prediction = regressor.predictor_.predict(test.inputs)
    lower, upper = regressor.calibrator_.interval(
        prediction.mean, prediction.std, coverage=COVERAGE
    )
    inside = ((test.y >= lower) & (test.y <= upper)).double()
    return {
        "seed": seed,
        "molecules": {"train": len(train), "val": len(val), "test": len(test)},
        "coverage": float(inside.mean()),
        "width": float((upper - lower).mean()),
        "rmse": float((prediction.mean - test.y).square().mean().sqrt()),
        "seconds": seconds,
    }


def table(rows: Sequence[record.Record]) -> str:
    """Return a table of the means over seeds for each label, data set and setting."""
    groups: dict[tuple[str, str, str], dict[int, record.Record]] = {}
    for row in rows:
        settings = ", ".join(f"{k}={v}" for k, v in row["settings"].items()) or "default"
        groups.setdefault((row["dataset"], settings, row["label"]), {})[row["seed"]] = row
    lines = []
    for (dataset, settings, label), seeds in sorted(groups.items()):
        means = {
            name: statistics.mean(row[name] for row in seeds.values())
            for name in ("coverage", "width", "rmse")
        }
        error = statistics.pstdev(row["coverage"] for row in seeds.values()) / len(seeds) ** 0.5
        lines.append(
            [dataset, settings, label, str(len(seeds)), f"{means['coverage']:.3f}",
             f"{error:.3f}", f"{means['width']:.3f}", f"{means['rmse']:.3f}"]
        )  # fmt: skip
    head = ["data", "settings", "version", "seeds", "coverage", "standard error", "width", "RMSE"]
    return tables.markdown(head, lines, text=3)


def _setting(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, int(value) if value.isdigit() else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.coverage", description=main.__doc__
    )
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=parts.DATASETS,
        default=[*DATASETS],
        help="data sets to train on; by default all",
    )
    parser.add_argument("--csv", help="CSV file to train on instead of the data sets")
    parser.add_argument(
        "--smiles",
        default="smiles",
        help="name of the column of SMILES in --csv (default: %(default)s)",
    )
    parser.add_argument(
        "--target", default="y", help="name of the column of labels in --csv (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=int, default=20, help="number of random splits (default: %(default)s)"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="seed of the first split (default: %(default)s)"
    )
    parser.add_argument(
        "--settings",
        nargs="*",
        default=[],
        help="settings of the regressor, each as NAME=VALUE",
    )
    parser.add_argument(
        "--label",
        default="now",
        help="name of this version of gattn in the table (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--table", action="store_true", help="print the recorded results without measuring"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the recorded results into the documentation, without measuring",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "coverage.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
