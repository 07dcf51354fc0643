"""Measurement of node models on several networks and splits, compared with components and
baselines.

    python -m benchmarks.networks cora sympy blocks-0.8 noise --splits 5
    python -m benchmarks.networks debian --options=--names
    python -m benchmarks.networks cora --split random-per-class --model gat
    python -m benchmarks.networks weights types direction time --edges both
    python -m benchmarks.networks neighbour-columns relations typed-noise --edges both
    python -m benchmarks.networks cora --split random-per-class --others lightgbm gcn gat
    python -m benchmarks.networks --page     # write the recorded results into the documentation

Each split is a run of ``gattn nodes train`` with another seed, in a process of its own. The command
prints the mean and the standard error of the accuracy of the model, of each component and of each
baseline. With ``--edges both`` it first ignores the columns and the direction of the edges, and
then reads them; networks with several tables of nodes are first read as one table of all nodes.
With ``--others``, models of other libraries are trained on the same parts; see
:mod:`benchmarks.sides.node_models`. The command appends a JSON line for each network to
benchmarks/results/networks.jsonl.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import record, tables
from benchmarks.data.networks import NETWORKS, READING, ignore_edge_columns, make
from benchmarks.data.typed_networks import TYPED_NETWORKS, write
from benchmarks.sides.node_models import MODELS
from benchmarks.tools import networks_table

PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "node_model.md"


def main(arguments: Sequence[str]) -> None:
    """Measure the accuracy on some networks."""
    names = [*NETWORKS, *TYPED_NETWORKS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description=main.__doc__)
    parser.add_argument("networks", nargs="*", help=f"networks to train on: {', '.join(names)}")
    parser.add_argument(
        "--page",
        action="store_true",
        help="print the newest recorded results, write them into the documentation, and train "
        "nothing",
    )
    parser.add_argument(
        "--others",
        nargs="*",
        default=[],
        choices=MODELS,
        help="models of other libraries to train on the same parts",
    )
    parser.add_argument(
        "--splits", type=int, default=5, help="number of random splits (default: %(default)s)"
    )
    parser.add_argument(
        "--split",
        default="random",
        help="kind of split, like the option --split of gattn nodes train (default: %(default)s)",
    )
    parser.add_argument(
        "--model",
        default="stacked",
        help="model to train, like the option --model of gattn nodes train (default: %(default)s)",
    )
    parser.add_argument(
        "--options", nargs="*", default=[], help="additional options of gattn nodes train"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "networks.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    parser.add_argument(
        "--edges",
        choices=("read", "ignore", "both"),
        default="read",
        help="read the columns, directions and types of the edges, ignore them, or measure both "
        "cases (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if options.page:
        markdown = networks_table.table(record.every(options.out))
        print(markdown)
        tables.write(PAGE, "networks", markdown)
        return
    if not options.networks:
        parser.error("the names of one or more networks are required")
    if unknown := set(options.networks) - set(names):
        parser.error(f"unknown networks: {', '.join(sorted(unknown))}")
    environment = record.environment("benchmarks.networks", arguments)
    ways = ("ignore", "read") if options.edges == "both" else (options.edges,)
    for name, way in ((name, way) for name in options.networks for way in ways):
        entry = measure(name, options, way)
        record.append(options.out, {**entry, "environment": environment})
        print(
            f"{name}, edges: {way}, {options.split}, {options.splits} splits, "
            f"{entry['seconds']:.0f} s and {entry['processor_seconds']:.0f} s of processors each"
        )
        for title, (mean, error) in entry["accuracy"].items():
            spread = "" if error is None else f" ± {error:.4f}"
            print(f"  {title:32s} {mean:.4f}{spread}", flush=True)


def measure(name: str, options: argparse.Namespace, edges: str) -> dict[str, Any]:
    """Train on each split of a network, and return means and standard errors of the accuracy,
    and times.
    """
    scores: dict[str, list[float]] = {}
    began, used = time.perf_counter(), _processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        if name in TYPED_NETWORKS:
            data = write(name, Path(folder), ignore_types=edges == "ignore")
        else:
            data = make(name, Path(folder))
            if edges == "ignore":
                ignore_edge_columns(Path(data[0]))
            else:
                data += READING.get(name, ())
        prepared, used = time.perf_counter(), _processor_seconds()
        for seed in range(options.splits):
            out = Path(folder) / f"run{seed}"
            command = ["nodes", "train", *data, "--split", options.split, "--seed", str(seed)]
            command += ["--model", options.model, *options.options, "--out", str(out)]
            subprocess.run([sys.executable, "-m", "gattn.apps.cli", *command], check=True)
            metrics = json.loads((out / "metrics.json").read_text("utf-8"))
            accuracies = {options.model: metrics["test"]["accuracy"]}
            for title, each in metrics.get("components", {}).items():
                accuracies[f"component {title}"] = each["test"]["accuracy"]
            for title, each in metrics["baselines"].items():
                accuracies[f"baseline {title}"] = each["accuracy"]
            accuracies |= _train_others(out, options.others)
            for title, value in accuracies.items():
                scores.setdefault(title, []).append(value)
    count = options.splits
    return {
        "case": f"networks/{name}", "split": options.split, "splits": count,
        "model": options.model, "edges": edges, "options": options.options,
        "seconds": (time.perf_counter() - prepared) / count,
        "prepare_seconds": prepared - began,
        "processor_seconds": (_processor_seconds() - used) / count,
        "accuracy": {title: _mean_and_error(values) for title, values in scores.items()},
    }  # fmt: skip


def _train_others(run: Path, models: Sequence[str]) -> dict[str, float]:
    """Train models of other libraries on the parts of a run, and return their test accuracies."""
    if not models:
        return {}
    command = [sys.executable, "-m", "benchmarks.sides.node_models", str(run), *models]
    printed = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    results = json.loads(printed.splitlines()[-1])
    for name, each in results.items():
        print(f"  {name}: {each['test']:.4f} in {each['seconds']:.0f} s", flush=True)
    return {f"other {name}": each["test"] for name, each in results.items()}


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error; the error is None if there is only one value."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.fmean(values), error


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:])
