"""Parser of numbers in table cells, which names the option for numbers in another format.

A number has ASCII digits, an ASCII sign, one decimal sign and at most one separator of thousands.
``1,008`` is 1008 in one country and 1.008 in another. The whole column is therefore inspected, and
if it can be parsed in two ways, the user has to choose one by a setting. All other formats, such as
``3.2 nM`` and ``3-Dec-20``, are errors that show the cell.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cell", "NumberColumn", "NumberFormat", "Pattern", "classify", "command_option", "is_missing",
    "python_argument", "read_numbers",
]  # fmt: skip

Kind = Literal[
    "plain", "missing", "infinite", "censored", "thousands", "decimal", "comma", "point", "odd",
    "text",
]  # fmt: skip
Separators = tuple[str, str]
"""Type of a pair of a decimal sign and a thousands separator."""
Settings = tuple[tuple[str, str], ...]
"""Type of the settings of a :class:`NumberFormat`, as pairs of a name and a value."""

READINGS: tuple[Separators, ...] = (
    *((".", ""), (",", ""), (".", ","), (",", ".")),
    *((".", " "), (",", " "), (".", "'"), (",", "'")),
)
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "nan", "-nan", "nat", "none", "null")
)
SIGNS = {
    **dict.fromkeys(map(ord, "\u00a0\u2009\u202f"), " "),
    **{ord("’"): "'", ord("≤"): "<=", ord("≥"): ">=", ord("≈"): "~"},
}
"""Characters that are replaced by an ASCII character of the same meaning."""
PLAIN = (".", "")
"""Separators of a plain number."""
RELATION = re.compile(r"(>>|<<|[<>~]=?|=[<>])\s*(.*)")
INFINITE = re.compile(r"[+-]?(?:inf|infinity|∞)", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]+")
LONGEST_UNIT = 6
"""Maximum number of letters of a word in a cell of an unsupported number format, for example of
a unit or a month. With longer words, a cell is a text.
"""
WORDS: dict[str, tuple[str, str]] = {
    "censored": ("is a censored value", "are censored values"),
    "thousands": (
        "looks like a number with a thousands separator",
        "look like numbers with a thousands separator",
    ),
    "decimal": (
        "looks like a number with a decimal comma",
        "look like numbers with decimal commas",
    ),
    "comma": (
        "may have a thousands separator or a decimal comma",
        "may have thousands separators or decimal commas",
    ),
    "point": (
        "has a point that may separate thousands",
        "have a point that may separate thousands",
    ),
    "odd": ("has an unsupported number format", "have an unsupported number format"),
    "infinite": ("is not a finite number", "are not finite numbers"),
    "text": ("is a text and not a number", "are texts and not numbers"),
}


class Cell(NamedTuple):
    """Kind and components of a cell.

    Attributes:
        kind: the pattern of the cell. The default :class:`NumberFormat` parses ``"plain"`` cells.
            The comma of a ``"comma"`` cell may separate thousands or decimals; the other cells of
            the column determine which. An ``"odd"`` cell is a number in an unsupported format.
        body: the number with its sign and separators; empty if the cell is not a single number.
        relation: the sign before the number, for example ``>``, ``<`` or ``~``.
    """

    kind: Kind
    body: str = ""
    relation: str = ""


class Pattern(NamedTuple):
    """Kind of cell that could not be parsed, with an example and the settings that can parse it.

    Attributes:
        kind: the kind of the cells, see :class:`Cell`.
        count: the number of cells with this pattern.
        place: the index of the first such cell in the column.
        example: the text of the first such cell.
        settings: the settings of :class:`NumberFormat` that parse these cells; several if the
            column is ambiguous, empty if no setting parses them.
        detail: a further sentence of advice.
    """

    kind: Kind
    count: int
    place: int
    example: str
    settings: tuple[Settings, ...] = ()
    detail: str = ""

    def sentence(
        self,
        where: Callable[[int], str],
        option: Callable[[str, str], str] | None = None,
        noun: str = "cell",
    ) -> str:
        """Describe the cells in one sentence, with their number, an example and the helpful
        settings.

        Args:
            where: converts an index in the column to words, for example ``"in line 22"``.
            option: writes a setting, for example :func:`command_option`; None to omit the advice
                about settings.
            noun: the noun for such a cell, for example ``"label"``.

        >>> Pattern("comma", 40, 0, "1,008", ((("thousands", ","),),)).sentence(
        ...     "in line {}".format, command_option, "label")
        "40 labels may have thousands separators or decimal commas, for example '1,008' in line 0 \
(--thousands , reads them)"
        """
        several = self.count != 1
        ways = [" ".join(option(*one) for one in way) for way in self.settings] if option else []
        hints = [self.detail] if self.detail else []
        if len(ways) == 1:
            hints.append(f"{ways[0]} reads {'them' if several else 'it'}")
        elif ways:
            hints.append(f"use {' or '.join(ways)}")
        return (
            f"{self.count:,} {noun}{'s' * several} {WORDS[self.kind][several]}, for example "
            f"{self.example!r} {where(self.place)}" + f" ({'; '.join(hints)})" * bool(hints)
        )


class NumberColumn(NamedTuple):
    """Numbers of a column, and descriptions of the cells that could not be parsed.

    Attributes:
        values: [k] float64; NaN where a cell is missing, dropped or could not be parsed.
        unread: the indices of the cells that could not be parsed, ascending.
        missing: the number of empty cells and of cells such as ``NA``.
        dropped: the number of censored values that were dropped, because ``censored="drop"``.
        patterns: the patterns of the cells in ``unread``, the most frequent first and texts last.
            A cell that has two patterns (``>1,008``) counts for both.
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
            other = "," if self.decimal == "." else "."
            raise ValueError(
                f"decimal and thousands must be different signs; both are {self.decimal!r} "
                f"(numbers such as 1{self.thousands}008{other}5 have the decimal sign {other!r})"
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
        """Convert a classified cell to a number, as :meth:`parse` does."""
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
        """Return the interval in which the true value must be, according to the cell.

        Args:
            cell: the text of the cell.

        Returns:
            The lower and the upper end: for ``">10"`` these are 10 and infinity, for ``"<10"``
            minus infinity and 10, and for a plain number both are that number. Both are NaN for a
            cell that is missing or cannot be parsed.

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
    >>> classify("3,25").kind, classify("1,008").kind, classify("3.2 nM").kind
    ('decimal', 'comma', 'odd')
    """
    text = cell.strip().translate(SIGNS)
    if _digits(PLAIN).fullmatch(text):
        return Cell("plain" if math.isfinite(float(text)) else "infinite", text)
    if is_missing(text):
        return Cell("missing")
    if INFINITE.fullmatch(text):
        return Cell("infinite", text.replace("∞", "inf"))
    match = RELATION.fullmatch(text)
    relation, body = match.groups() if match else ("", text)
    if ways := _ways([body]):
        return Cell("censored" if relation else _kind(ways), body, relation)
    words = WORD.findall(text)
    is_odd = any(map(str.isdigit, text)) and not text[0].isalpha()
    return Cell("odd" if is_odd and max(map(len, words), default=0) <= LONGEST_UNIT else "text")


def command_option(name: str, value: str) -> str:
    """Format a setting as an option of a command.

    >>> command_option("thousands", " ")
    "--thousands ' '"
    """
    quoted = '"\'"' if value == "'" else shlex.quote(value)
    return f"--{name} {quoted}"


def python_argument(name: str, value: str) -> str:
    """Format a setting as an argument of a Python function.

    >>> python_argument("decimal", ",")
    "decimal=','"
    """
    return f"{name}={value!r}"


def read_numbers(cells: Sequence[str], style: NumberFormat | None = None) -> NumberColumn:
    """Parse the numbers in a column, and describe the cells that cannot be parsed.

    Args:
        cells: the texts of the k cells.
        style: the notation of the numbers; None for the default :class:`NumberFormat`.

    Returns:
        The numbers and the patterns; both are empty if there are no cells.

    >>> column = read_numbers(["48", "960", "1,008", "NA"])
    >>> column.values.tolist()[:2], column.missing, column.unread
    ([48.0, 960.0], 1, (2,))
    >>> column.patterns
    (Pattern(kind='thousands', count=1, place=2, example='1,008', \
settings=((('thousands', ','),),), detail=''),)
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
    return NumberColumn(values, unread, missing, dropped, _patterns(cells, parts, unread, style))


@cache
def _digits(reading: Separators) -> re.Pattern[str]:
    """Return a regular expression for numbers with these decimal and thousands separators."""
    decimal, thousands = map(re.escape, reading)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{thousands}[0-9]{{3}})+|" if thousands else ""
    return re.compile(
        rf"[+-]?(?:(?:{grouped}[0-9]+)(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    )


def _number(body: str, reading: Separators) -> float | None:
    """Parse a number with these separators; return None if it does not have them."""
    decimal, thousands = reading
    if _digits(reading).fullmatch(body) is None:
        return None
    return float(body.replace(thousands, "").replace(decimal, "."))


def _ways(bodies: Sequence[str]) -> list[Separators]:
    """Return the pairs of decimal and thousands separators with which all numbers can be parsed.

    Pairs with a sign that does not occur are omitted. If ``1,008`` is ambiguous, its comma counts
    as a thousands separator if no integer without a separator has more than three digits, as in
    ``48, 960, 1,008``.
    """
    every = "".join(bodies)
    fitting = [
        (decimal, thousands)
        for decimal, thousands in READINGS
        if thousands in every
        and (decimal == "." or thousands == "." or "," in every)
        and all(_digits((decimal, thousands)).fullmatch(body) for body in bodies)
    ]
    lengths = {len(body.lstrip("+-")) for body in bodies if body.lstrip("+-").isdigit()}
    if set(fitting) == {(",", ""), (".", ",")} and max(lengths, default=0) == 3:
        return [(".", ",")]
    return fitting


def _kind(ways: Sequence[Separators]) -> Kind:
    """Return the kind of a number, given the pairs of separators that can parse it."""
    if PLAIN in ways:
        return "plain"
    if (",", "") in ways:
        return "comma" if (".", ",") in ways else "decimal"
    return "thousands"


def _patterns(
    cells: Sequence[str], parts: Sequence[Cell], unread: Sequence[int], style: NumberFormat
) -> tuple[Pattern, ...]:
    if not unread:
        return ()
    bodies = {cell.body for cell in parts if cell.body and cell.kind != "infinite"}
    ways = _ways(list(bodies))
    places: dict[Kind, list[int]] = {}
    for place in unread:
        for kind in _obstacles(parts[place], style, ways):
            places.setdefault(kind, []).append(place)
    patterns = []
    for kind, where in places.items():
        settings, detail = _advice(kind, ways)
        first = where[0]
        patterns.append(Pattern(kind, len(where), first, cells[first].strip(), settings, detail))
    return tuple(sorted(patterns, key=lambda one: (one.kind == "text", -one.count)))


def _obstacles(cell: Cell, style: NumberFormat, ways: Sequence[Separators]) -> list[Kind]:
    """Return the reasons why a cell cannot be parsed, given the separators of its column."""
    if not cell.body or cell.kind == "infinite":
        return [cell.kind]
    kinds: list[Kind] = ["censored"] if cell.relation and style.censored == "refuse" else []
    if _number(cell.body, (style.decimal, style.thousands)) is None:
        fitting = _ways([cell.body])
        kind = _kind(fitting)
        if kind in ("comma", "plain") and len(ways) == 1:
            # If a single number format fits the whole column, it decides whether 1,008 means 1008
            # or 1.008.
            kind = "thousands" if ways[0] in fitting and ways[0][1] else "decimal"
        kinds.append("point" if kind == "plain" else kind)
    return kinds


def _advice(kind: Kind, ways: Sequence[Separators]) -> tuple[tuple[Settings, ...], str]:
    """Return the settings that parse cells of some kind, and an additional sentence of advice."""
    if kind == "censored":
        return ((("censored", "drop"),), (("censored", "bound"),)), ""
    if kind == "odd":
        return (), "write a plain number without unit, ± or range"
    if kind in ("infinite", "text"):
        return (), ""
    if not ways:
        return (), "no combination of decimal sign and thousands separator fits all cells"
    return tuple(map(_settings, ways)), ""


def _settings(way: Separators) -> Settings:
    decimal, thousands = way
    settings = {"decimal": decimal if decimal != "." else "", "thousands": thousands}
    # If the suggested format is the default, the user has set another decimal sign. The suggestion
    # is then the decimal point.
    return tuple((name, value) for name, value in settings.items() if value) or (("decimal", "."),)
