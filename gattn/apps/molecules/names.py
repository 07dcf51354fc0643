"""Names of molecules in a table: a column of names, or the text after a SMILES."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NAMES", "name_after", "name_column"]

NAMES = ("name", "compound", "compound_name", "molecule_name", "title", "compound_id", "id")
"""Names of columns that may contain the names of molecules, in order of preference."""


def name_column(columns: Sequence[str]) -> str:
    """Return the column that contains the names of the molecules in a table, or "" if there is
    none.

    >>> name_column(["smiles", "ID", "Compound name"])
    'Compound name'
    """
    lower = {column.lower().replace(" ", "_"): column for column in reversed(columns)}
    return next((lower[name] for name in NAMES if name in lower), "")


def name_after(text: str) -> str:
    """Return the name that follows the SMILES in the same cell, or "" if there is none.

    >>> name_after("CCO ethanol"), name_after("CCO"), name_after("C[C@H](N)O |&1:1| alaninol")
    ('ethanol', '', 'alaninol')
    """
    rest = text.strip().partition(" ")[2].strip()
    if rest.startswith("|"):
        rest = rest[1:].partition("|")[2].strip()
    return rest
