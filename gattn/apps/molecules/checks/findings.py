"""Findings of a data check, and the kinds of faults that the check can report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["KINDS", "Finding", "Kind", "Severity"]

Severity = Literal["error", "warning", "note"]


class Kind(NamedTuple):
    """Kind of fault of a table.

    Attributes:
        severity: ``"error"`` for rows that cannot be used, ``"warning"`` for faults that change the
            model or its measured error, ``"note"`` for properties that are not always faults.
        title: short name.
        advice: a sentence on what to do.
    """

    severity: Severity
    title: str
    advice: str


KINDS: dict[str, Kind] = {
    "cells": Kind(
        "error", "Rows with a wrong number of cells",
        "Quote cells that contain the separator; train leaves these rows out.",
    ),
    "unreadable": Kind(
        "error", "SMILES that cannot be read", "Correct them; train leaves these rows out."
    ),
    "valence": Kind(
        "error", "Impossible valences or aromatic rings",
        "Correct the charges and bonds; train leaves these rows out.",
    ),
    "labels": Kind(
        "error", "Labels that are not numbers",
        "Correct them, or train with the option that reads them.",
    ),
    "empty": Kind(
        "warning", "Target with few labels", "Leave the target out, or measure more molecules."
    ),
    "constant": Kind(
        "warning", "Target that hardly varies", "A model cannot learn such a target; leave it out."
    ),
    "censored": Kind(
        "warning", "Censored labels",
        "Train with --loss-function bounded-mse, which reads them as limits.",
    ),
    "limit": Kind(
        "warning", "Labels at a limit",
        "If the value is the largest or smallest that the assay reports, write it as > or <.",
    ),
    "units": Kind(
        "warning", "Labels in two units",
        "Check the units of these rows, and convert them to one unit.",
    ),
    "scales": Kind(
        "warning", "Logarithms mixed with concentrations",
        "Convert the concentrations to logarithms, for example pIC50 = 9 - log10(IC50 / nM).",
    ),
    "decades": Kind(
        "warning", "Labels over many decades", "Train with --target-transform log10."
    ),
    "case": Kind(
        "warning", "Classes that differ only in case", "Write them alike if they are one class."
    ),
    "outliers": Kind(
        "warning", "Outliers",
        "Check the source of these labels; --loss-function mae reduces their effect.",
    ),
    "duplicates": Kind(
        "note", "Repeated rows", "They are used several times; leave them out if they are copies."
    ),
    "same_molecule": Kind(
        "note", "Several rows of one molecule",
        "train keeps the rows of one molecule in one part; average their labels if they are "
        "replicates.",
    ),
    "conflicts": Kind(
        "warning", "Contradicting labels of one molecule",
        "Check these labels; the error of a model cannot be smaller than their spread.",
    ),
    "mixtures": Kind(
        "note", "Salts and mixtures",
        "Train with --standardize largest-fragment if the label belongs to the largest molecule.",
    ),
    "salt_twins": Kind(
        "warning", "Forms of one molecule: salts or charges",
        "Train with --standardize largest-fragment --standardize neutral.",
    ),
    "stereo_twins": Kind(
        "note", "Forms of one molecule: stereoisomers",
        "Check that the stereo marks are measured and not missing.",
    ),
    "tautomer_twins": Kind(
        "warning", "Forms of one molecule: tautomers", "Train with --standardize tautomer."
    ),
    "leaks": Kind(
        "warning", "Molecules in two parts",
        "Move all forms of a molecule to one part; the measured error is too small otherwise.",
    ),
    "cliffs": Kind(
        "note", "Activity cliffs",
        "Check both labels; if they are right, such pairs limit the accuracy of every model.",
    ),
    "elements": Kind(
        "note", "Unusual elements", "A model learns little about an element with few examples."
    ),
    "size": Kind(
        "note", "Very small or very large molecules", "Check that they belong to the data."
    ),
    "order": Kind(
        "warning", "Column or row order that predicts a target",
        "Do not use the column as a descriptor, and do not split the table by row number.",
    ),
    "copies": Kind(
        "warning", "Column that copies a target",
        "Do not use it as a descriptor column: it is not known for new molecules.",
    ),
    "readability": Kind(
        "warning", "Numbers in another notation", "Train with the option that reads them."
    ),
}  # fmt: skip
"""Kinds of faults by name, in the order of the report."""


@dataclass(frozen=True)
class Finding:
    """Fault of a table, and the rows in which it occurs.

    Attributes:
        kind: a name of :data:`KINDS`.
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
        return KINDS[self.kind].severity
