"""Comparison of the test errors of Chemprop and gattn, which are trained alternately on the same
files.

    python -m venv ENV && ENV/bin/pip install torch==2.13.0 && ENV/bin/pip install chemprop==2.3.1
    python -m benchmarks.molecules.chemprop ENV
    python -m benchmarks.molecules.chemprop ENV --options --ensemble 5

Both commands run with default settings and read the same CSV file, which has a column of parts.
The benchmark measures the wall time and the processor time of all processes of a command, from its
start to its end. The option ``--sides`` selects one of the two sides. The benchmark appends a JSON
line for each run to benchmarks/results/molecules-chemprop.jsonl, and prints a table of all runs
with default settings. With ``--table``, it only prints the table of the recorded results, and with
``--page``, it writes this table into the documentation.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.core import record, tables
from benchmarks.core.isolate import ROOT
from benchmarks.molecules import parts
from benchmarks.molecules.parts import metrics_of

VERSION = "2.3.1"
SPLITS = (*parts.OTHER_SPLITS, "scaffold")
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "molecule_accuracy.md"
HOW = (
    f"{{}} is no environment with Chemprop {VERSION}. Make one:\n"
    "  python3 -m venv ENV && ENV/bin/pip install torch==2.13.0 && "
    f"ENV/bin/pip install chemprop=={VERSION}"
)
Metrics = dict[str, float]


def main(arguments: list[str]) -> None:
    """Train Chemprop and gattn alternately on every data set and split."""
    options = _parser().parse_args(arguments)
    if not (options.table or options.page):
        needed = "chemprop" in (options.sides or ["chemprop"])
        if needed and (options.environment is None or not _has_chemprop(options.environment)):
            raise SystemExit(HOW.format(options.environment))
        _measure(options, arguments)
    markdown = table(record.every(options.output))
    print(markdown)
    if options.page:
        tables.write(PAGE, "chemprop", markdown)


def _measure(options: argparse.Namespace, arguments: list[str]) -> None:
    # The record contains no folder of this machine.
    words = ["ENV" if word == str(options.environment) else word for word in arguments]
    environment = record.environment("benchmarks.molecules.chemprop", words)
    for name in options.datasets:
        molecules = parts.load(name)
        for which in options.splits:
            split = parts.split(molecules, which)
            for side in options.sides or _SIDES:
                print(f"{name} {which}: {side} ...", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory(prefix="gattn-") as folder:
                    path = Path(folder) / "data.csv"
                    parts.write_table(path, molecules, split)
                    begun, cpu = time.perf_counter(), _children_cpu()
                    metrics = _SIDES[side](path, parts.DATASETS[name], options)
                    seconds, cpu = time.perf_counter() - begun, _children_cpu() - cpu
                extra = [] if side == "chemprop" else options.options
                row = {
                    "case": "/".join([name, which, side, *extra]), "dataset": name,
                    "split": which, "side": side, "options": extra,
                    "test": metrics, "seconds": seconds, "cpu": cpu, "environment": environment,
                }  # fmt: skip
                record.append(options.output, row)


def _children_cpu() -> float:
    """Return the processor time in seconds of all child processes that have ended, including
    their children.
    """
    used = os.times()
    return used.children_user + used.children_system


def _has_chemprop(environment: Path) -> bool:
    """Return True if an environment contains the expected version of Chemprop."""
    python = environment / "bin" / "python"
    if not python.exists():
        return False
    code = "import importlib.metadata as m; print(m.version('chemprop'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == VERSION


def _chemprop(path: Path, dataset: parts.Dataset, options: argparse.Namespace) -> Metrics:
    """Train Chemprop and return its metrics on the test part."""
    out = path.parent / "chemprop"
    _run(
        options.environment / "bin" / "chemprop", "train", "--data-path", path,
        "--smiles-columns", "smiles", "--target-columns", "target", "--splits-column", "split",
        "--task-type", dataset.task, "--output-dir", out,
    )  # fmt: skip
    measured = [row for row in _rows(path) if row["split"] == "test"]
    predicted = _rows(out / "model_0" / "test_predictions.csv")
    if [row["smiles"] for row in predicted] != [row["smiles"] for row in measured]:
        raise SystemExit("Chemprop's predictions are not in the order of the test part")
    return metrics_of(dataset.task, _targets(measured), _targets(predicted))


def _gattn(path: Path, dataset: parts.Dataset, options: argparse.Namespace) -> Metrics:
    """Train gattn and return its metrics on the test part."""
    out = path.parent / "run"
    _run(
        sys.executable, "-m", "gattn.apps.cli", "molecules", "train", path, "--smiles", "smiles",
        "--target", "target", "--split", "column:split", "--task", dataset.task, "--out", out,
        *options.options,
    )  # fmt: skip
    return json.loads((out / "metrics.json").read_text())["test"]


_SIDES = {"chemprop": _chemprop, "gattn": _gattn}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _targets(rows: list[dict[str, str]]) -> Tensor:
    """Return the labels of the column target: [k, 1] float64."""
    return torch.tensor([[float(row["target"])] for row in rows], dtype=torch.float64)


def _run(*command: object) -> None:
    # An installed package contains compiled files, so that Python must be allowed to write them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**env, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def table(entries: list[record.Record]) -> str:
    """Return a table of the test errors and seconds for each data set, with means over all
    random splits. Seconds are listed only if one call of the benchmark measured both sides.
    """
    newest = {row["case"]: row for row in entries if row["test"] is not None}
    rows = []
    for dataset in parts.DATASETS.values():
        for which in (SPLITS[0], "mean", SPLITS[-1]):
            splits = SPLITS[:-1] if which == "mean" else (which,)
            sides = [
                [newest.get(f"{dataset.name}/{split}/{side}") for split in splits]
                for side in ("chemprop", "gattn")
            ]
            complete = [[row for row in side if row is not None] for side in sides]
            if any(len(side) < len(splits) for side in complete):
                continue
            errors = [
                statistics.mean(row["test"][dataset.metric] for row in side) for side in complete
            ]
            calls = [[row["environment"] for row in side] for side in complete]
            seconds = ["–", "–"]
            if all(call == calls[0][0] for call in calls[0] + calls[1]):
                seconds = [
                    f"{statistics.mean(row['seconds'] for row in side):.1f}" for side in complete
                ]
            rows.append(
                [
                    dataset.name,
                    dataset.metric,
                    which,
                    *(f"{error:.3f}" for error in errors),
                    *seconds,
                ]
            )
    head = ["data", "metric", "split", "Chemprop", "gattn", "Chemprop, s", "gattn, s"]
    return tables.markdown(head, rows, text=3)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.chemprop", description=main.__doc__
    )
    parser.add_argument(
        "environment",
        type=Path,
        nargs="?",
        help="folder of the environment in which Chemprop is installed",
    )
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=parts.DATASETS,
        default=[*parts.DATASETS],
        help="data sets to train on; by default all",
    )
    parser.add_argument(
        "--splits",
        nargs="+",
        choices=SPLITS,
        default=[*SPLITS],
        help="splits to train on; by default all",
    )
    parser.add_argument(
        "--sides", nargs="+", choices=[*_SIDES], help="libraries to measure; by default all"
    )
    parser.add_argument(
        "--options",
        nargs=argparse.REMAINDER,
        default=[],
        help="options of gattn molecules train; must be the last argument",
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
        default=record.RESULTS / "molecules-chemprop.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
