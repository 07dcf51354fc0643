"""Measurement of the processor time of each stage of ``gattn molecules train`` with default
settings.

    python -m benchmarks.molecules.stages                    # each data set, below GATTN_DATA
    python -m benchmarks.molecules.stages --datasets esol
    python -m benchmarks.molecules.stages --page             # write the table to the documentation

Each data set is trained in a separate process. The stage ``start`` imports the modules that a
training needs. The fit is divided into the network and the Gaussian process, which is fitted by a
second thread. The benchmark measures processor times, which hardly depend on other programs. A JSON
line for each data set is appended to benchmarks/results/stages.jsonl.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.core import record, tables
from benchmarks.molecules import parts

MODULE = "benchmarks.molecules.stages"
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "threads.md"
STAGES = ("start", "load", "split", "network", "Gaussian process", "evaluate", "report", "write")
SPLIT = parts.OTHER_SPLITS[0]


def main(arguments: list[str]) -> None:
    """Measure the selected data sets, and print a table."""
    options = _parser().parse_args(arguments)
    if options.train:
        print(json.dumps(_stages(*options.train)))
        return
    for name in [] if options.page else options.datasets:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.csv"
            molecules = parts.load(name)
            parts.write_table(path, molecules, parts.split(molecules, SPLIT))
            words = ["--train", str(path), str(Path(folder) / "run")]
            command = [sys.executable, "-m", MODULE, *words]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = json.loads(done.stdout.splitlines()[-1])
        environment = record.environment(MODULE, ["--datasets", name])
        row = {"case": f"stages/{name}", "dataset": name, "cpu": seconds}
        record.append(options.output, {**row, "environment": environment})
    markdown = table(list(record.newest(options.output).values()))
    print(markdown)
    if options.page:
        tables.write(PAGE, "stages", markdown)


def _stages(path: str, out: str) -> dict[str, float]:
    """Train once in this process, and return the processor time of each stage in seconds."""
    from gattn.training.threads import sleep_at_barriers

    sleep_at_barriers()
    spent: dict[str, float] = {}
    from gattn.molecules.gaussian_process import GaussianProcess
    from gattn.molecules.runs.config import RunSettings
    from gattn.molecules.runs.train import MoleculeProduct
    from gattn.pipeline.train import train_run

    def timed(owner: Any, name: str, stage: str, clock: Callable[[], float]) -> None:
        function = getattr(owner, name)

        def measured(*args: Any, **options: Any) -> Any:
            begun = clock()
            try:
                return function(*args, **options)
            finally:
                spent[stage] = spent.get(stage, 0.0) + clock() - begun

        setattr(owner, name, measured)

    for stage in ("load", "split", "evaluate", "report"):
        timed(MoleculeProduct, stage, stage, time.process_time)
    timed(MoleculeProduct, "fit", "network", time.process_time)
    timed(GaussianProcess, "fit", "Gaussian process", time.thread_time)
    spent["start"] = time.process_time()
    train_run(
        MoleculeProduct(RunSettings(data=path, target=("target",), split="column:split"), out)
    )
    whole = time.process_time()
    spent["network"] -= spent["Gaussian process"]
    spent["write"] = whole - sum(spent.values())
    return spent


def table(entries: list[record.Record]) -> str:
    """Return a table of the processor time of each stage in seconds, with a row for each data
    set.
    """
    rows = [
        [row["dataset"], *(f"{row['cpu'][stage]:.1f}" for stage in STAGES),
         f"{sum(row['cpu'].values()):.1f}"]
        for row in entries
    ]  # fmt: skip
    return tables.markdown(["data", *STAGES, "all"], rows, text=1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=parts.DATASETS,
        default=[*parts.DATASETS],
        help="data sets to train on; by default all",
    )
    parser.add_argument(
        "--train",
        nargs=2,
        metavar=("DATA", "RUN"),
        help="train on DATA in this process, and write the run to the folder RUN",
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the newest results into the documentation, without measuring",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "stages.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
