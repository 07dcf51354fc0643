"""Parser of numbers in table cells. It gives advice on the settings for each column.

``1,008`` is 1008 in one country and 1.008 in another. The whole column is therefore inspected, and
if it can be parsed in two ways, the user has to choose one by a setting.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gattn.data.tables.number_cells import (
    GROUPS,
    READINGS,
    UNIT,
    Cell,
    Kind,
    Separators,
    classify,
    digits_pattern,
    is_missing,
    kind_of_number,
    matching_separators,
    normalised_unit,
    number_of,
)

__all__ = [
    "Cell",
    "NumberColumn",
    "NumberFormat",
    "Pattern",
    "classify",
    "command_option",
    "is_missing",
    "python_argument",
    "read_numbers",
]

Settings = tuple[tuple[str, str], ...]
"""Type of the settings of a :class:`NumberFormat`, as pairs of a name and a value."""

LOWER_LIMITS = frozenset((">", ">=", "=>", ">>", "≥", "≥=", "≫", "≫=", ">>=", "≳", "≳="))
UPPER_LIMITS = frozenset(("<", "<=", "=<", "<<", "≤", "≤=", "≪", "≪=", "<<=", "≲", "≲="))
"""Signs before a number which mean that it is a lower limit (LOWER_LIMITS) or an upper limit
(UPPER_LIMITS) of the true value.
"""

MOST_UNITS = 5
"""Maximum number of different units in a column of numbers. If there are more, its cells are
treated as text.
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
    "plus_minus": ("has an uncertainty after ±", "have an uncertainty after ±"),
    "percent": ("has a percent sign", "have a percent sign"),
    "unit": ("has a unit", "have a unit"),
    "bare": (
        "has no percent sign among labels that have one",
        "have no percent sign among labels that have one",
    ),
    "range": ("is a range of two numbers", "are ranges of two numbers"),
    "power": ("is written as a power of ten", "are written as powers of ten"),
    "hexadecimal": ("is a hexadecimal number", "are hexadecimal numbers"),
    "date": ("is a date or a time", "are dates or times"),
    "odd": ("has an unsupported number format", "have an unsupported number format"),
    "infinite": ("is not a finite number", "are not finite numbers"),
    "text": ("is a text and not a number", "are texts and not numbers"),
}


