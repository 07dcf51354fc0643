"""Measurement of the commands alone, two at the same time, and on cores that other programs use.

    python -m benchmarks.busy                            # this tree
    python -m benchmarks.busy --other FOLDER             # in turns with another build
    python -m benchmarks.busy --table                    # print the newest results again
    python -m benchmarks.busy --page                     # write them into the documentation

Each command runs in a separate process and is timed from its start to its end. The commands train
and predict molecules (ESOL, in the folder GATTN_DATA) and the nodes of a generated network of
texts. A command is timed alone, at the same time as a second run of the same command, and at the
same time as one busy loop on each core. FOLDER is another checkout with an environment ``.venv`` in
which its gattn is installed. If a measurement exceeds the limit, this is recorded. A JSON line for
each command and build goes to benchmarks/results/busy.jsonl. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.core import record, tables
from benchmarks.core.isolate import Stopped
from benchmarks.core.load import Usage, busy_loops, cores, run_together
from benchmarks.data.datasets import root
from benchmarks.data.text_network import write_text_network
from gattn.data import get_dataset

MODULE = "benchmarks.busy"
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "threads.md"
ALONE, PAIR, BUSY = "alone", "two at a time", "beside loops"
LOADS = (ALONE, PAIR, BUSY)
ROWS = 900
"""Number of molecules in the training table."""
SIZE = {"nodes": 7_778, "edges": 28_874, "words": 4_593}
"""Size of the generated network of texts."""


@dataclass(frozen=True)
class Command:
    """Command of gattn that is measured.

    Attributes:
        words: function that returns the words of the command; its argument is the path to which the
            command writes.
        loads: names of the other programs that run while the command is timed.
    """

    words: Callable[[Path], list[str]]
    loads: Sequence[str] = LOADS


def main(arguments: Sequence[str]) -> None:
    """Measure the selected commands, and print a table."""
    options = _parser().parse_args(arguments)
    if options.table or options.page:
        markdown = table(list(record.newest(options.out).values()))
        print(markdown)
        if options.page:
            tables.write(PAGE, "busy", markdown)
        return
    sides = {"this": sys.executable}
    if options.other:
        sides["other"] = str((options.other / ".venv" / "bin" / "python").absolute())
    environment = record.environment(MODULE, arguments)
    entries = []
    with tempfile.TemporaryDirectory(prefix="gattn-") as scratch:
        folder = Path(scratch)
        commands = make_commands(folder, sides, options)
        for name in options.commands:
            measured = {side: {} for side in sides}
            for load in commands[name].loads:
                for side, python in sides.items():
                    print(f"{name}, {load}, {side} ...", file=sys.stderr, flush=True)
                    measured[side][load] = _measure(
                        python, commands[name], load, side, folder, options.limit
                    )
            for side, loads in measured.items():
                entry = {
                    "case": f"{name}/{side}", "command": name, "side": side,
                    "sizes": {"rows": options.rows, **SIZE, "nodes": options.nodes},
                    "loads": loads, "environment": environment,
                }  # fmt: skip
                record.append(options.out, entry)
                entries.append(entry)
    print(table(entries))


def make_commands(
    folder: Path, sides: dict[str, str], options: argparse.Namespace
) -> dict[str, Command]:
    """Write the tables, train a model of each product and side, and return the commands."""
    molecules, table_in = folder / "molecules.csv", folder / "in.csv"
    source = get_dataset("esol")
    with (root() / source.folder / source.files[0].name).open(newline="") as file:
        rows = [[row[source.smiles], row[source.targets[0]]] for row in csv.DictReader(file)]
    _write_rows(molecules, [["smiles", "y"], *rows[:ROWS]])
    repeated = [[rows[i % len(rows)][0]] for i in range(options.rows)]
    _write_rows(table_in, [["smiles"], *repeated])
    size = {**SIZE, "nodes": options.nodes, "edges": SIZE["edges"] * options.nodes // SIZE["nodes"]}
    network = write_text_network(folder, **size)
    graph = [network[0], "--nodes", network[2]]

    def train_molecules(out: Path, epochs: int = options.epochs) -> list[str]:
        words = ["molecules", "train", str(molecules), "--target", "y", "--out", str(out / "run")]
        return [*words, "--epochs", str(epochs)]

    def train_nodes(out: Path, epochs: int | None = options.node_epochs) -> list[str]:
        words = ["nodes", "train", *network, "--out", str(out / "run")]
        return [*words, "--epochs", str(epochs)] if epochs else words

    def predict_molecules(out: Path) -> list[str]:
        run = folder / f"{out.parent.name}-molecules" / "run"
        return ["molecules", "predict", str(run), str(table_in), "--out", str(out / "out.csv")]

    def predict_nodes(out: Path) -> list[str]:
        run = folder / f"{out.parent.name}-nodes" / "run"
        return ["nodes", "predict", str(run), *graph, "--out", str(out / "out.csv")]

    for side, python in sides.items():
        for product, words in (("molecules", train_molecules), ("nodes", train_nodes)):
            if f"{product} predict" in options.commands:
                out = folder / f"{side}-{product}"
                out.mkdir()
                command = [python, "-m", "gattn.apps.cli", *words(out, 1)]
                run_together([command], folder, options.limit)
    return {
        "molecules train": Command(train_molecules),
        "molecules predict": Command(predict_molecules),
        "nodes train": Command(train_nodes),
        "nodes predict": Command(predict_nodes),
        "nodes train, all epochs": Command(lambda out: train_nodes(out, None), [ALONE]),
    }


COMMANDS = (
    "molecules train", "molecules predict", "nodes train", "nodes predict",
    "nodes train, all epochs",
)  # fmt: skip


def _measure(
    python: str, command: Command, load: str, side: str, folder: Path, limit: float
) -> dict[str, float] | str:
    """Return the largest times of several runs of a command under a load, or the time limit if a
    run exceeds it.
    """
    words = []
    for _ in range(2 if load == PAIR else 1):
        place = folder / side
        place.mkdir(exist_ok=True)
        words.append([python, "-m", "gattn.apps.cli"])
        words[-1] += command.words(Path(tempfile.mkdtemp(dir=place)))
    try:
        with busy_loops(cores() if load == BUSY else 0):
            usages = run_together(words, folder, limit)
    except Stopped as stopped:
        return str(stopped)
    longest: Usage = max(usages, key=lambda usage: usage.seconds)
    return asdict(longest)


def table(entries: list[record.Record]) -> str:
    """Return a Markdown table of wall time (processor time) of each load, and the ratios."""
    head = [
        "command", "build", "alone, s", "two at a time, s", "with busy loops, s",
        "two at a time / alone", "with busy loops / alone",
    ]  # fmt: skip
    rows = []
    for entry in entries:
        loads = entry["loads"]
        cells = [_cell(loads.get(load)) for load in LOADS]
        ratios = [_ratio(loads.get(load), loads.get(ALONE)) for load in (PAIR, BUSY)]
        rows.append([entry["command"], entry["side"], *cells, *ratios])
    return tables.markdown(head, rows, text=2)


def _cell(usage: dict[str, float] | str | None) -> str:
    if usage is None or isinstance(usage, str):
        return usage or "–"
    return f"{usage['seconds']:.1f} ({usage['processor_seconds']:.1f})"


def _ratio(usage: dict[str, float] | str | None, alone: dict[str, float] | str | None) -> str:
    if not isinstance(usage, dict) or not isinstance(alone, dict):
        return "–"
    return f"{usage['seconds'] / alone['seconds']:.2f}"


def _write_rows(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--other",
        type=Path,
        help="folder of another checkout of gattn, built in its .venv, which is also measured",
    )
    parser.add_argument(
        "--commands",
        nargs="+",
        choices=COMMANDS,
        default=list(COMMANDS),
        help="commands to measure; by default all",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=10,
        help="number of epochs for which molecules are trained (default: %(default)s)",
    )
    parser.add_argument(
        "--node-epochs",
        type=int,
        default=100,
        help="number of epochs for which nodes are trained (default: %(default)s)",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=4_000,
        help="number of molecules to predict (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        default=SIZE["nodes"],
        help="number of nodes of the network (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=120,
        help="maximum time of a measurement, in seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--table", action="store_true", help="print the newest results without measuring"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the newest results into the guide, without measuring",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "busy.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
