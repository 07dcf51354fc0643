"""Files and folders that appear under their names whole, or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file, which takes the name when the block is left.

    Where the block fails (a full disk, an error, an interruption) nothing is left behind, and a
    file that was there stands as it was. Several processes may write one file: the last one wins.

    Args:
        path: the file.

    Yields:
        The path to write, on the same disk.

    Raises:
        FileNotFoundError: its folder is not there.
        OSError: it cannot be written.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with whole_file(path) as temporary:
        ...     _ = temporary.write_text("all of it")
        >>> path.read_text()
        'all of it'
    """
    path = _in_a_folder(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file as :func:`whole_file` does, where none is yet.

    Raises:
        FileExistsError: the file is there already.
        FileNotFoundError: its folder is not there.
    """
    path = _checked_new(path)
    with whole_file(path) as temporary:
        yield temporary


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty temporary folder, which takes the name when the block is left.

    Raises:
        FileExistsError: the folder is there already.
        FileNotFoundError: the folder that it is to stand in is not there.
    """
    path = _checked_new(path)
    with whole_file(path) as temporary:
        temporary.mkdir()
        yield temporary


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write files so that whoever reads one finds its old content or its new, never a part.

    All contents go to new files beside the old, down to the disk, before the first takes its
    name. Where one cannot be written (a full disk) the old files stand as they were; what a
    killed process leaves behind is a hidden file that the next one overwrites.

    Args:
        contents: all of each file, by its path; the folders are there. One process at a time.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> replace_files({folder / "a.json": b"{}", folder / "b.json": b"{}"})
        >>> sorted(file.name for file in folder.iterdir())
        ['a.json', 'b.json']
    """
    waiting = {path: path.with_name(f".{path.name}.partial") for path in contents}
    try:
        for path, content in contents.items():
            with waiting[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in waiting.items():
            partial.replace(path)
    finally:
        for partial in waiting.values():
            partial.unlink(missing_ok=True)


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file: UTF-8, a header first where the rows have one."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _checked_new(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} is there already: remove it, or name another")
    return _in_a_folder(path)


def _in_a_folder(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} in")
    return path
