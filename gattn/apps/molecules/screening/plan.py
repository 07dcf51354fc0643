"""Division of the inputs of a screening into shards, and the records of finished shards.

The folder of a screening contains

``manifest.json``
    the checksums of the model and the inputs, and the settings. Another command with the same
    folder must have the same manifest.
``shards/000012.csv`` and ``shards/000012.json``
    the rows of a shard, and their number and checksum. The second file is written last: a shard
    without it is not finished.
``top.csv`` and ``summary.json``
    written when all shards are finished.

Every file is written under another name, flushed to the disk and renamed, so a file is complete or
missing after a power failure or ``kill -9``. Two jobs may write the same folder at the same time.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gattn.apps.run.model_io import RunError, read_json
from gattn.apps.tables.formats import FORMATS, format_of

MANIFEST, SUMMARY, TOP, SHARDS = "manifest.json", "summary.json", "top.csv", "shards"
UTF8 = ("utf-8", "surrogateescape")
"""Encoding of the tables; input bytes that are not UTF-8 are copied unchanged."""
ATTEMPTS = 5
"""Maximum number of attempts to write a file that other jobs write at the same time."""
RECORD = ("rows", "errors", "written", "bytes", "sha256")
"""Keys of a shard's record: rows, rows with an error, rows in its table, and the size and
checksum of the table.
"""


@dataclass(frozen=True)
class Shard:
    """Range of input rows whose predictions are written to one table.

    Attributes:
        number: number of the shard, counted from 0 over all inputs.
        input: index of the input.
        start: first row of the range.
        stop: last row of the range plus one.
    """

    number: int
    input: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Number of rows in the range."""
        return self.stop - self.start


def shards_of(manifest: Mapping[str, Any]) -> list[Shard]:
    """Return the shards of all inputs, in the order of the inputs and their rows. The manifest is
    that of :func:`start_screening`; an input without rows has no shard.
    """
    shards, size = [], manifest["rows_per_shard"]
    for index, each in enumerate(manifest["inputs"]):
        for start in range(0, each["rows"], size):
            shards.append(Shard(len(shards), index, start, min(start + size, each["rows"])))
    return shards


