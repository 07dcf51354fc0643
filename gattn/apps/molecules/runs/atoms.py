"""Runs of models of atoms and bonds: reading, training, evaluation, output and report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.calibration import coverage_reliability, probability_reliability
from gattn.apps.molecules.atoms.estimators import (
    AtomClassifier,
    AtomEstimator,
    AtomRegressor,
    check_atom_settings,
    class_probabilities,
)
from gattn.apps.molecules.atoms.labels import (
    AtomCells,
    Coding,
    coding_of,
    number_faults,
    read_cells,
)
from gattn.apps.molecules.atoms.lists import format_list
from gattn.apps.molecules.atoms.network import one_hot_labels
from gattn.apps.molecules.atoms.predictor import AtomPrediction
from gattn.apps.molecules.atoms.values import KINDS, LabelledAtoms, Values, padded
from gattn.apps.molecules.loading import smiles_columns
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.molecules.runs.columns import table_rows
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.evaluation import Evaluation, check_targets
from gattn.apps.molecules.runs.labels import SHARE, SKIP
from gattn.apps.molecules.runs.measure import count_labels, measure_part
from gattn.apps.molecules.runs.report import run_facts
from gattn.apps.molecules.runs.source import Source, read_source
from gattn.apps.molecules.runs.stages import (
    MoleculeData,
    MoleculeParts,
    MoleculeProduct,
    MoleculeRun,
    with_all_bad,
)
from gattn.apps.molecules.tables import open_tables
from gattn.apps.report.report import Figure
from gattn.apps.report.run_figures import CLASSES, TARGETS
from gattn.apps.report.run_report import run_report
from gattn.apps.run.model_io import Json, coverage_of, read_model
from gattn.apps.run.product import Report
from gattn.apps.run.run_folder import CHECKPOINTS
from gattn.data import BadRow, Split

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.stages import MoleculeRun


def read_atom_source(settings: RunSettings) -> tuple[Source, Coding]:
    """Read the table of a run: SMILES, label cells, and the task of the labels.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table, a column or a label cannot be used.
    """
    source = read_source(
        settings.files, settings.smiles_columns, (), "regression",
        settings.split_rule.column, encoding=settings.encoding,
        skip_bad=settings.skip_bad_labels,
        time=settings.time or None, file_parts=settings.file_parts,
    )  # fmt: skip
    names = {"atom": settings.atom_target, "bond": settings.bond_target}
    cells = read_list_cells(settings.files, names, settings.encoding)
    try:
        coding = coding_of(cells, settings.task)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    check_values(source, cells, coding, skip_bad=settings.skip_bad_labels)
    problems = [p if smiles else "" for p, smiles in zip(cells.problems, source.smiles)]
    return replace(source, lists=replace(cells, problems=problems)), coding


def load_atoms(
    folder: str | Path, smiles: str | Sequence[str] | None, **parameters: object
) -> tuple[AtomEstimator, dict[str, Json], str]:
    """Load the model of atoms and bonds in a folder, its model card, and its column of SMILES.

    Args:
        folder: the folder of the model.
        smiles: the column that the user passed; None for that of the training.
        parameters: new values of parameters of the estimator.

    Raises:
        RunError: the folder does not contain a readable model of atoms and bonds.
        ValueError: there are several columns.
    """
    tensors, card = read_model(resolve(Path(folder)))
    kind = AtomClassifier if card.get("estimator") == "AtomClassifier" else AtomRegressor
    model = kind.from_state(folder, tensors, card)
    model.set_params(**parameters)
    (column,) = smiles_columns(card, smiles, 1)
    return model, card, column


def read_list_cells(
    files: Sequence[str], names: Mapping[str, Sequence[str]], encoding: str | None
) -> AtomCells:
    """Return the parsed cells of the label columns in the given files.

    Args:
        files: the files, whose rows follow one another.
        names: the columns by kind: atom and bond.
        encoding: encoding of the files.
    """
    columns = [name for kind in KINDS for name in names[kind]]
    table = open_tables(files, (), columns, encoding=encoding)
    places = {name: table.place(name) for name in columns}
    texts: dict[str, list[str]] = {name: [] for name in columns}
    for row in table.rows():
        for name, place in places.items():
            texts[name].append("" if row.problem else row.cells[place])
    return read_cells({kind: {name: texts[name] for name in names[kind]} for kind in KINDS})


def check_values(source: Source, cells: AtomCells, coding: Coding, *, skip_bad: bool) -> None:
    """Raise an error if a list of numbers has an infinite value or a limit.

    Leaving out such lists would select labels by their value. Lists with texts are left out later,
    up to the fraction of rows that :func:`check_share` allows.

    Args:
        source: the table.
        cells: its parsed cells.
        coding: task of the labels.
        skip_bad: whether to leave out all such lists.

    Raises:
        ValueError: there is such a value; the message contains its line and its column.
    """
    if coding.task != "regression" or skip_bad:
        return
    for fault in number_faults(cells):
        if fault.selective and source.smiles[fault.row]:
            raise ValueError(
                f"{source.name}: {fault.reason}, in line {source.lines[fault.row]}; correct it, "
                f"or leave the row out with {SKIP}"
            )


def check_share(source: Source, bad: Sequence[BadRow], *, skip_bad: bool) -> None:
    """Raise an error if more than 5 % of the rows have lists that cannot be read.

    Args:
        source: the table.
        bad: these rows.
        skip_bad: whether to leave out any number of rows.
    """
    if len(bad) > max(1, SHARE * len(source.smiles)) and not skip_bad:
        raise ValueError(
            f"{source.name}: {len(bad):,} of {len(source.smiles):,} rows have lists that cannot be "
            f"used, the first is {bad[0]}; correct them, or leave them out with {SKIP}"
        )


def prediction_columns(model: AtomEstimator) -> list[str]:
    """Return the names of the prediction columns.

    They begin with the name of the target: for numbers ``prediction``, ``std``, ``lower`` and
    ``upper``; for classes ``prediction`` and ``probability``, that of the second class, or a list
    of those of all classes. ``atom_radius`` and ``bond_radius`` are the largest radius of the
    environment that the training molecules contain, -1 for an unknown atom.
    """
    names = ("prediction", "std", "lower", "upper")
    if model.task != "regression":
        names = ("prediction", "probability")
    columns = [f"{target}_{name}" for target in model.targets_.names for name in names]
    return [*columns, *(f"{kind}_radius" for kind in model.targets_.kinds)]


def prediction_cells(
    model: AtomEstimator, predicted: AtomPrediction, smiles: Sequence[str], coverage: float
) -> list[list[str]]:
    """Return the cells for k molecules. A cell contains a JSON list.

    Args:
        model: the model.
        predicted: the predictions of the molecules.
        smiles: SMILES of the molecules.
        coverage: coverage of the intervals.
    """
    columns: list[list[str]] = []

    def add(lists: Iterable[Iterable[Any]]) -> None:
        columns.append(list(map(format_list, lists)))

    def lists_of(values: Values, kind: str, column: int) -> list[np.ndarray]:
        return model.lists(values, kind, column, smiles, predicted.graphs)

    ends = model.predictor_.interval(predicted, coverage) if model.task == "regression" else ()
    for number, (kind, column, _) in enumerate(model.targets_):
        if model.task == "regression":
            for values in (predicted.numbers, predicted.std, *ends):
                add([each.tolist() for each in lists_of(values, kind, column)])
            continue
        kinds = model.coding_.classes[number]
        chances = [
            class_probabilities(each, len(kinds))
            for each in lists_of(predicted.mean, kind, column)
        ]  # fmt: skip
        add([model.decide(each, kinds) for each in chances])
        add([(each if len(kinds) > 2 else each[:, 1]).tolist() for each in chances])
    for kind in model.targets_.kinds:
        radius = Values({kind: predicted.radius[kind].double()[:, None]}, predicted.mean.ptr)
        lists = lists_of(radius, kind, 0)
        add([[None if r != r else int(r) for r in each.tolist()] for each in lists])
    return [list(cells) for cells in zip(*columns)]


def prediction_table(
    model: AtomEstimator, source: Source, parts: Mapping[str, LabelledAtoms],
    predictions: Mapping[str, AtomPrediction], coverage: float,
) -> Iterator[Sequence[object]]:  # fmt: skip
    """Yield the rows of a table that contains predictions and labels.

    Args:
        model: the model.
        source: the table of the molecules, with lists of labels.
        parts: molecules by the name of their part.
        predictions: predictions for these molecules.
        coverage: coverage of the intervals.
    """
    names, cells = model.targets_.names, source.lists
    assert cells is not None

    def labels_of(row: int) -> list[object]:
        lists = (cells.values[name][row] for name in names)
        return ["" if values is None else format_list(values) for values in lists]

    def cells_of(part: str) -> list[list[str]]:
        texts = [source.smiles[row].strip() for row in parts[part].rows.tolist()]
        return prediction_cells(model, predictions[part], texts, coverage)

    columns = [*(f"{name}_measured" for name in names), *prediction_columns(model)]
    return table_rows(source, parts, columns, labels_of, cells_of)


class AtomEvaluation(Evaluation):
    """Model of atoms and bonds, and the labelled molecules on which it is measured."""

    prediction_table = staticmethod(prediction_table)

    @classmethod
    def read(
        cls, run: str | Path, path: str | Path, *, smiles: str | Sequence[str] | None,
        targets: Sequence[str] | None, encoding: str | None, skip_bad: bool,
        coverage: float | None, workers: int, threads: int, **unused: object,
    ) -> AtomEvaluation:  # fmt: skip
        """Load the model and read the table."""
        model, card, column = load_atoms(
            run, smiles, threads=threads, workers=workers, on_error="skip"
        )
        names = check_targets(targets, model.targets_.names)
        columns: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for name, (kind, _, _) in zip(names, model.targets_):
            columns[kind].append(name)
        source = read_source(
            str(path), column, (), "regression", encoding=encoding, skip_bad=skip_bad
        )
        cells = read_list_cells([str(path)], columns, encoding)
        check_values(source, cells, model.coding_, skip_bad=skip_bad)
        values = dict(zip(model.targets_.names, cells.values.values()))
        cells = replace(cells, targets=model.targets_, values=values)
        molecules = model.labelled(source.smiles, cells)
        source = replace(source, lists=cells)
        return cls(model, card, coverage_of(card, coverage), source, molecules)

    def figures(self, test: Any, predicted: Any) -> Mapping[str, Figure]:
        """Return no plots."""
        return {}


PROMISE = (
    "The coverage holds for a random atom or bond of a new molecule, on average over molecules "
    "from the distribution of the validation molecules. Every molecule counts once, however many "
    "atoms it has."
)


def atom_report(run: MoleculeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    model, targets = run.estimator, run.estimator.targets_
    predicted = run.predictions["test"]
    y, mean, std = _outputs(run)
    if model.task == "regression":

        def interval(coverage: float) -> tuple[Tensor, Tensor]:
            lower, upper = model.predictor_.interval(predicted, coverage)
            return padded(lower.rows, targets), padded(upper.rows, targets)

        curve = coverage_reliability(y, interval)
    else:
        curve = probability_reliability(y, mean.clamp(0, 1))
    facts = run_facts(
        run, notes=run.notes, y=y, mean=mean, std=std, reliability=curve,
        words=CLASSES if model.task == "multiclass" else TARGETS, promise=PROMISE,
    )  # fmt: skip
    return run_report(facts)


def _outputs(run: MoleculeRun) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels, means and standard deviations of all targets as adjacent columns, [r,
    outputs].

    For several classes the outputs are the classes of all targets, otherwise the targets.
    """
    model, predicted = run.estimator, run.predictions["test"]
    targets, width = model.targets_, model.predictor_.width
    labels = {k: one_hot_labels(y, width) for k, y in run.part("test").y.rows.items()}
    y, mean, std = (
        padded(values, targets) for values in (labels, predicted.mean.rows, predicted.std.rows)
    )
    if width == 1:
        return y[..., 0], mean[..., 0], std
    counts = torch.tensor([len(kinds) for kinds in model.classes_by_target])
    chosen = torch.arange(width) < counts[:, None]
    return y[:, chosen], mean[:, chosen], std[..., None].expand_as(mean)[:, chosen]


