"""Measurement of the time, accuracy and peak memory of ``gattn nodes train`` on large generated
networks.

    python -m benchmarks.huge --nodes 240000 --edges 6200000
    python -m benchmarks.huge --nodes 2400000 --edges 62000000
    python -m benchmarks.huge --nodes 60000 --edges 600000 --memory 1MB 100GiB
    python -m benchmarks.huge --nodes 60000 --edges 600000 --strengths --memory 1MB 100GiB

The command writes a contextual block model to Parquet, and runs ``gattn nodes train`` on it once
for each value of ``--memory``. It samples the memory of all processes of the run: the resident
memory, and the part of it that is not a page of a file, which the system cannot drop. It appends a
JSON line for each run to benchmarks/results/huge.jsonl.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import record
from benchmarks.data.huge_network import write_network

INTERVAL = 0.2
"""Seconds between two measurements of the memory."""
GIB = 2**30
COMMAND = [sys.executable, "-m", "gattn.apps.cli"]


def main(arguments: Sequence[str]) -> None:
    """Measure the memory, time and accuracy of training on a generated network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.huge", description=main.__doc__)
    parser.add_argument("--nodes", type=int, default=240_000, help="number of nodes")
    parser.add_argument("--edges", type=int, default=6_200_000, help="number of edges")
    parser.add_argument("--classes", type=int, default=20, help="number of classes")
    parser.add_argument("--columns", type=int, default=24, help="number of columns of numbers")
    parser.add_argument(
        "--homophily", type=float, default=0.1, help="share of the edges within a class"
    )
    parser.add_argument(
        "--signal", type=float, default=0.3, help="standard deviation of the centres of classes"
    )
    parser.add_argument("--texts", action="store_true", help="name the nodes by texts")
    parser.add_argument(
        "--strengths", action="store_true", help="write a column of numbers of the edges"
    )
    parser.add_argument(
        "--memory", nargs="*", default=["12GiB"], help="values of the option --memory"
    )
    parser.add_argument("--options", nargs="*", default=[], help="options of gattn nodes train")
    parser.add_argument("--predict", action="store_true", help="also run gattn nodes predict")
    parser.add_argument(
        "--folder", type=Path, help="existing folder for the tables, which are used again"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "huge.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    environment = record.environment("benchmarks.huge", arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        data = make(folder, options)
        for memory in options.memory:
            entry = measure(data, memory, options, Path(temporary))
            record.append(options.out, {**entry, "environment": environment})
            print(json.dumps(entry, indent=1), flush=True)


def make(folder: Path, options: argparse.Namespace) -> list[str]:
    """Write the network to a folder unless the folder already contains it, and return the command's
    arguments for it.
    """
    if (folder / "edges.parquet").exists():
        files = [str(folder / "edges.parquet"), "--nodes", str(folder / "nodes.parquet")]
        return [*files, "--label", "kind"]
    return write_network(
        folder, options.nodes, options.edges, classes=options.classes, columns=options.columns,
        homophily=options.homophily, signal=options.signal, texts=options.texts,
        strengths=options.strengths,
    )  # fmt: skip


def measure(
    data: list[str], memory: str, options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Train once, and return the accuracy, the time and the peak memory."""
    out = folder / f"run-{memory}"
    train = ["nodes", "train", *data, "--memory", memory, *options.options, "--out", str(out)]
    used = run_measured(train)
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    parts = {name: each["test"]["accuracy"] for name, each in metrics["components"].items()}
    entry: dict[str, Any] = {
        "case": "huge", "nodes": options.nodes, "edges": options.edges, "classes": options.classes,
        "columns": options.columns, "homophily": options.homophily, "signal": options.signal,
        "strengths": options.strengths, "memory": memory, "options": options.options,
        "size": metrics["size"],
        **{name: round(value, 2) for name, value in used.items()},
        "accuracy": metrics["test"]["accuracy"], "components": parts,
    }  # fmt: skip
    if options.predict:
        path = folder / f"predictions-{memory}.parquet"
        used = run_measured(["nodes", "predict", str(out), *data[:3], "--out", str(path)])
        entry["predict"] = {name: round(value, 2) for name, value in used.items()}
    return entry


def run_measured(arguments: Sequence[str]) -> dict[str, float]:
    """Run a command of gattn, and return its seconds and the peaks of its memory in GiB.

    Raises:
        CalledProcessError: the command failed.
    """
    began = time.perf_counter()
    command = [*COMMAND, *arguments]
    process = subprocess.Popen(command)
    resident = anonymous = 0
    while process.poll() is None:
        sizes = [_memory(number) for number in _descendants(process.pid)]
        resident = max(resident, sum(size[0] for size in sizes))
        anonymous = max(anonymous, sum(size[1] for size in sizes))
        time.sleep(INTERVAL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {
        "seconds": time.perf_counter() - began,
        "peak_resident_gib": resident / GIB,
        "peak_anonymous_gib": anonymous / GIB,
    }


def _descendants(process: int) -> list[int]:
    """Return the numbers of a process and of all processes that it started."""
    numbers = [process]
    for number in numbers:
        try:
            tasks = list(Path(f"/proc/{number}/task").iterdir())
            texts = [(task / "children").read_text() for task in tasks]
        except (FileNotFoundError, ProcessLookupError):
            continue
        numbers += [int(child) for text in texts for child in text.split()]
    return numbers


def _memory(process: int) -> tuple[int, int]:
    """Return the resident memory of a process in bytes, and its part that no file backs."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    fields = dict(line.split(":", 1) for line in text.splitlines())
    if "VmRSS" not in fields:
        return 0, 0
    resident, anonymous = (int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon"))
    return 1024 * resident, 1024 * anonymous


if __name__ == "__main__":
    main(sys.argv[1:])
