"""Columns of names and of row numbers in tables of nodes and edges."""

from __future__ import annotations

import re
from collections.abc import Hashable

import pandas as pd

from gattn.apps.nodes.values import are_distinct_integers, as_numbers

UNNAMED = re.compile(r"(unnamed: \d+(\.\d+)?(_level_\d+)?)?", re.IGNORECASE)
"""Pattern for the names of row number columns. pandas and R write such a column without a name,
and pandas reads it as ``Unnamed: 0``.
"""
GROUP = re.compile(r"\([^()]*\)$")
ROLES = ("id", "start_id", "end_id", "type", "label")
"""Ends of names of columns with which Neo4j marks names, types and labels."""
RESET = ("index", "level_0")
"""Names that pandas' ``reset_index`` gives to row number columns."""


def may_count_rows(name: Hashable) -> bool:
    """Return True if a column with this name is skipped when its values number the rows."""
    title = "" if name is None else str(name).strip()
    return bool(UNNAMED.fullmatch(title)) or title.lower() in RESET


def counts_rows(name: Hashable, column: pd.Series) -> bool:
    """Return True if a column contains the row numbers of a table, which may have been sorted.

    These are different whole numbers in a column that has such a name.
    """
    if not may_count_rows(name) or not len(column):
        return False
    numbers = as_numbers(column)
    return are_distinct_integers(numbers) and bool((numbers >= 0).all())


def column_title(name: Hashable) -> str:
    """Return the name of a column in lower case, as the reader compares it with usual names.

    The type that Neo4j writes after a colon, and the group in parentheses, are left out.

    >>> column_title(":START_ID(Person)"), column_title("personId:ID"), column_title("age:int")
    ('start_id', 'id', 'age')
    """
    title = GROUP.sub("", str(name).strip().lower()).lstrip("#% ")
    head, _, tail = title.rpartition(":")
    return tail if tail in ROLES or not head else head


def as_names(column: pd.Series) -> pd.Series:
    """Convert names to texts that can be compared between files: both 7 and 7.0 become "7"."""
    column = column.reset_index(drop=True)
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").str.strip().replace("", pd.NA).astype(object)
