"""Arrays in temporary files, ranges of rows that are computed at once, and samples of nodes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""
PIECE = 1 << 16
"""Number of nodes or edges that are computed at once."""
IN_MEMORY = 1 << 26
"""Maximum number of bytes of an array that is not stored in a file."""


class Scratch:
    """Folder of temporary files with arrays, which the system may remove from memory.

    The folder is deleted with the object, or at the end of the program. An array remains valid
    after the folder was deleted.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gattn-"))
        # A TemporaryDirectory that is deleted with its object emits a ResourceWarning.
        weakref.finalize(self, shutil.rmtree, self._folder)
        self._count = 0

    def array(self, rows: int, columns: int) -> NDArray[np.float32]:
        """Return a new array [rows, columns] float32 whose values are not set. It is in a new file
        of the folder if it has more than :data:`IN_MEMORY` bytes.
        """
        if 4 * rows * columns <= IN_MEMORY:
            return np.empty((rows, columns), np.float32)
        self._count += 1
        path = self._folder / f"{self._count}.bin"
        return np.memmap(path, np.float32, "w+", shape=(rows, columns))


def pieces(rows: int) -> Iterator[slice]:
    """Yield consecutive ranges of rows."""
    for start in range(0, rows, PIECE):
        yield slice(start, min(start + PIECE, rows))


def sample(nodes: NDArray, count: int, seed: int) -> NDArray:
    """Return at most ``count`` of the nodes: all of them unchanged if there are no more, and
    otherwise a random choice in ascending order.
    """
    if len(nodes) <= count:
        return nodes
    return np.sort(np.random.default_rng(seed).choice(nodes, count, replace=False))


def fold_masks(count: int, most: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Yield a mask of the rows of each fold, [count], for at most ``most`` random folds of about
    equal size; no fold has no row.
    """
    folds = min(most, count)
    fold = np.random.default_rng(seed).permutation(count) % max(folds, 1)
    for number in range(folds):
        yield fold == number
