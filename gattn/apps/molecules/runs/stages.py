"""Stages of ``gattn molecules train``, from reading the table to the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gattn.apps.fitting.calibration import coverage_reliability, probability_reliability
from gattn.apps.molecules.atoms.estimators import check_atom_settings
from gattn.apps.molecules.estimators import MoleculeClassifier, MoleculeEstimator
from gattn.apps.molecules.explain import class_probability
from gattn.apps.molecules.loading import estimator_kind
from gattn.apps.molecules.related import compare, fit_related, with_left_out
from gattn.apps.molecules.row_format import drawn_smiles
from gattn.apps.molecules.rows import LabelledMolecules, smiles_hashes
from gattn.apps.molecules.runs import measure, splits
from gattn.apps.molecules.runs.columns import prediction_table
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.labels import SHARE, SKIP, decades_note
from gattn.apps.molecules.runs.source import Source, built_in, read_source
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.report import run_report
from gattn.apps.report.report import Figure, Section, Table
from gattn.apps.report.style import number
from gattn.apps.run import train as pipeline
from gattn.apps.run.measure import PARTS
from gattn.apps.run.run_folder import CHECKPOINTS, file_hash
from gattn.apps.run.text import plural
from gattn.apps.tables.formats import open_molecules
from gattn.data import Split
from gattn.draw import draw_molecule

ATOMS = (
    "The coverage holds for a random atom or bond of a new molecule, on average over molecules "
    "from the distribution of the validation molecules. Every molecule counts once, however many "
    "atoms it has."
)
ALSO = "also_sha256"
"""Key of the hash of the file of ``also`` in ``splits.json``."""
WORST = 12
"""Number of molecules that the report page shows, those with the largest errors."""
DRAWN = 100
"""Maximum number of atoms in a molecule that the report draws; larger pictures are unreadable."""
SIZE = 280, 200
"""Width and height of a molecule's picture, in pixels."""
COMPONENTS = {
    "attention": "graph neural network with attention over the bonds",
    "gp": "Gaussian process on fingerprints and descriptors",
    "forest": "forest of trees on fingerprints and descriptors",
    "environments": "mean label of the atoms or bonds with the same environment",
}
"""Descriptions of the components of a stacked model."""


def _components(run: MoleculeRun) -> list[Section]:
    """Return a list with the section on the weights of the models in a stack; an empty list for a
    single model.
    """
    weights = run.metrics["weights"]
    if len(weights) < 2:
        return []
    text = (
        "The prediction is a weighted mean of these models. The weights were fitted to molecules "
        "on which the models were not trained; a model with the weight 0 does not improve the "
        "others there."
    )
    rows = tuple((name, COMPONENTS[name], weight) for name, weight in weights.items())
    return [Section("Components", (text,), (Table(("component", "description", "weight"), rows),))]


def _class_names(estimator: Any) -> list[str]:
    """Return a list with a sentence that names class 1 of the targets where it is not named 1; an
    empty list if there is no such target, or only one target.
    """
    named = _named_classes(estimator)
    clauses = [f"class 1 of {t} is “{name}”" for t, name in named.items()]
    return [f"Here {'; '.join(clauses)}."] if clauses and len(estimator.targets_) > 1 else []


def _transforms(estimator: Any) -> list[str]:
    """Return a list with a sentence on the transforms of the targets; an empty list without a
    transform, and for atoms and bonds.
    """
    if estimator.level_:
        return []
    scales = [estimator.scale_of(i) for i in range(len(estimator.targets_))]
    if scales == list(map(str, estimator.targets_)):
        return []
    return [
        f"The model is trained on {', '.join(scales)}. Predictions, intervals and errors are in "
        "the original unit; a prediction is the median, and attributions are on the scale of the "
        "training."
    ]


def _words(estimator: Any) -> run_report.Words:
    """Return the words for the plots' labels, for example the name of class 1. The estimator is
    fitted.
    """
    if estimator.class_counts:
        return run_report.CLASSES
    named = _named_classes(estimator)
    if len(estimator.targets_) > 1 or not named:
        return run_report.TARGETS
    (name,) = named.values()
    return run_report.TARGETS._replace(event=f"“{name}”")


