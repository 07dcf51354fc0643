"""Files that are replaced at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["replace_files"]


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
        >>> import tempfile
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
