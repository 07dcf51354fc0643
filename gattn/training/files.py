"""Files that are replaced at once or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["replace_files"]


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write files so that whoever reads one finds its old content or its new, never a part.

    All contents go to new files beside the old, down to the disk, before the first takes its
    name. Where one cannot be written (a full disk, a crash) the old files stand as they were.

    Args:
        contents: all of each file, by its path; the folders are there.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> replace_files({folder / "a.json": b"{}", folder / "b.json": b"{}"})
        >>> sorted(file.name for file in folder.iterdir())
        ['a.json', 'b.json']
    """
    waiting: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            waiting[path] = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            waiting[path].chmod(0o644)
        for path, temporary in waiting.items():
            temporary.replace(path)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
