"""Conversion of attribute values to numbers, texts, masks of missing values, and flat columns.

An empty cell is missing: None, NaN, or a text of white space. Words such as ``NA``, ``NaN``,
``None`` and ``null``, in upper or lower case, are missing in a column whose other cells are
numbers. In all other columns these words are values: a class may be called ``none``, and the
country code of Namibia is ``NA``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from numbers import Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import GraphError, Where
from gattn.apps.tables import numbers as written
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.numbers import NumberFormat, Pattern, classify, read_numbers

SAMPLE = 500
WORD_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
POINTED = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")
COMMAS = (NumberFormat(decimal=","), NumberFormat(decimal=",", thousands="."))
"""Formats of the numbers in a table that is separated by semicolons."""


@dataclass(frozen=True)
class CellRules:
    """Rules for reading the cells of the attributes of nodes and edges.

    Attributes:
        missing: words that stand for a missing value, compared without the white space around
            them, besides empty cells. A number, such as ``-1``, is also compared with numbers.
        style: format of the numbers in texts; None to leave numbers with a decimal point as texts,
            and to read those with a decimal comma in tables that semicolons separate.
    """

    missing: Sequence[str] = ()
    style: NumberFormat | None = None

    def read(
        self, table: pd.DataFrame, separator: str = "", owner: str = ""
    ) -> tuple[pd.DataFrame, list[str]]:
        """Mark the missing values of a table, and convert the columns that contain only numbers.

        Args:
            table: attributes of nodes or edges.
            separator: character between the cells of the file.
            owner: text that follows the name of a column in a note, for example ``" of the
                edges"``.

        Returns:
            The table; and notes on the columns that were changed, and on those whose points may
            separate thousands.

        >>> table = pd.DataFrame({"size": ["0,5", "2,25", "-"]})
        >>> CellRules(missing=["-"]).read(table, ";")[0]["size"].tolist()
        [0.5, 2.25, nan]
        """
        table, notes = _with_gaps(table, self.missing, owner)
        formats = [self.style] if self.style else COMMAS if separator == ";" else ()
        table, number_notes = _numbers(table, formats, self.style is not None, owner)
        return table, [*notes, *number_notes]


def _with_gaps(
    table: pd.DataFrame, words: Sequence[str], owner: str = ""
) -> tuple[pd.DataFrame, list[str]]:
    """Mark the missing values of a table, which the user named.

    Args:
        table: attributes of nodes or edges.
        words: texts that stand for a missing value. Texts are compared without the white space
            around them; a word that is a number is also compared with numbers.
        owner: text that follows the name of a column in a note.

    Returns:
        The table, in which these cells are None and their columns have the dtype object; and a note
        for each of these columns. Without words, the table itself and no notes.
    """
    gaps = {word.strip() for word in words}
    if not gaps:
        return table, []
    numbers = {float(gap) for gap in gaps if WORD_NUMBER.fullmatch(gap)}

    def stands_for_gap(cell: object) -> bool:
        """Return True if the user named this text or number as a missing value."""
        if isinstance(cell, str):
            return cell.strip() in gaps
        is_number = isinstance(cell, Real) and not isinstance(cell, bool | np.bool_)
        return is_number and cell in numbers

    is_gap = table.map(stands_for_gap)
    counts = {name: int(is_gap[name].sum()) for name in table.columns}
    notes = [
        f"Column {name!r}{owner}: {count:,} cell{'s' * (count > 1)} with "
        f"{', '.join(map(repr, words))} {'is' if count == 1 else 'are'} missing."
        for name, count in counts.items()
        if count
    ]
    masked = table.astype(object).mask(is_gap, None)
    columns = {name: masked[name] if counts[name] else table[name] for name in counts}
    return pd.DataFrame(columns, index=table.index), notes


def _numbers(
    original: pd.DataFrame, formats: Sequence[NumberFormat], is_chosen: bool, owner: str = ""
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table in which text columns that contain only numbers are converted, and notes.

    Args:
        original: the table.
        formats: the formats to try; the first that reads all texts of a column is used.
        is_chosen: True if the user chose the format, which then also reads numbers with a point.
        owner: follows the name of a column in the notes.
    """
    table, notes = original.copy(deep=False), []
    pointed: list[str] = []
    with_commas = False
    for name in original.columns if formats else ():
        values = original[name]
        if not all(isinstance(value, str) for value in values.dropna()):
            continue
        texts = as_texts(values)
        if not looks_numeric(texts):
            continue
        plain = read_numbers(texts)
        tried = formats if is_chosen or plain.unread else ()
        chosen = next((one for one in tried if not read_numbers(texts, one).unread), None)
        if chosen is None:
            point = next((text for text in texts if POINTED.fullmatch(text.strip())), None)
            if point is not None and not plain.unread:
                pointed.append(f"Column {name!r}{owner} has points, for example {point!r}")
            continue
        column = read_numbers(texts, chosen)
        if np.array_equal(column.values, plain.values, equal_nan=True):
            continue
        table[name] = column.values
        with_commas = with_commas or chosen.decimal == ","
        differ = (column.values != plain.values) & np.isfinite(column.values)
        place = int(differ.argmax())
        notes.append(
            f"Column {name!r}{owner} is read with another number format: "
            f"{texts[place].strip()!r} is {column.values[place]:g}."
        )
    if with_commas:
        notes += [
            f"{words}, but other columns have decimal commas: the points are read as decimal "
            "points. If they separate thousands, use --decimal , and --thousands ."
            for words in pointed
        ]
    return table, notes


