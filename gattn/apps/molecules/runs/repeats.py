"""Repeated training runs: cross-validation in folds, and replicates with other seeds."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gattn.apps.fitting.settings import SettingsError, updated
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.splits import (
    draw_validation,
    rarest_classes,
    splits_record,
    validation_groups,
)
from gattn.apps.molecules.runs.stages import MoleculeProduct, train_run
from gattn.apps.report.report import Cell, Link, ReportContent, Section, Table, write_report
from gattn.apps.report.style import METRICS, number
from gattn.apps.run.model_io import RunError, check_files, write_json
from gattn.apps.run.notes import baseline_note
from gattn.apps.run.split_rule import read_rule
from gattn.apps.run.train import Log, no_log
from gattn.apps.runtime.processes import in_order, processor_count
from gattn.data.splits import Split, number_groups
from gattn.files import write_rows

GROUPED = ("random", "scaffold", "butina")
"""Values of ``--split`` that can divide the molecules into folds."""


def train_repeats(
    settings: RunSettings,
    out: str | Path,
    *,
    folds: int | str = 0,
    replicates: int = 1,
    log: Log = no_log,
) -> dict[str, Any]:
    """Train a model several times, and summarise the metrics of the test parts.

    With ``folds``, the molecules are divided into that number of test parts, and every molecule is
    tested once. With ``replicates``, the training is repeated with the seeds s, s + 1 and so on,
    which also change a random split. With both, each replicate has other folds.

    Every run has a folder of its own in ``out``, which
    :func:`gattn.apps.molecules.runs.stages.train_run` describes: ``fold-1``, ``replicate-1`` or
    ``replicate-1-fold-1``. Several runs are trained at the same time, one in each processor. If the
    command is interrupted, finished runs are not repeated. ``out`` also contains ``report.html``
    with the means, their standard errors and the metrics of each run, ``summary.csv``,
    ``metrics.json``, and ``predictions.csv`` with the predictions of all test parts.

    Args:
        settings: settings of the runs.
        out: folder of the runs, created if it is missing.
        folds: number of folds, 2 or more; 0 for no cross-validation; or ``column:NAME``, a column
            whose values are the folds.
        replicates: number of replicates, 1 or more.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``: ``runs`` with the metrics of the test part of each run;
        ``summary`` with the mean, the standard deviation (n - 1) and the standard error of the
        mean of each metric of the model and of each baseline, over the runs; ``notes`` with a
        sentence if a baseline is better on average; and the numbers of ``folds`` and
        ``replicates``.

    Raises:
        RunError: the folder contains a single run, or runs with other settings.
        ValueError: the settings do not allow folds, there are too few molecules for them, or a
            model cannot be trained on the table.
        OSError: a file cannot be read or written.
        RuntimeError: a process was killed, or a training failed.
    """
    folder = Path(out)
    _check(settings, folds, replicates)
    if (folder / "config.toml").exists():
        raise RunError(f"{folder} contains a single run: choose another folder")
    settings = replace(settings, threads=settings.threads or 1)
    seeds = [settings.model.seed + i for i in range(replicates)]
    names = [f"replicate-{i + 1}" if replicates > 1 else "" for i in range(replicates)]
    runs = {name: updated(settings, {"seed": seed}) for name, seed in zip(names, seeds)}
    if folds:
        runs = _fold_runs(settings, folder, runs, folds, log)
    count = min(len(runs), processor_count())
    log(f"{len(runs)} runs in {folder}, {count} at the same time")
    tasks = [(name, (run, str(folder / name))) for name, run in runs.items()]
    results: dict[str, dict[str, Any]] = {}
    finished = ((name, _train(task)) for name, task in tasks)
    if count > 1:
        finished = in_order(_train, tasks, count, ahead=1)
    for name, metrics in finished:
        results[name] = metrics
        shown = ", ".join(f"{key} {value:.4g}" for key, value in metrics["test"].items())
        log(f"{name}, run {len(results)} of {len(runs)}: {shown}")
    table = _metrics_table(results)
    summary = _summary(results, table, len(runs) // replicates if folds else 0, replicates)
    write_rows(folder / "summary.csv", _rows(table))
    # The runs can have different targets, because constant ones are left out.
    predictions = pd.concat([_predictions(folder, run) for run in results]).fillna("")
    write_rows(folder / "predictions.csv", _rows(predictions))
    names = settings.label_columns
    title = f"{', '.join(names[:3]) or 'pIC50'} of {Path(settings.data).name or 'CHEMBL2321810'}"
    write_report(folder, repeats_report(results, summary, title))
    write_json(folder / "metrics.json", summary)
    return summary


def fold_splits(
    groups: Sequence[str],
    folds: int | Sequence[str],
    seed: int,
    rule: str,
    classes: Sequence[tuple[int, float]] = (),
) -> list[Split]:
    """Divide items into folds; return one split for each fold, whose test part is this fold.

    The folds have about the same number of items, and about the same share of each class. The
    validation part of a split is a ninth of the other groups.

    Args:
        groups: the group of each of n items, which stays in one part.
        folds: number of folds, 2 or more; or the name of the fold of each item, "" for an item in
            no part.
        seed: seed of the draw.
        rule: name of the rule, or of the column of the folds, for the protocol.
        classes: the class of each item; empty for numbers.

    Returns:
        The splits; every item with a fold is in one test part.

    Raises:
        ValueError: there are fewer than folds + 1 groups, or fewer than two names.

    >>> splits = fold_splits(["a", "b", "c", "d", "e", "f"], 3, seed=0, rule="random")
    >>> sorted(torch.cat([split.test for split in splits]).tolist())
    [0, 1, 2, 3, 4, 5]
    """
    if isinstance(folds, int):
        titles = {str(i): f"{i} of {folds} by {rule}" for i in range(1, folds + 1)}
        fold_of = _grouped_folds(groups, folds, seed, rule, classes)
    else:
        fold_of = np.array(folds)
        names = sorted({*folds} - {""}, key=lambda name: (len(name), name))
        titles = {name: f"{name} of column {rule}" for name in names}
        if len(titles) < 2:
            raise ValueError(f"the column {rule!r} must contain at least two folds; got {names}")
    splits = []
    for fold, title in titles.items():
        test, train = (
            torch.from_numpy(np.flatnonzero(mask))
            for mask in (fold_of == fold, (fold_of != fold) & (fold_of != ""))
        )
        split = Split(train, train[:0], test, f"fold {title} (seed {seed})")
        splits.append(draw_validation(split, groups, classes, seed))
    return splits


def _grouped_folds(
    groups: Sequence[str], folds: int, seed: int, rule: str, classes: Sequence[tuple[int, float]]
) -> np.ndarray:
    """Draw the fold of each item: [n] texts "1", "2", and so on. The groups are shuffled by
    ``seed``. Raises ValueError unless there are more groups than folds. Each fold has about the
    same share of each class in ``classes``; ``rule`` names the split in the error.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    count = len(set(groups))
    if count <= folds:
        raise ValueError(
            f"{folds} folds need more than {folds} groups of molecules; the split by {rule} has "
            f"{count}"
        )
    numbers, kinds = number_groups(groups, len(groups)), [*map(str, classes)] or [""] * len(groups)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    fold_of = np.empty(len(groups), object)
    with warnings.catch_warnings():
        # A class with fewer molecules than folds is in some of the test parts only.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        for i, (_, test) in enumerate(splitter.split(kinds, kinds, numbers), 1):
            fold_of[test] = str(i)
    return fold_of


