"""Checks of the molecules, the labels and the parts of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gattn.apps.molecules.checks.table import (
    CLASSES,
    SEVERITIES,
    CheckedTable,
    Column,
    Finding,
    Target,
    read_table,
)
from gattn.apps.molecules.runs.labels import decades_note, unit_columns, unit_notes
from gattn.apps.run.split_rule import read_rule
from gattn.apps.run.text import case_hints, plural
from gattn.apps.tables.csv_table import LARGEST, as_number
from gattn.apps.tables.numbers import NumberFormat, classify, is_missing
from gattn.data.molecules.standardise import standardise
from gattn.data.splits import read_positions
from gattn.files import new_folder, write_rows

if TYPE_CHECKING:
    from rdkit.Chem import Mol

SHOWN = 3
"""Number of rows that the summary lists for each finding."""


@dataclass(frozen=True, eq=False)
class CheckResult:
    """Findings of a data check, in the order of their kinds.

    Attributes:
        table: the checked table.
        test: the table of the test part; None if there is none.
        findings: the findings.
    """

    table: CheckedTable
    test: CheckedTable | None
    findings: tuple[Finding, ...]

    @property
    def has_faults(self) -> bool:
        """Whether there is a finding that is an error or a warning."""
        return any(finding.severity != "note" for finding in self.findings)

    def table_of(self, finding: Finding) -> CheckedTable:
        """Return the table to which the rows of a finding belong."""
        return self.test if finding.table and self.test is not None else self.table


def check_table(
    path: str | Path,
    out: str | Path | None = None,
    *,
    smiles: str = "smiles",
    targets: Sequence[str] = (),
    split: str = "",
    test: str | Path | None = None,
    encoding: str | None = None,
    numbers: Mapping[str, str] | None = None,
) -> CheckResult:
    """Look for faults in a table of molecules, and write the findings as tables.

    Args:
        path: the CSV file.
        out: a new folder for ``findings.csv``; None to write nothing.
        smiles: the column of SMILES.
        targets: the columns of labels; by default every column whose cells are mostly numbers, if
            they are not names or numbers of the molecules.
        split: ``column:NAME`` or ``FILE.json``, the parts in which molecules are compared.
        test: a file of test molecules, which is compared with the table.
        encoding: encoding of the files; by default that of the byte order mark, or UTF-8.
        numbers: settings of :class:`gattn.apps.tables.numbers.NumberFormat` by name.

    Returns:
        The findings; the guide page "Check and standardise a table" describes their kinds.

    Raises:
        FileNotFoundError: a file does not exist.
        FileExistsError: ``out`` exists.
        ValueError: a file is not a CSV file with rows, or lacks a column.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("smiles,y\\nCCO,1.0\\nOCC,2.0\\nC1CC,3.0\\nCCN,4.0\\n")
    >>> [finding.kind for finding in check_table(path, targets=["y"]).findings]
    ['unreadable', 'same_molecule', 'conflicts']
    """
    style = NumberFormat(**dict(numbers or {}))  # pyright: ignore[reportArgumentType]
    column = read_rule(split).column or ""
    table = read_table(
        path, smiles=smiles, targets=targets, part_column=column, encoding=encoding, style=style
    )
    other = None
    if test is not None:
        other = read_table(test, smiles=smiles, encoding=encoding, style=style)
    findings = [
        *check_structures(table),
        *check_labels(table),
        *check_columns(table),
        *check_parts(table, _parts(table, split, column), other),
    ]
    order = list(SEVERITIES)
    findings.sort(key=lambda finding: order.index(finding.kind))
    result = CheckResult(table, other, tuple(findings))
    if out is not None:
        with new_folder(out) as folder:
            write_rows(folder / "findings.csv", _lines(result))
    return result


def summary(result: CheckResult) -> list[str]:
    """Return a short summary with one line for each finding, which shows the finding's first
    rows.
    """
    table = result.table
    readable = sum(molecule is not None for molecule in table.molecules)
    distinct = len(set(table.keys["identity"]) - {""})
    targets = ", ".join(target.name for target in table.targets) or "none"
    lines = [
        f"{table.path}: {plural(len(table.rows), 'row')}, {plural(readable, 'molecule')} "
        f"({distinct:,} different); targets: {targets}"
    ]
    lines += [
        f"{finding.severity:>7}  {finding.kind}: {finding.message}{_places(result, finding)}"
        for finding in result.findings
    ]
    faults = sum(finding.severity != "note" for finding in result.findings)
    notes = len(result.findings) - faults
    lines.append(f"{plural(faults, 'fault')} and {plural(notes, 'note')}")
    return lines


def _places(result: CheckResult, finding: Finding) -> str:
    """Return the line numbers of the first rows of a finding."""
    if not finding.details:
        return ""
    table = result.table_of(finding)
    lines = table.rows["line"][[*finding.details][:SHOWN]]
    more = ", ..." if len(finding.details) > SHOWN else ""
    file = f" of {table.path.name}" if finding.table else ""
    return f" [line {', '.join(map(str, lines))}{more}{file}]"


def _parts(table: CheckedTable, split: str, column: str) -> list[str]:
    """Return the part of each row, "" for none, and no parts for a random or scaffold split."""
    if not split or split in ("random", "scaffold"):
        return []
    if column:
        return list(table.cells[column])
    names = [""] * len(table.rows)
    for part, rows in read_positions(split).items():
        if part not in ("train", "val", "test") or not isinstance(rows, list):
            continue
        for row in rows:
            if not 0 <= row < len(names):
                raise ValueError(f"{split} has row {row}, but {table.path} has {len(names):,} rows")
            names[row] = part
    return names


def _lines(result: CheckResult) -> Iterator[Sequence[object]]:
    """Yield the rows of ``findings.csv``, one for each row of each finding."""
    yield (
        "kind", "severity", "target", "file", "row", "line", "group", "name", "smiles", "detail",
        "message",
    )  # fmt: skip
    for finding in result.findings:
        table = result.table_of(finding)
        about = (finding.kind, finding.severity, finding.target, table.path.name)
        if not finding.details:
            yield *about, "", "", "", "", "", "", finding.message
        for row, detail in finding.details.items():
            line, name, smiles = table.rows.loc[row, ["line", "name", "smiles"]]
            group = finding.groups.get(row, "")
            yield *about, row, line, group, name, smiles, detail, finding.message


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


def check_structures(table: CheckedTable) -> Iterator[Finding]:
    """Yield the findings on rows and SMILES that cannot be read, and on repeated molecules."""
    rows, keys = table.rows, table.keys
    if len(misfits := rows["problem"][rows["problem"] != ""]):
        message = f"{plural(len(misfits), 'row')} with a wrong number of cells"
        yield Finding("cells", message, misfits.to_dict())
    if len(bad := rows["error"][(rows["error"] != "") & (rows["problem"] == "")]):
        yield Finding("unreadable", f"{len(bad):,} SMILES: {bad.iloc[0]}", bad.to_dict())
    if len(same := _repeated(keys["identity"])):
        written = rows["smiles"][same.index].groupby(same).nunique().gt(1).sum()
        labels = zip(*(target.cells[same.index] for target in table.targets))
        details = dict.fromkeys(same.index, "")
        details |= {row: ", ".join(filter(None, some)) for row, some in zip(same.index, labels)}
        message = f"{_count(same)}, {written:,} of them with different SMILES"
        yield Finding("same_molecule", message, details, groups=same.to_dict())
    for kind, key, words in (
        ("salt_twins", keys["parent"], "as different salts or charges"),
        ("stereo_twins", keys["flat"], "that differ only in stereochemistry"),
        ("tautomer_twins", tautomers(keys["identity"], table.molecules), "as different tautomers"),
    ):
        if len(twins := _repeated(key, keys["identity"])):
            details = keys["identity"][twins.index].to_dict()
            yield Finding(kind, f"{_count(twins)} {words}", details, groups=twins.to_dict())


def _repeated(keys: Column, values: Column | None = None) -> Column:
    """Return the number of the group of each row whose key occurs in several rows, in the order of
    the groups. Rows with an empty key are in no group. With ``values``, the rows of a group must
    have different values.

    >>> _repeated(pd.Series(["a", "b", "a", "", ""])).to_dict()
    {0: 0, 2: 0}
    """
    keys = keys[keys != ""]
    keys = keys[keys.duplicated(keep=False)]
    if values is not None:
        keys = keys[values[keys.index].groupby(keys).transform("nunique") > 1]
    return pd.Series(pd.factorize(keys)[0], keys.index, int).sort_values(kind="stable")


def _count(groups: Column) -> str:
    return f"{plural(groups.nunique(), 'molecule')} in {plural(len(groups), 'row')}"


def tautomers(texts: Column, molecules: Sequence[Mol | None]) -> Column:
    """Return the canonical tautomer of each molecule, "" for a molecule that cannot be read.

    RDKit's canonical tautomers are slow to compute, so they are only computed for molecules that
    share their formula and their skeleton with another molecule.
    """
    from rdkit.Chem import rdMolHash
    from rdkit.Chem.rdMolDescriptors import CalcMolFormula

    skeleton = rdMolHash.HashFunction.ElementGraph
    distinct = {text: one for text, one in zip(texts, molecules) if one is not None}
    hashes = {
        text: f"{CalcMolFormula(one)} {rdMolHash.MolHash(one, skeleton)}"
        for text, one in distinct.items()
    }
    counts = Counter(hashes.values())
    canonical = {
        text: _tautomer(text, one) if counts[hashes[text]] > 1 else text
        for text, one in distinct.items()
    }
    return texts.map(canonical | {"": ""})


def _tautomer(text: str, molecule: Mol) -> str:
    try:
        return standardise(molecule, ["tautomer"])
    except ValueError:
        # RDKit has no canonical tautomer of this molecule, so it is compared as it is.
        return text


def check_labels(table: CheckedTable) -> Iterator[Finding]:
    """Yield the findings on the labels of a table."""
    for target in table.targets:
        yield from _amount(target)
        if target.is_class:
            for hint in case_hints({cell for cell in target.cells if not is_missing(cell)}):
                yield Finding("case", f"{target.name}: {hint}", target=target.name)
        else:
            yield from _notation(table, target)
            if note := decades_note(target.values.to_numpy()):
                yield Finding("decades", f"{target.name}: {note}", target=target.name)
            yield from _outliers(target)
        yield from _contradictions(table, target)
    used = [table.smiles_column, table.part_column, *(target.name for target in table.targets)]
    units = {name: {*table.cells[name]} for name in unit_columns(table.cells.columns, used)}
    for note in unit_notes(units):
        yield Finding("units", note)


def _finding(
    kind: str, target: Target, message: str, rows: Sequence[int], groups: Column | None = None
) -> Finding:
    details = target.cells[rows].to_dict()
    numbers = {} if groups is None else groups.to_dict()
    return Finding(kind, f"{target.name}: {message}", details, target.name, numbers)


def _notation(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield findings on cells that are not plain numbers."""
    censored = target.cells[target.censored & np.isfinite(target.values)]
    if len(censored):
        relations = sorted({classify(cell).relation for cell in censored})
        share = len(censored) / max(target.numbers.labelled, 1)
        message = f"{plural(len(censored), 'label')} ({share:.1%}) with {', '.join(relations)}"
        yield _finding("censored", target, message, list(censored.index))
    unread = [row for row in target.numbers.unread if row not in censored.index]
    texts = [row for row in unread if classify(target.cells[row]).kind == "text"]
    if texts:
        words = "1 label is not a number"
        if len(texts) > 1:
            words = f"{len(texts):,} labels are not numbers"
        yield _finding("labels", target, words, texts)
    if large := list(target.values.index[target.values.abs() > LARGEST]):
        yield _finding("labels", target, f"{plural(len(large), 'label')} beyond float32", large)
    if other := [row for row in unread if row not in texts]:
        patterns = [one for one in target.numbers.recognised() if one.kind != "censored"]
        lines = table.rows["line"]
        words = "; ".join(
            one.sentence(lambda row: f"in line {lines[row]}", "label") for one in patterns
        )
        yield _finding("readability", target, words or plural(len(other), "label"), other)


