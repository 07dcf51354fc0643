"""Checks of a run's folder, and writing of its settings, parts and metrics."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

from gattn.apps.fitting.settings import SettingsError, read_toml, to_table, write_toml
from gattn.apps.run.model_io import Json, RunError, read_card, read_json, write_json
from gattn.files import write_rows

CONFIG, METRICS, SPLITS, CHECKPOINTS = "config.toml", "metrics.json", "splits.json", "checkpoints"
LEFT_OUT, LOCK = "left_out.csv", ".lock"
FOLDER = "folder"
"""Key of ``splits.json`` for the path from the folder of a run to the one in which it was
trained.
"""
NO_DIFFERENCE = ("workers", "threads")
"""Names of the settings that do not change the results of a run."""


class AnyRunSettings(Protocol):
    """Settings of a run of any type. They are a frozen dataclass whose field ``model`` is a
    dataclass, too.

    Attributes:
        threads: number of threads, which does not change the results.
    """

    @property
    def threads(self) -> int:
        """Number of threads of each operator."""
        ...


def finished_metrics(
    out: Path, settings: AnyRunSettings, inputs: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """Return the metrics of a finished run, or None if the run has to be started or resumed.

    Args:
        out: the folder of the run.
        settings: the settings of the run.
        inputs: files that the run reads, by the key of their hash in ``splits.json``; if all files
            of a key exist, their content is compared with that at the start of the run.

    Raises:
        RunError: the folder contains another run or other files, or the inputs or the metrics of
            the finished run have changed.
    """
    if (out / CONFIG).exists():
        try:
            before = read_toml(type(settings), out / CONFIG)
        except SettingsError as error:
            message = (
                f"{out} does not contain a run of this command: choose another folder ({error})"
            )
            raise RunError(message) from error
        if (difference := _difference(before, settings)) and _has_results(out):
            raise RunError(f"{out} contains another run ({difference}): choose another folder")
        return _metrics(out, inputs)
    if _has_files(out):
        raise RunError(f"{out} is not empty and does not contain a run: choose another folder")
    return None


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock the folder of a run inside the ``with`` block, so that no other training writes to it.

    The folder is created, which also checks that it can be written; an empty one is removed at
    the end. The lock is released if its process dies.

    Raises:
        RunError: another training uses the folder, or it is a file.
        OSError: the folder cannot be created.
    """
    from filelock import FileLock, Timeout

    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; expected the folder of a run")
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(
            f"{out} is in use by another training: wait for its end, or choose another folder"
        ) from None
    try:
        yield
    finally:
        (out / LOCK).unlink(missing_ok=True)
        lock.release()
        if not any(out.iterdir()):
            out.rmdir()


def start_run(
    out: Path,
    settings: AnyRunSettings,
    splits: dict[str, Json],
    left_out: Iterable[Sequence[object]],
) -> None:
    """Write the settings, the parts and the left-out rows; this is done before training.

    Args:
        out: the folder of the run, which is created if it is missing.
        settings: the settings of the run.
        splits: the rows of each part, and the SHA-256 of the data under ``sha256``.
        left_out: rows of ``left_out.csv``; the first row is the header.

    Raises:
        RunError: the folder contains a run that was started with other data or other parts.
        OSError: the folder cannot be written.
    """
    splits = {**splits, FOLDER: os.path.relpath(Path.cwd(), out.resolve())}
    if _has_results(out) and (before := _splits(out)) != {**splits, FOLDER: before.get(FOLDER)}:
        other = "data" if before["sha256"] != splits["sha256"] else "parts"
        raise RunError(
            f"{out} contains a run that was started with other {other}: choose another folder"
        )
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / LEFT_OUT, left_out)
    write_toml(out / CONFIG, settings)
    write_json(out / SPLITS, splits)


@contextmanager
def training_folder(run: Path) -> Iterator[None]:
    """Change the working directory of the process to the folder in which a run was trained for a
    ``with`` block, because the paths of its settings can be relative. If the folder does not exist,
    the current one is not changed.

    Args:
        run: the absolute path of the folder of the run.
    """
    folder = before = Path.cwd()
    if (run / SPLITS).is_file():
        with suppress(RunError):  # Whoever reads the parts of the run reports the fault.
            folder = run / str(_splits(run).get(FOLDER, before))
    if folder.is_dir():
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def finish_run(out: Path, metrics: dict[str, Any]) -> None:
    """Write the metrics, which mark a run as finished, and then remove the checkpoints. Raises
    OSError if the metrics cannot be written; checkpoints that cannot be removed stay.
    """
    write_json(out / METRICS, metrics)
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


def file_hash(*paths: Path) -> str:
    """Compute the SHA-256 of a file. For several files, it is the hash of their concatenated
    hashes. Raises OSError if a file cannot be read.
    """
    hashes = [_content_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _content_hash(path: Path) -> str:
    """Compute the SHA-256 of a file in blocks of 1 MiB, because the file may be larger than memory.
    Raises OSError if it cannot be read.
    """
    result = hashlib.sha256()
    with path.open("rb") as file:
        while content := file.read(1 << 20):
            result.update(content)
    return result.hexdigest()


def _has_results(out: Path) -> bool:
    """Return True if the folder contains a checkpoint, a model or metrics.

    Empty folders of checkpoints do not count, because any process of a run may create them.
    """
    results = ("model.json", METRICS)
    return any((out / name).exists() for name in results) or _has_files(out / CHECKPOINTS)


def _has_files(folder: Path) -> bool:
    """Return True if a folder or one of its subfolders contains a file other than the lock."""
    return any(not path.is_dir() and path.name != LOCK for path in folder.rglob("*"))


def _metrics(out: Path, inputs: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Return the metrics of a finished run, or None if the run is not finished. Raises RunError if
    the input files or the metrics have changed. ``inputs`` has the paths of the input files by the
    key of ``splits.json`` that holds their hash; files that do not exist are not compared.
    """
    if not (out / METRICS).exists():
        return None
    for key, names in inputs.items():
        paths = [Path(name) for name in names]
        exist = bool(paths) and all(path.is_file() for path in paths)
        if exist and file_hash(*paths) != _splits(out)[key]:
            raise RunError(
                f"{out} contains a run with another content of {' and '.join(names)}: choose "
                "another folder"
            )
    remedy = "remove it to start the run again"
    metrics = read_json(out / METRICS, "task", "test", remedy=remedy)
    if metrics != read_card(out).get("metrics"):
        raise RunError(f"{out / METRICS} was changed after the training wrote it: {remedy}")
    return metrics


def _splits(out: Path) -> dict[str, Any]:
    """Return the content of the file of the splits. Raises RunError if it is damaged."""
    return read_json(out / SPLITS, "sha256", remedy=f"remove {out}, or choose another folder")


def _difference(before: AnyRunSettings, now: AnyRunSettings) -> str:
    """Describe the first setting that differs and has an effect on the results; return "" if
    there is none.
    """
    a, b = (to_table(settings) for settings in (before, now))
    a, b = ({**table, **cast("dict[str, object]", table.pop("model"))} for table in (a, b))
    for name in dict.fromkeys([*a, *b]):
        if name not in NO_DIFFERENCE and a.get(name) != b.get(name):
            values = f"{a.get(name)!r} in the folder and {b.get(name)!r} in this command"
            return f"{name} is {values}"
    return ""