def _named_classes(estimator: Any) -> dict[str, str]:
    """Return the name of class 1 for each target whose class 1 is not named 1."""
    if estimator.class_counts or not estimator.task.is_class:
        return {}
    names = {t: str(kinds[1]) for t, kinds in zip(estimator.targets_, estimator.classes_by_target)}
    return {t: name for t, name in names.items() if name not in ("1", "True")}


def plotted(
    estimator: Any, molecules: LabelledMolecules, predicted: Any, unit: str
) -> dict[str, Any]:
    """Return what the plots of a part show, by the name of the field of ``PlotFacts``.

    ``molecules`` are those of the part, and ``predicted`` the predictions of the fitted estimator
    for them. ``unit`` is the unit of the numbers in the columns of labels; "" if it is not known.
    """
    y = estimator.outputs_of(molecules.y)
    if not estimator.task.is_class:
        curve = coverage_reliability(molecules.y, partial(estimator.intervals, predicted))
    else:
        curve = probability_reliability(y, predicted.mean.clamp(0, 1))
    return {
        "targets": output_names(estimator, unit), "y": y, "mean": predicted.mean,
        "std": predicted.std, "reliability": curve, "words": _words(estimator),
        "logarithmic": not estimator.level_ and estimator.predictor_.transform.name == "log10",
    }  # fmt: skip


def output_names(model: Any, unit: str) -> tuple[str, ...]:
    """Return the names of the targets with their unit; if the task is multiclass, the names of the
    outputs.
    """
    end = f" ({unit})" if unit and not model.task.is_class else ""
    if not model.class_counts:
        return tuple(f"{target}{end}" for target in model.targets_)
    several = len(model.targets_) > 1
    return tuple(
        f"{target} {kind}" if several else str(kind)
        for target, kinds in zip(model.targets_, model.classes_by_target)
        for kind in kinds
    )


def _worst_molecules(run: MoleculeRun) -> Section:
    """Return the section that shows the molecules or reactions of the test part with the largest
    errors, in descending order: at most :data:`WORST`, each of at most :data:`DRAWN` atoms.

    With several targets the errors are in units of each target's standard deviation in the part,
    and a molecule is shown for its target with the largest error.
    """
    model, test, predicted = run.estimator, run.part("test"), run.predictions["test"]
    error = _errors(model, test, predicted)
    largest, target_of = error.nan_to_num(nan=-1.0).max(1)
    order = largest.argsort(descending=True, stable=True)
    order = order[largest[order] >= 0].tolist()
    small = (row for row in order if len(test.inputs[[row]].molecules.arrays.x) <= DRAWN)
    rows = list(islice(small, WORST))
    smiles = [test.inputs[[row]].molecules.smiles[0] for row in rows]
    captions = [_caption(run, row, int(target_of[row])) for row in rows]
    text = (
        f"The {model.row_format.rows_noun} of the test part with the largest errors and at most "
        f"{DRAWN} atoms, the largest first, with the measured → the predicted value, and with the "
        "Tanimoto similarity to the nearest one of the training and validation parts.",
    )
    if model.reaction:
        listed = tuple((one, caption.replace("\n", ", ")) for one, caption in zip(smiles, captions))
        return Section("Largest errors", text, (Table(("reaction", "prediction"), listed),))
    pictures = (draw_molecule(drawn_smiles(one), size=SIZE) for one in smiles)
    figures = tuple(
        Figure(picture, f"The structure of {one}", f"{caption}\n{one}")
        for picture, one, caption in zip(pictures, smiles, captions)
    )
    return Section("Largest errors", text, figures=figures, gallery=True)


