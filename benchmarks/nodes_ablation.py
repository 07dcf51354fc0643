"""Accuracy of the stacked model of nodes without each of its components.

    python -m benchmarks.nodes_ablation cora sympy blocks-0.5 --splits 2

Each split is a run of ``gattn nodes train --no-refit`` in this process. The weights of the
combination are then fitted again to the predictions of all components but one. The command prints
the test accuracy with all components, and the change without each component. The column
``network`` is the attention network, and an empty cell is a component that was not fitted.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.core import tables
from benchmarks.data.networks import NETWORKS, READING, make
from benchmarks.data.typed_networks import TYPED_NETWORKS, write
from gattn.apps.cli import main as gattn
from gattn.apps.nodes.stack.predictor import NETWORK
from gattn.apps.nodes.stack.weights import Combination, pool_by_name


def main(arguments: Sequence[str]) -> None:
    """Train on each split of the networks, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nodes_ablation", description=main.__doc__
    )
    parser.add_argument("networks", nargs="+", choices=(*NETWORKS, *TYPED_NETWORKS))
    parser.add_argument("--split", default="random", help="kind of split (default: %(default)s)")
    parser.add_argument("--splits", type=int, default=2, help="number of splits")
    options = parser.parse_args(arguments)
    rows = {}
    for name in options.networks:
        runs = [_measure(name, options.split, seed) for seed in range(options.splits)]
        rows[name] = {key: statistics.fmean(run[key] for run in runs) for key in runs[0]}
    head = list(dict.fromkeys(key for row in rows.values() for key in row))
    some = {key: [row[key] for row in rows.values() if key in row] for key in head}
    rows["mean"] = {key: statistics.fmean(values) for key, values in some.items()}
    cells = [[_cell(key, row) for key in head] for row in rows.values()]
    print(tables.markdown(["network", *head], [[n, *c] for n, c in zip(rows, cells)]))


def _cell(key: str, row: Mapping[str, float]) -> str:
    """Return an accuracy, or a change with its sign."""
    return f"{row[key]:{'' if key == 'all' else '+'}.4f}" if key in row else ""


def _measure(name: str, split: str, seed: int) -> dict[str, float]:
    """Return the accuracy with all components, and its change without each of them."""
    fit, recorded = Combination.fit, mock.patch.object(Combination, "fit", wraps=Combination.fit)
    with tempfile.TemporaryDirectory() as folder, recorded as fits:
        typed = name in TYPED_NETWORKS
        data = write(name, Path(folder), ignore_types=False) if typed else make(name, Path(folder))
        out = ["--split", split, "--seed", str(seed), "--no-refit", "--out", f"{folder}/run"]
        command = ["gattn", "nodes", "train", *data, *READING.get(name, ()), *out]
        with mock.patch.object(sys, "argv", command):
            try:
                gattn()
            except SystemExit as end:
                if end.code:
                    raise
        with open(f"{folder}/run/predictions.csv", newline="", encoding="utf-8") as file:
            test = [i for i, row in enumerate(csv.DictReader(file)) if row["part"] == "test"]
    (outputs, to), settings = fits.call_args

    def accuracy(names: Sequence[str]) -> float:
        parts = {name: outputs[name] for name in names}
        fitted = fit(parts, to, **settings)
        combined = pool_by_name(parts, fitted.weights, is_class=True) * np.array(fitted.factors)
        return float(np.mean(combined[test].argmax(1) == to.y[test]))

    names: list[str] = [*outputs]
    whole = accuracy(names)
    changes = {one: accuracy([n for n in names if n != one]) - whole for one in names}
    network = changes.pop(NETWORK)
    return {"all": whole, **changes, "network": network}


if __name__ == "__main__":
    main(sys.argv[1:])
