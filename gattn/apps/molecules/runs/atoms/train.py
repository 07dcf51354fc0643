"""Stages of ``gattn molecules train`` for targets that are values of atoms and bonds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomEstimator, AtomRegressor
from gattn.apps.molecules.atoms.labels import AtomCells
from gattn.apps.molecules.atoms.predictor import AtomPrediction
from gattn.apps.molecules.atoms.settings import check_atom_settings
from gattn.apps.molecules.atoms.values import LabelledAtoms
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.atoms.columns import prediction_table
from gattn.apps.molecules.runs.atoms.measure import (
    baseline_means,
    count_labels,
    measure_coverage,
    measure_means,
    measure_targets,
)
from gattn.apps.molecules.runs.atoms.source import check_share, read_atom_source
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.source import Source
from gattn.apps.molecules.runs.splits import choose_parts, splits_record
from gattn.apps.run.measure import PARTS
from gattn.apps.run.product import Log, Parts, Product, Report, TrainedRun, no_log
from gattn.apps.run.run_folder import CHECKPOINTS
from gattn.apps.run.text import plural
from gattn.data import Split

__all__ = ["AtomData", "AtomProduct", "AtomRun"]


@dataclass(frozen=True, eq=False)
class AtomData:
    """Data of a training run.

    Attributes:
        source: all rows of the table.
        cells: the parsed cells of the labels.
        labelled: the labelled molecules with the labels of their atoms.
        molecules: the same molecules without their labels, for the splits.
        estimator: the estimator before training.
    """

    source: Source
    cells: AtomCells
    labelled: LabelledAtoms
    molecules: LabelledMolecules
    estimator: AtomEstimator


@dataclass(frozen=True, eq=False)
class AtomParts(Parts):
    """Training, validation and test parts of a run, and sentences for the report."""

    split: Split
    notes: list[str]


@dataclass(frozen=True, eq=False)
class AtomRun(TrainedRun):
    """Trained model and its evaluation."""

    estimator: AtomEstimator
    settings: RunSettings
    data: AtomData
    predictions: dict[str, AtomPrediction]
    notes: list[str]

    def part(self, name: str) -> LabelledAtoms:
        """Return the molecules of the train, val or test part."""
        return self.data.labelled[getattr(self.split, name)]


class AtomProduct(Product[AtomData, AtomParts, AtomEstimator, AtomRun]):
    """Implementation of the stages of ``gattn molecules train`` for labels that are lists."""

    settings: RunSettings

    def __init__(
        self, settings: RunSettings, out: str | Path, log: Log = no_log, *, progress: bool = False
    ) -> None:
        super().__init__(settings, out, log)
        self.inputs = settings.files
        self.progress = progress

    def load(self) -> AtomData:
        """Read the table, and parse its SMILES and lists."""
        settings = self.settings
        names = [*settings.target, *settings.atom_target, *settings.bond_target]
        check_atom_settings(settings.model, len(names))
        source, cells, coding = read_atom_source(settings)
        kind = AtomRegressor if coding.task == "regression" else AtomClassifier
        estimator = kind(
            **asdict(settings.model), on_error="skip", workers=settings.workers,
            threads=settings.threads, reorder_atoms=settings.reorder_atoms,
        )  # fmt: skip
        weights = None if source.weights is None else torch.from_numpy(source.weights)
        labelled = estimator.read(source.smiles, cells, coding=coding, weights=weights)
        bad = {row.row: replace(row, line=source.lines[row.row]) for row in labelled.bad}
        lists = [row for row in bad.values() if source.smiles[row.row] and row.in_labels]
        check_share(
            source, len(lists), str(lists[0]) if lists else "",
            skip_bad=settings.skip_bad_labels,
        )  # fmt: skip
        bad |= {row.row: row for row in source.bad}
        labelled = replace(labelled, bad=tuple(bad[row] for row in sorted(bad)))
        counts = f"{source.name}: {plural(len(labelled), 'molecule')} for {coding.task}"
        if labelled.bad:
            counts += f"; {plural(len(labelled.bad), 'row')} left out, the first: {labelled.bad[0]}"
        self.log(counts)
        molecules = LabelledMolecules(
            labelled.inputs, torch.zeros(len(labelled), 0), labelled.rows, labelled.canonical,
            labelled.bad,
        )  # fmt: skip
        return AtomData(source, cells, labelled, molecules, estimator)

    def split(self, data: AtomData) -> AtomParts:
        """Split the molecules into parts; all atoms of a molecule are in one part."""
        split, notes = choose_parts(
            self.settings.split, data.molecules, data.source, self.settings.model.seed,
            data.estimator.row_format,
        )  # fmt: skip
        parts = {name: data.labelled[getattr(split, name)] for name in PARTS}
        for target, counts in count_labels(data.estimator, parts).items():
            if not counts["train"]:
                raise ValueError(
                    f"the training part has no label of {target!r}: choose another split"
                )
            notes += [
                f"The {name} part has no label of {target!r}."
                for name in ("val", "test")
                if not counts[name]
            ]
        for note in notes:
            self.log(note)
        record = splits_record(split, data.molecules, data.source)
        return AtomParts(record, _left_out(data), split, notes)

    def fit(self, data: AtomData, parts: AtomParts) -> AtomEstimator:
        """Train the networks, and compute the mean labels of environments."""
        train, val = data.labelled[parts.split.train], data.labelled[parts.split.val]
        return data.estimator.fit_labelled(
            train, val, folder=self.out / CHECKPOINTS, progress=self.progress
        )

    def evaluate(self, data: AtomData, parts: AtomParts, model: AtomEstimator) -> AtomRun:
        """Compute the metrics of the model and the baselines on the test part."""
        self.log("evaluating the model and its baselines on the test part, and writing the report")
        split, labelled = parts.split, data.labelled
        test, val = labelled[split.test], labelled[split.val]
        predictor = model.predictor_
        predicted, validation = predictor.predict(test.inputs), predictor.validation
        assert validation is not None
        train = labelled[torch.cat([split.train, split.val])]
        baselines = baseline_means(model, train, test)
        metrics: dict[str, Any] = {
            "task": model.task,
            "test": measure_means(model, test.y, predicted.mean.rows),
            "val": measure_means(model, val.y, validation.mean.rows),
            "baselines": {n: measure_means(model, test.y, b) for n, b in baselines.items()},
            "parts": {n: measure_means(model, test.y, part) for n, part in predicted.parts.items()},
            "targets": measure_targets(model, test.y, predicted.mean.rows),
            "undefined": {},
            "weights": predictor.weights,
            "labels": count_labels(model, {p: labelled[getattr(split, p)] for p in PARTS}),
            "split": split.protocol,
            "molecules": {
                **{part: len(getattr(split, part)) for part in PARTS},
                "left_out": len(labelled.bad),
            },
        }
        if model.task == "regression":
            coverage = self.settings.coverage
            metrics["intervals"] = measure_coverage(model, test.y, predicted, coverage)
        predictions = {"val": validation, "test": predicted}
        return AtomRun(model, split, metrics, self.settings, data, predictions, parts.notes)

    def report(self, run: AtomRun) -> Report:
        """Return the report page."""
        from gattn.apps.molecules.runs.atoms.report import atom_report

        return atom_report(run)

    def card(self, run: AtomRun) -> Mapping[str, Any]:
        """Return the entries of the model card that describe the data."""
        source = run.data.source
        return {
            "smiles": source.columns[0],
            "coverage": self.settings.coverage,
            "data": {"name": source.name, "sha256": source.sha256},
        }

    def tables(self, run: AtomRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the table of predictions for the validation and test parts."""
        from gattn.apps.molecules.atoms.lists import format_list

        cells = run.data.cells
        texts = {
            name: [
                "" if each is None else _cell(each, kind, format_list)
                for each in cells.values[name]
            ]
            for kind, _, name in cells.targets
        }
        parts = {part: run.part(part) for part in run.predictions}
        rows = prediction_table(
            run.estimator, run.data.source, texts, parts, run.predictions, self.settings.coverage
        )
        return {"predictions.csv": rows}


def _cell(values: Sequence[Any], kind: str, write: Any) -> str:
    return str(values[0]) if kind == "molecule" else write(values)


def _left_out(data: AtomData) -> Iterator[Sequence[object]]:
    """Yield the rows of ``left_out.csv``."""
    yield "row", "line", "text", "reason"
    yield from ((r.row, r.line, r.text, r.reason) for r in data.labelled.bad)
