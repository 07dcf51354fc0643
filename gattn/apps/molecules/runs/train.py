"""The command ``gattn molecules train`` and its stages, from reading the table to the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.label_notes import decades_note
from gattn.apps.molecules.labelling import ClassificationEstimator, RegressionEstimator
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.columns import prediction_table
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.measure import (
    constant_width,
    count_labels,
    distance_note,
    label_notes,
    measure_baselines,
    measure_intervals,
    measure_part,
    measure_targets,
    ridge_rows,
    target_coverage_note,
    undefined,
)
from gattn.apps.molecules.runs.overlaps import duplicate_facts, duplicate_notes
from gattn.apps.molecules.runs.source import Source, built_in, read_source
from gattn.apps.molecules.runs.splits import (
    check_parts,
    choose_parts,
    constant_targets,
    splits_record,
    validation_groups,
)
from gattn.apps.molecules.target_transform import check_domain
from gattn.apps.run import train as pipeline
from gattn.apps.run.measure import PARTS
from gattn.apps.run.product import Log, Parts, Product, Report, TrainedRun, no_log
from gattn.apps.run.run_folder import CHECKPOINTS
from gattn.apps.run.text import plural
from gattn.apps.tables.formats import open_molecules
from gattn.data import Split
from gattn.data.molecules.standardise import STEPS

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.atoms.train import AtomProduct

__all__ = ["MoleculeProduct", "MoleculeRun", "atom_product", "read_run_source", "train_run"]


@dataclass(frozen=True, eq=False)
class MoleculeData:
    """Data of a training run.

    Attributes:
        source: all rows of the table.
        molecules: the labelled molecules.
        estimator: the estimator before training; it has the names and classes of the targets.
    """

    source: Source
    molecules: LabelledMolecules
    estimator: MoleculeEstimator


@dataclass(frozen=True, eq=False)
class MoleculeParts(Parts):
    """Training, validation and test parts of a run.

    Attributes:
        data: the data without the targets that have fewer than two labels in the training part.
        split: positions of the molecules in the three parts.
        duplicates: molecules in several parts and contradicting labels, for ``metrics.json``.
        notes: sentences for the report.
    """

    data: MoleculeData
    split: Split
    duplicates: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class MoleculeRun(TrainedRun):
    """Trained model and its evaluation.

    Attributes:
        estimator: the fitted model.
        settings: settings of the run.
        source: all rows of the table.
        molecules: the labelled molecules.
        predictions: predictions of the validation and the test part.
        notes: sentences for the report.
    """

    estimator: MoleculeEstimator
    settings: RunSettings
    source: Source
    molecules: LabelledMolecules
    predictions: dict[str, Prediction]
    notes: list[str]

    def part(self, name: str) -> LabelledMolecules:
        """Return the molecules of the train, val or test part."""
        return self.molecules[getattr(self.split, name)]


def train_run(
    settings: RunSettings, out: str | Path, *, progress: bool = False, log: Log = no_log
) -> dict[str, Any]:
    """Train a model and write all results to a folder; this is the command ``gattn molecules
    train``.

    The folder contains ``config.toml``, ``splits.json``, ``weights.safetensors`` and ``model.json``
    (which :meth:`gattn.apps.molecules.MoleculeRegressor.load` reads), ``metrics.json``,
    ``predictions.csv`` of the validation and test parts, ``left_out.csv``, ``plots`` and
    ``report.html``. If it contains an unfinished run with the same settings, training continues
    from the last checkpoint; if it contains the finished run, nothing is done.

    Args:
        settings: settings of the run.
        out: folder of the run, created if it is missing.
        progress: show a bar with the time left.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        ValueError: a model cannot be trained with these settings or on these data.
        OSError: a file cannot be read or written; the last checkpoint is not deleted.
    """
    if settings.has_lists:
        return pipeline.train_run(atom_product(settings, out, log, progress=progress))
    return pipeline.train_run(MoleculeProduct(settings, out, log, progress=progress))


def atom_product(
    settings: RunSettings, out: str | Path, log: Log = no_log, *, progress: bool = False
) -> AtomProduct:
    """Return the product with the stages of a run for targets of atoms and bonds."""
    from gattn.apps.molecules.runs.atoms.train import AtomProduct

    return AtomProduct(settings, out, log, progress=progress)


class MoleculeProduct(Product[MoleculeData, MoleculeParts, MoleculeEstimator, MoleculeRun]):
    """Implementation of the stages of ``gattn molecules train``."""

    settings: RunSettings

    def __init__(
        self, settings: RunSettings, out: str | Path, log: Log = no_log, *, progress: bool = False
    ) -> None:
        super().__init__(settings, out, log)
        self.inputs = [*settings.files, *filter(None, [settings.descriptors_path])]
        self.progress = progress

    def load(self) -> MoleculeData:
        """Read the table and parse its SMILES."""
        settings = self.settings
        source = read_run_source(settings)
        is_regression = source.labels.task == "regression"
        kind = RegressionEstimator if is_regression else ClassificationEstimator
        estimator = kind(
            **asdict(settings.model), on_error="skip", workers=settings.workers,
            threads=settings.threads, molecules_per_row=len(settings.smiles_columns),
        )  # fmt: skip
        if is_regression:
            check_labels_domain(settings.model.target_transform, source)
            if settings.model.target_transform == "none":
                for target, values in zip(source.targets, source.labels.y.T):
                    if note := decades_note(values):
                        self.log(f"Column {target!r}: {note}")
        molecules = _parse(estimator, source)
        self.log(_summary(source, molecules, estimator))
        return MoleculeData(source, molecules, estimator)

    def split(self, data: MoleculeData) -> MoleculeParts:
        """Split the molecules into parts, and count the molecules that occur in two parts."""
        source, molecules, estimator = data.source, data.molecules, data.estimator
        model = self.settings.model
        split, notes = choose_parts(
            self.settings.split, molecules, source, model.seed, estimator.row_format
        )
        if constant := constant_targets(estimator, molecules.y[split.train]):
            first, *_ = constant.values()
            if len(constant) == len(source.targets):
                raise ValueError(f"the training part has {first}: choose another split")
            notes.append(
                f"{plural(len(constant), 'target')} left out, because the training part lacks "
                f"different labels, the first: {first}."
            )
            source = source.without(constant)
            rows = {part: molecules.rows[getattr(split, part)] for part in PARTS}
            molecules = _parse(estimator, source)
            split = replace(split, **rows).among(molecules.rows)
            check_parts(split, self.settings.split)
            data = MoleculeData(source, molecules, estimator)
        duplicates = duplicate_facts(split, molecules, source, estimator.task)
        train_rows = molecules.rows[split.train].numpy()
        notes = [*notes, *duplicate_notes(duplicates), *source.descriptor_notes(train_rows)]
        rows = len(split.train) + len(split.val)
        if source.weights is not None:
            used = source.weights[train_rows]
            notes.append(
                f"Rows are weighted by {self.settings.weight_column!r}, from {used.min():.3g} to "
                f"{used.max():.3g} in the training part; errors and coverages are not weighted."
            )
        names = {
            "baseline": "kernel ridge of the baseline",
            "model": "Gaussian process of the model",
        }
        notes += [
            f"The {names[part]} uses {most:,} of {rows:,} molecules, which are drawn at random."
            for part, most in ridge_rows(rows, model).items()
            if most < rows
        ]
        y, several = molecules.y, bool(estimator.class_counts)
        parts = {"training": y[split.train]} if several else {}
        parts |= {"validation": y[split.val], "test": y[split.test]}
        notes += label_notes(estimator, parts)
        notes += standardisation_notes(estimator, source, molecules)
        for note in (*source.labels.notes, *notes):
            self.log(note)
        record = splits_record(split, molecules, source)
        left_out = _left_out(source, molecules)
        return MoleculeParts(record, left_out, data, split, duplicates, notes)

    def fit(self, data: MoleculeData, parts: MoleculeParts) -> MoleculeEstimator:
        """Train the model; if ``tune`` is above 0, search for the best settings first."""
        data, settings = parts.data, self.settings
        estimator = data.estimator
        train, val = data.molecules[parts.split.train], data.molecules[parts.split.val]
        groups, train_groups = (
            validation_groups(settings.split, part, data.source, estimator.row_format)
            for part in (val, train)
        )
        if settings.tune:
            from gattn.apps.molecules.runs.tuning import tune

            best = tune(estimator, train, val, settings.tune, self.out, self.log, groups=groups)
            estimator = estimator.replace(**best)
        return estimator.fit_labelled(
            train, val, groups=groups, train_groups=train_groups, folder=self.out / CHECKPOINTS,
            progress=self.progress,
        )  # fmt: skip

    def evaluate(
        self, data: MoleculeData, parts: MoleculeParts, model: MoleculeEstimator
    ) -> MoleculeRun:
        """Compute the metrics of the model and the baselines on the test part."""
        self.log("evaluating the model and its baselines on the test part, and writing the report")
        data, settings, split = parts.data, self.settings, parts.split
        source, molecules = data.source, data.molecules
        task, test, y_val = model.task, molecules[split.test], molecules.y[split.val]
        predicted, validation = model.predictor_.predict(test.inputs), model.predictor_.validation
        # Like the Gaussian process, the baselines are fitted to the training and validation parts.
        train = molecules[torch.cat([split.train, split.val])]
        intervals = measure_intervals(model, test.y, predicted, settings.coverage)
        intervals |= constant_width(model, y_val, validation.mean, settings.coverage)
        label_counts = count_labels(model, {p: molecules.y[getattr(split, p)] for p in PARTS})
        metrics = {
            "task": task,
            "item": model.row_format.rows_noun,
            "test": measure_part(model, test.y, predicted.mean),
            "val": measure_part(model, y_val, validation.mean),
            "baselines": measure_baselines(model, train, test, settings.model.seed),
            "ridge_rows": ridge_rows(len(train), settings.model),
            "targets": measure_targets(model, test.y, predicted.mean),
            "intervals": intervals,
            "undefined": undefined(model, {"test": test.y, "val": y_val}, intervals),
            "weights": model.predictor_.weights,
            "without_forest": model.predictor_.without_forest,
            "labels": {
                target: source.labels.counts.get(target, {}) | counts
                for target, counts in label_counts.items()
            },
            "split": split.protocol,
            "molecules": {
                **{part: len(getattr(split, part)) for part in PARTS},
                "left_out": len(molecules.bad),
            },
            **parts.duplicates,
        }
        notes = [
            *target_coverage_note(intervals),
            *distance_note(predicted.max_train_similarity, validation.max_train_similarity),
        ]
        for note in notes:
            self.log(note)
        predictions = {"val": validation, "test": predicted}
        return MoleculeRun(
            model, split, metrics, settings, source, molecules, predictions, [*parts.notes, *notes]
        )

    def report(self, run: MoleculeRun) -> Report:
        """Return the report page, with pictures of the molecules that have the largest errors."""
        from gattn.apps.molecules.runs.report import molecule_report

        return molecule_report(run)

    def card(self, run: MoleculeRun) -> Mapping[str, Any]:
        """Return the data description in the model card: SMILES column, units and so on."""
        unit, columns = self.settings.unit, run.source.columns
        return {
            "smiles": columns[0] if len(columns) == 1 else [*columns],
            "units": {
                target: ", ".join(filter(None, (unit, f"as in column {target!r}")))
                for target in run.estimator.targets_
            },
            "unit": unit,
            "numbers": asdict(self.settings.style),
            "coverage": self.settings.coverage,
            "data": {"name": run.source.name, "sha256": run.source.sha256},
        }

    def tables(self, run: MoleculeRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the tables to write: predictions for the validation and test parts, and the
        left-out rows.
        """
        parts = {part: run.part(part) for part in run.predictions}
        rows = prediction_table(
            run.estimator, run.source, parts, run.predictions, self.settings.coverage
        )
        return {"predictions.csv": rows}


