"""Names of molecules in a table: a column of names, or the text after a SMILES."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NAMES", "name_after", "name_column"]

NAMES = ("name", "compound", "compound_name", "molecule_name", "title", "compound_id", "id")
"""Names of columns that name a molecule, the best first."""


def name_column(columns: Sequence[str]) -> str:
    """Return the column that names the molecules of a table, or "" if there is none.

    >>> name_column(["smiles", "ID", "Compound name"])
    'Compound name'
    """
    lower = {column.lower().replace(" ", "_"): column for column in reversed(columns)}
    return next((lower[name] for name in NAMES if name in lower), "")


def name_after(text: str) -> str:
    """Return the name that follows a SMILES in one cell, or "" if there is none.

    >>> name_after("CCO ethanol"), name_after("CCO"), name_after("C[C@H](N)O |&1:1| alaninol")
    ('ethanol', '', 'alaninol')
    """
    rest = text.strip().partition(" ")[2].strip()
    if rest.startswith("|"):
        rest = rest[1:].partition("|")[2].strip()
    return rest
