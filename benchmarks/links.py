"""Measurement of link models on several networks, compared with their components and heuristics.

    python -m benchmarks.links cora debian
    python -m benchmarks.links cora --splits 5 --options=--model=gatv2

Each split is a run of ``gattn links train`` with another seed, in a process of its own. In the
network ``debian``, the links are the relations Depends between packages, and the sections are not
read. The command prints the mean and the standard error of the mean reciprocal rank of the model,
of each component and of each heuristic on the test part, and appends a JSON line for each network
to benchmarks/results/links.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import record
from benchmarks.data.networks import NETWORKS, debian, make

FEATURES = {"debian": ("--features", "description", "--names")}
"""Options that name the features of a network, other than its labels."""


def main(arguments: Sequence[str]) -> None:
    """Measure the mean reciprocal rank on some networks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.links", description=main.__doc__)
    parser.add_argument("networks", nargs="+", choices=tuple(NETWORKS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--options", nargs="*", default=[], help="further options of the command")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "links.jsonl")
    options = parser.parse_args(arguments)
    environment = record.environment("benchmarks.links", arguments)
    for name in options.networks:
        entry = measure(name, options)
        record.append(options.out, {**entry, "environment": environment})
        print(f"{name}, {options.splits} splits, {entry['seconds']:.0f} s each")
        for title, (mean, error) in entry["mrr"].items():
            spread = "" if error is None else f" ± {error:.4f}"
            print(f"  {title:40s} {mean:.4f}{spread}", flush=True)


def tables(name: str, folder: Path) -> list[str]:
    """Write the tables of a network, and return the arguments of the command that name them."""
    if name != "debian":
        arguments = make(name, folder)
        return arguments[: arguments.index("--label")] if "--label" in arguments else arguments
    debian(folder)
    path = folder / "edges.csv"
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with path.open("w", newline="", encoding="utf-8") as file:
        depends = [row[:2] for row in rows if row[2] == "Depends"]
        csv.writer(file).writerows([header[:2], *depends])
    return [str(path), "--nodes", str(folder / "nodes.csv")]


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train on each split of a network, and return means and standard errors of the mean
    reciprocal rank.
    """
    scores: dict[str, list[float]] = {}
    metrics: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = [*tables(name, Path(folder)), *FEATURES.get(name, ())]
        began = time.perf_counter()
        for seed in range(options.splits):
            out = Path(folder) / f"run{seed}"
            command = ["links", "train", *data, "--seed", str(seed), *options.options]
            command += ["--out", str(out)]
            subprocess.run([sys.executable, "-m", "gattn.apps.cli", *command], check=True)
            metrics = json.loads((out / "metrics.json").read_text("utf-8"))
            ranks = {"model": metrics["test"]["mrr"]}
            for title, each in metrics["components"].items():
                ranks[f"component {title}"] = each["test"]["mrr"]
            for title, each in metrics["baselines"].items():
                ranks[f"baseline {title}"] = each["mrr"]
            for title, value in ranks.items():
                scores.setdefault(title, []).append(value)
        seconds = (time.perf_counter() - began) / options.splits
    return {
        "case": f"links/{name}", "splits": options.splits, "options": options.options,
        "negatives": metrics["negatives"], "links": metrics["links"], "seconds": seconds,
        "last": metrics["test"],
        "mrr": {title: _mean_and_error(values) for title, values in scores.items()},
    }  # fmt: skip


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error; the error is None if there is only one value."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.fmean(values), error


if __name__ == "__main__":
    main(sys.argv[1:])