def looks_numeric(texts: Sequence[str]) -> bool:
    """Return True if at least a third of the texts look like numbers. Of long columns, 500 texts
    are examined.

    >>> looks_numeric(["0,5", "", "7 %"]), looks_numeric(["a paper on graphs", "on sets"])
    (True, False)
    """
    some = [text for text in texts if text.strip()]
    some = some[:: 1 + len(some) // SAMPLE]
    kinds = [classify(text).kind for text in some]
    return 3 * sum(kind != "text" for kind in kinds) >= len(kinds) > 0


def describe_patterns(patterns: Iterable[Pattern], where: Where, remedy: str = "") -> str:
    """Describe the cells that are not plain numbers, and name the option with which they can be
    read.

    Args:
        patterns: patterns of the cells.
        where: function that describes the position of a node.
        remedy: advice on cells for which there is no option; empty for no advice.

    >>> describe_patterns(read_numbers(["1", ">10"]).patterns, "at node {}".format, "write numbers")
    "1 cell with a relation, which marks a censored value, for example '>10' at node 1: write \
numbers"
    """
    patterns = list(patterns)
    sentences = "; ".join(pattern.sentence(where) for pattern in patterns)
    return sentences + f": {remedy}" * any(bool(remedy) and not one.options for one in patterns)


TIMES = (
    date, time, np.datetime64, pd.Period, timedelta, np.timedelta64, pd.tseries.offsets.BaseOffset,
)  # fmt: skip
NUMERIC = "iufb"
"""Kinds of dtypes whose columns cannot contain texts."""
LISTS = (list, tuple, set, np.ndarray)

PLAIN = NumberFormat()
BRACKETS = re.compile(r"\s*(?:(?:array|tensor)\()?\[([^\[\]]*)\](?:, dtype=\S+)?\)?\s*")
"""Pattern of a list as pandas, NumPy and PyTorch write it into a text."""
BETWEEN = re.compile(r"\s*([,;|])\s*|\s+")
NUMBERS = re.compile(r"\[\s*[-+.\d]")
CODE = re.compile(r"\d{1,3}([ ,]\d{3})+|(.*\D)?0\d.*", re.DOTALL)
"""Pattern of texts that are no list without brackets: thousands, dates and telephone numbers."""


def is_empty(values: pd.Series) -> NDArray[np.bool_]:
    """Return a mask [n] that is True for None, NaN and texts of only white space."""
    if values.dtype.kind in NUMERIC:
        return np.asarray(values.isna(), dtype=bool)
    blank = [isinstance(value, str) and not value.strip() for value in values.tolist()]
    return np.asarray(values.isna(), dtype=bool) | np.array(blank, dtype=bool)


def is_missing(values: pd.Series, *, numbers: bool | None = None) -> NDArray[np.bool_]:
    """Return a mask [n] that is True where a value is missing.

    Args:
        values: n values.
        numbers: True if words such as ``NA`` are missing values, as in a column of numbers; False
            if they are not; None if they are missing values when all other values are numbers.

    >>> is_missing(pd.Series(["1.5", "NA", ""])), is_missing(pd.Series(["none", "mild", ""]))
    (array([False,  True,  True]), array([False, False,  True]))
    """
    empty, words = is_empty(values), _is_word(values)
    if not words.any():
        return empty
    if numbers is None:
        rest = ~(empty | words)
        numbers = bool(rest.any()) and not np.isnan(as_numbers(values)[rest]).any()
    return empty | words if numbers else empty


def gap_notes(values: pd.Series, title: str) -> list[str]:
    """Return a note if a column contains words, such as ``NA``, that may stand for a missing value.

    Args:
        values: n values.
        title: description of the column.

    >>> gap_notes(pd.Series(["1", "NA"]), "Column 'x'")
    ["Column 'x' contains 'NA' (1): a missing value, because the other cells are numbers."]
    """
    counts = Counter(str(value).strip() for value in values[_is_word(values)].tolist())
    if not counts:
        return []
    words = ", ".join(f"{word!r} ({count:,})" for word, count in counts.items())
    if int(is_missing(values).sum()) > int(is_empty(values).sum()):
        reason = "a missing value, because the other cells are numbers."
    else:
        reason = (
            "in a column of texts such a word is a value, and only an empty cell is missing. If "
            "the word stands for a missing value, list it in --missing."
        )
    return [f"{title} contains {words}: {reason}"]


def as_numbers(values: pd.Series, style: NumberFormat = PLAIN) -> NDArray[np.float64]:
    """Convert n values to numbers.

    Args:
        values: n values.
        style: format of numbers in texts.

    Returns:
        [n] float64, NaN for a missing value, a date, a time, a duration, and any other value that
        is not a number.

    Raises:
        GraphError: a value is complex.

    >>> as_numbers(pd.Series(["1.5", None, "old", "-2"]))
    array([ 1.5,  nan,  nan, -2. ])
    """
    if is_complex(values):
        title = "labels" if values.name is None else f"attribute {values.name!r}"
        raise GraphError(
            f"{title} must have real numbers; got complex numbers: pass the real and the "
            "imaginary part, or the absolute value and the angle, as separate columns"
        )
    if values.dtype.kind in "mM" or isinstance(values.dtype, pd.PeriodDtype):
        return np.full(len(values), np.nan)
    if values.dtype == object or isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        texts = {value for value in values.tolist() if isinstance(value, str)}
        parsed = {text: style.parse(text) if _may_be_number(text) else None for text in texts}

        def number(value: object) -> object:
            """Return the number of a text; None for a time, and any other value unchanged."""
            if isinstance(value, str):
                return parsed[value]
            return None if isinstance(value, TIMES) else value

        values = pd.Series([number(value) for value in values.tolist()], dtype=object)
    converted = pd.Series(pd.to_numeric(values, errors="coerce"))
    numbers = np.array(converted.to_numpy(dtype=np.float64, na_value=np.nan))
    # pandas.to_numeric converts a missing date to a number, so the missing values are set to NaN
    # again.
    numbers[np.asarray(values.isna(), dtype=bool)] = np.nan
    return numbers


def finite_numbers(
    values: pd.Series, title: str, requirement: str, where: Where, remedy: str
) -> NDArray[np.float64]:
    """Convert n values to numbers, NaN for a missing value.

    Args:
        values: n values.
        title: description of the values.
        requirement: words after "must" in the error message, for example ``"be numbers"``.
        where: describes the position of a value.
        remedy: advice on cells that are not numbers.

    Returns:
        [n] float64.

    Raises:
        GraphError: a value is neither missing nor a number, or is infinite or beyond float32.
    """
    numbers = as_numbers(values)
    invalid = np.isnan(numbers) & ~is_missing(values, numbers=True)
    if invalid.any():
        texts = [str(value) if bad else "" for value, bad in zip(values.tolist(), invalid)]
        patterns = describe_patterns(read_numbers(texts).patterns, where, remedy)
        text = texts[int(invalid.argmax())]
        raise GraphError(f"{title} must {requirement}; got {text!r}: {patterns}")
    if (large := numbers[np.abs(numbers) > LARGEST]).size:
        raise GraphError(f"{title} must be finite in float32; one is {large[0]:g}")
    return numbers


def is_complex(values: pd.Series) -> bool:
    """Return True if a column contains a complex number."""
    if values.dtype.kind == "c":
        return True
    is_mixed = values.dtype == object or isinstance(values.dtype, pd.CategoricalDtype)
    return is_mixed and any(isinstance(value, complex | np.complexfloating) for value in values)


def _as_text(value: object) -> str:
    """Convert a value to text. A time stamp at midnight is written as its date, as in CSV files."""
    text = str(value)
    return text.removesuffix(" 00:00:00") if isinstance(value, date) else text


def _may_be_number(text: str) -> bool:
    """Return True if a text begins like a number. Other texts need not be parsed."""
    start = text.lstrip()[:1]
    # A text such as "infinity" is a number that begins with a letter.
    return not start.isalpha() or start in "iI"


def are_distinct_integers(numbers: NDArray[np.float64]) -> bool:
    """Return True if all numbers are whole and no two are equal.

    >>> are_distinct_integers(np.array([3.0, 1.0])), are_distinct_integers(np.array([1.0, np.nan]))
    (True, False)
    """
    if np.isnan(numbers).any() or (numbers % 1 != 0).any():
        return False
    return len(np.unique(numbers)) == len(numbers)


def as_texts(values: pd.Series, *, gaps: bool = False) -> list[str]:
    """Convert n values to texts; a missing value gives an empty text, and a time stamp at midnight
    its date. Words such as ``NA`` are missing values if all other values are numbers.

    Args:
        values: n values.
        gaps: True to treat words such as ``NA`` as missing values in a column of texts, too.
    """
    missing = is_missing(values, numbers=gaps or None)
    return ["" if gone else _as_text(value) for value, gone in zip(values.tolist(), missing)]


def _is_word(values: pd.Series) -> NDArray[np.bool_]:
    """Return a mask [n] of the values that are words for a missing value, such as ``NA``."""
    if values.dtype.kind in NUMERIC:
        return np.zeros(len(values), dtype=bool)
    words = [_is_gap(value) for value in values.tolist()]
    return np.array(words, dtype=bool)


def _is_gap(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and written.is_missing(value)


def shape_fault(name: str, shape: tuple[int, ...], nodes: int) -> str:
    """Return "" if the shape of an array is [n] or [n, 1], otherwise return an error message.

    >>> shape_fault("train_mask", (3, 1), 5)
    'train_mask must have one value for each of 5 nodes; it is (3, 1)'
    """
    if shape in ((nodes,), (nodes, 1)):
        return ""
    fault = f"{name} must have one value for each of {nodes:,} nodes; it is {shape}"
    if len(shape) == 2 and shape[0] == nodes:
        one_hot = ", or y.argmax(1) where it is one-hot" if name == "y" else ""
        return f"{fault}: choose one of its columns, for example {name}[:, 0]{one_hot}"
    if name.endswith("mask") and len(shape) == 1 and shape[0] < nodes:
        return f"{fault}: convert indices to a mask that is True at these indices"
    return fault


def flat_table(
    table: pd.DataFrame, names: Sequence[Hashable] | None = None
) -> tuple[pd.DataFrame, list[str], dict[Hashable, str]]:
    """Convert attributes that have several values per node to columns with one value per node.

    Lists of numbers of equal length become columns ``x.0``, ``x.1``, ..., also if they are written
    as texts, such as ``[0.5, 2]`` or ``0,1,0,0``. A list of texts becomes one text. Dictionaries,
    such as the positions and colours of a GEXF file, are left out.

    Args:
        table: n rows of attributes.
        names: names of the n nodes; None to number them from 0.

    Returns:
        The table; sentences about decisions; and the reason for each attribute that cannot be read:
        two columns have its name, its lists have different lengths, or its lists contain other
        values.

    Example:
        >>> table = pd.DataFrame({"at": [[0, 1], None], "tags": [["old", "red"], []]})
        >>> flat_table(table)[0].columns.tolist()
        ['at.0', 'at.1', 'tags']
    """
    twice = table.columns.duplicated(keep=False)
    unreadable = {name: _several(name) for name in table.columns[twice]}
    table = table.loc[:, ~twice]
    parts: list[pd.DataFrame] = []
    notes: list[str] = []
    for name in table.columns:
        values, note = _parsed_lists(table[name])
        notes += note
        kinds = {type(value) for value in values} if values.dtype == object else set()
        if dict in kinds:
            notes.append(f"Attribute {name!r} contains dictionaries: it is not used.")
        elif not any(issubclass(kind, LISTS) for kind in kinds):
            parts.append(values.to_frame())
        elif _is_texts(values):
            parts.append(_joined(values).to_frame())
            notes.append(
                f"Attribute {name!r} contains lists of texts: each list is read as one text."
            )
        else:
            try:
                parts.append(_list_columns(values, range(len(table)) if names is None else names))
            except GraphError as error:
                unreadable[name] = str(error)
    flat = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=table.index)
    # A list attribute "x" becomes the columns "x.0", "x.1", ...; columns with these names may
    # already exist.
    again = flat.columns.duplicated(keep=False)
    unreadable |= {name: _several(name) for name in flat.columns[again]}
    return flat.loc[:, ~again], notes, unreadable


@dataclass(frozen=True, eq=False)
class SourceTable:
    """Table of nodes or edges, as it is in a file or in Python.

    Attributes:
        frame: a row for each node or edge.
        lines: line of each row in the file, from 1; empty if there is no file.
        separator: character between the cells of the file; empty for other tables.
        cells: rules for reading the attributes.
    """

    frame: pd.DataFrame
    lines: Sequence[int] = ()
    separator: str = ""
    cells: CellRules = field(default_factory=CellRules)

    def select(self, rows: NDArray[np.intp]) -> SourceTable:
        """Return the table of some rows."""
        lines = np.asarray(self.lines)[rows].tolist() if len(self.lines) else ()
        return replace(self, frame=self.frame.iloc[rows], lines=lines)

    def columns(self, places: Sequence[int]) -> SourceTable:
        """Return the table of the columns at some positions."""
        return replace(self, frame=self.frame.iloc[:, list(places)])

    def attributes(
        self, names: Sequence[Hashable] | None = None, owner: str = ""
    ) -> tuple[pd.DataFrame, list[str], dict[Hashable, str]]:
        """Return a new table of the attributes of the rows, notes on them, and the reason for each
        attribute that cannot be read; see :func:`flat_table` and :class:`CellRules`.
        """
        table, notes, unreadable = flat_table(self.frame.reset_index(drop=True), names)
        table, decisions = self.cells.read(table, self.separator, owner)
        return table, [*notes, *decisions], unreadable


def _parsed_lists(values: pd.Series) -> tuple[pd.Series, list[str]]:
    """Return a column in which texts that are lists of numbers are lists, None for a missing value,
    and a note. If another text is no such list, or if lists without brackets have different
    lengths, the column is returned unchanged; there is a note if its first text is a list in
    brackets.
    """
    first = next((value for value in values if isinstance(value, str) and value.strip()), "")
    if _parsed_list(first) is None and not BRACKETS.match(first):
        return values, []
    gone = is_missing(values, numbers=True).tolist()
    texts = ["" if missing else str(value) for value, missing in zip(values.tolist(), gone)]
    lists = [_parsed_list(text) if text else None for text in texts]
    bad = next((text for text, one in zip(texts, lists) if text and one is None), None)
    lengths = {len(one) for one in lists if one is not None}
    if bad is not None or (len(lengths) > 1 and not BRACKETS.match(first)):
        if not BRACKETS.match(first) or not NUMBERS.search(first):
            return values, []
        return values, [
            f"Column {values.name!r} is read as texts, although it contains lists such as "
            f"{first[:40]!r}: {(bad or '')[:40]!r} is no list of numbers."
        ]
    note = f"Column {values.name!r} contains lists of numbers: each position is read as a column."
    return pd.Series(lists, values.index, dtype=object, name=values.name), [note]


def _parsed_list(text: str) -> list[float] | None:
    """Return the numbers in a text that is a list; None for other texts.

    A list without brackets has at least three numbers, because ``0,5`` may be a number.

    >>> _parsed_list("[0.5 -2.]"), _parsed_list("0,1,0"), _parsed_list("1,008,000")
    ([0.5, -2.0], [0.0, 1.0, 0.0], None)
    """
    match = BRACKETS.fullmatch(text)
    body = (match[1] if match else text).strip()
    marks = {mark[1] for mark in BETWEEN.finditer(body)}
    parts = BETWEEN.sub(" ", body).split(" ")
    if len(marks) > 1 or (not match and (len(parts) < 3 or CODE.fullmatch(body))):
        return None
    try:
        return [float(part) for part in parts]
    except ValueError:
        return None


def _several(name: Hashable) -> str:
    return f"attributes must have different names; several are called {name!r}"


def _is_texts(values: pd.Series) -> bool:
    lists = (value for value in values if isinstance(value, LISTS))
    return any(isinstance(item, str) for items in lists for item in items)


def _joined(values: pd.Series) -> pd.Series:
    """Join the texts in each list to one text."""
    texts = [" ".join(map(str, value)) if isinstance(value, LISTS) else value for value in values]
    return pd.Series(texts, values.index, dtype=object, name=values.name)


def _list_columns(values: pd.Series, names: Sequence[Hashable]) -> pd.DataFrame:
    """Convert lists of numbers, at least one, to one column per list position, with NaN for nodes
    without a list. ``names`` are the names of the nodes, for messages. Raises GraphError if the
    lists have different lengths, or if a value is not a list of numbers.
    """
    lists = [
        None if gone else _list_of_numbers(value, values.name)
        for value, gone in zip(values, is_missing(values))
    ]
    first, width = next((row, len(one)) for row, one in enumerate(lists) if one is not None)
    rows = np.full((len(lists), width), np.nan)
    for row, one in enumerate(lists):
        if one is None:
            continue
        if len(one) != width:
            raise GraphError(
                f"attribute {values.name!r} must have the same number of values for every "
                f"node; the list of node {names[first]!r} has {width}, the list of node "
                f"{names[row]!r} has {len(one)}"
            )
        rows[row] = one
    return pd.DataFrame(rows, values.index).add_prefix(f"{values.name}.")


def _list_of_numbers(value: object, name: Hashable) -> NDArray[np.float64]:
    """Return a list of numbers as a flat array; a GraphError is raised for any other value."""
    if not isinstance(value, LISTS):
        raise GraphError(f"attribute {name!r} must have only lists; got {value!r}")
    if any(np.iscomplexobj(each) for each in value):
        raise GraphError(f"attribute {name!r} must have real numbers; got {value!r}")
    try:
        return np.asarray(list(value), np.float64).ravel()
    except (TypeError, ValueError):
        raise GraphError(
            f"attribute {name!r} must have lists of numbers or lists of texts; got {value!r}"
        ) from None