def start_screening(out: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest. If the folder already has one, compare it with this manifest.

    Args:
        out: the folder, which is created if it is missing.
        manifest: everything on which the output depends: the checksums of the ``model``; the
            ``settings`` that change the output; ``rows_per_shard``, the maximum number of rows of a
            shard; the ``versions`` of the packages; and the ``inputs``, each with its ``path``, its
            number of ``rows`` and its ``sha256``.

    Raises:
        RunError: the folder contains other files, or the shards of another screening; the
            message names the first difference.
        OSError: the folder cannot be written.
    """
    before = read_manifest(out)
    if before is not None:
        if difference := _difference(before, manifest):
            raise RunError(
                f"{out} contains the shards of another screening ({difference}): choose "
                "another folder"
            )
    elif out.is_dir() and any(not path.name.endswith(".partial") for path in out.iterdir()):
        raise RunError(f"{out} is not empty and has no {MANIFEST}: choose another folder")
    else:
        # The manifest is written before the shards, so that a killed process leaves no shards
        # without a manifest.
        out.mkdir(parents=True, exist_ok=True)
        write_json_durably(out / MANIFEST, manifest)
    (out / SHARDS).mkdir(exist_ok=True)


def read_manifest(out: Path) -> dict[str, Any] | None:
    """Return the content of the manifest in a folder; None if there is no manifest.

    Raises:
        RunError: the file is damaged, or ``out`` is not a folder.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; expected a folder for the shards")
    if not (out / MANIFEST).exists():
        return None
    names = ("model", "settings", "rows_per_shard", "versions", "inputs")
    return read_json(out / MANIFEST, *names, remedy="choose another folder")


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the first difference between two manifests, or "" if there is none."""
    first, second = (
        {
            **manifest["settings"],
            "rows_per_shard": manifest["rows_per_shard"],
            **{f"the version of {name}": each for name, each in manifest["versions"].items()},
            "the model": manifest["model"],
            **{f"the input {each['path']}": each["sha256"] for each in manifest["inputs"]},
        }
        for manifest in (before, now)
    )
    for name in {**first, **second}:
        a, b = first.get(name), second.get(name)
        if a != b:
            is_hash = name.startswith(("the model", "the input"))
            return f"{name} is " + (
                "different" if is_hash else f"{a!r} in the folder and {b!r} in this command"
            )
    return "the inputs have another order" if before["inputs"] != now["inputs"] else ""


class ShardFiles:
    """Table and record of one shard in the output folder of a screening."""

    def __init__(self, out: Path, shard: Shard) -> None:
        self.table = out / SHARDS / f"{shard.number:06}.csv"
        self.record = self.table.with_suffix(".json")

    def read_record(self) -> dict[str, Any] | None:
        """Return the record of a finished shard; None if it is unfinished or its table is damaged.

        The table is read, and its checksum is compared with the record. Raises OSError if a file
        cannot be read.
        """
        try:
            record = json.loads(self.record.read_bytes())
            content = self.table.read_bytes()
        except (FileNotFoundError, ValueError):
            return None
        complete = isinstance(record, dict) and all(name in record for name in RECORD)
        return record if complete and record["sha256"] == _sha256(content) else None

    def write(self, content: bytes, record: Mapping[str, Any]) -> None:
        """Write the table, and then the record, with the size and the checksum of the table. Raises
        OSError if a file cannot be written.
        """
        write_durably(self.table, content)
        write_json_durably(
            self.record, {**record, "bytes": len(content), "sha256": _sha256(content)}
        )


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or absent: write it under another name, flush it to the
    disk, and rename it.

    Temporary files of this file that killed processes left are removed. If another job writes the
    same file at the same time, its temporary file may be removed, too; it then writes it again.

    Raises:
        OSError: the file cannot be written, for example because the disk is full; then the
            temporary file is removed.
    """
    for attempt in range(ATTEMPTS):
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        try:
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            for other in path.parent.glob(f".{path.name}.*.partial"):
                if other != partial:
                    other.unlink(missing_ok=True)
            partial.replace(path)
            break
        except BaseException as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            if isinstance(error, FileNotFoundError) and attempt + 1 < ATTEMPTS:
                continue
            if isinstance(error, OSError):
                error.filename = str(path)
            raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json_durably(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file with :func:`write_durably`."""
    write_durably(path, (json.dumps(content, indent=1) + "\n").encode())


def table_bytes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Return a CSV table as bytes; bytes that were not UTF-8 in the input are unchanged."""
    text = io.StringIO()
    # csv.writer quotes a cell that contains "\r" only if the line terminator contains "\r".
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode(*UTF8)


def read_table(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table that :func:`table_bytes` wrote."""
    header, *rows = csv.reader(io.StringIO(content.decode(*UTF8), newline=""))
    return header, rows


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def find_inputs(inputs: Sequence[str], out: Path) -> list[Path]:
    """Return the files that the inputs name, in order and without repetitions.

    Args:
        inputs: files; folders, whose files of the known formats are read, also in subfolders,
            sorted by path, except hidden files and folders; and patterns such as
            ``data/*.csv.gz``, in which ``**`` stands for any subfolders.
        out: the folder of the output, whose files are left out.

    Raises:
        FileNotFoundError: a file does not exist, or no file is in a folder or matches a pattern.
    """
    paths = [path for text in inputs for path in _expand(text)]
    outputs = out.resolve()
    distinct = {path.resolve(): path for path in reversed(paths)}
    return [
        path
        for path in dict.fromkeys(paths)
        if distinct[path.resolve()] is path and outputs not in path.resolve().parents
    ]


def _expand(text: str) -> list[Path]:
    """Return the files that a path, a folder or a pattern denotes. Raises FileNotFoundError if
    there is none.
    """
    path = Path(text)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.is_file() and not _is_hidden(file.relative_to(path)) and format_of(file)
        ]
        if not files:
            raise FileNotFoundError(f"{path} contains no file with one of {', '.join(FORMATS)}")
        return files
    if path.exists():
        return [path]
    if any(sign in text for sign in "*?["):
        files = [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        files = [file for file in files if file.is_file()]
        if not files:
            raise FileNotFoundError(f"no file matches {text}")
        return files
    raise FileNotFoundError(f"{path} does not exist")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
