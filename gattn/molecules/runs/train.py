"""A run: from a table of labelled SMILES to a folder with a model, its metrics and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from gattn.data import Split
from gattn.data.tables.csv_table import open_table
from gattn.files import write_rows
from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.input_cache import cache_key
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.config import RunSettings
from gattn.molecules.runs.measure import (
    constant_width,
    count_labels,
    label_notes,
    measure,
    measure_baselines,
    measure_intervals,
    measure_targets,
    ridge_rows,
    undefined,
)
from gattn.molecules.runs.overlaps import duplicate_facts, duplicate_notes
from gattn.molecules.runs.parts import PARTS, choose_parts, splits_record, validation_groups
from gattn.molecules.runs.records import prediction_table
from gattn.molecules.runs.source import Source, built_in, read_source
from gattn.training.folder import (
    CHECKPOINTS,
    begin,
    check_place,
    finish,
    is_first_process,
    metrics_of_whole,
)
from gattn.training.runs import write_model
from gattn.training.words import amount

__all__ = ["Run", "train_run"]

CACHE = ".gattn"
"""The folder beside a run that keeps what was read of SMILES, a file for each list of them."""


@dataclass(frozen=True, eq=False)
class Run:
    """What was trained, on what, and how it did.

    Attributes:
        settings: what was asked for.
        source: the rows.
        known: the labelled molecules.
        split: their positions in the three parts.
        estimator: the fitted model.
        predictions: of the validation and the test part.
        metrics: what ``metrics.json`` holds.
        notes: what a reader of the report should know.
    """

    settings: RunSettings
    source: Source
    known: LabelledMolecules
    split: Split
    estimator: MoleculeEstimator
    predictions: dict[str, Prediction]
    metrics: dict[str, Any]
    notes: list[str]

    def part(self, name: str) -> LabelledMolecules:
        """The molecules of the train, val or test part."""
        return self.known[getattr(self.split, name)]


def train_run(
    settings: RunSettings,
    out: str | Path,
    *,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train a model and write a run: the command ``gattn molecules train``.

    The folder holds ``config.toml``, ``splits.json``, ``weights.safetensors`` and ``model.json``
    (which :meth:`gattn.molecules.MoleculeRegressor.load` reads), ``metrics.json``,
    ``predictions.csv`` of the validation and test parts, ``plots`` and ``report.html``. Where it
    holds the beginning of the same run, training goes on from its last whole epoch; where it holds
    that run whole, nothing is done. What is read of the SMILES is kept in ``settings.cache``, by
    their content and the versions of what reads them: another run on the same ones, or the same
    one after an interruption, reads that.

    Args:
        settings: what to train on what.
        out: the folder of the run, made where it is missing.
        progress: show a bar with the time left.
        say: told in a line each what a user should know.

    Returns:
        What ``metrics.json`` holds.

    Raises:
        RunError: the folder holds another run, or something else.
        ValueError: settings or data that cannot be trained on.
        OSError: a file cannot be read or written; the last checkpoint is still there.
    """
    out = Path(out)
    files = [settings.data] if settings.data else []
    if (whole := metrics_of_whole(out, settings, files)) is not None:
        say(f"{out} holds this run already, and it is whole: nothing to do")
        return whole
    check_place(out)
    source = _source(settings)
    estimator = _estimator(settings, source)
    cache = Path(settings.cache) if settings.cache else out.parent / CACHE
    cache.mkdir(parents=True, exist_ok=True)
    known = _known(estimator, source, cache)
    say(_read(source, known, estimator))
    split, told = choose_parts(settings.split, known, source, settings.model.seed)
    _check_train(estimator, known.y[split.train])
    duplicates = duplicate_facts(split, known, source, estimator.task)
    notes = [*told, *duplicate_notes(duplicates), *_notes(split, settings)]
    notes += _part_notes(estimator, known, split)
    for note in (*source.labels.notes, *notes):
        say(note)
    if is_first_process():
        left_out = [*_left_out(source, known)]
        record = splits_record(split, known, source)
        begin(out, settings, record, ("row", "line", "text", "reason"), left_out)
    train, val = known[split.train], known[split.val]
    groups = validation_groups(settings.split, val)
    if settings.tune:
        from gattn.molecules.runs.tuning import tune

        estimator.set_params(**tune(estimator, train, val, settings.tune, out, say, groups=groups))
    estimator.fit_labelled(
        train, val, groups=groups, folder=out / CHECKPOINTS,
        progress=progress,
    )  # fmt: skip
    say("now the model and its baselines predict the test part, and the report is written")
    run = _judge(settings, source, known, split, estimator, notes)
    run.metrics.update(duplicates)
    if is_first_process():
        _write(out, run)
    return run.metrics


def _left_out(
    source: Source, known: LabelledMolecules
) -> Iterator[tuple[int, int | None, str, str]]:
    """The rows that were left out, and the labels that were in rows which were not."""
    bad = {row.row for row in known.bad}
    cells = [
        (label.row, label.line, source.smiles[label.row], f"this label alone: {label.reason}")
        for label in source.labels.lost
        if label.row not in bad
    ]
    yield from sorted([*((r.row, r.line, r.text, r.reason) for r in known.bad), *cells])


def _source(settings: RunSettings) -> Source:
    if not settings.data:
        return built_in()
    if not settings.target:
        columns = ", ".join(
            map(repr, open_table(settings.data, encoding=settings.encoding).columns)
        )
        raise ValueError(
            f"a target is wanted, --target COLUMN: {settings.data} has the columns {columns}"
        )
    column = settings.split.removeprefix("column:")
    part_column = column if column != settings.split else None
    return read_source(
        settings.data, settings.smiles, settings.target, settings.task, part_column,
        encoding=settings.encoding, style=settings.style, skip_bad=settings.skip_bad_labels,
    )  # fmt: skip


