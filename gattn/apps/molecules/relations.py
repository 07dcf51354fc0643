"""Columns of relations, such as ChEMBL's "Standard Relation", which say that a label is a limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

RELATIONS = {
    **dict.fromkeys(("", "=", "~", "==", "≈"), ""),
    **dict.fromkeys((">", ">>"), ">"),
    **dict.fromkeys(("<", "<<"), "<"),
    **dict.fromkeys((">=", "≥"), ">="),
    **dict.fromkeys(("<=", "≤"), "<="),
}
"""Sign of a censored label for each text of a relation; "" for a measured value."""


def relation_columns(rows: Iterable[Sequence[str]], columns: Sequence[str]) -> list[str]:
    """Return the columns that contain only relations, and at least one that is not "=".

    >>> relation_columns([["CCO", "'='"], ["C", "'>'"]], ["smiles", "relation"])
    ['relation']
    """
    places, limits = set(range(len(columns))), set()
    for cells in rows:
        signs = {place: _sign(cells[place]) for place in places}
        places = {place for place, sign in signs.items() if sign is not None}
        limits |= {place for place in places if signs[place]}
        if not places:
            break
    return [columns[place] for place in sorted(places & limits)]


def with_relation(cell: str, relation: str) -> str:
    """Return a label with the sign of its relation, if the label contains a number.

    >>> with_relation("10000", "'>'"), with_relation("12.5", "="), with_relation("", ">")
    ('>10000', '12.5', '')
    """
    return f"{_sign(relation) or ''}{cell}" if any(map(str.isdigit, cell)) else cell


def _sign(cell: str) -> str | None:
    return RELATIONS.get(cell.strip().strip("'\""))