def read_run_source(settings: RunSettings) -> Source:
    """Read the table of a run. If the run names no table, read the data set that is distributed
    with RDKit.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table cannot be read, or no target was named.
    """
    if not settings.data:
        return built_in()
    if not settings.target:
        columns = open_molecules(settings.data, (), encoding=settings.encoding).columns
        raise ValueError(
            f"--target must be a column of the table: {settings.data} has the columns "
            f"{', '.join(map(repr, columns))}"
        )
    return read_source(
        settings.files, settings.smiles_columns, settings.target, settings.task,
        settings.split_rule.column, encoding=settings.encoding, style=settings.style,
        skip_bad=settings.skip_bad_labels, descriptors=settings.descriptors_columns,
        weight=settings.weight_column or None, time=settings.time or None,
        file_parts=settings.file_parts, descriptors_path=settings.descriptors_path,
        relation=settings.relation_column,
    )  # fmt: skip


def _parse(estimator: MoleculeEstimator, source: Source) -> LabelledMolecules:
    """Return the labelled molecules; their attribute ``bad`` contains all invalid rows of the
    table.
    """
    y = source.labels.y[:, 0] if len(source.targets) == 1 else source.labels.y
    molecules = estimator.read(
        source.rows,
        y,
        targets=source.targets,
        bounds=source.labels.bounds,
        weights=source.weights,
    )
    bad = {row.row: replace(row, line=source.lines[row.row]) for row in molecules.bad}
    bad |= {row.row: row for row in source.bad}
    return replace(molecules, bad=tuple(bad[row] for row in sorted(bad)))


