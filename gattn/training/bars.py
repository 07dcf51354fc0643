"""Bars that show how far a training is, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tqdm.auto import tqdm

from gattn.training.processes import is_first_process

__all__ = ["pause", "shown"]

T = TypeVar("T")


def shown(parts: Sequence[T], title: str, unit: str, progress: bool) -> Iterable[T]:
    """Go through the parts of a training, with a bar where there is to be one.

    Args:
        parts: what to go through.
        title: what is trained.
        unit: what a part is.
        progress: whether to show a bar; of several processes the first does.
    """
    hidden = not (progress and is_first_process())
    return tqdm(parts, title, unit=unit, disable=hidden, mininterval=pause())


def pause() -> float:
    """Seconds between two states of a bar: many where nobody sees it move (a file, a log)."""
    return 0.1 if sys.stderr.isatty() else 10.0