def _errors(estimator: Any, molecules: LabelledMolecules, predicted: Prediction) -> Tensor:
    """Return the absolute error of each molecule and target, [k, t], in units of the standard
    deviation of the target's labels in these molecules; NaN without a label. For several classes,
    it is 1 minus the probability of the measured class. ``predicted`` are the predictions of the
    fitted estimator, one for each molecule.
    """
    y = molecules.y
    if estimator.class_counts:
        chances = estimator.probabilities(predicted.mean)
        label = y.nan_to_num(0.0).long()
        right = [p.gather(1, label[:, i, None])[:, 0] for i, p in enumerate(chances)]
        return (1 - torch.stack(right, 1)).masked_fill(y.isnan(), torch.nan)
    spread = (y - y.nanmean(0)).square().nanmean(0).sqrt()
    return (predicted.mean - y).abs() / torch.where(spread > 0, spread, 1.0)


def _caption(run: MoleculeRun, row: int, target: int) -> str:
    """Return the caption of a molecule's picture: label, prediction and similarity to training
    molecules.
    """
    model, predicted = run.estimator, run.predictions["test"]
    y = float(run.part("test").y[row, target])
    lines = [model.targets_[target]] if len(model.targets_) > 1 else []
    if isinstance(model, MoleculeClassifier):
        kinds = model.classes_by_target[target]
        chance = model.probabilities(predicted.mean[[row]])[target][0]
        place = int(chance.argmax())
        name = class_probability(model, target, place)
        lines += [f"{kinds[int(y)]} → {kinds[place]}", f"{name} {number(float(chance[place]))}"]
    else:
        mean, std = (number(float(each[row, target])) for each in (predicted.mean, predicted.std))
        lines += [f"{number(y)} → {mean} ± {std} {run.settings.unit}".rstrip()]
    lines += [f"similarity {number(float(predicted.max_train_similarity[row]))}"]
    return "\n".join(lines)


