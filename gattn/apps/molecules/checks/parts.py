"""Checks for molecules that are in two parts of a table, in the same form or in different forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from gattn.apps.molecules.checks.findings import Finding
from gattn.apps.molecules.checks.structures import tautomers_of
from gattn.apps.molecules.checks.table import CheckedTable
from gattn.apps.run.text import plural

__all__ = ["check_parts"]

FORMS = {
    "the same molecule": "identity",
    "another salt or charge": "parent",
    "another stereoisomer": "flat",
    "another tautomer": "tautomer",
}
"""Ways in which two molecules can be forms of one molecule, the strongest first."""


def check_parts(
    table: CheckedTable, names: Sequence[str] = (), test: CheckedTable | None = None
) -> Iterator[Finding]:
    """Yield findings on molecules that are in two parts of a table, or in a table and its test
    file.

    Args:
        table: the table.
        names: the part of each row, "" for none; empty if the table has no parts.
        test: the table of the test part; None if there is no such file.
    """
    if test is not None:
        yield from _leaks(table, test)
    parts: dict[str, list[int]] = {}
    for row, part in enumerate(names):
        if part:
            parts.setdefault(part, []).append(row)
    if len(parts) < 2:
        return
    keys = _keys(table)
    for (a, first), (b, second) in combinations(parts.items(), 2):
        yield from _between(keys, first, second, a, b)


def _leaks(table: CheckedTable, test: CheckedTable) -> Iterator[Finding]:
    """Yield findings on molecules that are both in the table and in the test file. The rows of a
    finding are rows of the test file.
    """
    keys = _keys(table, test)
    begin = len(table)
    for finding in _between(
        keys, range(begin), range(begin, begin + len(test)), table.path.name, test.path.name
    ):
        places = [i for i, row in enumerate(finding.rows) if row >= begin]
        yield Finding(
            finding.kind, finding.message, tuple(finding.rows[i] - begin for i in places),
            details=tuple(finding.details[i] for i in places), table=1,
        )  # fmt: skip


def _keys(*tables: CheckedTable) -> dict[str, list[str]]:
    return {
        "identity": [text for table in tables for text in table.identities],
        "parent": [text for table in tables for text in table.parents],
        "flat": [text for table in tables for text in table.flats],
        "tautomer": tautomers_of(*tables),
    }


def _between(
    keys: Mapping[str, Sequence[str]], first: Sequence[int], second: Sequence[int], a: str, b: str
) -> Iterator[Finding]:
    """Yield a finding if two parts have molecules in common."""
    reasons: dict[int, str] = {}
    counts: dict[str, int] = {}
    for reason, key in FORMS.items():
        texts = keys[key]
        other = {texts[row] for row in first if texts[row]}
        hits = [row for row in second if texts[row] in other and row not in reasons]
        counts[reason] = len({texts[row] for row in hits})
        reasons |= dict.fromkeys(hits, f"{reason} is in {a}")
        common = {texts[row] for row in hits}
        reasons |= {
            row: f"{reason} is in {b}"
            for row in first
            if texts[row] in common and row not in reasons
        }
    if reasons:
        shown = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        total = plural(sum(counts.values()), "molecule")
        rows = tuple(sorted(reasons))
        yield Finding(
            "leaks", f"{total} of {b} in {a}: {shown}", rows,
            details=tuple(reasons[row] for row in rows),
        )  # fmt: skip