def _estimator(settings: RunSettings, source: Source) -> MoleculeEstimator:
    kind = MoleculeRegressor if source.labels.task == "regression" else MoleculeClassifier
    return kind(**asdict(settings.model), on_error="skip", workers=settings.workers)


def _known(estimator: MoleculeEstimator, source: Source, cache: Path) -> LabelledMolecules:
    """The labelled molecules, with every row that was left out, also those of the table."""
    path = cache / f"{cache_key(source.smiles, estimator.max_atoms)[:32]}.safetensors"
    y = pd.DataFrame(source.labels.y, columns=list(source.targets))
    y = y[source.targets[0]] if len(source.targets) == 1 else y
    found = estimator.read(source.smiles, y, cache=path)
    bad = {row.row: replace(row, line=source.lines[row.row]) for row in found.bad}
    bad |= {row.row: row for row in source.bad}
    return replace(found, bad=tuple(bad[row] for row in sorted(bad)))


def _read(source: Source, known: LabelledMolecules, estimator: MoleculeEstimator) -> str:
    """What was read, in a line."""
    unlabelled = len(source.smiles) - len(known.bad) - len(known)
    told = [f"{source.name}: {len(known):,} molecules for {estimator.task}"]
    if known.bad:
        told.append(f"{amount(len(known.bad), 'row')} left out, the first: {known.bad[0]}")
    if unlabelled:
        told.append(f"{amount(unlabelled, 'row')} without a label")
    return "; ".join(told)


def _notes(split: Split, settings: RunSettings) -> list[str]:
    """Say which kernel ridge reads some of the molecules only."""
    learned = len(split.train) + len(split.val)
    return [
        f"The {whose}'s kernel ridge reads {rows:,} of {learned:,} molecules, drawn by the seed."
        for whose, rows in ridge_rows(learned, settings.model).items()
        if rows < learned
    ]


def _part_notes(estimator: MoleculeEstimator, known: LabelledMolecules, split: Split) -> list[str]:
    """Say which part lacks the labels, or a class, of which target."""
    return label_notes(estimator, {"validation": known.y[split.val], "test": known.y[split.test]})


def _check_train(estimator: MoleculeEstimator, y: Tensor) -> None:
    """A target of which the training part knows one value cannot be learnt."""
    for target, column in zip(estimator.targets_, y.T):
        values = column[column.isfinite()].unique()
        if len(values) < 2:
            text = "one value only" if len(values) else "no label"
            if len(values) and isinstance(estimator, MoleculeClassifier):
                kinds = estimator.classes_by_target[estimator.targets_.index(target)].tolist()
                text = f"only class {kinds[int(values)]!r} and no label of class "
                text += repr(kinds[1 - int(values)])
            raise ValueError(f"the training part holds {text} of {target!r}: choose another split")


def _judge(
    settings: RunSettings,
    source: Source,
    known: LabelledMolecules,
    split: Split,
    estimator: MoleculeEstimator,
    notes: list[str],
) -> Run:
    """Predict the validation and test parts, and measure the model beside the baselines."""
    test, y_val = known[split.test], known.y[split.val]
    task, predictor = estimator.task, estimator.predictor_
    made = predictor.predict(test.inputs)
    predictions = {"val": predictor.validation, "test": made}
    learned = known[torch.cat([split.train, split.val])]  # what the model learned from at last
    intervals = measure_intervals(estimator, test.y, made, settings.coverage)
    intervals |= constant_width(estimator, y_val, predictions["val"].mean, settings.coverage)
    metrics = {
        "task": task,
        "test": measure(task, test.y, made.mean),
        "val": measure(task, y_val, predictions["val"].mean),
        "baselines": measure_baselines(task, learned, test, settings.model.seed),
        "ridge_rows": ridge_rows(len(learned), settings.model),
        "targets": measure_targets(estimator, test.y, made.mean),
        "intervals": intervals,
        "undefined": undefined(estimator, {"test": test.y, "val": y_val}, intervals),
        "weights": estimator.predictor_.weights,
        "labels": {
            target: source.labels.counts.get(target, {}) | parts
            for target, parts in count_labels(
                estimator, {part: known.y[getattr(split, part)] for part in PARTS}
            ).items()
        },
        "split": split.protocol,
        "molecules": {part: len(getattr(split, part)) for part in PARTS}
        | {"left_out": len(known.bad)},
    }
    return Run(settings, source, known, split, estimator, predictions, metrics, notes)


def _write(out: Path, run: Run) -> None:
    """Everything that a run holds, the metrics last."""
    from gattn.molecules.runs.report import write_run_report

    tensors, card = run.estimator.state()
    card |= {
        "smiles": run.settings.smiles,
        "units": {
            target: ", ".join(filter(None, (run.settings.unit, f"as in column {target!r}")))
            for target in run.estimator.targets_
        },
        "numbers": asdict(run.settings.style),
        "data": {"name": run.source.name, "sha256": run.source.sha256},
        "split": run.split.protocol,
        "metrics": run.metrics,
    }
    write_model(out, tensors, card)
    parts = {part: run.part(part) for part in run.predictions}
    table = prediction_table(
        run.estimator, run.source, parts, run.predictions, run.settings.coverage
    )
    write_rows(out / "predictions.csv", table)
    write_run_report(out, run)
    finish(out, run.metrics)
