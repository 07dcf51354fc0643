"""Measurement of the processor time and wall time for starting gattn, compared with ``import
torch``.

    python -m benchmarks.start                        # about five minutes
    python -m benchmarks.start --other /tmp/old       # and of another tree, which has its own .venv

Each start is a new Python interpreter, and all starts are measured alternately. The command predict
predicts three rows with a model that is trained first, with default settings and one epoch. Modules
are compiled to bytecode before the first round, as in an installation that was used before. With
``--no-bytecode``, they are compiled at every start. A JSON line for each start is appended to
benchmarks/results/start.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.core import record, tables
from benchmarks.core.isolate import ROOT
from benchmarks.data.text_network import write_text_network

COMMAND = ("-c", "import sys; sys.argv[0] = 'gattn'; from gattn.apps.cli import main; main()")
CODE = (
    "import torch",
    "import torch, rdkit",
    "import gattn",
    "import gattn; gattn.functional.aggregate",
    "import torch_geometric.nn",
    "import gattn; gattn.nn.GATConv",
)
ARGUMENTS = (
    "--version",
    "--help",
    "molecules train --help",
    "molecules predict",
    "molecules predict MOLECULES/run MOLECULES/three.csv --out OUT",
    "nodes predict NODES/run NODES/edges.csv --nodes NODES/nodes.csv --out OUT",
)
"""Arguments of the commands that are measured. The fourth command fails, because it has no
arguments.
"""


class Time(NamedTuple):
    """Time of one start in seconds."""

    processor: float
    wall: float


class Side(NamedTuple):
    """Checkout with its Python interpreter and the models that it trained."""

    name: str
    root: Path
    python: str
    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> Time:
        """Run the interpreter with arguments; raise RuntimeError for an unexpected exit code."""
        command = [self.python, *arguments]
        begin = time.perf_counter()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != (2 if arguments[-1] == "predict" else 0):
                output.seek(0)
                raise RuntimeError(f"{command} failed:\n{output.read().decode()}")
        return Time(usage.ru_utime + usage.ru_stime, wall)

    def prepare(self) -> None:
        """Train a model of molecules and a model of nodes."""
        molecules, nodes = self.folder / "molecules", self.folder / "nodes"
        nodes.mkdir(parents=True)
        molecules.mkdir()
        (molecules / "three.csv").write_text("smiles\nCCO\nc1ccccc1\nCC(=O)O\n")
        write_text_network(nodes, 60, 150, 2000)
        run = "molecules train --epochs 1 --out MOLECULES/run"
        self.run(*COMMAND, *self.arguments(run, 0))
        run = "nodes train NODES/edges.csv --nodes NODES/nodes.csv --label field --epochs 1"
        self.run(*COMMAND, *self.arguments(f"{run} --out NODES/run", 0))
        for folder in (molecules, nodes):
            if not (folder / "run" / "model.json").exists():
                raise RuntimeError(f"{self.root} did not train the model in {folder / 'run'}")

    def arguments(self, line: str, number: int) -> list[str]:
        """Split a command line, and fill in the folders and the name of a new file."""
        line = line.replace("MOLECULES", str(self.folder / "molecules"))
        line = line.replace("NODES", str(self.folder / "nodes"))
        return line.replace("OUT", str(self.folder / f"{line.split()[0]}-{number}.csv")).split()


def main(arguments: Sequence[str]) -> None:
    """Measure all starts, print a table, and store the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=main.__doc__)
    parser.add_argument(
        "--rounds",
        type=int,
        default=7,
        help="number of measured starts of each command (default: %(default)s)",
    )
    parser.add_argument(
        "--other", type=Path, help="folder of another checkout, with gattn installed in its .venv"
    )
    parser.add_argument(
        "--no-bytecode",
        action="store_true",
        help="let Python compile the modules at every start, without cached bytecode",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "start.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sides = [_side("this", ROOT, sys.executable, Path(folder), not options.no_bytecode)]
        if options.other:
            other = options.other.resolve()
            python = str(other / ".venv" / "bin" / "python")
            sides.append(_side("other", other, python, Path(folder), not options.no_bytecode))
        for side in sides:
            side.prepare()
        times = _measure(sides, options.rounds)
    environment = record.environment("benchmarks.start", arguments)
    for start in times:
        seconds = {
            side: {field: [getattr(t, field) for t in each] for field in Time._fields}
            for side, each in times[start].items()
        }
        entry = {"case": f"start/{start}", "bytecode": not options.no_bytecode, "seconds": seconds}
        record.append(options.out, {**entry, "environment": environment})
    head = ["start", *(f"{side.name}: {kind}" for side in sides for kind in ("processor", "wall"))]
    rows = [
        [start, *(f"{_median(each, kind):.2f} s" for each in sides.values() for kind in (0, 1))]
        for start, sides in times.items()
    ]
    print(tables.markdown(head, rows))


def _side(name: str, root: Path, python: str, folder: Path, bytecode: bool) -> Side:
    environment = dict(os.environ)
    for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(variable, None)
    if bytecode:
        environment["PYTHONPYCACHEPREFIX"] = str(folder / f"{name}-bytecode")
    else:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "empty")
    return Side(name, root, python, folder / name, environment)


def _measure(sides: Sequence[Side], rounds: int) -> dict[str, dict[str, list[Time]]]:
    """Return the times of each start on each side, without the first round."""
    times: dict[str, dict[str, list[Time]]] = {}
    for number in range(rounds + 1):
        for start in (*CODE, *(f"gattn {line}" for line in ARGUMENTS)):
            for side in sides:
                line = ("-c", start)
                if start.startswith("gattn "):
                    line = (*COMMAND, *side.arguments(start.removeprefix("gattn "), number))
                seconds = side.run(*line)
                if number:
                    times.setdefault(start, {}).setdefault(side.name, []).append(seconds)
    return times


def _median(times: Sequence[Time], kind: int) -> float:
    return statistics.median(each[kind] for each in times)


if __name__ == "__main__":
    main(sys.argv[1:])
