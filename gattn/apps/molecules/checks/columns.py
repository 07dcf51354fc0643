"""Checks for columns, and for an order of the rows, from which a target can be predicted without
the molecules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from gattn.apps.molecules.checks.findings import Finding
from gattn.apps.molecules.checks.table import CLASSES, CheckedTable, Target

__all__ = ["COPY", "ORDER", "check_columns", "rank_correlation"]

ORDER = 0.5
"""A target is reported if its rank correlation with the row number or an identifier is at least
this number.
"""
COPY = 0.98
"""A target is reported if its rank correlation with another numeric column is at least this
number.
"""
FEWEST = 20
"""Minimum number of rows for which a rank correlation is computed."""
DIGITS = re.compile(r"^\D{0,20}(\d{1,15})$")
"""Pattern of an identifier, such as CMP-0012 or CHEMBL25; its group is the number in the
identifier.
"""
MOST = 20
"""Maximum number of different labels of a target that another column may contain in another
writing.
"""
EVERY = 0.9
"""A column is treated as numeric if at least this fraction of its cells contain a number."""


def check_columns(table: CheckedTable) -> Iterator[Finding]:
    """Yield a finding for each column that alone predicts a target, and for an order of the rows
    that does.
    """
    columns = {"the row number": (np.arange(float(len(table))), True)}
    skipped = {table.smiles_column, table.part_column}
    names = [
        name
        for name in dict.fromkeys(table.columns)
        if name not in skipped and table.columns.count(name) == 1
    ]
    for name in names:
        values, is_identifier = _values(table.cells(name))
        if np.isfinite(values).sum() >= EVERY * len(table):
            columns[f"column {name!r}"] = (values, is_identifier)
    for target in table.targets:
        copies: set[str] = set()
        for name, (values, is_identifier) in columns.items():
            if name == f"column {target.name!r}" or (
                target.is_class and len(set(target.cells) - {""}) > CLASSES
            ):
                continue
            correlation = rank_correlation(values, _numbers(target))
            if abs(correlation) < (ORDER if is_identifier else COPY):
                continue
            message = f"{target.name}: {name} has a rank correlation of {correlation:.2f} with it"
            copies.add(name)
            yield Finding("order" if is_identifier else "copies", message, target=target.name)
        for name in names:
            if name == target.name or f"column {name!r}" in copies:
                continue
            if is_rewritten(table.cells(name), target.cells):
                message = f"{target.name}: column {name!r} determines it in another writing"
                yield Finding("copies", message, target=target.name)


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
    """Return the labels as numbers; classes as 0 and 1."""
    if not target.is_class:
        return np.where(target.measured, target.values, np.nan)
    kinds = sorted({cell for cell in target.cells if cell})
    return np.array([kinds.index(cell) if cell else np.nan for cell in target.cells], float)


def _values(cells: list[str]) -> tuple[np.ndarray, bool]:
    """Return the numbers in a column, and True if they look like identifiers.

    Identifiers are whole numbers, alone or after letters, that differ in almost every row.
    """
    values = np.full(len(cells), np.nan)
    whole = True
    for row, cell in enumerate(cells):
        match = DIGITS.match(cell)
        if match:
            values[row] = float(match[1])
            continue
        try:
            values[row] = float(cell)
        except ValueError:
            continue
        whole = False
    readable = values[np.isfinite(values)]
    return values, whole and len(np.unique(readable)) >= EVERY * max(len(readable), 1)


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
