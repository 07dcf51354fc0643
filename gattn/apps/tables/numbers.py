"""Parser of numbers in table cells, which names the option for numbers in another format.

A number has ASCII digits, an ASCII sign, one decimal sign and at most one separator of thousands.
``1,008`` is 1008 in one country and 1.008 in another, so the user has to choose by a setting. All
other formats, such as ``3.2 nM`` and ``3-Dec-20``, are errors that show the cell.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\S.*)?)?")
"""Pattern of an ISO 8601 date, such as 2024-01 or 2024-01-31 12:00. A year alone is read as a
number.
"""


def read_days(cells: Sequence[str]) -> NDArray[np.float64]:
    """Convert dates of ISO 8601 to days since 1970 in UTC; other texts give NaN.

    >>> read_days(["1970-01-02", "1970-02", "1970-01-01 12:00", "1970"]).tolist()
    [1.0, 31.0, 0.5, nan]
    """
    # The import of pandas is slow, and few tables have dates.
    import pandas as pd

    dates = [cell.strip() if DATE.fullmatch(cell.strip()) else None for cell in cells]
    stamps = pd.to_datetime(pd.Series(dates), format="ISO8601", errors="coerce", utc=True)
    return ((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)


def read_times(cells: Sequence[str]) -> NDArray[np.float64]:
    """Convert the cells of a column of times to numbers; NaN for other texts.

    If at least as many cells are numbers, such as years, as are dates of ISO 8601, the numbers are
    read, and if more cells are dates, the dates in days since 1970.

    >>> read_times(["1970-01-02", "1970-02", "soon"]).tolist()
    [1.0, 31.0, nan]
    >>> read_times(["2019", "2020.5", "2020-01-01"]).tolist()
    [2019.0, 2020.5, nan]
    """
    numbers, days = read_numbers(cells).values, read_days(cells)
    return numbers if np.isfinite(numbers).sum() >= np.isfinite(days).sum() else days


Kind = Literal["plain", "missing", "infinite", "censored", "separated", "odd", "text"]
PLAIN = (".", "")
"""Decimal sign and thousands separator of a plain number."""
FORMATS = (
    *(PLAIN, (",", ""), (".", ","), (",", ".")),
    *((".", " "), (",", " "), (".", "'"), (",", "'")),
)
"""Decimal signs and thousands separators that can be chosen."""
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "nan", "-nan", "nat", "none", "null")
)
SIGNS = {
    **dict.fromkeys(map(ord, "\u00a0\u2009\u202f"), " "),
    **{ord("’"): "'", ord("≤"): "<=", ord("≥"): ">=", ord("≈"): "~"},
}
"""Characters that are replaced by an ASCII character of the same meaning."""
RELATION = re.compile(r"(>>|<<|[<>~]=?|=[<>])\s*(.*)")
INFINITE = re.compile(r"[+-]?(?:inf|infinity|∞)", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]+")
LONGEST_UNIT = 6
"""Maximum number of letters of a word in a cell of an unsupported number format, for example of
a unit or a month. With longer words, a cell is a text.
"""
PHRASES: dict[str, str] = {
    "censored": "with a relation, which marks a censored value",
    "separated": "with another decimal or thousands separator",
    "odd": "in an unsupported number format",
    "infinite": "with an infinite number",
    "text": "with a text instead of a number",
}


class Cell(NamedTuple):
    """Kind and components of a cell.

    Attributes:
        kind: the pattern of the cell. The default :class:`NumberFormat` parses ``"plain"`` cells.
            A ``"separated"`` cell is a number in another of the :data:`FORMATS`, and an ``"odd"``
            cell is a number in an unsupported format.
        body: the number with its sign and separators; empty if the cell is not a single number.
        relation: the sign before the number, for example ``>``, ``<`` or ``~``.
    """

    kind: Kind
    body: str = ""
    relation: str = ""


class Pattern(NamedTuple):
    """Kind of cell that could not be parsed, with an example and the options that parse it.

    Attributes:
        kind: the kind of the cells, see :class:`Cell`.
        count: the number of cells with this pattern.
        place: the index of the first such cell in the column.
        example: the text of the first such cell.
        options: the options of the commands that parse these cells; several if the column is
            ambiguous, empty if no option parses them.
    """

    kind: Kind
    count: int
    place: int
    example: str
    options: tuple[str, ...] = ()

    def sentence(self, where: Callable[[int], str], noun: str = "cell") -> str:
        """Describe the cells with their number, an example and the options that help.

        Args:
            where: converts an index in the column to words, for example ``"in line 22"``.
            noun: the noun for such a cell, for example ``"label"``.

        >>> read_numbers(["1,008", "2"]).patterns[0].sentence("in line {}".format, "label")
        "1 label with another decimal or thousands separator, for example '1,008' in line 0 \
(use --decimal , or --thousands ,)"
        """
        advice = f"use {' or '.join(self.options)}" if self.options else ""
        if self.kind == "odd":
            advice = "write a plain number without unit, ± or range"
        return (
            f"{self.count:,} {noun}{'s' * (self.count != 1)} {PHRASES[self.kind]}, for example "
            f"{self.example!r} {where(self.place)}" + f" ({advice})" * bool(advice)
        )


class NumberColumn(NamedTuple):
    """Numbers of a column, and descriptions of the cells that could not be parsed.

    Attributes:
        values: [k] float64; NaN where a cell is missing, dropped or could not be parsed.
        unread: the indices of the cells that could not be parsed, ascending.
        missing: the number of empty cells and of cells such as ``NA``.
        dropped: the number of censored values without a number in ``values``, because the setting
            ``censored`` is ``"drop"`` or ``"limit"``.
        patterns: the patterns of the cells in ``unread``, the most frequent first and texts last.
    """

    values: NDArray[np.float64]
    unread: tuple[int, ...]
    missing: int
    dropped: int
    patterns: tuple[Pattern, ...]

    @property
    def labelled(self) -> int:
        """Number of cells that contain a value, including those that could not be parsed."""
        return len(self.values) - self.missing

    def recognised(self) -> tuple[Pattern, ...]:
        """Return the patterns of cells that are numbers in an unsupported notation.

        Dropping these cells would bias a model: for example, censored values such as ``>10`` are
        the largest of a column.
        """
        return tuple(pattern for pattern in self.patterns if pattern.kind != "text")


@dataclass(frozen=True)
class NumberFormat:
    """Notation of the numbers in a table: decimal sign, thousands separator and censored values.

    Integers without separators are parsed with any settings.

    Attributes:
        decimal: the decimal sign, ``"."`` or ``","``.
        thousands: the separator between groups of three digits: ``","``, ``"."``, ``" "`` (any
            space), ``"'"``, or none.
        censored: treatment of ``">10"``, ``"<0.5"`` and ``"~3"``: ``"refuse"`` does not parse
            them, ``"drop"`` treats them as missing, ``"bound"`` returns the number as the value.
            ``"limit"`` treats ``">10"`` and ``"<0.5"`` as missing, but :meth:`limits` returns
            them, and returns 3 for ``"~3"``.

    Raises:
        ValueError: a value that a setting does not accept, or the same sign for decimals and
            thousands.

    >>> NumberFormat(decimal=",", thousands=".").parse("1.008,5")
    1008.5
    """

    decimal: str = "."
    thousands: str = ""
    censored: Literal["refuse", "drop", "bound", "limit"] = "refuse"

    def __post_init__(self) -> None:
        """Raise a ValueError if a setting is invalid, or if decimal equals thousands."""
        choices = {
            "decimal": (".", ","),
            "thousands": ("", ",", ".", " ", "'"),
            "censored": ("refuse", "drop", "bound", "limit"),
        }
        for name, values in choices.items():
            if (value := getattr(self, name)) not in values:
                allowed = ", ".join(map(repr, values))
                raise ValueError(f"{name} must be one of {allowed}; got {value!r}")
        if self.decimal == self.thousands:
            raise ValueError(
                f"decimal and thousands must be different signs; both are {self.decimal!r}"
            )

    def parse(self, cell: str) -> float | None:
        """Convert the text of one cell to a number.

        Args:
            cell: the text of the cell.

        Returns:
            The number; NaN if the cell is missing or contains a censored value that is to be
            dropped; infinity if the cell contains infinity or a number outside the range of
            float64; None if the cell cannot be parsed.

        >>> NumberFormat().parse("-3.2"), NumberFormat().parse("1,5")
        (-3.2, None)
        >>> NumberFormat(censored="bound").parse("> 10")
        10.0
        """
        return self.value(classify(cell))

    def value(self, cell: Cell) -> float | None:
        """Convert a classified cell to a number, as :meth:`parse` does. Returns None for a cell
        that is no number.
        """
        if cell.kind == "missing":
            return math.nan
        if cell.kind == "infinite":
            return float(cell.body)
        if not cell.body or (cell.relation and self.censored == "refuse"):
            return None
        if cell.relation and self.censored == "drop":
            return math.nan
        value = _number(cell.body, (self.decimal, self.thousands))
        is_limit = "<" in cell.relation or ">" in cell.relation
        return math.nan if self.censored == "limit" and is_limit and value is not None else value

    def limits(self, cell: str) -> tuple[float, float]:
        """Return the interval in which the true value must be, according to the cell. The setting
        ``censored`` has no effect on it.

        Args:
            cell: the text of the cell.

        Returns:
            The lower and the upper end: for ``">10"`` these are 10 and infinity, for ``"<10"``
            minus infinity and 10, and for a plain number and for ``"~3"`` both are that number.
            Both are NaN for a cell that is missing, infinite or cannot be parsed.

        >>> number = NumberFormat(censored="limit")
        >>> number.limits(">10"), number.limits("<= 0.5"), number.limits("3")
        ((10.0, inf), (-inf, 0.5), (3.0, 3.0))
        """
        parts = classify(cell)
        value = replace(self, censored="bound").value(parts)
        if value is None or not math.isfinite(value):
            return math.nan, math.nan
        return (
            -math.inf if "<" in parts.relation else value,
            math.inf if ">" in parts.relation else value,
        )


def is_missing(cell: str) -> bool:
    """Return True if a cell contains no value: empty, NA, N/A, #N/A, NaN, NaT, None or null.

    >>> is_missing(" NA "), is_missing("0")
    (True, False)
    """
    return cell.strip().lower() in MISSING


def classify(cell: str) -> Cell:
    """Split a cell into a relation and a number, and determine its kind.

    >>> classify("> 1,008")
    Cell(kind='censored', body='1,008', relation='>')
    >>> classify("3,25").kind, classify("3.2 nM").kind
    ('separated', 'odd')
    """
    text = cell.strip().translate(SIGNS)
    if (value := _number(text, PLAIN)) is not None:
        return Cell("plain" if math.isfinite(value) else "infinite", text)
    if is_missing(text):
        return Cell("missing")
    if INFINITE.fullmatch(text):
        return Cell("infinite", text.replace("∞", "inf"))
    match = RELATION.fullmatch(text)
    relation, body = match.groups() if match else ("", text)
    if any(_number(body, signs) is not None for signs in FORMATS):
        return Cell("censored" if relation else "separated", body, relation)
    words = WORD.findall(text)
    is_odd = any(map(str.isdigit, text)) and not text[0].isalpha()
    return Cell("odd" if is_odd and max(map(len, words), default=0) <= LONGEST_UNIT else "text")


def read_numbers(cells: Sequence[str], style: NumberFormat | None = None) -> NumberColumn:
    """Parse the numbers in a column, and describe the cells that cannot be parsed.

    Args:
        cells: the texts of the k cells.
        style: the notation of the numbers; None for the default :class:`NumberFormat`.

    Returns:
        The numbers and the patterns; both are empty if there are no cells.

    >>> column = read_numbers(["48", "960", "1,008.5", "NA"])
    >>> column.values.tolist()[:2], column.missing, column.unread
    ([48.0, 960.0], 1, (2,))
    >>> column.patterns
    (Pattern(kind='separated', count=1, place=2, example='1,008.5', options=('--thousands ,',)),)
    """
    style = style or NumberFormat()
    # The result of classify is cached, because the same text often occurs in many cells.
    parts = list(map(cache(classify), cells))
    numbers = [style.value(cell) for cell in parts]
    unread = tuple(i for i, one in enumerate(numbers) if one is None or math.isinf(one))
    values = np.array([math.nan if one is None else one for one in numbers], np.float64)
    values[list(unread)] = math.nan
    missing = sum(cell.kind == "missing" for cell in parts)
    dropped = int(np.isnan(values).sum()) - missing - len(unread)
    places: dict[Kind, list[int]] = {}
    for place in unread:
        kind = parts[place].kind
        if kind == "plain" or (kind == "censored" and style.censored != "refuse"):
            kind = "separated"
        places.setdefault(kind, []).append(place)
    options = _options(cell.body for cell in parts) if "separated" in places else ()
    patterns = [
        Pattern(kind, len(some), some[0], cells[some[0]].strip(), options * (kind == "separated"))
        for kind, some in places.items()
    ]
    patterns.sort(key=lambda one: (one.kind == "text", -one.count))
    return NumberColumn(values, unread, missing, dropped, tuple(patterns))


@cache
def _digits(signs: tuple[str, str]) -> re.Pattern[str]:
    """Return a regular expression for numbers with these decimal and thousands separators."""
    decimal, thousands = map(re.escape, signs)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{thousands}[0-9]{{3}})+|" if thousands else ""
    return re.compile(
        rf"[+-]?(?:(?:{grouped}[0-9]+)(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    )


def _number(body: str, signs: tuple[str, str]) -> float | None:
    """Parse a number with these separators; return None if it does not have them."""
    decimal, thousands = signs
    if _digits(signs).fullmatch(body) is None:
        return None
    return float(body.replace(thousands, "").replace(decimal, "."))


def _options(bodies: Iterable[str]) -> tuple[str, ...]:
    """Return the options of the commands with which all numbers of a column can be parsed, several
    if the column is ambiguous, and none if no option parses all of them. The bodies are those of
    the :class:`Cell` of each row; empty and infinite ones are ignored.
    """
    distinct = {body for body in bodies if body and not INFINITE.fullmatch(body)}
    every, options = "".join(distinct), []
    for decimal, thousands in FORMATS:
        # Signs that do not occur in the column are not proposed.
        if thousands not in every or (decimal == "," and thousands != "." and "," not in every):
            continue
        if any(_number(body, (decimal, thousands)) is None for body in distinct):
            continue
        sign = f"--decimal {decimal}" if decimal == "," or not thousands else ""
        mark = f"--thousands {shlex.quote(thousands)}" if thousands else ""
        options.append(" ".join(filter(None, (sign, mark))))
    digits = max((len(body) for body in distinct if body.isdigit()), default=0)
    if options == ["--decimal ,", "--thousands ,"] and digits == 3:
        # The column has 960 but no 1008 without a separator, so the comma separates thousands.
        return ("--thousands ,",)
    return tuple(options)
