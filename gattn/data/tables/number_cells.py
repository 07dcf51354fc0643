"""Patterns of numbers in table cells: which parts a cell has, and of which kind the cell is.

Only ASCII digits are accepted, whereas ``float`` also accepts ``1_000``, ``１２`` and ``٣``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

__all__ = [
    "GROUPS", "READINGS", "UNIT", "Cell", "Kind", "Separators", "classify", "digits_pattern",
    "is_missing", "kind_of_number", "matching_separators", "normalised_unit", "number_of",
]  # fmt: skip

# fmt: off
Kind = Literal[
    "plain", "missing", "infinite", "censored", "thousands", "decimal", "comma", "point",
    "plus_minus", "percent", "unit", "bare", "range", "power", "hexadecimal", "date", "odd", "text",
]
# fmt: on
Separators = tuple[str, str]
"""Type of a pair of a decimal separator and a thousands separator."""
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "nan", "-nan", "nat", "none", "null")
)
MINUS = dict.fromkeys(map(ord, "−–‐‑﹣－"), "-")
"""Unicode minus signs and dashes, which are replaced by the ASCII minus before parsing."""
SPACES = " \u00a0\u2009\u202f"
GROUPS = {"": None, ",": ",", ".": r"\.", " ": f"[{SPACES}]", "'": "['’]"}
"""Regular expressions for the characters that each thousands separator accepts."""
READINGS: tuple[Separators, ...] = (
    *((".", ""), (",", ""), (".", ","), (",", ".")),
    *((".", " "), (",", " "), (".", "'"), (",", "'")),
)
"""All supported pairs of a decimal separator and a thousands separator; the most common pair is
first.
"""
DIGITS = rf"[+-]?[0-9.,'’{SPACES}]*[0-9][.,]?(?:[eE][+-]?[0-9]+)?"
"""Regular expression for digits with any separators, which :func:`matching_separators` checks."""
RELATION = r"(?:<<|>>|=[<>]|[<>≤≥≪≫~≈≲≳]=?|(?:ca|approx|circa|about|c)\.?(?=[\s\d+-]))"
UNIT = r"(?:%|‰|[^\W\d_]|[°µ])(?:[^\W_]|[%/°µ·^*().-]| (?=[^\W\d_]))*"
PARTS = re.compile(
    rf"(?P<relation>{RELATION})?\s*(?P<body>{DIGITS})\s*"
    rf"(?:(?:±|\+\s*/?\s*-)\s*(?P<spread>{DIGITS})\s*)?(?P<unit>{UNIT})?",
    re.IGNORECASE,
)
PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
RANGE = re.compile(rf"(?P<first>{DIGITS})\s*(?:-|\.\.+|…|to)\s*{DIGITS}\s*(?:{UNIT})?")
POWER = re.compile(rf"{DIGITS}\s*[x×*·⋅]\s*10\s*(?:\^|\*\*)?\s*[(]?[+-]?[0-9⁻⁺⁰¹²³⁴-⁹]+[)]?")
EXPONENT = re.compile(r"[⁰¹²³⁴-⁹]")
"""Superscript digits. After a number they are an exponent (``10⁻³``), and not a unit."""
FORTRAN = re.compile(r"[+-]?[0-9]*\.?[0-9]+\.?[dDqQ][+-]?[0-9]+")
"""Regular expression for a number in Fortran's notation, for example ``1.2D-3``."""
HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
INFINITE = re.compile(r"[+-]?(?:inf|infinity|∞)", re.IGNORECASE)
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?\s*(?:[ap]m)?\s*(?:z|[+-][0-9:]{2,5})?"
DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
YEAR = r"(?:[12][0-9]{3}|[0-9]{2})"
DATE = re.compile(
    rf"(?:(?:[12][0-9]{{3}}[-/.]{DAY}[-/.]{DAY}|[12][0-9]{{3}}-(?:0[1-9]|1[0-2])"
    rf"|{DAY}([-/.]){DAY}\1{YEAR}"
    rf"|{DAY}[-/. ]{MONTH}(?:[-/., ]+{YEAR})?|{MONTH}[-/. ]+{DAY}(?:,?[-/. ]+{YEAR})?"
    rf"|{MONTH}[-/ ]{YEAR})(?:[t ]\s*{CLOCK})?|{CLOCK})",
    re.IGNORECASE,
)
LONGEST = 100
"""Maximum length of a number. A longer cell is treated as text, which limits the time of
matching.
"""


class Cell(NamedTuple):
    """Components of a cell: number, relation, uncertainty and unit.

    Attributes:
        kind: the pattern of the cell. The default :class:`NumberFormat` parses ``"plain"`` cells.
            The comma of a ``"comma"`` cell may separate thousands or decimals; the other cells of
            the column determine which.
        body: the digits with their sign and separators, with an ASCII minus; empty if the cell
            is not a single number.
        relation: the sign before the number, for example ``>``, ``<`` or ``~``.
        spread: the number after ``±``.
        unit: ``%`` or the letters after the number. The micro sign is replaced by the Greek mu,
            which looks alike.
    """

    kind: Kind
    body: str = ""
    relation: str = ""
    spread: str = ""
    unit: str = ""