def _amount(target: Target) -> Iterator[Finding]:
    """Yield findings on a target with few labels, or with the same label in nearly all rows."""
    labelled, rows = target.numbers.labelled, len(target.cells)
    if labelled < min(FEW, rows) or labelled < SHARE * rows:
        share = f"{labelled / rows:.1%} of the rows"
        yield Finding(
            "empty", f"{target.name}: {plural(labelled, 'label')}, {share}", target=target.name
        )
    labels = target.cells[target.cells != ""]
    counts = labels.sort_values().value_counts(sort=False)
    if len(counts) and counts.max() >= SAME * labelled and labelled > 1:
        message = f"{counts.max():,} of {plural(labelled, 'label')} are {counts.idxmax()}"
        yield _finding("constant", target, message, list(labels.index[labels != counts.idxmax()]))


def _outliers(target: Target) -> Iterator[Finding]:
    values, scale = target.measured, ""
    if values.count() < FEW:
        return
    if values.min() > 0 and np.log10(values.max() / values.min()) >= DECADES:
        values, scale = np.log10(values), " of the logarithms"
    apart = (values - values.median()).abs()
    scores = 0.6745 * apart / (apart.median() or np.inf)
    scores = scores[scores > OUTLIER].sort_values(ascending=False, kind="stable")
    if len(scores):
        message = (
            f"{plural(len(scores), 'label')} beyond {OUTLIER:g} robust standard deviations{scale}; "
            f"the farthest is {target.cells[scores.index[0]]}, at {scores.iloc[0]:.3g}"
        )
        yield _finding("outliers", target, message, list(scores.index))