def _check(settings: RunSettings, folds: int | str, replicates: int) -> None:
    """Check the numbers of folds and replicates, and that the rule of the split defines folds.
    Raises SettingsError otherwise.
    """
    if isinstance(folds, str):
        rule = read_rule(folds)
        if not rule.column:
            raise SettingsError(f"folds must be a number or column:NAME; got {folds}")
        if settings.split != "random":
            raise SettingsError(f"--folds {folds} defines the parts: leave out --split")
        folds = 2
    if replicates < 1 or folds < 0 or folds == 1:
        raise SettingsError(
            f"folds must be 0 or at least 2, and replicates at least 1; got {folds} and "
            f"{replicates}"
        )
    by_molecule = settings.split_rule.kind == "molecule"
    if folds and settings.split not in GROUPED and not by_molecule:
        raise SettingsError(
            f"--folds needs --split {', '.join(GROUPED)} or molecule:NAME; got {settings.split}"
        )
    if folds and (settings.test or settings.validation):
        raise SettingsError("--folds creates the parts: leave out --test and --validation")


def _fold_runs(
    settings: RunSettings, folder: Path, runs: Mapping[str, RunSettings], folds: Any, log: Log
) -> dict[str, RunSettings]:
    """Write the split of each fold to the subfolder ``splits``, and return the settings of the runs
    by the names of their folders. Raises ValueError if there are too few groups for the folds, and
    OSError if a file cannot be written. ``runs`` are the settings of the replicates by name, and
    ``folds`` is a number or ``column:NAME``.
    """
    rule = title = settings.split
    if isinstance(folds, str):
        settings, title = replace(settings, split=folds), read_rule(folds).name
    data = MoleculeProduct(settings, folder, log).load()
    molecules, source, row_format = data.molecules, data.source, data.estimator.row_format
    if isinstance(folds, str):
        folds = [(source.parts or [])[row].strip() for row in molecules.rows.tolist()]
    # The group of a row is its molecules, or its scaffold, cluster or component.
    groups = validation_groups(rule, molecules, source, row_format) or molecules.canonical
    classes = rarest_classes(molecules, source)
    (folder / "splits").mkdir(parents=True, exist_ok=True)
    settings_of_folds: dict[str, RunSettings] = {}
    for name, run in runs.items():
        splits = fold_splits(groups, folds, run.model.seed, title, classes)
        for i, split in enumerate(splits):
            fold = "-".join(filter(None, (name, f"fold-{i + 1}")))
            path = folder / "splits" / f"{fold}.json"
            record = splits_record(split, molecules, source)
            write_json(path, {**record, "fold": split.protocol, "groups": rule})
            settings_of_folds[fold] = replace(run, split=str(path))
    return settings_of_folds


