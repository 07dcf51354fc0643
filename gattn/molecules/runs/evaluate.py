"""A model judged on labelled molecules that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from gattn.data.tables.numbers import NumberFormat
from gattn.files import new_folder, write_rows
from gattn.molecules.loading import load_estimator
from gattn.molecules.rows import LabelledMolecules, smiles_hashes
from gattn.molecules.runs.measure import (
    count_labels,
    label_notes,
    measure,
    measure_intervals,
    measure_targets,
    undefined,
)
from gattn.molecules.runs.overlaps import conflict_notes, conflicts, training_overlap
from gattn.molecules.runs.records import prediction_table
from gattn.molecules.runs.report import part_figures
from gattn.molecules.runs.source import Source, read_source
from gattn.training.runs import write_json
from gattn.training.sections import write_plots
from gattn.training.words import amount

__all__ = ["evaluate_table"]


def evaluate_table(
    run: str | Path,
    path: str | Path,
    out: str | Path | None = None,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    encoding: str | None = None,
    numbers: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    coverage: float = 0.9,
    workers: int = 2,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure a model on a CSV file of labelled molecules.

    Molecules that were in the training or the validation part are left out: those of the same
    identity (:func:`gattn.data.molecule_identities`), however they are written.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: a new folder for ``metrics.json``, ``predictions.csv`` and plots; none are written
            without it.
        smiles: the column of SMILES; otherwise the one that the model was trained on.
        targets: the columns of labels, in the order of the model's; otherwise those that it was
            trained on.
        encoding: of the file; otherwise what its byte order mark says, and UTF-8 without one.
        numbers: settings of :class:`gattn.data.tables.numbers.NumberFormat` by name; otherwise
            those that the model was trained with.
        skip_bad: leave out every label that cannot be read, however many there are.
        coverage: the promise of the intervals, above 0 and below 1.
        workers: processes that read SMILES.
        say: told in a line each what a user should know.

    Returns:
        ``task``, ``test`` (the metrics), ``targets`` (those of each), ``intervals``, ``labels``
        (their number for each target), why metrics are ``undefined``, the number of
        ``molecules``, ``overlaps`` with the molecules that the model was trained or validated on
        (``"learned/test"``), and ``conflicts`` between labels
        (:func:`gattn.molecules.runs.overlaps.conflicts`).

    Raises:
        RunError: the folder holds no model that can be read.
        FileExistsError: ``out`` is there already.
        ValueError: the file, a column or a label is not what was asked for; no molecule is left.
    """
    estimator, card = load_estimator(run)
    estimator.set_params(on_error="skip", workers=workers)
    column = smiles or str(card.get("smiles", "smiles"))
    style = NumberFormat(**{**cast("dict[str, Any]", card.get("numbers", {})), **(numbers or {})})
    if targets is not None and len(targets) != len(estimator.targets_):
        names = ", ".join(estimator.targets_)
        raise ValueError(
            f"a column is wanted for each target of the model ({names}); got {len(targets)}"
        )
    source = read_source(
        str(path),
        column,
        targets or estimator.targets_,
        estimator.task,
        encoding=encoding,
        learnable=False,
        style=style,
        skip_bad=skip_bad,
    )
    known = estimator.labelled(source.smiles, source.labels.y)
    new = ~torch.isin(smiles_hashes(known.canonical), estimator.seen_)
    repeats = training_overlap(known, new, source)
    say(_told(source, known, repeats))
    if not new.any():
        raise ValueError(f"{path} has no labelled molecule that the model was not trained on")
    test = known[new.nonzero().flatten()]
    for note in (*source.labels.notes, *label_notes(estimator, {"test": test.y})):
        say(note)
    made = estimator.predictor_.predict(test.inputs)
    counts = list(source.labels.counts.values())  # its columns may have other names
    intervals = measure_intervals(estimator, test.y, made, coverage)
    metrics = {
        "task": estimator.task,
        "test": measure(estimator.task, test.y, made.mean),
        "targets": measure_targets(estimator, test.y, made.mean),
        "intervals": intervals,
        "labels": {
            target: counts[i] | parts
            for i, (target, parts) in enumerate(count_labels(estimator, {"test": test.y}).items())
        },
        "undefined": undefined(estimator, {"test": test.y}, intervals),
        "molecules": {
            "test": len(test),
            "trained_on": len(known) - len(test),
            "left_out": len({row.row for row in (*source.bad, *known.bad)}),
        },
        "overlaps": {"learned/test": repeats},
        "conflicts": conflicts(test, source, estimator.task),
    }
    for note in conflict_notes(metrics["conflicts"]):
        say(note)
    if out is not None:
        with new_folder(out) as folder:
            write_json(folder / "metrics.json", metrics)
            table = prediction_table(estimator, source, {"test": test}, {"test": made}, coverage)
            write_rows(folder / "predictions.csv", table)
            write_plots(folder / "plots", part_figures(estimator, test, made))
        say(f"{out} holds the metrics, the predictions and the plots")
    return metrics


def _told(source: Source, known: LabelledMolecules, repeats: Mapping[str, Any]) -> str:
    """What was read, in a line."""
    told = [f"{source.name}: {amount(len(known), 'labelled molecule')}"]
    bad = sorted({row.row: row for row in (*known.bad, *source.bad)}.items())
    if bad:
        told.append(f"{amount(len(bad), 'row')} left out, the first: {bad[0][1]}")
    if repeats["rows"]:
        rows, molecules = amount(repeats["rows"], "row"), amount(repeats["molecules"], "molecule")
        told.append(
            f"{rows} ({molecules}) left out, since the model was trained or validated on them, the "
            f"first in line {repeats['example']['line']}: {repeats['example']['smiles']}"
        )
    return "; ".join(told)
