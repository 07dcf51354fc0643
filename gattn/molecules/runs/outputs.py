"""Files and folders that a command writes: they are new, and they appear when they are whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["new_file", "new_folder"]


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Give the path of a temporary file, which takes the name when the block is left.

    Where the block fails (a full disk, an error, an interruption) nothing is left behind.

    Raises:
        FileExistsError: the file is there already.
        FileNotFoundError: its folder is not there.
    """
    path = Path(path)
    _check_new(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder, which takes the name when the block is left.

    Raises:
        FileExistsError: the folder is there already.
        FileNotFoundError: the folder that it is to stand in is not there.
    """
    path = Path(path)
    _check_new(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        temporary.mkdir()
        yield temporary
        temporary.rename(path)


def _check_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} is there already: remove it, or name another")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} in")
