"""Checks of the molecules, the labels and the parts of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from gattn.apps.molecules.relations import relation_columns, with_relation
from gattn.apps.molecules.row_format import name_column
from gattn.apps.molecules.runs.labels import decades_note, unit_columns, unit_notes
from gattn.apps.run.split_rule import read_rule
from gattn.apps.run.text import case_hints, plural
from gattn.apps.tables.copies import COPY, FEWEST, is_rewritten
from gattn.apps.tables.csv_table import LARGEST, as_number
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import NumberColumn, NumberFormat, classify, is_missing, read_numbers
from gattn.data.molecules.identity import flat, identity, parent
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit, parse_or_reason
from gattn.data.molecules.standardise import standardise
from gattn.data.splits import read_positions
from gattn.files import new_folder, write_rows

if TYPE_CHECKING:
    from rdkit.Chem import Mol

Severity = Literal["error", "warning", "note"]
"""``"error"`` for rows that cannot be used, ``"warning"`` for faults that change the model or its
measured error, ``"note"`` for properties that are not always faults.
"""
KINDS = (
    "cells", "unreadable", "labels", "empty", "constant", "censored", "decades", "case", "units",
    "outliers", "same_molecule", "conflicts", "salt_twins", "stereo_twins", "tautomer_twins",
    "leaks", "copies", "readability",
)  # fmt: skip
"""Kinds of findings, in the order of the output."""
SEVERITIES: dict[str, Severity] = {
    **dict.fromkeys(("cells", "unreadable", "labels"), "error"),
    **dict.fromkeys(("same_molecule", "stereo_twins"), "note"),
}
"""Severity of each kind of finding that is no warning."""


@dataclass(frozen=True)
class Finding:
    """Fault of a table, and the rows in which it occurs.

    Attributes:
        kind: a name of :data:`KINDS`.
        message: a sentence with the facts.
        details: for each row, counted from 0, a value to show, such as the label or the reason;
            empty if the fault belongs to a whole column.
        target: the column of labels; "" if the fault does not belong to one.
        groups: for each row the number of its group, such as a molecule with several SMILES or a
            pair of similar molecules; empty if the rows do not belong together.
        table: 0 for the checked table, 1 for the table of the test part.
    """

    kind: str
    message: str
    details: Mapping[int, str] = field(default_factory=dict)
    target: str = ""
    groups: Mapping[int, int] = field(default_factory=dict)
    table: int = 0

    @property
    def severity(self) -> Severity:
        """Severity of the finding's kind."""
        return SEVERITIES.get(self.kind, "warning")


Column: TypeAlias = Any
"""Series or data frame of pandas, whose types are incomplete."""
NUMERIC = 0.8
"""Minimum fraction of the cells of a label column that must be numbers."""
CLASSES = 2
"""Number of different labels, such as numbers, of a column of two classes."""
TEXT_CLASSES = 20
"""Maximum number of different texts in a column of classes."""


@dataclass(frozen=True, eq=False)
class Target:
    """Column of labels.

    Attributes:
        name: name of the column.
        cells: the n cells.
        numbers: the numbers of the column, and the patterns of the cells that are not plain
            numbers.
        values: [n] float64; the number of a censored cell is its limit; NaN for a cell without a
            number.
        censored: [n] bool, True for cells such as ``>10``.
        is_class: whether the column has two different labels, or texts that are classes.
    """

    name: str
    cells: Column
    numbers: NumberColumn
    values: Column
    censored: Column
    is_class: bool

    @property
    def measured(self) -> Column:
        """Uncensored numbers that float32 can hold, and NaN for other cells."""
        return self.values.mask(self.censored | ~(self.values.abs() <= LARGEST))


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """All rows of a table, with the molecules and labels that can be read.

    Attributes:
        path: the file.
        rows: for each row its ``line``, the ``problem`` of a wrong number of cells, its ``smiles``,
            the ``error`` of a SMILES that cannot be read, and the ``name`` of the molecule.
        cells: the cells of each column whose name is unique; empty in a row with a problem.
        molecules: the n molecules; None where a SMILES cannot be read.
        targets: the columns of labels.
        smiles_column: name of the column of SMILES.
        part_column: name of the column of parts, or "".
    """

    path: Path
    rows: Column
    cells: Column
    molecules: list[Mol | None]
    targets: list[Target]
    smiles_column: str
    part_column: str

    @cached_property
    def keys(self) -> Column:
        """For each row the canonical SMILES of the molecule (``identity``), of its largest neutral
        fragment (``parent``) and without stereo (``flat``); "" if the SMILES cannot be read.
        """
        texts = pd.Series(["" if one is None else identity(one) for one in self.molecules])
        functions = {"identity": str, "parent": parent, "flat": flat}
        return pd.DataFrame({
            name: texts.map({text: function(text) for text in texts.unique() if text} | {"": ""})
            for name, function in functions.items()
        })  # fmt: skip


