"""Selection and ranking of rows by expressions such as ``prediction > 7 and std < 0.5``.

The expressions are those of SQLite without functions other than ``abs``. A column whose name is not
a word is written in backquotes, and a text in quotes.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Sequence
from typing import NoReturn

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.tables.csv_table import as_number

WORD = re.compile(r"""'([^']*)'|"([^"]*)"|`([^`]+)`|(?<![\w.])([^\W\d]\w*)""")
"""Pattern of a text in either quotes, of a column in backquotes, and of a word."""
KEYWORDS = ("and", "or", "not", "between", "abs")
SIGN = re.compile(r"[^\w\s+\-*/()<>=!.,:]")
"""Pattern of a character that has no meaning in an expression."""
INTEGER = re.compile(r"(?<![\w.])(?<!\d[eE][-+])(\d+)(?![\w.])")
"""Pattern of an integer that is not an exponent."""
COMPARISON = re.compile(r"[<>=!]+|\bbetween\b")
TEXT_COMPARISON = re.compile(r"\bc(\d+)\s*[=!]?=\s*:t\d+|:t\d+\s*[=!]?=\s*c(\d+)\b")
"""Pattern of the comparison of a column with a text."""


class RowQuery:
    """Query that selects the rows of a table, and ranks them.

    A comparison with an empty cell, or of a number with a cell that is not a number, is not met,
    nor is ``not`` with this comparison.

    Args:
        columns: the names of the columns.
        where: the condition of a row; "" for all rows.
        by: the number by which rows are ranked.
        top: maximum number of rows; 0 for all, which are not ranked.

    Raises:
        SettingsError: an expression is not valid, or names another column.

    Example:
        >>> query = RowQuery(["y", "set"], where="5 < y and set != 'idle'", by="-y", top=2)
        >>> query.best([["7.5", "a"], ["", "a"], ["6", "a"], ["6", "idle"], ["9", "a"]])
        [2, 0]
    """

    def __init__(
        self, columns: Sequence[str], *, where: str = "", by: str = "", top: int = 0
    ) -> None:
        self.columns = columns
        self._cells: list[int] = []
        self._texts: dict[str, bytes] = {}
        condition = self._sql("where", where) if where else "true"
        value = self._sql("by", by) if top else "1"
        texts = {int(a or b) for a, b in TEXT_COMPARISON.findall(condition)}
        self._is_text = [i in texts for i in range(len(self._cells))]
        self._base = sqlite3.connect(":memory:")
        names = ", ".join(
            f"c{i} {'blob' if is_text else 'real'}" for i, is_text in enumerate(self._is_text)
        )
        self._base.execute(
            f"create table rows (number integer primary key{', ' * bool(names)}{names})"
        )
        limit = min(top, sys.maxsize)
        order = f"and ({value}) is not null order by ({value}) desc, number limit {limit}"
        self._query = f"select number from rows where ({condition}) {order * bool(top)}"
        self._check("where", condition, where)
        self._check("by", value, by)

    def best(self, rows: Sequence[Sequence[str]]) -> list[int]:
        """Return the indices of the selected rows, the highest number first. Rows with equal
        numbers, and all rows without a ranking, stay in order.
        """
        self._base.execute("delete from rows")
        marks = ", ?" * len(self._cells)
        self._base.executemany(
            f"insert into rows values (?{marks})",
            ([number, *self._values(row)] for number, row in enumerate(rows)),
        )
        return [number for (number,) in self._base.execute(self._query, self._texts)]

    def _values(self, row: Sequence[str]) -> list[bytes | float | None]:
        return [
            (_bytes(row[place]) or None) if is_text else as_number(row[place])
            for place, is_text in zip(self._cells, self._is_text)
        ]

    def _sql(self, name: str, text: str) -> str:
        """Return an expression in SQL, in which c0, c1, ... are columns and :t0, :t1, ... texts."""
        if signs := SIGN.findall(WORD.sub(" ", text)):
            self._fail(name, text, f"{signs[0]!r} has no meaning (use and, or, not, + - * /, abs)")

        def replace(match: re.Match[str]) -> str:
            single, double, quoted, word = match.groups()
            if word and word.lower() in KEYWORDS:
                return word
            if single == "" or double == "":
                self._fail(name, text, "no comparison selects empty cells, nor with an empty text")
            if single is not None or double is not None:
                self._texts[f"t{len(self._texts)}"] = _bytes(single or double)
                return f" :t{len(self._texts) - 1} "
            column = quoted or word
            if column not in self.columns:
                self._fail(
                    name, text, f"no column {column!r}; the columns are {', '.join(self.columns)}"
                )
            self._cells.append(self.columns.index(column))
            return f" c{len(self._cells) - 1} "

        # Two signs begin a comment of SQL, and a quotient of integers is an integer.
        sql = INTEGER.sub(r"\1.0", WORD.sub(replace, text).replace("--", "- -"))
        self._check_comparisons(name, text, sql)
        return sql

    def _check(self, name: str, sql: str, text: str) -> None:
        """Raise an error if SQLite cannot read an expression."""
        try:
            self._base.execute(f"select ({sql}) from rows", self._texts)
        except sqlite3.Error as error:
            self._fail(name, text, f"not a valid expression ({error})")

    def _check_comparisons(self, name: str, text: str, sql: str) -> None:
        """Raise an error for a chain of comparisons, which SQL reads in another way, for an order
        of texts, and for a condition in place of a number.
        """
        if bool(COMPARISON.search(sql)) != (name == "where"):
            kinds = {"where": "a condition such as 'prediction > 7'"}
            self._fail(name, text, f"must be {kinds.get(name, 'a number such as prediction')}")
        if ":t" in TEXT_COMPARISON.sub("", sql):
            reason = "a number has no quotes, and a text is compared with a column by == or !="
            self._fail(name, text, reason)
        inner, count = sql, 1
        while count:
            groups = re.findall(r"\(([^()]*)\)", inner) or [inner]
            for part in re.split(r"\b(?:and|or|not)\b|,", ",".join(groups).lower()):
                if len(COMPARISON.findall(part)) > 1:
                    self._fail(name, text, "a chain of comparisons (join two of them by and)")
            inner, count = re.subn(r"\([^()]*\)", " 0 ", inner)

    def _fail(self, name: str, text: str, reason: str) -> NoReturn:
        raise SettingsError(f"{name}: {reason}; got {text!r}")


def _bytes(text: str) -> bytes:
    """Encode a text, which may contain bytes of the input that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")
