"""Atomic writes of files and folders: if a write fails, the old content is unchanged."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def reason(error: OSError) -> str:
    """Describe why a system call failed, with the name of the file but without the error number.

    >>> reason(FileNotFoundError(2, "No such file or directory", "in.csv"))
    'in.csv: No such file or directory'
    >>> reason(OSError("the disk is read-only"))
    'the disk is read-only'
    """
    # URLError of urllib stores its cause in the attribute reason.
    cause = getattr(error, "reason", None)
    if isinstance(cause, OSError):
        return reason(cause)
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path. At the end of the ``with`` block, the file at this path replaces the
    file at ``path``.

    If the block fails (full disk, error, interruption), the temporary file is removed and an
    existing file is not changed. If several processes write the file, the last one wins.

    Args:
        path: the file to write.

    Yields:
        The temporary path, on the same disk as ``path``.

    Raises:
        FileNotFoundError: the folder of the file does not exist.
        OSError: the file cannot be written.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with whole_file(path) as temporary:
        ...     _ = temporary.write_text("complete")
        >>> path.read_text()
        'complete'
    """
    path = _require_folder(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path. At the end of the ``with`` block, the file at this path becomes the
    new file ``path``.

    Raises:
        FileExistsError: the file exists.
        FileNotFoundError: the folder of the file does not exist.
    """
    path = _require_new(path)
    with whole_file(path) as temporary:
        yield temporary


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder. At the end of the ``with`` block, it is renamed to ``path``.

    Raises:
        FileExistsError: the folder exists.
        FileNotFoundError: the parent folder does not exist.
    """
    path = _require_new(path)
    with whole_file(path) as temporary:
        temporary.mkdir()
        yield temporary


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files atomically: a reader sees the old or the new content of each file.

    All contents are first written and flushed to new files beside the old ones. If one cannot be
    written (full disk), no old file is changed. A killed process may leave hidden files, which the
    next call overwrites. Only one process may call it at a time.

    Args:
        contents: the new content of each file, as a dict from path to bytes; the folders must
            exist.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> replace_files({folder / "a.json": b"{}", folder / "b.json": b"{}"})
        >>> sorted(file.name for file in folder.iterdir())
        ['a.json', 'b.json']
    """
    partials = {path: path.with_name(f".{path.name}.partial") for path in contents}
    try:
        for path, content in contents.items():
            with partials[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            partial.replace(path)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a UTF-8 CSV file; the first row may be a header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _require_new(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already: remove it or choose another name")
    return _require_folder(path)


def _require_folder(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} must exist to write {path.name} in it")
    return path
