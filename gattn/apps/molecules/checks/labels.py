"""Checks of the labels in a table: readability, number, outliers and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gattn.apps.molecules.checks.structures import groups_of
from gattn.apps.molecules.checks.table import CLASSES, CheckedTable, Finding, Target
from gattn.apps.molecules.runs.labels import case_hints, decades_note
from gattn.apps.run.text import plural
from gattn.apps.tables.csv_table import as_number
from gattn.apps.tables.numbers import is_missing

FEW = 20
"""A target is reported if it has fewer labels than this number, or labels in less than a twentieth
of the rows.
"""
SHARE = 0.05
SAME = 0.95
"""A target is reported as constant if at least this fraction of its labels are equal."""
OUTLIER = 6.0
"""A label whose robust z score is at least this number is reported as an outlier."""
DECADES = 3.0
"""Outliers are computed from the logarithms of the labels if the labels span more than this
number of decades.
"""
TOLERANCE = 0.5
"""The labels of one molecule contradict each other if they differ by more than this number of
standard deviations.
"""


def check_labels(table: CheckedTable) -> Iterator[Finding]:
    """Yield the findings on the labels of a table."""
    for target in table.targets:
        yield from _notation(table, target)
        yield from _amount(table, target)
        if target.is_class:
            yield from (
                Finding("case", f"{target.name}: {hint}", target=target.name)
                for hint in case_hints({cell for cell in target.cells if not is_missing(cell)})
            )
            yield from _contradictions(table, target)
            continue
        if note := decades_note(target.values):
            yield Finding("decades", f"{target.name}: {note}", target=target.name)
        yield from _outliers(target)
        yield from _contradictions(table, target)


def _rows(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())


def _finding(
    kind: str, target: Target, message: str, rows: tuple[int, ...], groups: tuple[int, ...] = ()
) -> Finding:
    details = tuple(target.cells[row] for row in rows)
    return Finding(kind, f"{target.name}: {message}", rows, target.name, groups, details)


def _notation(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield findings on cells that are not plain numbers."""
    if target.is_class:
        return
    censored = _rows(target.censored & np.isfinite(target.values))
    if censored:
        relations = sorted({target.parts[row].relation for row in censored})
        share = len(censored) / max(target.labelled, 1)
        yield _finding(
            "censored", target,
            f"{plural(len(censored), 'label')} ({share:.1%}) with {', '.join(relations)}", censored,
        )  # fmt: skip
    unread = [row for row in target.numbers.unread if row not in set(censored)]
    texts = tuple(row for row in unread if target.parts[row].kind == "text")
    if texts:
        words = "1 label is not a number"
        if len(texts) > 1:
            words = f"{len(texts):,} labels are not numbers"
        yield _finding("labels", target, words, texts)
    other = tuple(row for row in unread if target.parts[row].kind != "text")
    if other:
        patterns = [one for one in target.numbers.recognised() if one.kind != "censored"]
        words = "; ".join(
            one.sentence(lambda row: f"in line {table.lines[row]}", "label") for one in patterns
        )
        yield _finding("readability", target, words or f"{plural(len(other), 'label')}", other)


def _amount(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield a finding if a target has few labels, and one if most of its labels are equal."""
    labelled, rows = target.labelled, len(table)
    if labelled < min(FEW, rows) or labelled < SHARE * rows:
        share = f"{labelled / rows:.1%} of the rows"
        yield Finding(
            "empty", f"{target.name}: {plural(labelled, 'label')}, {share}", target=target.name
        )
    labels = [cell for cell in target.cells if cell]
    if not labels:
        return
    values, counts = np.unique(labels, return_counts=True)
    most = int(counts.argmax())
    if counts[most] >= SAME * labelled and labelled > 1:
        others = tuple(
            row for row, cell in enumerate(target.cells) if cell and cell != str(values[most])
        )
        yield _finding(
            "constant", target,
            f"{counts[most]:,} of {plural(labelled, 'label')} are {values[most]}", others,
        )  # fmt: skip


def robust_scores(values: np.ndarray) -> np.ndarray:
    """Return the robust z scores of numbers: 0.6745 times the distance from the median in units of
    the median absolute deviation.

    Args:
        values: [n] numbers; NaN is ignored.

    Returns:
        [n] float64; zeros if more than half of the numbers are equal.

    References:
        Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).

    >>> robust_scores(np.array([1.0, 2.0, 3.0, 4.0, 100.0])).round(1).tolist()
    [-1.3, -0.7, 0.0, 0.7, 65.4]
    """
    centre = np.nanmedian(values)
    deviation = np.nanmedian(np.abs(values - centre))
    return np.zeros_like(values) if not deviation else 0.6745 * (values - centre) / deviation


def _outliers(target: Target) -> Iterator[Finding]:
    measured = target.measured
    if measured.sum() < FEW:
        return
    values = np.where(measured, target.values, np.nan)
    scale = ""
    if np.nanmin(values) > 0 and np.log10(np.nanmax(values) / np.nanmin(values)) >= DECADES:
        values, scale = np.log10(values), " of the logarithms"
    scores = robust_scores(values)
    rows = sorted(_rows(np.abs(scores) > OUTLIER), key=lambda row: -abs(scores[row]))
    if rows:
        yield _finding(
            "outliers", target,
            f"{plural(len(rows), 'label')} beyond {OUTLIER:g} robust standard deviations{scale}; "
            f"the farthest is {target.cells[rows[0]]}, at {abs(scores[rows[0]]):.3g}", tuple(rows),
        )  # fmt: skip


def _contradictions(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield findings on molecules whose labels differ much, compared with the spread of the
    target.
    """
    groups = groups_of(table.identities)
    if target.is_class:
        groups = [[row for row in group if target.cells[row]] for group in groups]
        groups = [g for g in groups if len({target.cells[row] for row in g}) > 1]
        words = "have both classes"
    else:
        if target.measured.sum() < 2:
            return
        spread = float(target.values[target.measured].std())
        groups = [[row for row in group if target.measured[row]] for group in groups]
        widths = {i: float(np.ptp(target.values[g])) if len(g) > 1 else 0.0
                  for i, g in enumerate(groups)}  # fmt: skip
        groups = [groups[i] for i in sorted(widths, key=lambda i: -widths[i])
                  if widths[i] > TOLERANCE * spread]  # fmt: skip
        widest = max(widths.values(), default=0.0)
        words = (
            f"whose labels differ by more than {TOLERANCE:g} standard deviations "
            f"({TOLERANCE * spread:.3g}), at most by {widest:.3g}"
        )
    if groups:
        rows = tuple(row for group in groups for row in group)
        numbers = tuple(number for number, group in enumerate(groups) for _ in group)
        message = f"{plural(len(groups), 'molecule')} {words}"
        yield _finding("conflicts", target, message, rows, numbers)


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