def read_table(
    path: str | Path,
    *,
    smiles: str = "smiles",
    targets: Sequence[str] = (),
    part_column: str = "",
    encoding: str | None = None,
    style: NumberFormat,
) -> CheckedTable:
    """Read a table of molecules for the data check.

    Args:
        path: the file.
        smiles: its column of SMILES.
        targets: its columns of labels; without them, every column whose cells are mostly numbers,
            except columns of row numbers or identifiers.
        part_column: its column of parts, or "".
        encoding: encoding of the file; None for the encoding of its byte order mark, or UTF-8 if it
            has none.
        style: format of the numbers.

    Returns:
        The table with all its rows.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a CSV file, has no rows, or lacks a column, or a column is used
            twice.
        ImportError: RDKit is not installed.
    """
    need_rdkit()
    required = [smiles, *targets, *([part_column] if part_column else [])]
    if len(set(required)) < len(required):
        raise ValueError(f"a column can be used only once; got {', '.join(required)}")
    table = open_molecules(path, [smiles], required[1:], encoding=encoding)
    (smiles,) = table.smiles
    records = list(table.rows())
    if not records:
        raise ValueError(f"{path} has a header but no rows")
    relations = relation_columns(
        (record.cells for record in records if not record.problem), table.columns
    )
    unique = [name for name in table.columns if table.columns.count(name) == 1]
    cells = pd.DataFrame({
        name: ["" if row.problem else row.cells[place].strip() for row in records]
        for name, place in zip(unique, map(table.place, unique))
    })  # fmt: skip
    names = name_column(unique)
    texts = [record.cells[table.place(smiles)].strip() for record in records]
    parsed = [parse_or_reason(text, MAX_ATOMS) for text in texts]
    rows = pd.DataFrame({
        "line": [int(record.line) for record in records],
        "problem": [record.problem for record in records],
        "smiles": texts,
        "error": [one if isinstance(one, str) else "" for one in parsed],
        "name": cells[names] if names else "",
    })  # fmt: skip
    molecules = [None if isinstance(one, str) else one for one in parsed]
    signs = cells[relations[0]] if len(relations) == 1 else None
    columns = {name: _target(cells[name], signs, style) for name in targets or unique}
    if not targets:
        others = (smiles, part_column, names)
        columns = {n: t for n, t in columns.items() if n not in others and _is_numeric(t)}
    return CheckedTable(
        Path(path), rows, cells, molecules, list(columns.values()), smiles, part_column
    )


def _target(cells: Column, signs: Column | None, style: NumberFormat) -> Target:
    """Read a column of labels: its numbers, its limits, and whether it contains classes. Without a
    column ``signs`` of relations (None), only the signs in the cells are read.
    """
    name = str(cells.name)
    if signs is not None and signs.name != name:
        cells = pd.Series(list(map(with_relation, cells, signs)), name=name)
    parts = [classify(cell) for cell in cells]
    numbers = read_numbers(list(cells), style)
    limits = replace(style, censored="bound")
    values = numbers.values.copy()
    for row in numbers.unread:
        value = limits.parse(cells[row])
        if value is not None and np.isfinite(value):
            values[row] = value
    censored = pd.Series([bool(part.relation) for part in parts])
    labels = {cell for cell in cells if not is_missing(cell)}
    is_text = all(part.kind in ("text", "missing") for part in parts)
    is_class = len(labels) == CLASSES or (is_text and CLASSES < len(labels) <= TEXT_CLASSES)
    is_class = is_class and not censored.any()
    return Target(name, cells, numbers, pd.Series(values), censored, is_class)


