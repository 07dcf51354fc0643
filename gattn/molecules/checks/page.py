"""Page that shows the findings of a data check, with pictures of the molecules."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from gattn.draw import draw_molecule
from gattn.molecules.checks.findings import KINDS, Finding
from gattn.molecules.checks.result import CheckResult
from gattn.molecules.checks.table import CheckedTable
from gattn.pipeline.text import plural
from gattn.training.model_io import package_versions
from gattn.training.report import Figure, Highlight, ReportContent, Section, Table
from gattn.training.run_figures import themed

__all__ = ["content"]

DRAWN = 6
"""Maximum number of molecules that the page draws for each finding."""
ATOMS = 100
"""Maximum number of atoms in a molecule that the page draws."""
LISTED = 20
"""Maximum number of rows that the page lists for each finding; findings.csv lists all rows."""
SIZE = 320, 240
"""Width and height of the picture of a molecule, in pixels."""
LONGEST = 60
"""Maximum number of characters of a SMILES or a detail on the page."""


def content(result: CheckResult) -> ReportContent:
    """Return the content of the page: the summary, and a section for each kind of fault."""
    table = result.table
    severities = [finding.severity for finding in result.findings]
    rows = {row for finding in result.findings if not finding.table for row in finding.rows}
    faults = [finding for finding in result.findings if finding.severity != "note"]
    sections = [_overview(result)] if result.findings else []
    sections += [
        _section(result, kind, list(some))
        for kind, some in groupby(result.findings, key=lambda finding: finding.kind)
    ]
    count = plural(len(faults), "fault") if faults else "no fault"
    notes = severities.count("note")
    return ReportContent(
        title=f"Check of {table.path.name}",
        summary=(
            f"The check of {plural(len(table), 'row')} has {count} and {plural(notes, 'note')}. "
            "Rows are counted from 0 below the header; lines are those of the file."
        ),
        sections=tuple(sections),
        highlights=(
            Highlight("rows", len(table)),
            Highlight("errors", severities.count("error"), "rows that cannot be used"),
            Highlight("warnings", severities.count("warning")),
            Highlight("notes", notes),
            Highlight("rows in findings", len(rows)),
        ),
        footer=", ".join(f"{name} {version}" for name, version in package_versions().items()),
    )


def _overview(result: CheckResult) -> Section:
    rows = tuple(
        (finding.severity, KINDS[finding.kind].title, finding.target, len(finding.rows),
         finding.message)
        for finding in result.findings
    )  # fmt: skip
    table = Table(("severity", "kind", "target", "rows", "facts"), rows)
    return Section("All findings", tables=(table,))


def _section(result: CheckResult, kind: str, findings: list[Finding]) -> Section:
    tables = [_rows(result.table_of(finding), finding) for finding in findings if finding.rows]
    text = [KINDS[kind].advice]
    text += [f"{finding.message}." for finding in findings if not finding.rows]
    figures = [
        figure for finding in findings for figure in _figures(result.table_of(finding), finding)
    ]
    return Section(KINDS[kind].title, tuple(text), tuple(tables), tuple(figures), gallery=True)


def _rows(table: CheckedTable, finding: Finding) -> Table:
    """Return a table with the first rows of a finding."""
    names = ("name",) if table.name_column else ()
    columns = ["row", "line", *names, "SMILES", "detail"]
    columns = ["group", *columns] if finding.groups else columns
    rows = []
    for i, row in enumerate(finding.rows[:LISTED]):
        cells = [row, table.lines[row], *(table.title(row) for _ in names)]
        detail = finding.details[i] if finding.details else ""
        cells += [_short(table.smiles[row]), _short(detail)]
        rows.append(tuple([finding.groups[i], *cells] if finding.groups else cells))
    more = len(finding.rows) - LISTED
    caption = f"{finding.message}." + f" The first {LISTED} rows:" * (more > 0)
    return Table(tuple(columns), tuple(rows), caption)


def _figures(table: CheckedTable, finding: Finding) -> list[Figure]:
    """Return pictures of the first molecules of a finding."""
    figures = []
    for i, row in enumerate(finding.rows):
        molecule = table.molecules[row]
        if molecule is None or molecule.GetNumAtoms() > ATOMS:
            continue
        if len(figures) == DRAWN:
            break
        name = table.title(row) or _short(table.smiles[row])
        lines = [name, f"line {table.lines[row]}"]
        if finding.groups:
            lines[1] += f", group {finding.groups[i]}"
        if finding.details and finding.details[i]:
            lines.append(_short(f"{finding.target} {finding.details[i]}".strip()))
        draw = partial(draw_molecule, table.smiles[row], size=SIZE)
        figures.append(themed(draw, f"The structure of {name}", "\n".join(lines)))
    return figures


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
