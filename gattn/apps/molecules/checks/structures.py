"""Checks of the structures in a table: readability, repeated molecules, salts, elements, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gattn.apps.molecules.checks.table import CheckedTable, Finding
from gattn.apps.run.text import plural
from gattn.data.molecules.standardise import standardise

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def check_structures(table: CheckedTable) -> Iterator[Finding]:
    """Yield the findings on the structures in a table."""
    yield from _unreadable(table)
    yield from _repeated(table)
    yield from _twins(table)


def groups_of(keys: Sequence[str]) -> list[list[int]]:
    """Return the groups of at least two rows that have the same key. Rows with an empty key are in
    no group.

    >>> groups_of(["a", "b", "a", "", ""])
    [[0, 2]]
    """
    groups: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        if key:
            groups.setdefault(key, []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _finding(
    kind: str, message: str, groups: Sequence[Sequence[int]], detail: Callable[[int], str]
) -> Iterator[Finding]:
    """Yield a finding on groups of rows, if there is at least one group."""
    if groups:
        rows = [row for group in groups for row in group]
        numbers = [number for number, group in enumerate(groups) for _ in group]
        yield Finding(
            kind, message, tuple(rows), groups=tuple(numbers), details=tuple(map(detail, rows))
        )


def _unreadable(table: CheckedTable) -> Iterator[Finding]:
    misfits = [row for row, problem in enumerate(table.problems) if problem]
    if misfits:
        yield Finding(
            "cells", f"{plural(len(misfits), 'row')} with a wrong number of cells",
            tuple(misfits), details=tuple(table.problems[row] for row in misfits),
        )  # fmt: skip
    bad = [row for row, error in enumerate(table.errors) if error and not table.problems[row]]
    if bad:
        yield Finding(
            "unreadable", f"{len(bad):,} SMILES: {table.errors[bad[0]]}",
            tuple(bad), details=tuple(table.errors[row] for row in bad),
        )  # fmt: skip


def _repeated(table: CheckedTable) -> Iterator[Finding]:
    def labels(row: int) -> str:
        return ", ".join(filter(None, (target.cells[row] for target in table.targets)))

    same = groups_of(table.identities)
    written = sum(len({table.smiles[row] for row in group}) > 1 for group in same)
    message = (
        f"{plural(len(same), 'molecule')} in {plural(sum(map(len, same)), 'row')}, "
        f"{written:,} of them with different SMILES"
    )
    yield from _finding("same_molecule", message, same, labels)


def _twins(table: CheckedTable) -> Iterator[Finding]:
    """Yield findings on molecules that are forms of one molecule but have different canonical
    SMILES.
    """
    for kind, keys, words in (
        ("salt_twins", table.parents, "as different salts or charges"),
        ("stereo_twins", table.flats, "that differ only in stereochemistry"),
        ("tautomer_twins", tautomers_of(table), "as different tautomers"),
    ):
        twins = [
            group for group in groups_of(keys) if len({table.identities[row] for row in group}) > 1
        ]
        message = f"{plural(len(twins), 'molecule')} in {plural(sum(map(len, twins)), 'row')} "
        yield from _finding(kind, message + words, twins, lambda row: table.identities[row])


def tautomers_of(*tables: CheckedTable) -> list[str]:
    """Return a text for each row of the tables. Rows whose molecules are tautomers of each other
    have the same text.

    RDKit's canonical tautomer takes long. It is computed only for molecules that share their
    formula and the graph of their elements with another molecule, without bond orders.
    """
    from rdkit.Chem import rdMolHash
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    molecules = [molecule for table in tables for molecule in table.molecules]
    identities = [text for table in tables for text in table.identities]
    skeleton = rdMolHash.HashFunction.ElementGraph
    hashes: dict[str, str] = {}
    for text, molecule in zip(identities, molecules):
        if text and text not in hashes:
            assert molecule is not None
            hashes[text] = f"{CalcMolFormula(molecule)} {rdMolHash.MolHash(molecule, skeleton)}"
    counts = Counter(hashes.values())
    canonical: dict[str, str] = {}
    for text, molecule in zip(identities, molecules):
        if text and text not in canonical:
            assert molecule is not None
            alone = counts[hashes[text]] == 1
            canonical[text] = text if alone else _tautomer(text, molecule)
    return [canonical.get(text, "") for text in identities]


def _tautomer(text: str, molecule: Mol) -> str:
    try:
        return standardise(molecule, ["tautomer"])
    except ValueError:
        # RDKit has no canonical tautomer of this molecule, so it is compared as it is.
        return text


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
