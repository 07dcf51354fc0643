"""Checks for columns from which a target can be predicted without the molecules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gattn.apps.molecules.checks.findings import Finding
from gattn.apps.molecules.checks.table import CLASSES, CheckedTable, Target
from gattn.apps.tables.csv_table import as_number

__all__ = ["COPY", "check_columns", "rank_correlation"]

COPY = 0.98
"""A target is reported if its rank correlation with another numeric column is at least this
number.
"""
FEWEST = 20
"""Minimum number of rows for which a rank correlation is computed."""
MOST = 20
"""Maximum number of different labels of a target that another column may contain in another
writing.
"""
EVERY = 0.9
"""A column is treated as numeric if at least this fraction of its cells contain a number."""


def check_columns(table: CheckedTable) -> Iterator[Finding]:
    """Yield a finding for each column that alone predicts a target."""
    skipped = {table.smiles_column, table.part_column}
    names = [
        name
        for name in dict.fromkeys(table.columns)
        if name not in skipped and table.columns.count(name) == 1
    ]
    for target in table.targets:
        labels = _numbers(target)
        for name in names:
            if name == target.name:
                continue
            cells = table.cells(name)
            correlation = rank_correlation(_values(cells), labels)
            words = f"column {name!r} has a rank correlation of {correlation:.2f} with it"
            if abs(correlation) < COPY:
                if not is_rewritten(cells, target.cells):
                    continue
                words = f"column {name!r} determines it in another writing"
            yield Finding("copies", f"{target.name}: {words}", target=target.name)


def is_rewritten(cells: Sequence[str], labels: Sequence[str]) -> bool:
    """Return True if a column contains few labels in another writing, such as 1, 2, 3 for red,
    green, blue.

    Each text must stand for another label, and at least 98 % of the rows must agree.

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


def _numbers(target: Target) -> np.ndarray:
    """Return the labels as numbers; two classes as 0 and 1, and NaN for more classes."""
    if not target.is_class:
        return np.where(target.measured, target.values, np.nan)
    kinds = sorted({cell for cell in target.cells if cell})
    if len(kinds) > CLASSES:
        return np.full(len(target.cells), np.nan)
    return np.array([kinds.index(cell) if cell else np.nan for cell in target.cells], float)


def _values(cells: list[str]) -> np.ndarray:
    """Return the numbers in cells, with NaN for other cells; NaN alone if more than a tenth of the
    cells are no numbers.
    """
    values = np.array([as_number(cell) for cell in cells], float)
    is_numeric = np.isfinite(values).sum() >= EVERY * len(cells)
    return values if is_numeric else np.full(len(cells), np.nan)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rank correlation of two columns. Rows in which one of the values is missing
    are ignored.

    Args:
        a: [n] numbers, NaN for a missing value.
        b: [n] numbers, NaN for a missing value.

    Returns:
        From -1 to 1; 0 for fewer than twenty rows or a constant column.

    >>> round(rank_correlation(np.arange(30.0), np.arange(30.0) ** 3), 3)
    1.0
    """
    from scipy.stats import rankdata

    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < FEWEST:
        return 0.0
    ranks = [rankdata(values[both]) for values in (a, b)]
    if not all(map(np.ptp, ranks)):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])
