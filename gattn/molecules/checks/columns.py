"""Checks of the order of the rows and of the other columns: what predicts a target by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gattn.molecules.checks.findings import Finding
from gattn.molecules.checks.table import CheckedTable, Target

__all__ = ["COPY", "ORDER", "check_columns", "rank_correlation"]

ORDER = 0.5
"""Least rank correlation of a target with the row number or an identifier for a finding."""
COPY = 0.98
"""Least rank correlation of a target with another column of numbers for a finding."""
FEWEST = 20
"""Least number of rows for a correlation."""
DIGITS = re.compile(r"^\D{0,20}(\d{1,15})$")
"""Identifier such as CMP-0012 or CHEMBL25, with its number."""
EVERY = 0.9
"""Share of the cells of a column that must have a number."""


def check_columns(table: CheckedTable) -> Iterator[Finding]:
    """Yield the columns, and the order of the rows, that predict a target by themselves."""
    columns = {"the row number": (np.arange(float(len(table))), True)}
    skipped = {table.smiles_column, table.part_column}
    for name in dict.fromkeys(table.columns):
        if name in skipped or table.columns.count(name) > 1:
            continue
        values, is_identifier = _values(table.cells(name))
        if np.isfinite(values).sum() >= EVERY * len(table):
            columns[f"column {name!r}"] = (values, is_identifier)
    for target in table.targets:
        for name, (values, is_identifier) in columns.items():
            if name == f"column {target.name!r}":
                continue
            correlation = rank_correlation(values, _numbers(target))
            if abs(correlation) < (ORDER if is_identifier else COPY):
                continue
            message = f"{target.name}: {name} has a rank correlation of {correlation:.2f} with it"
            yield Finding("order" if is_identifier else "copies", message, target=target.name)


def _numbers(target: Target) -> np.ndarray:
    """Return the labels as numbers; classes as 0 and 1."""
    if not target.is_class:
        return np.where(target.measured, target.values, np.nan)
    kinds = sorted({cell for cell in target.cells if cell})
    return np.array([kinds.index(cell) if cell else np.nan for cell in target.cells], float)


def _values(cells: list[str]) -> tuple[np.ndarray, bool]:
    """Return the numbers of a column, and whether they look like identifiers.

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
    """Return Spearman's rank correlation of two columns, over the rows that have both.

    Args:
        a: [n] numbers, NaN for a missing one.
        b: [n] numbers, NaN for a missing one.

    Returns:
        From -1 to 1; 0 for fewer than twenty rows or a constant column.

    >>> round(rank_correlation(np.arange(30.0), np.arange(30.0) ** 3), 3)
    1.0
    """
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < FEWEST:
        return 0.0
    ranks = [_ranks(values[both]) for values in (a, b)]
    deviations = [rank - rank.mean() for rank in ranks]
    norms = [float(np.sqrt((one**2).sum())) for one in deviations]
    if not all(norms):
        return 0.0
    return float((deviations[0] * deviations[1]).sum() / (norms[0] * norms[1]))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of numbers, with the mean rank for equal numbers."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return (ends - (counts - 1) / 2)[inverse.reshape(-1)]
