"""The command ``gattn molecules check``, which looks for faults in a table before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gattn.apps.molecules.checks.findings import (
    check_columns,
    check_labels,
    check_parts,
    check_structures,
)
from gattn.apps.molecules.checks.table import SEVERITIES, CheckedTable, Finding, read_table
from gattn.apps.run.split_rule import read_rule
from gattn.apps.run.text import plural
from gattn.apps.tables.numbers import NumberFormat
from gattn.data.splits import read_positions
from gattn.files import new_folder, write_rows

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