class AtomProduct(MoleculeProduct):
    """Stages of a run whose labels are lists; all atoms of a molecule are in one part."""

    prediction_table = staticmethod(prediction_table)

    def load(self) -> MoleculeData:
        """Read the table, and parse its SMILES and lists."""
        settings = self.settings
        check_atom_settings(settings.model)
        source, coding = read_atom_source(settings)
        assert source.lists is not None
        kind = AtomRegressor if coding.task == "regression" else AtomClassifier
        estimator = kind(
            **asdict(settings.model), on_error="skip", workers=settings.workers,
            threads=settings.threads,
        )  # fmt: skip
        labelled = estimator.read(source.smiles, source.lists, coding=coding)
        labelled = with_all_bad(labelled, source)
        lists = [row for row in labelled.bad if source.smiles[row.row] and row.in_labels]
        check_share(source, lists, skip_bad=settings.skip_bad_labels)
        return self.loaded(MoleculeData(source, labelled, estimator))

    def without_constant(
        self, data: MoleculeData, split: Split
    ) -> tuple[MoleculeData, Split, list[str]]:
        """Check that the training part has a label of each target."""
        train = data.molecules.y[split.train]
        for target, counts in count_labels(data.estimator, {"train": train}).items():
            count = counts["train"]
            if not (sum(count.values()) if isinstance(count, dict) else count):
                raise ValueError(
                    f"the training part has no label of {target!r}: choose another split"
                )
        return data, split, []

    def fit(self, data: MoleculeData, parts: MoleculeParts) -> Any:
        """Train the networks, and compute the mean labels of environments."""
        molecules: Any = data.molecules
        train, val = molecules[parts.split.train], molecules[parts.split.val]
        estimator: Any = data.estimator
        return estimator.fit_labelled(
            train, val, folder=self.out / CHECKPOINTS, progress=self.progress
        )

    def baselines(
        self, model: Any, train: Any, test: Any, predicted: Any
    ) -> dict[str, dict[str, float]]:
        """Return the metrics of the mean of all labels, and of each part of the model alone."""
        width = model.predictor_.width
        means = {}
        for kind in model.targets_.kinds:
            mean = one_hot_labels(train.y.rows[kind], width).nanmean(0)
            means[kind] = mean.expand(len(test.y.rows[kind]), *mean.shape)
        parts = dict(predicted.parts)
        if self.settings.model.model == "attention":
            del parts["attention"]
        return {
            name: measure_part(model, test.y, Values(mean, test.y.ptr))
            for name, mean in {"mean": means, **parts}.items()
        }

    def notes(self, intervals: Mapping[str, Any], predicted: Any, validation: Any) -> list[str]:
        """Return no sentences: the predictions of atoms have no similarity of molecules."""
        return []

    def report(self, run: MoleculeRun) -> Report:
        """Return the report page."""
        return atom_report(run)