def _is_numeric(target: Target) -> bool:
    """Return True if most cells of a column are numbers that may be labels. Whole numbers that are
    all different are not, because they are row numbers or identifiers.
    """
    values = target.values[np.isfinite(target.values)]
    whole, distinct = (values % 1 == 0).all(), values.nunique()
    is_identifier = whole and distinct == len(values) > max(CLASSES, len(target.values) / 2)
    is_numeric = len(values) > 0 and len(values) >= NUMERIC * target.numbers.labelled
    return is_numeric and not is_identifier


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
        ValueError: a file is not a CSV file with rows, or lacks a column; or the split has a row
            that the table does not have.
        ImportError: RDKit is not installed.

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
    findings.sort(key=lambda finding: KINDS.index(finding.kind))
    result = CheckResult(table, other, tuple(findings))
    if out is not None:
        with new_folder(out) as folder:
            write_rows(folder / "findings.csv", _lines(result))
    return result


def summary(result: CheckResult) -> list[str]:
    """Return the lines of a short summary: the numbers of rows and molecules, each finding with its
    first rows, and at the end the numbers of faults and notes.
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
    """Return the line numbers of the first rows of a finding as a text in brackets, or "" if the
    finding belongs to no rows.
    """
    if not finding.details:
        return ""
    table = result.table_of(finding)
    lines = table.rows["line"][[*finding.details][:SHOWN]]
    more = ", ..." if len(finding.details) > SHOWN else ""
    file = f" of {table.path.name}" if finding.table else ""
    return f" [line {', '.join(map(str, lines))}{more}{file}]"


def _parts(table: CheckedTable, split: str, column: str) -> list[str]:
    """Return the part of each row of the table, "" for none, and no parts for a random or scaffold
    split. They are in ``column``, or if it is "" in the file ``split``. Raises FileNotFoundError if
    the file is missing, and ValueError if it cannot be read or has a row that the table does not
    have.
    """
    if not split or split in ("random", "scaffold"):
        return []
    if column:
        return list(table.cells[column])
    names = [""] * len(table.rows)
    for part, rows in read_positions(split).items():
        if part not in ("train", "val", "test") or not isinstance(rows, list):
            continue
        for row in rows:
            if type(row) is not int or not 0 <= row < len(names):
                raise ValueError(f"{split} has row {row!r}; {table.path} has {len(names):,} rows")
            names[row] = part
    return names


def _lines(result: CheckResult) -> Iterator[Sequence[object]]:
    """Yield the header and the lines of ``findings.csv``: one for each row of each finding, and one
    for a finding that belongs to no rows.
    """
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
    share their formula and their skeleton with another molecule. The other molecules keep their
    text in ``texts``, the canonical SMILES.
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
    """Return the canonical tautomer of a molecule, or its text if RDKit has none."""
    try:
        return standardise(molecule, ["tautomer"])
    except ValueError:
        # RDKit has no canonical tautomer of this molecule, so it is compared as it is.
        return text


def check_labels(table: CheckedTable) -> Iterator[Finding]:
    """Yield the findings on the labels of a table, and on its columns of units."""
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
    """Return a finding on a target, with the cells of its rows and the numbers of their groups."""
    details = target.cells[rows].to_dict()
    numbers = {} if groups is None else groups.to_dict()
    return Finding(kind, f"{target.name}: {message}", details, target.name, numbers)


def _notation(table: CheckedTable, target: Target) -> Iterator[Finding]:
    """Yield findings on limits such as ``>10``, on texts, on numbers beyond float32, and on other
    cells that are not plain numbers.
    """
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
    """Yield a finding if labels are many robust standard deviations from the median.

    The logarithms are used if all labels are positive and extend over several decades. Fewer than
    :data:`FEW` labels have no outliers.
    """
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
        test: the table of the test part; None if there is no such file. A finding on it has the
            rows of this table only.
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
    """Return a data frame with the columns of :data:`FORMS`, and with a row for each row of the
    tables, one table after another.
    """
    keys = pd.concat([table.keys for table in tables], ignore_index=True)
    molecules = [one for table in tables for one in table.molecules]
    return keys.assign(tautomer=tautomers(keys["identity"], molecules))


def _between(keys: Column, parts: Column, a: str, b: str) -> Iterator[Finding]:
    """Yield a finding if the parts named ``a`` and ``b`` have molecules in common. Its details are
    the rows of both parts, with the strongest form of :data:`FORMS`; its numbers are those of
    molecules of ``b``. ``keys`` has a column for each form, and ``parts`` the part of each row.
    """
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
