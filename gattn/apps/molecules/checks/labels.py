"""Checks of the labels in a table: readability, limits, outliers, units, contradictions and
activity cliffs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gattn.apps.molecules.checks.findings import Finding
from gattn.apps.molecules.checks.similarity import similar_pairs
from gattn.apps.molecules.checks.structures import groups_of
from gattn.apps.molecules.checks.table import CheckedTable, Target
from gattn.apps.molecules.label_notes import case_hints, decades_note
from gattn.apps.run.text import plural
from gattn.apps.tables.numbers import is_missing

__all__ = [
    "CLIFF", "FEW", "OUTLIER", "SIMILAR", "TOLERANCE", "check_labels", "robust_scores", "two_groups"
]  # fmt: skip

FEW = 20
"""A target is reported if it has fewer labels than this number, or labels in less than a twentieth
of the rows.
"""
SHARE = 0.05
SAME = 0.95
"""A target is reported as constant if at least this fraction of its labels are equal."""
PILE = 0.1
"""The largest or smallest label is reported as a limit if at least this fraction of the labels
equal it.
"""
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
SIMILAR, CLIFF = 0.8, 2.0
"""Two molecules are an activity cliff if their Tanimoto similarity on Morgan bits is at least
SIMILAR and their labels differ by at least CLIFF standard deviations.
"""
APART = 4.5
"""Two groups of labels are reported if their distance is at least this number of spreads
(Ashman's D). The two halves of a normal distribution have D = 2.6, those of a uniform
distribution 3.5, and a normal distribution and its tail 4.
"""
FACTORS = {3: "a factor of 1,000, as between nM and µM", 6: "a factor of 1,000,000, as nM and mM"}
NEAR = 0.5
"""Two groups of labels may be in different units if the decades between them differ from those
of a factor in FACTORS by at most this number.
"""
LOGARITHMS = (2.0, 13.0)
"""Usual range of negative decadic logarithms of concentrations in mol/L, such as pIC50."""
BEYOND = 20.0
"""A label above this number cannot be a negative logarithm of a concentration."""


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
        yield from _limits(target)
        yield from _mixed(target)
        yield from _outliers(target)
        yield from _contradictions(table, target)
        yield from _cliffs(table, target)


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


def _limits(target: Target) -> Iterator[Finding]:
    """Yield a finding if many labels equal the largest or the smallest label."""
    values = target.values[target.measured]
    if len(values) < FEW or len(np.unique(values)) < FEW:
        return
    for end, word in ((values.max(), "largest"), (values.min(), "smallest")):
        rows = _rows(target.measured & (target.values == end))
        if len(rows) >= PILE * len(values):
            share = len(rows) / len(values)
            yield _finding(
                "limit", target, f"{share:.0%} of the labels are the {word} label, {end:g}", rows
            )


def two_groups(values: np.ndarray) -> tuple[float, float]:
    """Divide numbers into two groups; return the threshold between them and their distance
    (Ashman's D).

    D is the difference of the means divided by the root mean square of the standard deviations. The
    candidates for the threshold are the five widest gaps between sorted numbers.

    Args:
        values: [n] finite numbers.

    Returns:
        The threshold with the largest D for groups of at least five numbers and one percent of the
        numbers, and D; NaN and 0 if there is no such threshold. Smaller groups may be the tail of a
        distribution.

    References:
        Ashman, Bird and Zepf, "Detecting Bimodality in Astronomical Datasets" (AJ 1994).
    """
    ordered = np.sort(values)
    best, threshold = 0.0, math.nan
    gaps = np.diff(ordered)
    least = max(5, len(ordered) // 100)
    places = np.arange(least, len(ordered) - least + 1)
    for place in places[np.argsort(-gaps[places - 1], kind="stable")[:5]].tolist():
        low, high = ordered[:place], ordered[place:]
        spread = math.sqrt((low.var() + high.var()) / 2)
        distance = (high.mean() - low.mean()) / spread if spread else math.inf
        if distance > best and gaps[place - 1] > 0:
            best, threshold = float(distance), float((low[-1] + high[0]) / 2)
    return threshold, best


def _mixed(target: Target) -> Iterator[Finding]:
    """Yield a finding if the labels are in two units, or if some are concentrations and others
    logarithms.
    """
    positive = target.measured & (target.values > 0)
    if positive.sum() < FEW:
        return
    values = target.values[positive]
    inside = positive & (target.values >= LOGARITHMS[0]) & (target.values <= LOGARITHMS[1])
    beyond = positive & (target.values > BEYOND)
    if inside.sum() > positive.sum() / 2 and beyond.sum() >= 3:
        low, high = np.quantile(target.values[inside], (0.01, 0.99))
        for offset, unit in ((9, "nM"), (6, "µM")):
            logarithms = offset - np.log10(target.values[beyond])
            if low <= np.median(logarithms) <= high and _is_like(
                logarithms, target.values[inside], np.log10(target.values[inside])
            ):
                rows = _rows(beyond)
                yield _finding(
                    "scales", target,
                    f"{inside.sum():,} labels are from {low:.3g} to {high:.3g}, as negative "
                    f"logarithms are, and {plural(len(rows), 'label')} above {BEYOND:g} would be "
                    f"such a logarithm if they are in {unit}", rows,
                )  # fmt: skip
                return
    logarithm = np.log10(values)
    threshold, distance = two_groups(logarithm)
    if distance < APART:
        return
    low, high = (np.median(logarithm[side]) for side in (logarithm < threshold,
                                                         logarithm > threshold))  # fmt: skip
    for decades, words in FACTORS.items():
        if abs(high - low - decades) <= NEAR:
            rare = (logarithm < threshold).mean() < 0.5
            in_group = np.where(positive, np.log10(np.where(positive, target.values, 1)), np.nan)
            rows = _rows(in_group < threshold if rare else in_group > threshold)
            yield _finding(
                "units", target,
                f"the labels are in two groups around {10**low:.3g} and {10**high:.3g}, {words}; "
                f"the smaller group has {plural(len(rows), 'row')}", rows,
            )  # fmt: skip


def _is_like(values: np.ndarray, first: np.ndarray, second: np.ndarray) -> bool:
    """Return True if the spread of ``values`` is nearer to the spread of ``first`` than to that of
    ``second``.

    The function distinguishes two cases. If two groups of labels are concentrations in different
    units, the logarithms of both groups have equal spreads. If one group contains logarithms of
    concentrations, its spread equals that of the logarithms of the other group.
    """
    spreads = [max(float(each.std()), 1e-6) for each in (values, first, second)]
    return abs(math.log(spreads[0] / spreads[1])) < abs(math.log(spreads[0] / spreads[2]))


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


def _cliffs(table: CheckedTable, target: Target) -> Iterator[Finding]:
    measured = target.measured & np.array([bool(text) for text in table.identities])
    rows = np.flatnonzero(measured)
    if len(rows) < FEW:
        return
    values = target.values[rows]
    scale = CLIFF * float(values.std())
    if not scale:
        return
    molecules = [table.molecules[row] for row in rows]
    pairs, compared = similar_pairs(molecules, SIMILAR)
    cliffs = [
        (abs(values[i] - values[j]), int(rows[i]), int(rows[j]), similarity)
        for i, j, similarity in pairs
        if abs(values[i] - values[j]) >= scale
        and table.identities[rows[i]] != table.identities[rows[j]]
    ]
    if not cliffs:
        return
    cliffs.sort(key=lambda each: (-each[0], each[1:]))
    part = "" if compared == len(rows) else f" (among {compared:,} molecules, drawn at random)"
    message = (
        f"{plural(len(cliffs), 'pair')} with a similarity of at least {SIMILAR:g} and labels that "
        f"differ by at least {CLIFF:g} standard deviations ({scale:.3g}){part}; the largest "
        f"difference is {cliffs[0][0]:.3g}"
    )
    members = tuple(row for _, i, j, _ in cliffs for row in (i, j))
    numbers = tuple(number for number in range(len(cliffs)) for _ in range(2))
    yield _finding("cliffs", target, message, members, numbers)
