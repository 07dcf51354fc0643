"""Errors of the default model, its parts and baselines on the sets of MoleculeACE.

    pip download --no-deps MoleculeACE && unzip MoleculeACE-*.whl -d ace
    python -m benchmarks.molecules.moleculeace ace/MoleculeACE/Data/benchmark_data
    python -m benchmarks.molecules.moleculeace FOLDER --sets CHEMBL262_Ki CHEMBL231_Ki
    python -m benchmarks.molecules.moleculeace FOLDER --model attention
    python -m benchmarks.molecules.moleculeace FOLDER --from-foundation encoder-128
    python -m benchmarks.molecules.moleculeace --table    # what was measured before
    python -m benchmarks.molecules.moleculeace --page     # the means, into the documentation

Each set has the split that was published with it. The default settings were chosen on the sixteen
sets of DEVELOPMENT; name other sets by --sets. The other fourteen sets were measured only after
the settings had been chosen. A JSON line for each set is appended to
benchmarks/results/moleculeace.jsonl.

Reference: van Tilborg et al., "Exposing the limitations of molecular machine learning with activity
cliffs" (J. Chem. Inf. Model. 2022).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor

from benchmarks.core import record, tables
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.measure import baseline_predictions
from gattn.apps.molecules.settings import ModelName
from gattn.apps.tables.csv_table import open_table

DEVELOPMENT = (
    "CHEMBL204_Ki", "CHEMBL214_Ki", "CHEMBL218_EC50", "CHEMBL219_Ki", "CHEMBL228_Ki",
    "CHEMBL231_Ki", "CHEMBL233_Ki", "CHEMBL234_Ki", "CHEMBL235_EC50", "CHEMBL236_Ki",
    "CHEMBL237_EC50", "CHEMBL237_Ki", "CHEMBL238_Ki", "CHEMBL239_EC50", "CHEMBL244_Ki",
    "CHEMBL262_Ki",
)  # fmt: skip
SHOWN = {
    "stacked": "default", "stacked/attention": "its network", "stacked/gp": "its Gaussian process",
    "stacked/forest": "its forest", "attention": "`--model attention`",
    "kernel_ridge": "kernel ridge", "random_forest": "random forest, Morgan counts",
}  # fmt: skip
FINE_TUNING = {"epochs": 30, "batch_size": 32}
"""Settings of a training that starts from a pretrained encoder."""
PRETRAINED = {"stacked": ("stacked/attention", "stacked"), "attention": ("attention",)}
"""Predictions of each model that the table of the pretrained encoder compares."""
TREES = 100
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "molecule_accuracy.md"


@dataclass(frozen=True)
class _Table:
    """Rows of a set: SMILES, labels, and the part of each row."""

    smiles: list[str]
    y: list[float]
    parts: list[str]

    @classmethod
    def read(cls, path: Path) -> _Table:
        names = ("smiles", "y", "split")
        opened = open_table(str(path), list(names))
        places = [opened.place(name) for name in names]
        columns = zip(*([row.cells[place] for place in places] for row in opened.rows()))
        smiles, labels, parts = map(list, columns)
        return cls(smiles, [float(label) for label in labels], parts)

    def rows(self, part: str) -> Tensor:
        return torch.tensor([i for i, name in enumerate(self.parts) if name == part])


def main(arguments: list[str]) -> None:
    """Train and measure on every set, and print the table."""
    options = _parser().parse_args(arguments)
    if options.page:
        lines = table(record.every(options.output)).splitlines()
        means = [*lines[:2], *(line for line in lines if line.startswith("| mean of"))]
        return tables.write(PAGE, "moleculeace", "\n".join(means))
    if not options.table:
        if options.folder is None:
            raise SystemExit("FOLDER is missing: the folder with the tables of MoleculeACE")
        torch.set_num_threads(options.threads)
        # The folder is a place on one machine, so the record does not contain it.
        shown = ["FOLDER" if each == str(options.folder) else each for each in arguments]
        environment = record.environment("benchmarks.molecules.moleculeace", shown)
        for name in options.sets:
            data = _Table.read(options.folder / f"{name}.csv")
            measured = _measure(data, options.model, options.seed, options.from_foundation)
            row = {"dataset": name, **measured}
            errors = ", ".join(f"{k} {v:.3f}" for k, v in row["rmse"].items())
            print(f"{name} {row['molecules']}: {errors}", file=sys.stderr, flush=True)
            record.append(options.output, row | {"environment": environment})
    rows = record.every(options.output)
    print(pretrained_table(rows, options.model) if options.from_foundation else table(rows))


def _measure(data: _Table, model: ModelName, seed: int, foundation: str) -> record.Record:
    """Return the errors of a model on the test part of a set; for the default model also those of
    its parts and of the baselines.

    Args:
        data: the set.
        model: the model.
        seed: seed of the models.
        foundation: the pretrained encoder from which the network starts; "" for random weights.
    """
    changes = {"from_foundation": foundation, **FINE_TUNING} if foundation else {}
    regressor = MoleculeRegressor(model=model, seed=seed, **changes)
    molecules = regressor.read(data.smiles, data.y)
    both, test = molecules[data.rows("train")], molecules[data.rows("test")]
    begin = time.perf_counter()
    regressor.fit_labelled(*regressor._split(both))
    seconds = time.perf_counter() - begin
    predicted = regressor.predictor_.predict(test.inputs)
    named = {model: predicted.mean}
    if model == "stacked":
        named |= {f"stacked/{name}": mean for name, mean in predicted.component_means.items()}
        named |= baseline_predictions(
            both.inputs, both.y, both.weights, test.inputs, regressor.task, seed=seed
        )
        named["random_forest"] = _random_forest(both, test, seed)
    lower, upper = regressor.intervals(predicted, 0.9)
    return {
        "seed": seed, "from_foundation": foundation,
        "molecules": len(both), "test": len(test),
        "weights": regressor.predictor_.weights,
        "rmse": {name: _rmse(test.y, mean) for name, mean in named.items()},
        "coverage": float(((test.y >= lower) & (test.y <= upper)).double().mean()),
        "seconds": {model: seconds},
    }  # fmt: skip


def _random_forest(train: LabelledMolecules, test: LabelledMolecules, seed: int) -> Tensor:
    """Predict [k, 1] by a random forest on Morgan counts."""
    model = RandomForestRegressor(TREES, max_features=1 / 3, random_state=seed, n_jobs=2)
    model.fit(train.inputs.counts.numpy(), train.y[:, 0].numpy())
    return torch.from_numpy(model.predict(test.inputs.counts.numpy()))[:, None]


def _rmse(y: Tensor, mean: Tensor) -> float:
    return float((y - mean).square().mean().sqrt())


def table(rows: Sequence[record.Record]) -> str:
    """Return a table of the errors on every set without pretraining, and their means."""
    newest: dict[tuple[str, int], record.Record] = {}
    for row in rows:
        if not row.get("from_foundation"):
            # The models of a set can be measured by several commands.
            of_set = newest.setdefault((row["dataset"], row["seed"]), {**row, "rmse": {}})
            of_set["rmse"] |= row["rmse"]
    lines: list[list[str]] = []
    some = sorted(newest.values(), key=lambda row: row["dataset"])
    development = [row for row in some if row["dataset"] in DEVELOPMENT]
    held_out = [row for row in some if row["dataset"] not in DEVELOPMENT]
    for kind, rows_of_kind in (("development", development), ("held-out", held_out)):
        lines += [
            [row["dataset"], str(row["molecules"]), *_cells(row["rmse"])] for row in rows_of_kind
        ]
        lines += _mean(f"{len(rows_of_kind)} {kind} sets", rows_of_kind)
    if development and held_out:
        lines += _mean(f"all {len(some)} sets", some)
    return tables.markdown(["set", "molecules", *SHOWN.values()], lines, text=1)


def _mean(title: str, rows: Sequence[record.Record]) -> list[list[str]]:
    """Return the line of the mean errors of several sets; no line for one set."""
    if len(rows) < 2:
        return []
    means = {
        name: statistics.mean(row["rmse"][name] for row in rows)
        for name in SHOWN
        if all(name in row["rmse"] for row in rows)
    }
    return [[f"mean of {title}", "", *_cells(means)]]


def pretrained_table(rows: Sequence[record.Record], model: ModelName) -> str:
    """Return a table of a model's errors on every set, without and with a pretrained encoder.

    The record without the encoder is the newest one before the record with it, because both must
    be measured with the same other components.
    """
    without: dict[str, dict[str, float]] = {}
    pairs: dict[str, dict[bool, dict[str, float]]] = {}
    for row in rows:
        name = row["dataset"]
        if not row.get("from_foundation"):
            without[name] = without.get(name, {}) | row["rmse"]
        elif name in without:
            earlier = pairs.get(name, {}).get(True, {})
            pairs[name] = {False: without[name], True: earlier | row["rmse"]}
    columns = [(part, pretrained) for part in PRETRAINED[model] for pretrained in (False, True)]
    values = {
        name: [pair[is_so][part] for part, is_so in columns]
        for name, pair in sorted(pairs.items())
        if all(part in pair[is_so] for part, is_so in columns)
    }
    if len(values) > 1:
        means = [statistics.mean(column) for column in zip(*values.values())]
        values[f"mean of {len(values)} sets"] = means
    head = [f"{SHOWN[part]}, pretrained" if is_so else SHOWN[part] for part, is_so in columns]
    lines = [[name, *(f"{value:.3f}" for value in row)] for name, row in values.items()]
    return tables.markdown(["set", *head], lines, text=1)


def _cells(errors: dict[str, float]) -> list[str]:
    return [f"{errors[name]:.3f}" if name in errors else "" for name in SHOWN]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Errors on the sets of MoleculeACE.")
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the tables")
    parser.add_argument("--sets", nargs="+", default=DEVELOPMENT, help="names of the sets")
    parser.add_argument("--model", choices=("stacked", "attention"), default="stacked")
    parser.add_argument("--from-foundation", default="", help="start from a pretrained encoder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print the earlier measurements")
    parser.add_argument("--page", action="store_true", help="write them into the documentation")
    parser.add_argument("--output", type=Path, default=record.RESULTS / "moleculeace.jsonl")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