def _train(task: tuple[RunSettings, str]) -> dict[str, Any]:
    """Train one run in a process. A run that is already finished is skipped."""
    return train_run(*task)


def _metrics_table(results: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the content of ``summary.csv`` as a data frame: the test metrics of each run and of
    its baselines, and for each model their mean, their standard deviation and the standard error of
    the mean.
    """
    rows = [
        {"run": run, "model": model, **scores}
        for run, metrics in results.items()
        for model, scores in {"model": metrics["test"], **metrics["baselines"]}.items()
    ]
    frame: Any = pd.DataFrame(rows)
    frame = frame.astype(dict.fromkeys(frame.columns[2:], float))
    models = frame.drop(columns="run").groupby("model", sort=False)
    moments = {"mean": models.mean(), "std": models.std(), "standard_error": models.sem()}
    return pd.concat(
        [frame, *(table.reset_index().assign(run=name) for name, table in moments.items())]
    )


def _summary(
    results: Mapping[str, Mapping[str, Any]], table: Any, folds: int, replicates: int
) -> dict[str, Any]:
    """Return the content of ``metrics.json`` (:func:`train_repeats`), with the task and, for
    intervals or sets, their coverage. ``results`` are the metrics of each run by name, and
    ``table`` is the result of :func:`_metrics_table`.
    """
    first = next(iter(results.values()))
    moments = {
        name: table[table["run"] == name].drop(columns="run").set_index("model").to_dict("index")
        for name in ("mean", "std", "standard_error")
    }
    others = dict(moments["mean"])
    notes = baseline_note(others.pop("model"), others, where="On average over the test parts")
    intervals = [metrics["intervals"] for metrics in results.values() if "intervals" in metrics]
    covered = {}
    if intervals:
        level, shares = intervals[0]["coverage"], pd.Series([each["held"] for each in intervals])
        covered = {"intervals": {"coverage": level, "held": float(shares.mean())}}
        notes.append(
            f"The intervals or sets for {level:.0%} contain {shares.mean():.1%} of the labels."
        )
    scores = pd.DataFrame([each["test"] for each in results.values()]).astype(float)
    notes += [
        f"{METRICS[metric]} is defined in {count} of {len(scores)} test parts; the means are those "
        "of these parts."
        for metric, count in scores.count().items()
        if count < len(scores)
    ]
    if not folds and all(each["test"] == first["test"] for each in results.values()):
        notes.append(
            "All runs are equal, because neither the split nor the model depends on the seed. The "
            "standard error of 0 is not an uncertainty of the errors."
        )
    return {
        "task": first["task"],
        "folds": folds,
        "replicates": replicates,
        "summary": {
            model: {
                metric: {name: each[model][metric] for name, each in moments.items()}
                for metric in scores
            }
            for model, scores in moments["mean"].items()
        },
        "notes": notes,
        "runs": {
            name: {"split": m["split"], "test": m["test"], "molecules": m["molecules"]}
            for name, m in results.items()
        },
        **covered,
    }


def _predictions(folder: Path, run: str) -> Any:
    """Return the test predictions of a run as a data frame of texts, with the name of the run.
    Raises RunError if the file was changed after the run, and FileNotFoundError if it is missing.
    """
    path = folder / run / "predictions.csv"
    check_files(folder / run, path.name)
    frame: Any = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.insert(0, "run", run)
    return frame[frame["part"] == "test"]


def _rows(frame: Any) -> Iterator[Sequence[object]]:
    return itertools.chain([list(frame.columns)], frame.itertuples(index=False, name=None))


def repeats_report(
    results: Mapping[str, Mapping[str, Any]], summary: Mapping[str, Any], title: str
) -> ReportContent:
    """Return the report page of repeated runs.

    Args:
        results: the content of ``metrics.json`` of each run, by the name of its folder.
        summary: the content of ``metrics.json`` of all runs.
        title: targets and table of the runs.

    Returns:
        The means of the metrics with their standard errors, and the metrics of each run with a
        link to its report.
    """
    metrics = list(summary["summary"]["model"])
    names = [METRICS[metric] for metric in metrics]
    means: list[tuple[Cell, ...]] = [
        (model, *(f"{number(m['mean'])} ± {number(m['standard_error'])}" for m in moments.values()))
        for model, moments in summary["summary"].items()
    ]
    runs: list[tuple[Cell, ...]] = [
        (Link(name, f"{name}/report.html"), each["molecules"]["test"], *each["test"].values())
        for name, each in results.items()
    ]
    item = next((each.get("item", "molecules") for each in results.values()), "molecules")
    text = (
        *summary["notes"],
        "The number after ± is the standard error of the mean: the standard deviation over the "
        "runs, divided by the square root of their number. The training parts of folds overlap, so "
        "that it is usually too small. The name of a run is a link to its report.",
    )
    tables = (
        Table(("model", *names), tuple(means), "Means over the test parts"),
        Table(("run", f"test {item}", *names), tuple(runs), "On the test parts"),
    )
    return ReportContent(
        title,
        f"{len(results)} runs of one training. Each row of a test part was predicted by a model "
        "that was trained without it.",
        (Section("Metrics", text, tables),),
    )
