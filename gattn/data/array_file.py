"""Arrays and one JSON text in a file: NumPy's archive, never a pickle."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gattn.files import whole_file

__all__ = ["BROKEN", "read_archive", "write_archive"]

BROKEN = (
    ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, NotImplementedError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file that was tampered with may raise."""


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write a compressed archive; it appears under its name whole or not at all."""
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{**arrays, "header": text})  # pyright: ignore[reportArgumentType]


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read an archive's header and arrays, unchecked.

    Raises:
        FileNotFoundError: no such file.
        Exception: one of ``BROKEN``, where it is no such file.
    """
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):  # NumPy would advise to load it unsafely
            raise ValueError("it is no archive of arrays, or was cut off")
        file.seek(0)
        try:
            archive = np.load(file, allow_pickle=False)
            arrays = {name: archive[name] for name in archive.files}
        except OSError as error:  # of a directory that leads nowhere: the file itself was opened
            raise ValueError(str(error)) from error
    return json.loads(arrays.pop("header").tobytes()), arrays
