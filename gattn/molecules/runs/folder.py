"""The folder of a run: whose it is, what it holds already, and what it holds in the end."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gattn.data import BadRow
from gattn.molecules.runs.config import RunSettings
from gattn.molecules.runs.source import Source, file_hash
from gattn.training.runs import Json, RunError, read_json, write_json
from gattn.training.settings import read_toml, write_toml

__all__ = ["CHECKPOINTS", "METRICS", "begin", "finish", "is_first_process", "metrics_of_whole"]

CONFIG, METRICS, SPLITS, CHECKPOINTS = "config.toml", "metrics.json", "splits.json", "checkpoints"
LEFT_OUT = "left_out.csv"


def is_first_process() -> bool:
    """Whether this is the process that writes: torchrun starts several and numbers them."""
    return os.environ.get("RANK", "0") == "0"


def metrics_of_whole(out: Path, settings: RunSettings) -> dict[str, Any] | None:
    """The metrics of a run that is whole already; None where it is to be begun or gone on with.

    Raises:
        RunError: the folder holds another run, or something else.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; wanted the folder of a run")
    if (out / CONFIG).exists():
        before = read_toml(RunSettings, out / CONFIG)
        if (difference := _difference(before, settings)) and _has_work(out):
            raise RunError(f"{out} holds another run ({difference}): choose another folder")
        return _metrics(out, settings)
    if is_first_process() and out.is_dir() and any(out.iterdir()):
        raise RunError(f"{out} is not empty and holds no run: choose another folder")
    return None


def begin(
    out: Path, settings: RunSettings, source: Source, splits: dict[str, Json], bad: Sequence[BadRow]
) -> None:
    """Write what is known before training: the settings, the parts, and the rows left out.

    Raises:
        RunError: the folder holds a run that was begun on other data.
        OSError: the folder cannot be written.
    """
    if _has_work(out) and (before := _splits(out)) != splits:
        what = "data" if before["sha256"] != splits["sha256"] else "parts"
        raise RunError(f"{out} holds a run that was begun on other {what}: choose another folder")
    out.mkdir(parents=True, exist_ok=True)
    with (out / LEFT_OUT).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "line", "text", "reason"])
        writer.writerows([row.row, row.line, row.text, row.reason] for row in bad)
    write_toml(out / CONFIG, settings)
    write_json(out / SPLITS, splits)


def _has_work(out: Path) -> bool:
    """Whether something would be lost: a checkpoint, a trial, a model."""
    return any((out / name).exists() for name in (CHECKPOINTS, "tuning.log", "model.json", METRICS))


def _metrics(out: Path, settings: RunSettings) -> dict[str, Any] | None:
    """The metrics, where they are written: of the same data, unless that is gone."""
    if not (out / METRICS).exists():
        return None
    data = Path(settings.data)
    if settings.data and data.is_file() and file_hash(data) != _splits(out)["sha256"]:
        raise RunError(f"{out} holds a run on other content of {data}: choose another folder")
    return read_json(out / METRICS, "task", "test", "molecules", "intervals")


def _splits(out: Path) -> dict[str, Any]:
    return read_json(out / SPLITS, "sha256")


def finish(out: Path, metrics: dict[str, Any]) -> None:
    """Write the metrics, by which a run is known to be whole, and drop the checkpoints."""
    write_json(out / METRICS, metrics)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def _difference(before: RunSettings, now: RunSettings) -> str:
    """The first setting in which two runs differ; how the SMILES are read makes no difference."""
    a, b = (asdict(replace(settings, workers=1, cache="")) for settings in (before, now))
    a, b = ({**table, **table.pop("model")} for table in (a, b))
    for name, value in a.items():
        if value != b[name]:
            return f"{name} is {value!r} there and {b[name]!r} here"
    return ""
