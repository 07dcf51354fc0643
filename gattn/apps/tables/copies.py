"""Columns that contain the labels in another writing."""

from __future__ import annotations

from collections.abc import Sequence

COPY = 0.98
"""A column may be a copy of the labels if its rank correlation with them, or the fraction of rows
in which its texts stand for the same labels, is at least this number.
"""
FEWEST = 20
"""Minimum number of rows for which columns are compared."""
MOST = 20
"""Maximum number of different labels that another column may contain in another writing."""


def is_rewritten(cells: Sequence[str], labels: Sequence[str]) -> bool:
    """Return True if a column contains few labels in another writing, such as 1, 2, 3 for red,
    green, blue.

    Both arguments have one text for each row, in the same order. Each text of the column must stand
    for another label, and at least 98 % of the rows must agree. Rows in which a text is empty are
    ignored. The result is False for fewer than 20 rows, and unless there are from 2 to 20 different
    labels and equally many different texts.

    >>> is_rewritten(["1", "2", "3"] * 10, ["red", "green", "blue"] * 10)
    True
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    pairs = [(cell, label) for cell, label in zip(cells, labels) if cell and label]
    texts, kinds = {cell for cell, _ in pairs}, {label for _, label in pairs}
    if len(pairs) < FEWEST or not 2 <= len(texts) == len(kinds) <= MOST:
        return False
    counts = contingency_matrix(*zip(*pairs))
    return bool(counts[linear_sum_assignment(-counts)].sum() >= COPY * len(pairs))
