"""Measurement of ``gattn nodes train`` on a generated network of texts, or of many runs on a
citation network.

    python -m benchmarks.nodes text --nodes 60000      # minutes, and the memory that it took
    python -m benchmarks.nodes cora --runs 100         # the GAT paper's table
    python -m benchmarks.nodes cora --runs 100 --options=--learning-rate=0.01  # fewer epochs
    python -m benchmarks.nodes cora --runs 20 --layers pyg   # the same by PyG's layers
    python -m benchmarks.nodes cora --runs 20 --stack 1      # not trained together

Each of these commands runs ``gattn nodes train`` in a separate process, and measures its wall time,
its processor time and its peak memory. The last two commands use one worker, so that their
processor times can be compared with those of gattn's layers. A JSON line is appended to
benchmarks/results/nodes.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.core import record

CLASSES, WORDS, OWN = 10, 20_000, 400
"""Numbers of classes, of words in the vocabulary, and of words that a class uses more often."""


def main(arguments: Sequence[str]) -> None:
    """Write the data, train on them, and print the time and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodes", description=main.__doc__)
    parser.add_argument(
        "data",
        choices=("text", "cora", "citeseer", "pubmed"),
        help="data set to train on; text is a generated network of texts",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        default=60_000,
        help="number of nodes of the generated network (default: %(default)s)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1,
        help="number of trainings with different seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--layers", choices=("gattn", "pyg"), help="library whose layers are used (default: gattn)"
    )
    parser.add_argument(
        "--stack",
        type=int,
        help="number of networks that are trained together; by default chosen by the size",
    )
    parser.add_argument(
        "--options", nargs="*", default=[], help="additional options of gattn nodes train"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "nodes.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = [options.data]
        if options.data == "text":
            make_text_network(folder, options.nodes)
            data = [f"{folder}/edges.csv", "--nodes", f"{folder}/nodes.csv", "--label", "field"]
        command = [
            "nodes",
            "train",
            *data,
            "--model",
            "gat",
            "--runs",
            str(options.runs),
            "--out",
            f"{folder}/run",
            *options.options,
        ]
        began = time.perf_counter()
        if len(entry := _entry(options)) > 1:
            command += ["--workers", "1"]
        subprocess.run([sys.executable, "-m", *entry, *command], check=True)
        seconds = time.perf_counter() - began
        metrics = json.loads((folder / "run" / "metrics.json").read_text("utf-8"))
        with (folder / "run" / "runs.csv").open(newline="") as file:
            epochs = [int(row["epochs"]) for row in csv.DictReader(file)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory, worked = used.ru_maxrss / 2**20, used.ru_utime + used.ru_stime
    entry = {
        "case": f"nodes/{options.data}", "runs": options.runs, "nodes": metrics["nodes"],
        "layers": options.layers or "gattn", "stack": options.stack, "options": options.options,
        "seconds": seconds,
        "processor_seconds": worked, "epochs": sum(epochs) / len(epochs), "peak_gib": memory,
        "test": metrics["runs"]["test"], "baselines": metrics["baselines"],
    }  # fmt: skip
    environment = record.environment("benchmarks.nodes", arguments)
    record.append(options.out, {**entry, "environment": environment})
    accuracy = metrics["runs"]["test"]["accuracy"]
    spread = "" if options.runs == 1 else f", standard deviation {accuracy['std']:.4f}"
    print(
        f"{seconds:.0f} s, {worked:.0f} s of processors, {memory:.2f} GiB, {entry['epochs']:.0f} "
        f"epochs a run, accuracy {accuracy['mean']:.4f}{spread}"
    )


def _entry(options: argparse.Namespace) -> list[str]:
    """Return the module to run: the command, or a variant of it."""
    if options.layers is None and options.stack is None:
        return ["gattn.cli"]
    return ["benchmarks.sides.nodes", options.layers or "gattn", str(options.stack or 1)]


def make_text_network(folder: Path, nodes: int, seed: int = 0) -> None:
    """Write ``nodes.csv`` and ``edges.csv``: nodes with texts of 60 words, and edges mostly within
    a class.

    The frequencies of words follow Zipf's law. A fifth of the words of a text come from the
    vocabulary of its class. A node is joined to five other nodes, of which four fifths are of its
    class; the first nodes of a class are chosen more often.

    Args:
        folder: folder of the two tables.
        nodes: number of nodes.
        seed: seed of the random numbers.
    """
    draw = np.random.default_rng(seed)
    field = draw.integers(CLASSES, size=nodes)
    field_words = draw.permutation(WORDS)[: CLASSES * OWN].reshape(CLASSES, OWN)
    common = np.minimum(draw.zipf(1.3, (nodes, 48)), WORDS) - 1
    special = field_words[field[:, None], draw.integers(OWN, size=(nodes, 12))]
    texts = np.hstack([common, special])
    with (folder / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "year", "field"])
        for i in range(nodes):
            words = " ".join(f"w{word}" for word in texts[i])
            label = f"field {field[i]}" if draw.random() < 0.5 else ""
            table.writerow([f"p{i}", words, 1990 + i % 30, label])
    everyone = np.arange(nodes)
    members = [np.flatnonzero(field == kind) for kind in range(CLASSES)]
    with (folder / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for i in range(nodes):
            for _ in range(5):
                choice = members[field[i]] if draw.random() < 0.8 else everyone
                table.writerow([f"p{i}", f"p{choice[int(len(choice) * draw.random() ** 2)]}"])


if __name__ == "__main__":
    main(sys.argv[1:])
