"""Result of a data check, which contains the checked tables and the findings."""

from __future__ import annotations

from dataclasses import dataclass

from gattn.apps.molecules.checks.findings import Finding
from gattn.apps.molecules.checks.table import CheckedTable

__all__ = ["CheckResult"]


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
