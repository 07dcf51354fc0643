"""Sentences on columns of labels, for the data check and for training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

__all__ = ["case_hints", "decades_note"]

MIN_LABELS = 10
"""Minimum number of labels for :func:`decades_note`."""
DECADES = 3.0
"""Minimum number of decades between the quantiles of 5 and 95 % of the labels."""


def decades_note(values: np.ndarray) -> str:
    """Return a sentence if positive labels span so many decades that their logarithm should be
    trained; "" otherwise.

    >>> decades_note(np.geomspace(0.1, 1e6, 50)), decades_note(np.linspace(1, 9, 50))
    ('its labels span 7 decades: train with --target-transform log10.', '')
    """
    labels = values[np.isfinite(values)]
    if len(labels) < MIN_LABELS or labels.min() <= 0:
        return ""
    low, high = np.log10(np.quantile(labels, (0.05, 0.95)))
    if high - low < DECADES:
        return ""
    span = round(float(np.log10(labels.max() / labels.min())))
    return f"its labels span {span} decades: train with --target-transform log10."


def case_hints(kinds: Iterable[object]) -> Iterator[str]:
    """Yield a sentence, without its period, for classes whose names differ only in case."""
    names: dict[str, list[str]] = {}
    for kind in sorted(map(str, kinds)):
        names.setdefault(kind.casefold(), []).append(kind)
    for alike in names.values():
        if len(alike) > 1:
            yield f"the classes {' and '.join(map(repr, alike))} differ only in case"
