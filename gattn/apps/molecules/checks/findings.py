"""Findings of a data check, and the severities of their kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["error", "warning", "note"]
"""``"error"`` for rows that cannot be used, ``"warning"`` for faults that change the model or its
measured error, ``"note"`` for properties that are not always faults.
"""
SEVERITIES: dict[str, Severity] = {
    "cells": "error",
    "unreadable": "error",
    "labels": "error",
    "empty": "warning",
    "constant": "warning",
    "censored": "warning",
    "decades": "warning",
    "case": "warning",
    "outliers": "warning",
    "same_molecule": "note",
    "conflicts": "warning",
    "salt_twins": "warning",
    "stereo_twins": "note",
    "tautomer_twins": "warning",
    "leaks": "warning",
    "copies": "warning",
    "readability": "warning",
}
"""Severity of each kind of finding, in the order of the output."""


@dataclass(frozen=True)
class Finding:
    """Fault of a table, and the rows in which it occurs.

    Attributes:
        kind: a name of :data:`SEVERITIES`.
        message: a sentence with the facts.
        rows: the rows from 0, in order; empty if the fault belongs to a whole column.
        target: the column of labels; "" if the fault does not belong to one.
        groups: for each row the number of its group, such as a molecule with several SMILES or a
            pair of similar molecules; empty if the rows do not belong together.
        details: for each row a value to show, such as the label or the reason; empty if there is
            none.
        table: 0 for the checked table, 1 for the table of the test part.
    """

    kind: str
    message: str
    rows: tuple[int, ...] = ()
    target: str = ""
    groups: tuple[int, ...] = ()
    details: tuple[str, ...] = ()
    table: int = 0

    @property
    def severity(self) -> Severity:
        """Severity of the finding's kind."""
        return SEVERITIES[self.kind]
