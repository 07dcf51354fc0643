"""Learning curves of the default model, its parts and kernel ridge regression.

    python -m benchmarks.molecules.curves            # four sets, three draws
    python -m benchmarks.molecules.curves --datasets esol --sizes 16 64 --draws 1
    python -m benchmarks.molecules.curves --table    # what was measured before
    python -m benchmarks.molecules.curves --page     # the same, into the documentation

For each draw, a fifth of the molecules is the test part. The models are trained on the first 16, 32
and so on of the others, in random order, so that a larger training part contains the smaller ones.
A size above the number of the others stands for all of them. The parts (network, Gaussian process,
forest) are those of the trained default model. A JSON line for each set, draw and size is appended
to benchmarks/results/curves.jsonl; a line that is there already is not measured again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from benchmarks.core import record, tables
from benchmarks.molecules.parts import DATASETS, load, metrics_of
from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.runs.measure import baseline_predictions
from gattn.data import Molecules, random_split

MODULE = "benchmarks.molecules.curves"
SIZES = (16, 32, 64, 128, 256, 512, 1000)
SHOWN = {
    "stacked": "default", "attention": "network", "gp": "Gaussian process", "forest": "forest",
    "kernel_ridge": "kernel ridge",
}  # fmt: skip
PARTS = ("attention", "gp", "forest")
TEST = 0.2
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "molecule_accuracy.md"


def main(arguments: list[str]) -> None:
    """Train and measure for every set, draw and size, and print the table."""
    options = _parser().parse_args(arguments)
    if options.page:
        return tables.write(PAGE, "curves", table(record.every(options.output)))
    if not options.table:
        torch.set_num_threads(1)
        environment = record.environment(MODULE, arguments)
        present = {_key(row) for row in _rows(options.output)}
        for name in options.datasets:
            molecules = load(name)
            pool = len(molecules) - round(TEST * len(molecules))
            sizes = sorted({min(size, pool) for size in options.sizes})
            for draw in range(options.draws):
                for size in sizes:
                    row = {"dataset": name, "draw": draw, "size": size}
                    if _key(row) in present:
                        continue
                    row |= measure(molecules, name, draw, size)
                    shown = ", ".join(f"{key} {value:.3f}" for key, value in row["scores"].items())
                    print(f"{name} {draw} {size}: {shown}", file=sys.stderr, flush=True)
                    record.append(options.output, row | {"environment": environment})
    print(table(_rows(options.output)))


def measure(molecules: Molecules, name: str, draw: int, size: int) -> record.Record:
    """Return the scores of all models on the test part of a draw.

    Args:
        molecules: the molecules of a data set.
        name: the name of the data set.
        draw: seed of the test part, of the order of the other molecules and of the models.
        size: number of training molecules.
    """
    task, metric = DATASETS[name].task, DATASETS[name].metric
    split = random_split(molecules, seed=draw, fractions=(1 - TEST, 0.0, TEST))
    generator = torch.Generator().manual_seed(draw)
    train = split.train[torch.randperm(len(split.train), generator=generator)[:size]]
    kind = MoleculeClassifier if task == "classification" else MoleculeRegressor
    model = kind(seed=draw, threads=1)
    labelled = model.read(molecules.smiles, molecules.y[:, 0].double().numpy())
    both, test = labelled[train], labelled[split.test]
    begin = time.perf_counter()
    model.fit_labelled(*model._split(both))
    seconds = time.perf_counter() - begin
    predicted = model.predictor_.predict(test.inputs)
    labels = both.y, both.weights
    ridge = baseline_predictions(both.inputs, *labels, test.inputs, model.task, seed=draw)
    means = {"stacked": predicted.mean, **predicted.component_means, **ridge}
    return {
        "metric": metric, "test": len(test), "weights": model.predictor_.weights,
        "scores": {key: metrics_of(task, test.y, mean)[metric] for key, mean in means.items()},
        "seconds": seconds,
    }  # fmt: skip


def table(rows: Iterable[record.Record]) -> str:
    """Return a table of the mean scores over the draws, by set and size.

    The last column is the mean difference of the default model from its best part, relative to the
    part, with its standard error over the draws; a positive number is a larger error (a lower
    ROC-AUC) of the default model.
    """
    groups: dict[tuple[str, int], list[record.Record]] = {}
    for row in {_key(row): row for row in rows}.values():
        groups.setdefault((row["dataset"], row["size"]), []).append(row)
    order = list(DATASETS)
    lines = []
    for name, size in sorted(groups, key=lambda key: (order.index(key[0]), key[1])):
        some = groups[name, size]
        means = {
            key: statistics.mean(row["scores"][key] for row in some)
            for key in SHOWN
            if all(key in row["scores"] for row in some)
        }
        cells = [f"{means[key]:.3f}" if key in means else "" for key in SHOWN]
        lines.append([name, str(size), *cells, _difference(some, means, DATASETS[name].sign)])
    head = ["set", "molecules", *SHOWN.values(), "default and best part"]
    return tables.markdown(head, lines, text=1)


def _difference(rows: Sequence[record.Record], means: dict[str, float], sign: int) -> str:
    """Return the relative difference of the default model from the part with the best mean."""
    best = max((part for part in PARTS if part in means), key=lambda part: sign * means[part])
    changes = [-sign * (row["scores"]["stacked"] / row["scores"][best] - 1) * 100 for row in rows]
    error = statistics.stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else float("nan")
    return f"{statistics.mean(changes):+.1f} ± {error:.1f} %"


def _rows(path: Path) -> list[record.Record]:
    return record.every(path) if path.exists() else []


def _key(row: record.Record) -> tuple[str, int, int]:
    return row["dataset"], row["draw"], row["size"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument(
        "--datasets", nargs="+", choices=list(DATASETS), default=list(DATASETS),
        help="names of the data sets, whose files are in the folder GATTN_DATA (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=SIZES, help="numbers of training molecules"
    )
    parser.add_argument(
        "--draws", type=int, default=3, help="number of random test parts (default: %(default)s)"
    )
    parser.add_argument("--table", action="store_true", help="print the earlier measurements")
    parser.add_argument("--page", action="store_true", help="write them into the documentation")
    parser.add_argument(
        "--output", type=Path, default=record.RESULTS / "curves.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
