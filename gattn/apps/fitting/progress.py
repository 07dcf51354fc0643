"""Progress bars of training, drawn by tqdm on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm

from gattn.apps.runtime.processes import is_first_process


def progress_bar(
    items: Iterable[Any] | None, title: str, unit: str, *, progress: bool, **options: Any
) -> tqdm:
    """Create a progress bar; only the first process shows it.

    Args:
        items: the items to iterate over; None for a bar that the caller advances by ``update``.
        title: the text before the bar.
        unit: the name of an item.
        progress: whether to show the bar.
        options: further options of tqdm, for example ``total`` and ``initial``.

    Returns:
        A tqdm bar. It redraws every 0.1 seconds on a terminal, and every 10 seconds in a file.
    """
    hidden = not (progress and is_first_process())
    interval = 0.1 if sys.stderr.isatty() else 10.0
    return tqdm(items, title, unit=unit, disable=hidden, mininterval=interval, **options)