def _contradictions(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield a finding on molecules whose labels are far apart, or have different classes."""
    identities = table.keys["identity"]
    if target.is_class:
        labels = target.cells[target.cells != ""]
        groups = _repeated(identities[labels.index], labels)
        words = "have both classes"
    else:
        labels = target.measured.dropna()
        groups = _repeated(identities[labels.index])
        widths = labels[groups.index].groupby(groups).transform(np.ptp)
        least = TOLERANCE * labels.std(ddof=0)
        groups = groups[(-widths[widths > least]).sort_values(kind="stable").index]
        groups = pd.Series(pd.factorize(groups)[0], groups.index)
        words = (
            f"whose labels differ by more than {TOLERANCE:g} standard deviations ({least:.3g}), "
            f"at most by {widths.max():.3g}"
        )
    if len(groups):
        message = f"{plural(groups.nunique(), 'molecule')} {words}"
        yield _finding("conflicts", target, message, list(groups.index), groups)


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
    columns = table.cells.drop(columns=[table.smiles_column, *filter(None, [table.part_column])])
    numbers = columns.map(as_number).astype(float)
    numbers = numbers.where(np.isfinite(numbers))
    numbers = numbers.loc[:, numbers.count() >= EVERY * len(numbers)]
    for target in table.targets:
        labels = target.measured
        if target.is_class:
            codes = pd.factorize(target.cells.replace("", None), sort=True)[0]
            is_binary = codes.max() < CLASSES
            labels = pd.Series(codes, dtype=float).where((codes >= 0) & is_binary)
        for name in columns.columns.drop(target.name):
            correlation = 0.0
            if name in numbers:
                pair = pd.concat([numbers[name], labels], axis=1)
                correlation = pair.corr(method="spearman", min_periods=FEWEST).iloc[0, 1]
            words = f"column {name!r} has a rank correlation of {correlation:.2f} with it"
            if not abs(correlation) >= COPY:
                if not is_rewritten(list(columns[name]), list(target.cells)):
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


FORMS = {
    "the same molecule": "identity",
    "another salt or charge": "parent",
    "another stereoisomer": "flat",
    "another tautomer": "tautomer",
}
"""Ways in which two molecules can be forms of one molecule, the strongest first."""


def check_parts(
    table: CheckedTable, parts: Sequence[str] = (), test: CheckedTable | None = None
) -> Iterator[Finding]:
    """Yield findings on molecules that are in two parts of a table, or in a table and its test
    file.

    Args:
        table: the table.
        parts: the part of each row, "" for none; empty if the table has no parts.
        test: the table of the test part; None if there is no such file.
    """
    if test is not None:
        names = [table.path.name, test.path.name]
        keys = _forms(table, test)
        owners = pd.Series(names[:1] * len(table.rows) + names[1:] * len(test.rows))
        for finding in _between(keys, owners, *names):
            details = {row - len(table.rows): text for row, text in finding.details.items()}
            details = {row: text for row, text in details.items() if row >= 0}
            yield Finding(finding.kind, finding.message, details, table=1)
    names = [name for name in dict.fromkeys(parts) if name]
    if len(names) > 1:
        keys = _forms(table)
        for a, b in combinations(names, 2):
            yield from _between(keys, pd.Series(parts), a, b)


def _forms(*tables: CheckedTable) -> Column:
    keys = pd.concat([table.keys for table in tables], ignore_index=True)
    molecules = [one for table in tables for one in table.molecules]
    return keys.assign(tautomer=tautomers(keys["identity"], molecules))


def _between(keys: Column, parts: Column, a: str, b: str) -> Iterator[Finding]:
    """Yield a finding if two parts have molecules in common."""
    reasons: dict[int, str] = {}
    counts: dict[str, int] = {}
    for reason, column in FORMS.items():
        texts = keys[column]
        common = (set(texts[parts == a]) & set(texts[parts == b])) - {""}
        hits = texts[texts.isin(common) & parts.isin([a, b]) & ~texts.index.isin(reasons)]
        counts[reason] = hits[parts[hits.index] == b].nunique()
        reasons |= {row: f"{reason} is in {a if parts[row] == b else b}" for row in hits.index}
    if reasons:
        shown = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        total = plural(sum(counts.values()), "molecule")
        yield Finding("leaks", f"{total} of {b} in {a}: {shown}", dict(sorted(reasons.items())))
