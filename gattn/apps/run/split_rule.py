"""Values of the option ``--split``."""

from __future__ import annotations

from typing import Literal, NamedTuple

NAMED: tuple[Literal["column", "molecule"], ...] = ("column", "molecule")
"""Kinds of splits that name a column, as in ``column:NAME``."""


class SplitRule(NamedTuple):
    """Value of the option ``--split``.

    Attributes:
        kind: ``"column"`` for ``column:NAME``, ``"molecule"`` for ``molecule:NAME``, ``"file"`` for
            ``FILE.json`` and ``"rule"`` for the name of a rule such as ``random``.
        name: the name of the column, the file or the rule.
    """

    kind: Literal["column", "molecule", "file", "rule"]
    name: str

    @property
    def column(self) -> str | None:
        """Name of the column that assigns each row to a part; None for another split."""
        return self.name if self.kind == "column" else None

    @property
    def problem(self) -> str:
        """Error message about a missing name of a column, or ""."""
        return "" if self.name else f"split {self.kind}: must name a column, as in {self.kind}:NAME"


def read_rule(spec: str) -> SplitRule:
    """Read a value of the option ``--split``. The kind of a text without a prefix is "file" if it
    ends in ``.json``, and otherwise "rule", whose name is not checked.

    >>> read_rule("column:fold.json"), read_rule("scaffold")
    (SplitRule(kind='column', name='fold.json'), SplitRule(kind='rule', name='scaffold'))
    """
    for kind in NAMED:
        if spec.startswith(f"{kind}:"):
            return SplitRule(kind, spec.removeprefix(f"{kind}:"))
    return SplitRule("file" if spec.lower().endswith(".json") else "rule", spec)
