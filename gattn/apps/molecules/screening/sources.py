"""Inputs of a screening: files, folders and patterns."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from gattn.apps.tables.formats import FORMATS, format_of

__all__ = ["find_inputs"]


def find_inputs(inputs: Sequence[str], out: Path) -> list[Path]:
    """Return the files that the inputs name, in order and without repetitions.

    Args:
        inputs: files; folders, whose files of the known formats are read, also in subfolders,
            sorted by path; and patterns such as ``data/*.csv.gz``, in which ``**`` stands for any
            subfolders.
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
