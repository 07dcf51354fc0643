"""The command ``gattn molecules evaluate``, which measures a model on labelled molecules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gattn.apps.molecules.loading import open_model
from gattn.apps.molecules.rows import LabelledMolecules, smiles_hashes
from gattn.apps.molecules.runs import measure
from gattn.apps.molecules.runs.columns import prediction_table
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.source import Source, read_source
from gattn.apps.molecules.runs.splits import training_overlap
from gattn.apps.molecules.runs.stages import plotted
from gattn.apps.molecules.settings import DEFAULT_READING, TableReading
from gattn.apps.report.run_report import PlotFacts, part_figures, write_plots
from gattn.apps.run.model_io import write_json
from gattn.apps.run.text import count_of, plural
from gattn.apps.run.train import Log, no_log
from gattn.files import new_folder, write_rows


def evaluate_table(
    run: str | Path,
    path: str | Path,
    out: str | Path | None = None,
    *,
    reading: TableReading = DEFAULT_READING,
    targets: Sequence[str] | None = None,
    numbers: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    log: Log = no_log,
) -> dict[str, Any]:
    """Measure a model on those labelled molecules of a CSV file that it was not trained on.

    Molecules that were in the training or the validation part are left out, even if their SMILES
    are written differently: :func:`gattn.data.molecule_identities` compares them.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: a new folder for ``metrics.json``, ``predictions.csv`` and plots; None to write no
            files.
        reading: rules for reading the file.
        targets: the columns of labels, in the order of the model's targets; by default the columns
            that it was trained on.
        numbers: settings of :class:`gattn.apps.tables.numbers.NumberFormat` by name; by default
            those that the model was trained with.
        skip_bad: leave out all labels that cannot be read, regardless of their number.
        log: called with each line that the user should read.

    Returns:
        ``task``, ``test`` (the metrics), ``targets`` (the metrics of each target), ``intervals``,
        ``labels`` (the number of labels of each target), ``undefined`` (the reasons why metrics
        are undefined), ``molecules`` (their numbers), ``overlaps`` with the molecules that the
        model was trained or validated on (``"learned/test"``).

    Raises:
        RunError: the folder does not contain a readable model.
        FileNotFoundError: the file, or the folder in which ``out`` is created, does not exist.
        FileExistsError: ``out`` exists.
        ValueError: the file, a column or a label cannot be used; no molecule remains.
    """
    estimator, card, columns, coverage, style = open_model(run, reading, lists=True)
    estimator.set_params(on_error="skip")
    style = replace(style, **(numbers or {}))
    if targets is not None and len(targets) != len(estimator.targets_):
        raise ValueError(
            "targets must list a column for each target of the model "
            f"({', '.join(estimator.targets_)}); got {len(targets)}"
        )
    labels = f"{estimator.level_}_target".strip("_")
    changes = {
        "data": str(path), "smiles": columns, "encoding": reading.encoding,
        "task": estimator.task.name, "skip_bad_labels": skip_bad,
        "descriptors_columns": tuple(estimator.descriptors_columns_),
        labels: tuple(targets or estimator.targets_),
    }  # fmt: skip
    settings = override(None, changes)
    source = read_source(settings, learnable=False, style=style)
    places = () if source.places is None else (source.places,)
    molecules = estimator.labelled(source.rows, source.labels.y, *places)
    new = ~torch.isin(smiles_hashes(molecules.canonical), estimator.seen_)
    repeats = training_overlap(molecules, new, source)
    log(_summary(source, molecules, repeats, estimator.row_format.rows_noun))
    if not new.any():
        raise ValueError(
            f"{path} has no labelled molecules other than those that the model was trained on"
        )
    test = molecules[new.nonzero().flatten()]
    for note in source.labels.notes:
        log(note)
    predicted = estimator.predictor_.predict(test.inputs)
    parts, predictions = {"test": test}, {"test": predicted}
    metrics = {
        **measure.run_metrics(estimator, parts, predictions, coverage, source.labels),
        "molecules": {
            "test": len(test),
            "trained_on": len(molecules) - len(test),
            "left_out": len({row.row for row in (*source.bad, *molecules.bad)}),
        },
        "overlaps": {"learned/test": repeats},
    }
    for note in measure.target_coverage_note(metrics):
        log(note)
    if out is not None:
        with new_folder(out) as folder:
            write_json(folder / "metrics.json", metrics)
            rows = prediction_table(estimator, source, parts, predictions, coverage)
            write_rows(folder / "predictions.csv", rows)
            facts = plotted(estimator, test, predicted, str(card.get("unit", "")))
            figures = part_figures(PlotFacts(task=estimator.task, **facts))
            write_plots(folder / "plots", figures)
        log(f"{out} contains the metrics, the predictions and the plots")
    return metrics


def _summary(
    source: Source, molecules: LabelledMolecules, repeats: Mapping[str, Any], noun: str
) -> str:
    """Return a line with the numbers of labelled molecules and of left-out rows.

    ``noun`` is the plural noun of the content of rows.
    """
    clauses = [f"{source.name}: {count_of(len(molecules), f'labelled {noun}')}"]
    bad = sorted({row.row: row for row in (*molecules.bad, *source.bad)}.items())
    if bad:
        clauses.append(f"{plural(len(bad), 'row')} left out, the first: {bad[0][1]}")
    if repeats["rows"]:
        rows, distinct = plural(repeats["rows"], "row"), plural(repeats["molecules"], "molecule")
        clauses.append(
            f"{rows} ({distinct}) left out, because the model was trained or validated on "
            f"them; the first is in line {repeats['example']['line']}: "
            f"{repeats['example']['smiles']}"
        )
    return "; ".join(clauses)
