"""Folders of trained models that one pytest worker writes and all workers read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return a folder of the session, which the first worker that asks for it builds.

    Tests must not change the files of the folder.
    """
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / name
    with FileLock(f"{folder}.lock"):
        complete = folder.with_suffix(".complete")
        if not complete.exists():
            folder.mkdir()
            build(folder)
            complete.touch()
    return folder