def train_run(
    settings: RunSettings,
    out: str | Path,
    *,
    progress: bool = False,
    log: pipeline.Log = pipeline.no_log,
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
        TrainingError: a loss is not finite.
        RuntimeError: a process was killed.
        ImportError: a package that reads the data or draws the report is missing.
    """
    return pipeline.train_run(MoleculeProduct(settings, out, log, progress=progress))


@dataclass(frozen=True, eq=False)
class MoleculeData:
    """Data of a training run.

    Attributes:
        source: all rows of the table.
        molecules: the labelled molecules.
        estimator: the estimator before training; it has the names and classes of the targets.
        also: the molecules and labels of the file of related targets; None if there is none.
    """

    source: Source
    molecules: LabelledMolecules
    estimator: Any
    also: LabelledMolecules | None = None


@dataclass(frozen=True, eq=False)
class MoleculeParts(pipeline.Parts):
    """Training, validation and test parts of a run.

    Attributes:
        data: the data.
        split: positions of the molecules in the three parts.
        overlaps: numbers of molecules in two parts, for ``metrics.json``.
        notes: sentences for the report.
    """

    data: MoleculeData
    split: Split
    overlaps: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True, eq=False)
class MoleculeRun(pipeline.TrainedRun):
    """Trained model and its evaluation.

    Attributes:
        estimator: the fitted model.
        data: the table and the labelled molecules.
        predictions: predictions of the validation and the test part.
        notes: sentences for the report.
    """

    estimator: Any
    data: MoleculeData
    predictions: dict[str, Any]
    notes: list[str]

    def part(self, name: str) -> Any:
        """Return the molecules of the train, val or test part."""
        return self.data.molecules[getattr(self.split, name)]


class MoleculeProduct(pipeline.Product[MoleculeData, MoleculeParts, Any, MoleculeRun]):
    """Implementation of the stages of ``gattn molecules train``."""

    settings: RunSettings

    def __init__(
        self,
        settings: RunSettings,
        out: str | Path,
        log: pipeline.Log = pipeline.no_log,
        *,
        progress: bool = False,
    ) -> None:
        super().__init__(settings, out, log)
        also = {ALSO: [settings.also]} if settings.also else {}
        self.inputs = {"sha256": settings.files, **also}
        self.progress = progress

    def load(self) -> MoleculeData:
        """Read the table, parse its SMILES, and create the estimator from the settings. Notes are
        logged. Raises FileNotFoundError if a file does not exist, ValueError for a table or labels
        that cannot be used, and SettingsError for settings that do not fit to labels of atoms.
        """
        settings = self.settings
        if settings.level:
            check_atom_settings(settings.model)
        source = read_run_source(settings)
        estimator: Any = estimator_kind(source.labels.task, settings.level)(
            **asdict(settings.model), on_error="skip", workers=settings.workers,
            threads=settings.threads, molecules_per_row=len(settings.smiles_columns),
        )  # fmt: skip
        is_class, transform = source.labels.task.is_class, settings.model.target_transform
        if not (is_class or settings.level) and transform == "none":
            for target, values in zip(source.targets, source.labels.y.T):
                if note := decades_note(values):
                    self.log(f"Column {target!r}: {note}")
        molecules = _parse(estimator, source)
        lists = [row for row in molecules.bad if row.in_labels]
        if len(lists) > max(1, SHARE * len(source.smiles)) and not settings.skip_bad_labels:
            raise ValueError(
                f"{source.name}: {len(lists):,} of {len(source.smiles):,} rows have lists that "
                f"cannot be used, the first is {lists[0]}; correct them, or leave them out with "
                f"{SKIP}"
            )
        line = f"{source.name}: {estimator.row_format.count(len(molecules))} for {estimator.task}"
        if bad := molecules.bad:
            line += f"; {plural(len(bad), 'row')} left out, the first: {bad[0]}"
        if unlabelled := len(source.smiles) - len(bad) - len(molecules):
            line += f"; {plural(unlabelled, 'row')} without a label"
        self.log(line)
        also = None
        if settings.also:
            other = MoleculeProduct(settings.of_related, self.out, self.log).load()
            for note in other.source.labels.notes:
                self.log(note)
            if not len(other.molecules):
                raise ValueError(
                    f"{settings.also}: no row has a SMILES that can be read and a label"
                )
            also = replace(other.molecules, y=other.estimator.outputs_of(other.molecules.y))
        return MoleculeData(source, molecules, estimator, also)

    def split(self, data: MoleculeData) -> MoleculeParts:
        """Split the molecules into parts, and count the molecules that occur in two parts. Raises
        ValueError if the data cannot be split, a part is empty, or all targets are constant, and
        SettingsError for a setting that is for numbers only if the labels are classes.
        """
        if data.source.labels.task.is_class:
            self.settings.model.check_classes()
        split, notes = splits.choose_parts(
            self.settings.split, data.molecules, data.source, self.settings.model.seed,
            data.estimator.row_format,
        )  # fmt: skip
        data, split, left_out_targets = self.without_constant(data, split)
        source, molecules = data.source, data.molecules
        common = splits.overlaps(split, molecules, source)
        notes += [*left_out_targets, *splits.overlap_notes(common)]
        for line in (*source.labels.notes, *notes):
            self.log(line)
        record = splits.splits_record(split, molecules, source)
        if data.also is not None:
            record[ALSO] = file_hash(Path(self.settings.also))
        left_out = _left_out(source, molecules)
        return MoleculeParts(record, left_out, data, split, common, notes)

    def without_constant(
        self, data: MoleculeData, split: Split
    ) -> tuple[MoleculeData, Split, list[str]]:
        """Leave out the targets that have fewer than two different labels in the training part. If
        there are any, the estimator of the data reads the remaining labels again, and stores their
        targets and classes.

        Returns:
            The data of the other targets, the split of the molecules that have a label of them, and
            notes on the omitted targets and on classes without a training label.

        Raises:
            ValueError: all targets are constant.
        """
        source, molecules, estimator = data.source, data.molecules, data.estimator
        constant, notes = splits.missing_labels(estimator, molecules[split.train].y)
        if not constant:
            return data, split, notes
        first, *_ = constant.values()
        if len(constant) == len(source.targets):
            raise ValueError(f"the training part has {first}: choose another split")
        source = source.without(constant)
        rows = {part: molecules.rows[getattr(split, part)] for part in PARTS}
        molecules = _parse(estimator, source)
        split = replace(split, **rows).among(molecules.rows)
        splits.check_parts(split, self.settings.split)
        note = (
            f"{plural(len(constant), 'target')} left out, because the training part lacks "
            f"different labels, the first: {first}."
        )
        return replace(data, source=source, molecules=molecules), split, [note, *notes]

    def fit(self, data: MoleculeData, parts: MoleculeParts) -> MoleculeEstimator:
        """Train the estimator of the data on the training and the validation part, and return it. A
        note about the related targets is added to ``parts.notes``. Raises ValueError if all
        molecules with related labels are in the test part, RunError if the encoder to start from
        cannot be read, TrainingError if a loss is not finite, and RuntimeError if a process was
        killed.
        """
        data, settings = parts.data, self.settings
        estimator = data.estimator
        train, val = (
            replace(
                part,
                groups=splits.validation_groups(
                    settings.split, part, data.source, estimator.row_format
                ),
            )
            for part in (data.molecules[parts.split.train], data.molecules[parts.split.val])
        )
        related = None
        if data.also is not None:
            # With labels of test molecules, the test error would be that of known labels.
            tested = smiles_hashes(data.molecules[parts.split.test].canonical)
            hidden = torch.isin(smiles_hashes(data.also.canonical), tested)
            if hidden.all():
                raise ValueError(f"{settings.also} has no labelled molecule outside the test part")
            also = data.also[(~hidden).nonzero().flatten()]
            kernel = fit_related(also, settings.model.kernel_rows, settings.model.seed)
            described = with_left_out((train, val), kernel, also)
            is_read, note = compare(train, described[0], estimator)
            parts.notes.append(note)
            self.log(note)
            if is_read:
                (train, val), related = described, kernel
        estimator.fit_labelled(train, val, folder=self.out / CHECKPOINTS, progress=self.progress)
        if related is not None:
            estimator.predictor_.read_related(related)
            # A later evaluation leaves out these molecules, whose columns contain their labels.
            seen = estimator.seen_, smiles_hashes(also.canonical)
            estimator.seen_ = torch.cat(seen).unique()
        if not settings.level and estimator.has_percentiles:
            estimator.fit_percentiles()
        return estimator

    def evaluate(self, data: MoleculeData, parts: MoleculeParts, model: Any) -> MoleculeRun:
        """Return the evaluated run: the predictions, and the metrics of the model and of the
        baselines on the test part. Notes are logged.
        """
        if len(weights := model.predictor_.weights) > 1:
            shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
            self.log(f"weights of the components: {shown}")
        self.log("evaluating the model and its baselines on the test part, and writing the report")
        data, split = parts.data, parts.split
        source, molecules = data.source, data.molecules
        by_part = {part: molecules[getattr(split, part)] for part in PARTS}
        # Like the Gaussian process, the baselines are fitted to the training and validation parts.
        train, test = molecules[torch.cat([split.train, split.val])], by_part["test"]
        predicted, validation = model.predictor_.predict(test.inputs), model.predictor_.validation
        predictions, coverage = {"val": validation, "test": predicted}, self.settings.coverage
        metrics = {
            **measure.run_metrics(model, by_part, predictions, coverage, source.labels),
            "baselines": measure.measure_baselines(
                model, train, test, predicted, self.settings.model.seed
            ),
            "weights": weights,
            "split": split.protocol,
            "molecules": {
                **{part: len(each) for part, each in by_part.items()},
                "left_out": len(molecules.bad),
            },
            "overlaps": parts.overlaps,
        }
        notes = measure.target_coverage_note(metrics)
        if not model.level_:
            notes += measure.distance_note(
                predicted.max_train_similarity, validation.max_train_similarity
            )
        for note in notes:
            self.log(note)
        return MoleculeRun(
            model, split, metrics, self.settings, data, predictions, [*parts.notes, *notes]
        )

    def report(self, run: MoleculeRun) -> pipeline.Report:
        """Return the report page, with pictures of the molecules that have the largest errors.
        Raises ImportError without matplotlib.
        """
        test, predicted = run.part("test"), run.predictions["test"]
        model, source, names = run.estimator, run.data.source, run.estimator.targets_
        notes = (*run.notes, *_class_names(model), *_transforms(model))
        if reason := model.predictor_.without_forest:
            notes += (f"The model has no forest of trees: {reason}.",)
        title = ", ".join(names) if len(names) <= 3 else f"{len(names)} targets"
        count = model.row_format.count(run.metrics["molecules"]["train"])
        run_facts = pipeline.report_facts(
            run,
            chosen={"target": ", ".join(run.settings.label_columns)},
            title=f"{title} of {Path(source.name).name}",
            summary=(
                f"A {run.settings.model.model} model of {title}, trained on {count}; split: "
                f"{splits.split_text(run.split.protocol, model.row_format)}."
            ),
            histories=model.history_,
            rows=len(source.smiles),
            errors={r.line or r.row: f"{r.text!r}: {r.reason}" for r in run.data.molecules.bad},
            decided=source.labels.notes,
            notes=notes,
            promise=ATOMS if model.level_ else pipeline.PROMISE,
            **plotted(model, test, predicted, run.settings.unit),
        )
        largest = [] if model.level_ else [_worst_molecules(run)]
        return run_report.run_report(run_facts, [*_components(run), *largest])

    def card(self, run: MoleculeRun) -> Mapping[str, Any]:
        """Return the data description in the model card: SMILES column, units and so on."""
        source, unit = run.data.source, self.settings.unit
        return {
            "smiles": source.columns[0] if len(source.columns) == 1 else [*source.columns],
            "units": {
                target: ", ".join(filter(None, (unit, f"as in column {target!r}")))
                for target in run.metrics["targets"]
            },
            "unit": unit,
            "numbers": asdict(self.settings.style),
            "coverage": self.settings.coverage,
            "data": {"name": source.name, "sha256": source.sha256},
        }

    def tables(self, run: MoleculeRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the table to write: the predictions of the validation and test parts."""
        parts = {part: run.part(part) for part in run.predictions}
        rows = prediction_table(
            run.estimator, run.data.source, parts, run.predictions, self.settings.coverage
        )
        return {"predictions.csv": rows}


def read_run_source(settings: RunSettings) -> Source:
    """Read the table of a run. If the run names no table, read the data set that is distributed
    with RDKit.

    Raises:
        FileNotFoundError: the table does not exist.
        ValueError: the table cannot be read, or no target was named.
        ImportError: RDKit, which has the data set, is not installed.
    """
    if not settings.data:
        return built_in()
    if not settings.label_columns:
        columns = open_molecules(settings.data, (), encoding=settings.encoding).columns
        raise ValueError(
            f"--target must be a column of the table: {settings.data} has the columns "
            f"{', '.join(map(repr, columns))}"
        )
    return read_source(settings)


def _parse(estimator: Any, source: Source) -> LabelledMolecules:
    """Return the labelled molecules; their attribute ``bad`` contains all invalid rows of the
    table. The estimator stores the targets and their classes. Raises ValueError if the labels
    cannot be learned, and RunError if the encoder to start from cannot be read.
    """
    y, labels = source.labels.y, source.labels
    options = {"places": source.places}
    if source.places is None:
        y = y[:, 0] if len(source.targets) == 1 else y
        options = {
            "bounds": labels.bounds, "weights": source.weights,
            "where": lambda row: f"in line {source.lines[row]}",
        }  # fmt: skip
    molecules = estimator.read(source.rows, y, targets=source.targets, **options)
    bad = {row.row: replace(row, line=source.lines[row.row]) for row in molecules.bad}
    bad |= {row.row: row for row in source.bad}
    return replace(molecules, bad=tuple(bad[row] for row in sorted(bad)))


def _left_out(source: Source, molecules: LabelledMolecules) -> Iterator[Sequence[object]]:
    """Yield the header and, in the order of the table, the rows of ``left_out.csv``: rows of the
    table that were not used, and rows of which only a label was left out.
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
