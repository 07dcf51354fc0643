"""The folder of a run: whose it is, what it holds already, and what it holds in the end."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from gattn.training.model_io import Json, RunError, read_json, write_json
from gattn.training.processes import is_first_process
from gattn.training.settings import SettingsError, read_toml, to_table, write_toml

__all__ = [
    "CHECKPOINTS",
    "METRICS",
    "AnyRunSettings",
    "begin",
    "check_place",
    "file_hash",
    "finish",
    "metrics_of_whole",
]

CONFIG, METRICS, SPLITS, CHECKPOINTS = "config.toml", "metrics.json", "splits.json", "checkpoints"
LEFT_OUT = "left_out.csv"
NO_DIFFERENCE = ("workers", "cache")
"""Settings that make no difference to what comes out."""


class AnyRunSettings(Protocol):
    """The settings of a run of molecules or of nodes: a frozen dataclass.

    Attributes:
        workers: processes that share the work, which make no difference to the run.
        model: a dataclass: what is trained.
    """

    @property
    def workers(self) -> int:
        """How many processes share the work."""
        ...


def metrics_of_whole(
    out: Path, settings: AnyRunSettings, data: Sequence[str]
) -> dict[str, Any] | None:
    """The metrics of a run that is whole already; None where it is to be begun or gone on with.

    Args:
        out: the folder.
        settings: of the run.
        data: the files that it reads; whether their content is that of the run's beginning is
            asked only where all are there.

    Raises:
        RunError: the folder holds another run, or something else.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; wanted the folder of a run")
    if (out / CONFIG).exists():
        try:
            before = read_toml(type(settings), out / CONFIG)
        except SettingsError as error:
            said = f"{out} holds no run of this command: choose another folder ({error})"
            raise RunError(said) from error
        if (difference := _difference(before, settings)) and _has_work(out):
            raise RunError(f"{out} holds another run ({difference}): choose another folder")
        return _metrics(out, [Path(name) for name in data])
    # Another process of the same run may have made the folders of its checkpoints before this one.
    if is_first_process() and _has_files(out):
        raise RunError(f"{out} is not empty and holds no run: choose another folder")
    return None


def check_place(out: Path) -> None:
    """Raise where the folder of a run cannot be made, before anything is read.

    Raises:
        OSError: it cannot; it is not there afterwards where it was not before.
    """
    if is_first_process() and not out.exists():
        out.mkdir(parents=True)
        try:
            out.rmdir()
        except OSError:  # another process of this run may have made the folder of its checkpoints
            if not any(out.iterdir()):
                raise


def begin(
    out: Path,
    settings: AnyRunSettings,
    splits: dict[str, Json],
    header: Sequence[str],
    left_out: Iterable[Sequence[object]],
) -> None:
    """Write what is known before training: the settings, the parts, and what was left out.

    Args:
        out: the folder, made where it is missing.
        settings: of the run.
        splits: the parts, and ``sha256`` of the data.
        header: the columns of ``left_out.csv``.
        left_out: its rows.

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
        writer.writerow(header)
        writer.writerows(left_out)
    write_toml(out / CONFIG, settings)
    write_json(out / SPLITS, splits)


def file_hash(*paths: Path) -> str:
    """SHA-256 of a file's content; of several files, of their hashes one after the other."""
    found = [_content_hash(path) for path in paths]
    return found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest()


def _content_hash(path: Path) -> str:
    """Read a megabyte at a time: a table may be larger than memory."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(1 << 20):
            found.update(content)
    return found.hexdigest()


def _has_work(out: Path) -> bool:
    """Whether something would be lost: a checkpoint, a trial, a model.

    Folders alone are no checkpoints: of several processes any may make them first.
    """
    results = ("tuning.log", "model.json", METRICS)
    return any((out / name).exists() for name in results) or _has_files(out / CHECKPOINTS)


def _has_files(folder: Path) -> bool:
    """Whether there is more than folders in a folder, at any depth."""
    return any(not path.is_dir() for path in folder.rglob("*"))


def _metrics(out: Path, data: Sequence[Path]) -> dict[str, Any] | None:
    """The metrics, where they are written: of the same data, unless that is gone."""
    if not (out / METRICS).exists():
        return None
    there = bool(data) and all(path.is_file() for path in data)
    if there and file_hash(*data) != _splits(out)["sha256"]:
        names = " and ".join(map(str, data))
        raise RunError(f"{out} holds a run on other content of {names}: choose another folder")
    return read_json(
        out / METRICS, "task", "test", "intervals", remedy="remove it, and the run is done again"
    )


def _splits(out: Path) -> dict[str, Any]:
    return read_json(out / SPLITS, "sha256", remedy=f"remove {out}, or choose another folder")


def finish(out: Path, metrics: dict[str, Any]) -> None:
    """Write the metrics, by which a run is known to be whole, and drop the checkpoints."""
    write_json(out / METRICS, metrics)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def _difference(before: AnyRunSettings, now: AnyRunSettings) -> str:
    """The first setting in which two runs differ; how their data is read makes no difference."""
    a, b = (to_table(settings) for settings in (before, now))
    a, b = ({**table, **_as_table(table.pop("model"))} for table in (a, b))
    for name in dict.fromkeys([*a, *b]):
        if name not in NO_DIFFERENCE and a.get(name) != b.get(name):
            return f"{name} is {a.get(name)!r} there and {b.get(name)!r} here"
    return ""


def _as_table(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value