class Pattern(NamedTuple):
    """Kind of cell that could not be parsed, with an example and the settings that can parse it.

    Attributes:
        kind: the kind of the cells, see :class:`Cell`.
        count: the number of cells with this pattern.
        place: the index of the first such cell in the column.
        example: the text of the first such cell.
        settings: the settings of :class:`NumberFormat` that parse these cells; several if the
            column is ambiguous, empty if no setting parses them.
        detail: a further sentence, for instance about mixed units.
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
        them = "it" if self.count == 1 else "them"
        words = (
            f"{self.count:,} {noun}{'s' * (self.count != 1)} {WORDS[self.kind][self.count != 1]}"
        )
        words += f", for example {self.example!r} {where(self.place)}"
        ways = [" ".join(option(*one) for one in way) for way in self.settings] if option else []
        hints = [self.detail] if self.detail else []
        if len(ways) == 1:
            hints.append(f"{ways[0]} reads {them}" + " as such" * (self.kind == "point"))
        elif ways:
            hints.append(f"use {' or '.join(ways)}")
        return words + f" ({'; '.join(hints)})" * bool(hints)


class NumberColumn(NamedTuple):
    """Numbers in a column, and descriptions of the cells that could not be parsed.

    Attributes:
        values: [k] float64; NaN where a cell is missing, dropped or could not be parsed.
        unread: the indices of the cells that could not be parsed, ascending.
        missing: the number of empty cells and of cells such as ``NA``.
        dropped: the number of censored values that were dropped, because ``censored="drop"``.
        patterns: the patterns of the cells in ``unread``, the most frequent first and texts last.
            A cell that has two patterns (``>1,008``) counts for both.
        doubts: patterns of cells that were parsed but may have another meaning, for a note.
    """

    values: NDArray[np.float64]
    unread: tuple[int, ...]
    missing: int
    dropped: int
    patterns: tuple[Pattern, ...]
    doubts: tuple[Pattern, ...] = ()

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
    """Notation of the numbers in a table: decimal separator, thousands separator, units and so on.

    The minus sign may be an ASCII or a Unicode character. Integers without separators are parsed
    with any settings.

    Attributes:
        decimal: the decimal sign, ``"."`` or ``","``.
        thousands: the separator between groups of three digits: ``","``, ``"."``, ``" "`` (any
            space), ``"'"``, or none.
        censored: treatment of ``">10"``, ``"<0.5"`` and ``"~3"``: ``"refuse"`` does not parse
            them, ``"drop"`` treats them as missing, ``"bound"`` returns the number as the value.
            ``"limit"`` treats ``">10"`` and ``"<0.5"`` as missing, but :meth:`limits` returns
            them, and returns 3 for ``"~3"``.
        uncertainty: treatment of ``"3.2 ± 0.1"``: ``"refuse"`` does not parse it, ``"drop"``
            returns 3.2.
        unit: the unit that may follow a number, for example ``"nM"`` or ``"%"``. The number is not
            converted: ``45 %`` is 45.

    Raises:
        ValueError: a value that a setting does not accept, or the same sign for decimals and
            thousands.

    >>> NumberFormat(decimal=",", thousands=".").parse("1.008,5")
    1008.5
    """

    decimal: str = "."
    thousands: str = ""
    censored: Literal["refuse", "drop", "bound", "limit"] = "refuse"
    uncertainty: Literal["refuse", "drop"] = "refuse"
    unit: str = ""

    def __post_init__(self) -> None:
        choices = {
            "decimal": (".", ","),
            "thousands": tuple(GROUPS),
            "censored": ("refuse", "drop", "bound", "limit"),
            "uncertainty": ("refuse", "drop"),
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
        if self.unit and re.fullmatch(UNIT, normalised_unit(self.unit)) is None:
            raise ValueError(f"unit must be letters or %, for example nM; got {self.unit!r}")

    def parse(self, cell: str) -> float | None:
        """Convert the text of one cell to a number.

        Args:
            cell: the text of the cell.

        Returns:
            The number; NaN if the cell is missing or contains a censored value that is to be
            dropped; infinity if the cell contains infinity or a number outside the range of
            float64;
            None if the cell cannot be parsed.

        >>> NumberFormat().parse("−3.2"), NumberFormat().parse("1,5")
        (-3.2, None)
        >>> NumberFormat(censored="bound").parse("> 10")
        10.0
        """
        return _parse(cell, classify(cell), self)

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
        value = _parse(cell, parts, replace(self, censored="bound"))
        if value is None or not math.isfinite(value):
            return math.nan, math.nan
        return (
            -math.inf if parts.relation in UPPER_LIMITS else value,
            math.inf if parts.relation in LOWER_LIMITS else value,
        )


def command_option(name: str, value: str) -> str:
    """Format a setting as an option of a command.

    >>> command_option("thousands", " ")
    "--thousands ' '"
    """
    quoted = '"\'"' if value == "'" else shlex.quote(value)
    return f"--{name.replace('_', '-')} {quoted}"


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
    look = cache(classify)
    values = np.full(len(cells), math.nan)
    unread: list[int] = []
    missing = dropped = 0
    parts: list[Cell] = []
    for place, text in enumerate(cells):
        cell = look(text)
        parts.append(cell)
        value = _parse(text, cell, style)
        if value is None or math.isinf(value):
            unread.append(place)
        else:
            values[place] = value
            missing += cell.kind == "missing"
            dropped += cell.kind != "missing" and math.isnan(value)
    if style.unit == "%" and any(cell.unit for cell in parts):
        # In a column of percentages, a cell without a percent sign is ambiguous: 0.45 may mean 45 %
        # or 0.45 %. Such a cell is treated as unreadable.
        bare = [i for i, cell in enumerate(parts) if cell.body and not cell.unit]
        values[bare] = math.nan
        unread = sorted({*unread, *bare})
    patterns = tuple(_patterns(cells, parts, unread, style))
    doubts = tuple(_doubts(cells, parts, style))
    return NumberColumn(values, tuple(unread), missing, dropped, patterns, doubts)


def _parse(text: str, cell: Cell, style: NumberFormat) -> float | None:
    if cell.kind == "missing":
        return math.nan
    if cell.kind == "infinite":
        return math.copysign(math.inf, float(cell.body))
    if not cell.body or (cell.relation and style.censored == "refuse"):
        return None
    if cell.relation and style.censored == "drop":
        return math.nan
    if (cell.spread and style.uncertainty == "refuse") or not _is_unit(cell, style):
        return None
    value = number_of(cell.body, (style.decimal, style.thousands))
    is_limit = cell.relation in LOWER_LIMITS or cell.relation in UPPER_LIMITS
    if style.censored == "limit" and is_limit and value is not None:
        return math.nan
    return value


def _is_unit(cell: Cell, style: NumberFormat) -> bool:
    return cell.unit in ("", normalised_unit(style.unit))


def _obstacles(cell: Cell, style: NumberFormat) -> Iterator[Kind]:
    """Yield each reason why a cell cannot be parsed with a number format."""
    if not cell.body or cell.kind == "infinite":
        yield cell.kind
        return
    if cell.relation and style.censored == "refuse":
        yield "censored"
    if cell.spread and style.uncertainty == "refuse":
        yield "plus_minus"
    if not _is_unit(cell, style):
        yield "percent" if cell.unit == "%" else "unit"
    if number_of(cell.body, (style.decimal, style.thousands)) is None:
        kind = kind_of_number(matching_separators(cell.body))
        yield "point" if kind == "plain" else kind
    elif style.unit == "%" and not cell.unit:
        yield "bare"


def _patterns(
    cells: Sequence[str], parts: Sequence[Cell], unread: Sequence[int], style: NumberFormat
) -> list[Pattern]:
    if not unread:
        return []
    places: dict[Kind, list[int]] = {}
    units = Counter(cell.unit for cell in parts if cell.unit)
    for place in unread:
        for kind in _obstacles(parts[place], style):
            words = kind == "unit" and len(units) > MOST_UNITS
            places.setdefault("text" if words else kind, []).append(place)
    ways = _ways([cell for cell in parts if cell.body and cell.kind != "infinite"])
    if len(ways) == 1:
        # If a single number format fits the whole column, it decides whether 1,008 means 1008 or
        # 1.008.
        undecided = [place for kind in ("comma", "point") for place in places.pop(kind, [])]
        for place in undecided:
            grouped = ways[0] in matching_separators(parts[place].body) and ways[0][1]
            places.setdefault("thousands" if grouped else "decimal", []).append(place)
    patterns = []
    for kind, where in places.items():
        settings, detail = _hint(kind, ways, units, style)
        first = min(where)
        patterns.append(Pattern(kind, len(where), first, cells[first].strip(), settings, detail))
    return sorted(patterns, key=lambda pattern: (pattern.kind == "text", -pattern.count))


def _hint(
    kind: Kind, ways: Sequence[Separators], units: Counter[str], style: NumberFormat
) -> tuple[tuple[Settings, ...], str]:
    """Return the settings with which cells of some kind can be parsed, and an additional
    sentence of advice.
    """
    if kind in ("thousands", "decimal", "comma", "point"):
        if not ways:
            return (), "no combination of decimal sign and thousands separator fits all cells"
        return tuple(_settings(way) for way in ways), ""
    if kind == "censored":
        return ((("censored", "drop"),), (("censored", "bound"),)), ""
    if kind == "plus_minus":
        return ((("uncertainty", "drop"),),), ""
    if kind in ("percent", "unit"):
        if len(units) == 1 and not style.unit:
            return ((("unit", next(iter(units))),),), ""
        mixed = ", ".join(f"{unit} {count:,} times" for unit, count in units.most_common())
        prefix = (
            f"the unit is set to {style.unit!r}, but the column has "
            if style.unit
            else "units are "
        )
        return (), f"{prefix}{'' if style.unit else 'mixed: '}{mixed}; convert them to one unit"
    if kind == "bare":
        return (), "write the unit in all cells or in none"
    if kind == "power":
        return (), "write 1.2e-3"
    return (), ""


def _settings(way: Separators) -> Settings:
    decimal, thousands = way
    settings = {"decimal": decimal if decimal != "." else "", "thousands": thousands}
    # If the suggested format is the default, the user has set another decimal separator. The
    # suggestion is then the decimal point.
    return tuple((name, value) for name, value in settings.items() if value) or (("decimal", "."),)


def _ways(parts: Sequence[Cell]) -> list[Separators]:
    """Return the pairs of decimal and thousands separators with which the whole column can be
    parsed.

    Pairs with a sign that does not occur are omitted. If ``1,008`` is ambiguous, its comma counts
    as a thousands separator if no integer without a separator has more than three digits, as in
    ``48, 960, 1,008``.
    """
    bodies = {body for cell in parts for body in (cell.body, cell.spread) if body}
    every = "".join(bodies)
    fitting = [
        (decimal, thousands)
        for decimal, thousands in READINGS
        if all(digits_pattern((decimal, thousands)).fullmatch(body) for body in bodies)
        and (not thousands or re.search(GROUPS[thousands] or "", every))
        and (decimal == "." or thousands == "." or "," in every)
    ]
    if set(fitting) == {(",", ""), (".", ",")} and _stops_at_three(bodies):
        return [(".", ",")]
    return fitting


def _stops_at_three(bodies: set[str]) -> bool:
    """Return True if the longest integer without separators has exactly three digits."""
    lengths = {len(body.lstrip("+-")) for body in bodies if body.lstrip("+-").isdigit()}
    return bool(lengths) and max(lengths) == 3


def _doubts(cells: Sequence[str], parts: Sequence[Cell], style: NumberFormat) -> Iterator[Pattern]:
    """Yield a pattern for parsed numbers whose point may be a thousands separator.

    For example, a column with ``960`` and ``1.200`` is suspicious: with three decimals, 960 would
    be written as ``960.000``, and without trailing zeros, 1.2 would be written as ``1.2``.
    """
    if style.decimal != "." or style.thousands:
        return
    bodies = {cell.body for cell in parts if cell.kind == "plain"}
    pointed = {body for body in bodies if "." in body}
    if not pointed or not _stops_at_three(bodies):
        return
    grouped = all(re.fullmatch(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}", body) for body in pointed)
    if grouped and any(body.endswith("0") for body in pointed):
        places = [i for i, cell in enumerate(parts) if cell.body in pointed]
        settings = _settings((",", "."))
        text = cells[places[0]].strip()
        detail = f"it was read as {float(parts[places[0]].body):g}"
        yield Pattern("point", len(places), places[0], text, (settings,), detail)