def _summary(source: Source, molecules: LabelledMolecules, estimator: MoleculeEstimator) -> str:
    """Return a line with the number of molecules, and the number of rows without a SMILES or a
    label.
    """
    unlabelled = len(source.smiles) - len(molecules.bad) - len(molecules)
    count = estimator.row_format.count(len(molecules))
    clauses = [f"{source.name}: {count} for {estimator.task}"]
    if molecules.bad:
        clauses.append(
            f"{plural(len(molecules.bad), 'row')} left out, the first: {molecules.bad[0]}"
        )
    if unlabelled:
        clauses.append(f"{plural(unlabelled, 'row')} without a label")
    return "; ".join(clauses)


def check_labels_domain(transform: str, source: Source) -> None:
    """Raise an error if a label is outside the domain of its target transform; the error names
    the line of the first such label.
    """
    labels = source.labels
    for i, target in enumerate(source.targets):
        bounds = None if labels.bounds is None else labels.bounds[:, i]
        try:
            check_domain(
                transform, labels.y[:, i], target, lambda row: f"in line {source.lines[row]}",
                bounds,
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f"{source.name}: {error}") from None


def standardisation_notes(
    estimator: MoleculeEstimator, source: Source, molecules: LabelledMolecules
) -> list[str]:
    """Return a list with a sentence on the standardisation of the molecules; the list is empty
    if they are not standardised.
    """
    if not estimator.standardize:
        return []
    steps = ", ".join(step for step in STEPS if step in estimator.standardize)
    sentence = f"The molecules are standardised in training and prediction ({steps})"
    if estimator.row_format.joined:
        return [f"{sentence}."]
    written = molecules.inputs.molecules.smiles
    changed = sum(text != source.smiles[row] for text, row in zip(written, molecules.rows.tolist()))
    return [f"{sentence}; this changed {changed:,} of {plural(len(molecules), 'molecule')}."]


def _left_out(source: Source, molecules: LabelledMolecules) -> Iterator[Sequence[object]]:
    """Yield the rows of ``left_out.csv``: rows that were not used, and rows with an invalid
    label.
    """
    bad = {row.row for row in molecules.bad}
    cells = [
        (
            label.row,
            label.line,
            source.smiles[label.row],
            f"only this label is left out: {label.reason}",
        )
        for label in source.labels.lost
        if label.row not in bad
    ]
    yield "row", "line", "text", "reason"
    yield from sorted([*((r.row, r.line, r.text, r.reason) for r in molecules.bad), *cells])
