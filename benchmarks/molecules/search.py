r"""Search for the default model of molecules: training of several variants.

    python -m benchmarks.molecules.search                      # every variant, data set and split
    python -m benchmarks.molecules.search stacked gp --datasets esol --splits 0 1
    python -m benchmarks.molecules.search stacked stacked-pretrained --splits numpy-0 scaffold \
        --output benchmarks/results/molecules-pretrained.jsonl
    python -m benchmarks.molecules.search --table val          # what was measured before
    python -m benchmarks.molecules.search --page               # table of the encoder, into the docs

The benchmark appends a JSON line for each run to benchmarks/results/molecules-search.jsonl. The
line contains the metrics of the model and of its components on the validation and the test part,
the metrics of the intervals, and the time in seconds. Compare variants by ``--table val``; use
``--table test`` only for the variant that was chosen.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.core import record, tables
from benchmarks.molecules import forests, parts
from gattn.apps.fitting.conformal import IntervalCalibrator
from gattn.apps.molecules.baselines import baseline_predictions
from gattn.apps.molecules.fitting import FitPart
from gattn.apps.molecules.inputs import ExpandedInputs, MoleculeInputs, featurise
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data.molecules.scaffolds import murcko_scaffold

COVERAGE = 0.9
PAGE = record.RESULTS.parents[1] / "docs" / "guide" / "molecule_accuracy.md"
PRETRAINED = record.RESULTS / "molecules-pretrained.jsonl"
"""Results of the variants ``stacked`` and ``stacked-pretrained``, measured by the same version."""


@dataclass(frozen=True)
class Variant:
    """Variant of the model: its settings, and the inputs that it reads."""

    settings: MoleculeSettings = field(default_factory=MoleculeSettings)
    shown: Callable[[MoleculeInputs], MoleculeInputs] = lambda inputs: inputs


def _without_counts(inputs: MoleculeInputs) -> MoleculeInputs:
    none = torch.zeros_like(inputs.counts)
    return ExpandedInputs(inputs.molecules, none, inputs.descriptors, pair_counts=none)


def _without_descriptors(inputs: MoleculeInputs) -> MoleculeInputs:
    none = torch.zeros_like(inputs.descriptors)
    return ExpandedInputs(inputs.molecules, inputs.counts, none)


def _of(**settings: object) -> Variant:
    return Variant(replace(MoleculeSettings(), **settings))


VARIANTS = {
    "stacked": Variant(),
    "stacked-30-epochs": _of(epochs=30),
    "stacked-width-64": _of(width=64),
    "stacked-dropout": _of(dropout=0.1),
    "stacked-fast": _of(epochs=30, learning_rate=2e-3),
    "stacked-5": _of(ensemble=5),
    "stacked-pretrained": _of(from_foundation="encoder-128", epochs=30, batch_size=32),
    "gp": _of(model="gp"),
    "ridge-counts": Variant(MoleculeSettings(model="gp"), _without_descriptors),
    "ridge-descriptors": Variant(MoleculeSettings(model="gp"), _without_counts),
}


def main(arguments: list[str]) -> None:
    """Train every variant on every data set and split, and print a table."""
    options = _parser().parse_intermixed_args(arguments)
    if options.page:
        return tables.write(PAGE, "search-pretrained", pretrained(record.every(PRETRAINED)))
    if options.table is None:
        torch.set_num_threads(options.threads)
        environment = record.environment("benchmarks.molecules.search", arguments)
        for name in options.datasets:
            data = _Data.load(name)
            for which in options.splits:
                for variant in options.variants:
                    print(f"{name} {which}: {variant} ...", file=sys.stderr, flush=True)
                    for row in _try(variant, data, which, options.seed):
                        record.append(options.output, row | {"environment": environment})
    entries = record.every(options.output)
    print(table(entries, options.table or "val"))


@dataclass(frozen=True)
class _Data:
    """Data set with the features of its molecules."""

    dataset: parts.Dataset
    molecules: parts.Molecules
    inputs: MoleculeInputs
    y: Tensor

    @classmethod
    def load(cls, name: str) -> _Data:
        molecules = parts.load(name)
        inputs = featurise(molecules.smiles).inputs
        return cls(parts.DATASETS[name], molecules, inputs, molecules.y.double())


def _try(variant: str, data: _Data, which: str, seed: int) -> list[record.Record]:
    """Return the records of one variant on one split, including one for each component."""
    split, task = parts.split(data.molecules, which), data.dataset.task
    head = {"dataset": data.dataset.name, "split": which, "seed": seed}
    begun, cpu = time.perf_counter(), time.process_time()
    if variant in _OTHERS:
        predictions = _OTHERS[variant](data, split, seed)
        used = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
        return [head | {"variant": variant} | _metrics(data, split, predictions) | used]
    shown = VARIANTS[variant].shown(data.inputs)
    settings = replace(VARIANTS[variant].settings, seed=seed)
    texts = [data.molecules.smiles[row] for row in split.val.tolist()]
    groups = list(map(murcko_scaffold, texts)) if which == "scaffold" else None
    model = MoleculePredictor.fit(
        FitPart(shown[split.train], data.y[split.train]),
        FitPart(shown[split.val], data.y[split.val], groups=groups), task, settings,
    )  # fmt: skip
    used = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    predictions = {"val": model.validation, "test": model.predict(shown[split.test])}
    rows = [
        {**head, "variant": variant, "weights": model.weights, **used}
        | _metrics(data, split, {name: of.mean for name, of in predictions.items()})
    ]
    if task == "regression":
        rows[0]["intervals"] = _intervals(data, split, predictions)
    if len(model.weights) > 1:
        means = {name: prediction.component_means for name, prediction in predictions.items()}
        rows += [
            {**head, "variant": f"{variant}/{part}"}
            | _metrics(data, split, {name: each[part] for name, each in means.items()})
            for part in model.weights
        ]
        equal = {name: torch.stack([*each.values()]).mean(0) for name, each in means.items()}
        rows.append(head | {"variant": f"{variant}/equal"} | _metrics(data, split, equal))
    return rows


def _baseline(name: str) -> Callable[[_Data, parts.Split, int], dict[str, Tensor]]:
    def predict(data: _Data, split: parts.Split, seed: int) -> dict[str, Tensor]:
        # Baselines have no settings to choose, so for the test part they are fitted on the training
        # and the validation part.
        training = {"val": split.train, "test": torch.cat([split.train, split.val])}
        return {
            part: baseline_predictions(
                data.inputs[rows], data.y[rows], data.inputs[getattr(split, part)],
                data.dataset.task, seed=seed,
            )[name]
            for part, rows in training.items()
        }  # fmt: skip

    return predict


def _forest(name: str) -> Callable[[_Data, parts.Split, int], dict[str, Tensor]]:
    def predict(data: _Data, split: parts.Split, seed: int) -> dict[str, Tensor]:
        model = forests.fit(
            name, data.inputs[split.train], data.y[split.train], data.dataset.task, seed
        )
        return {
            part: forests.predict(model, data.inputs[getattr(split, part)], data.dataset.task)
            for part in ("val", "test")
        }

    return predict


_OTHERS = {
    "mean": _baseline("mean"),
    "kernel_ridge": _baseline("kernel_ridge"),
    "forest": _forest("forest"),
    "boosting": _forest("boosting"),
}


def _metrics(data: _Data, split: parts.Split, predictions: dict[str, Tensor]) -> record.Record:
    return {
        name: parts.metrics_of(data.dataset.task, data.y[getattr(split, name)], predicted)
        for name, predicted in predictions.items()
    }


def _intervals(data: _Data, split: parts.Split, predicted: dict[str, Prediction]) -> record.Record:
    """Return the coverage and mean width on the test part, of intervals with predicted and with
    constant width.
    """
    y_val, y = data.y[split.val], data.y[split.test]
    results = {}
    for kind in ("normalised", "constant"):
        stds = [
            of.std if kind == "normalised" else torch.ones_like(of.std) for of in predicted.values()
        ]
        calibrator = IntervalCalibrator.fit(y_val, predicted["val"].mean, stds[0])
        low, high = calibrator.interval(predicted["test"].mean, stds[1], coverage=COVERAGE)
        covered = ((y >= low) & (y <= high)).double().mean()
        results[kind] = {"coverage": float(covered), "width": float((high - low).mean())}
    return results


def table(entries: list[record.Record], part: str, splits: tuple[str, ...] = parts.SPLITS) -> str:
    """Return a table of the metrics of every variant on every data set and split, with means."""
    newest = {(row["variant"], row["dataset"], row["split"]): row for row in entries}
    rows = []
    for dataset in parts.DATASETS.values():
        for variant in dict.fromkeys(row["variant"] for row in entries):
            selected = [newest.get((variant, dataset.name, which)) for which in splits]
            values = [None if row is None else row[part][dataset.metric] for row in selected]
            if any(value is not None for value in values):
                random = [value for value in values[:3] if value is not None]
                mean = statistics.mean(random) if len(random) == 3 else None
                cells = [_cell(value) for value in (*values[:3], mean, *values[3:])]
                rows.append([dataset.name, dataset.metric, variant, *cells])
    head = ["data", "metric", "variant", *splits[:3], "mean", *splits[3:]]
    return tables.markdown(head, rows, text=3)


def pretrained(entries: list[record.Record]) -> str:
    """Return a table of the test metrics of the network and of the default model, without and with
    a pretrained encoder.
    """
    newest = {(row["dataset"], row["split"], row["variant"]): row for row in entries}
    columns = ("stacked/attention", "stacked-pretrained/attention", "stacked", "stacked-pretrained")
    rows = []
    for dataset, split in dict.fromkeys((row["dataset"], row["split"]) for row in entries):
        selected = [newest.get((dataset, split, name)) for name in columns]
        metric = parts.DATASETS[dataset].metric
        cells = [_cell(None if row is None else row["test"][metric]) for row in selected]
        rows.append([dataset, split, metric, *cells])
    head = ["data", "split", "metric", "network", "network, pretrained", "default"]
    return tables.markdown([*head, "default, pretrained"], rows, text=3)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.search", description=main.__doc__
    )
    names = [*VARIANTS, *_OTHERS]
    parser.add_argument(
        "variants",
        nargs="*",
        default=names,
        metavar="VARIANT",
        help="names of the variants to train; by default all",
    )
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=parts.DATASETS,
        default=[*parts.DATASETS],
        help="data sets to train on; by default all",
    )
    parser.add_argument(
        "--splits",
        nargs="+",
        choices=[*parts.SPLITS, *parts.OTHER_SPLITS],
        default=[*parts.SPLITS],
        help="splits to train on; by default all",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the model (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=torch.get_num_threads(),
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--table", choices=["val", "test"], help="print the recorded results without measuring"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the recorded results into the documentation, without measuring",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=record.RESULTS / "molecules-search.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