def is_missing(cell: str) -> bool:
    """Return True if a cell contains no value: empty, NA, N/A, #N/A, NaN, NaT, None or null.

    >>> is_missing(" NA "), is_missing("0")
    (True, False)
    """
    return cell.strip().lower() in MISSING


def classify(cell: str) -> Cell:
    """Split a cell into number, sign, uncertainty and unit, and determine its kind.

    >>> classify("> 1,008 nM")
    Cell(kind='censored', body='1,008', relation='>', spread='', unit='nM')
    >>> classify("3,25").kind, classify("1,008").kind, classify("3-Dec-20").kind
    ('decimal', 'comma', 'date')
    """
    text = cell.strip().translate(MINUS)
    if PLAIN.fullmatch(text):
        return Cell("plain" if math.isfinite(float(text)) else "infinite", text)
    if is_missing(text):
        return Cell("missing")
    if len(text) > LONGEST:
        return Cell("text")
    if INFINITE.fullmatch(text):
        return Cell("infinite", "-inf" if text.startswith("-") else "inf")
    if HEXADECIMAL.fullmatch(text):
        return Cell("hexadecimal")
    if DATE.fullmatch(text):
        return Cell("date")
    if POWER.fullmatch(text):
        return Cell("power")
    if (match := RANGE.fullmatch(text)) and matching_separators(match["first"]):
        return Cell("range")
    if FORTRAN.fullmatch(text):
        return Cell("odd")
    match = PARTS.fullmatch(text)
    if match is None or not (ways := matching_separators(match["body"])):
        return Cell(_text_kind(text))
    relation, spread, unit = (match[name] or "" for name in ("relation", "spread", "unit"))
    if spread and not matching_separators(spread):
        return Cell(_text_kind(text))
    if EXPONENT.match(unit):
        return Cell("power")
    unit = normalised_unit(unit)
    if relation:
        kind: Kind = "censored"
    elif spread:
        kind = "plus_minus"
    elif unit:
        kind = "percent" if unit == "%" else "unit"
    else:
        kind = kind_of_number(ways)
    return Cell(kind, match["body"], relation, spread, unit)


def _text_kind(text: str) -> Kind:
    """Return the kind of a cell that is not parsed: ``"odd"`` for an unusual number, otherwise
    ``"text"``.

    A cell with digits but without letters is probably a number: (0.164) in accounting, $1.0,
    1_006, ="1.0", 1e 3, or digits of another script. Dropping such cells as texts would bias the
    labels.
    """
    letters = re.sub(r"(?<=[\d.])\s*[eE](?=\s*[+-]?\s*\d)", "", text)
    digits = any(character.isdigit() for character in text)
    return "text" if not digits or any(map(str.isalpha, letters)) else "odd"


def normalised_unit(text: str) -> str:
    """Normalise the text of a unit with NFKC, so that the micro sign becomes the Greek letter
    mu.
    """
    return unicodedata.normalize("NFKC", text.strip())


@cache
def digits_pattern(reading: Separators) -> re.Pattern[str]:
    """Return a regular expression for numbers with these decimal and thousands separators."""
    decimal, thousands = reading
    whole = ["[0-9]+"]
    if group := GROUPS[thousands]:
        whole.insert(0, rf"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+")
        if thousands == ",":
            # In India the digits before the last three are grouped in pairs: 12,34,567.
            whole.insert(0, r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}")
    fraction = r"(?:\.[0-9]*)?" if decimal == "." else "(?:,[0-9]+)?"
    small = rf"{re.escape(decimal)}[0-9]+"
    return re.compile(rf"[+-]?(?:(?:{'|'.join(whole)}){fraction}|{small})(?:[eE][+-]?[0-9]+)?")


def matching_separators(body: str) -> list[Separators]:
    """Return the pairs of separators that can parse ``body`` and that occur in it."""
    return [
        way
        for way in READINGS
        if digits_pattern(way).fullmatch(body)
        and (not way[1] or re.search(GROUPS[way[1]] or "", body))
    ]


def kind_of_number(ways: Sequence[Separators]) -> Kind:
    """Return the kind of a number, given the pairs of separators that can parse it."""
    if (".", "") in ways:
        return "plain"
    if {(",", ""), (".", ",")} <= set(ways):
        return "comma"
    return "thousands" if all(thousands for _, thousands in ways) else "decimal"


def number_of(body: str, reading: Separators) -> float | None:
    """Parse digits with these separators; return None if the digits do not match them."""
    if digits_pattern(reading).fullmatch(body) is None:
        return None
    decimal, thousands = reading
    if group := GROUPS[thousands]:
        body = re.sub(group, "", body)
    return float(body.replace(decimal, "."))
