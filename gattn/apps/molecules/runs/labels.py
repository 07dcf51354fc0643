"""Reader of the labels of molecules in a table, which are numbers or classes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from gattn.apps.molecules.classes import MOST_CLASSES
from gattn.apps.molecules.settings import Task
from gattn.apps.run.text import plural
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.numbers import (
    NumberColumn,
    NumberFormat,
    Pattern,
    classify,
    is_missing,
    read_numbers,
)

FEW = 5
"""A column of numbers with at most this number of different whole numbers gets a note that they
may be classes.
"""
SKIP = "--skip-bad-labels"


class LabelColumn(NamedTuple):
    """Labels of one target (None or NaN if missing), and the rows whose cells are invalid."""

    values: Sequence[float | str | int | None]
    unread: Sequence[int]
    missing: int
    censored: int
    notes: Sequence[str]


def number_labels(
    column: Sequence[str],
    target: str,
    lines: Sequence[int],
    learnable: bool,
    style: NumberFormat,
    skip_bad: bool,
    guessed: bool,
) -> LabelColumn:
    """Return the numbers in a column; raise an error for cells such as ``>10`` or ``1,008``.

    Leaving such cells out would select labels by their value.
    """
    read = read_numbers(column, style)
    values, unread = read.values, set(read.unread)
    large = np.flatnonzero(np.abs(np.nan_to_num(values)) > LARGEST)
    patterns = [pattern for pattern in read.recognised() if pattern.kind != "infinite"]
    if patterns and not skip_bad:
        shown = "; ".join(p.sentence(_at(lines), "label") for p in patterns)
        advice = _advice(patterns, learnable=learnable)
        raise ValueError(f"column {target!r}: {shown}. {advice}")
    infinite = [row for row in unread if classify(column[row]).kind == "infinite"]
    if (beyond := sorted({*infinite, *large.tolist()})) and not skip_bad:
        row = beyond[0]
        message = f"{target} must be finite; it is {column[row]!r} in line {lines[row]}"
        raise ValueError(message + ", beyond float32" * any(map(str.isdigit, column[row])))
    values[large] = math.nan
    unread.update(large.tolist())
    different = np.unique(values[~np.isnan(values)])
    if not len(different):
        raise ValueError(_no_numbers(column, target, read))
    if len(different) == 1 and learnable:
        raise ValueError(f"column {target!r} is constant: every label is {different[0]:g}")
    notes = [f"Column {target!r}: {note}" for note in _notes(read, column, style, guessed)]
    return LabelColumn(values.tolist(), sorted(unread), read.missing, read.dropped, notes)


def _advice(patterns: Sequence[Pattern], *, learnable: bool) -> str:
    """Return advice for labels such as ``>10`` that cannot be parsed with the current options."""
    advice = []
    if any(pattern.kind != "censored" for pattern in patterns):
        advice.append(
            "Use the option that reads these labels, or write plain numbers: leaving out labels "
            f"because of their format would bias the model ({SKIP} does so)"
        )
    if any(pattern.kind == "censored" for pattern in patterns):
        limits = "--loss-function bounded-mse trains on censored labels as limits; "
        advice.append(
            f"{limits if learnable else ''}--censored bound uses the bound as the value, although "
            "the real value is beyond it; --censored drop leaves these labels out"
        )
    return ". ".join(advice)


def _notes(
    read: NumberColumn,
    column: Sequence[str],
    style: NumberFormat,
    guessed: bool,
) -> Iterator[str]:
    """Yield notes on a numeric column that may in fact contain classes, row numbers, dates or
    limits.
    """
    if read.dropped and style.censored == "limit":
        yield (
            f"{plural(read.dropped, 'censored label')} read as limits for training; metrics and "
            "intervals use measured values only."
        )
    elif read.dropped:
        yield f"{plural(read.dropped, 'censored label')} treated as missing (--censored drop)."
    if style.censored == "bound":
        bounds = sum(bool(classify(cell).relation) for cell in column)
        if bounds:
            yield f"the bound of {plural(bounds, 'censored label')} is used as the value."
    different = np.unique(read.values[~np.isnan(read.values)])
    whole = not (different % 1).any()
    if guessed and whole and 2 <= len(different) <= FEW and read.labelled >= 4 * len(different):
        shown = ", ".join(f"{value:g}" for value in different)
        task = "classification" if len(different) == 2 else "multiclass"
        yield f"its labels {shown} are read as numbers; --task {task} reads them as classes."


def _no_numbers(column: Sequence[str], target: str, read: NumberColumn) -> str:
    """Return the error message for a column that contains no number."""
    kinds = list(dict.fromkeys(cell for cell in column if not is_missing(cell)))
    shown = ", ".join(map(repr, kinds[:5])) + ", ..." * (len(kinds) > 5)
    if read.dropped and not read.unread:
        return f"column {target!r} has only censored values: {shown}; --censored bound reads them"
    task = "classification" if len(kinds) <= 2 else "multiclass"
    return f"column {target!r} has no numbers: {shown}; for classes use --task {task}"


def _at(lines: Sequence[int]):
    return lambda place: f"in line {lines[place]}"


MIN_LABELS = 10
"""Minimum number of labels for :func:`decades_note`."""
DECADES = 3.0
"""Minimum number of decades between the quantiles of 5 and 95 % of the labels."""


def decades_note(values: np.ndarray) -> str:
    """Return a sentence if positive labels span so many decades that their logarithm should be
    trained; "" otherwise.

    >>> decades_note(np.geomspace(0.1, 1e6, 50)), decades_note(np.linspace(1, 9, 50))
    ('its labels span 7 decades: train with --target-transform log10.', '')
    """
    labels = values[np.isfinite(values)]
    if len(labels) < MIN_LABELS or labels.min() <= 0:
        return ""
    low, high = np.log10(np.quantile(labels, (0.05, 0.95)))
    if high - low < DECADES:
        return ""
    span = round(float(np.log10(labels.max() / labels.min())))
    return f"its labels span {span} decades: train with --target-transform log10."


def case_hints(kinds: Iterable[object]) -> Iterator[str]:
    """Yield a sentence, without its period, for classes whose names differ only in case."""
    names: dict[str, list[str]] = {}
    for kind in sorted(map(str, kinds)):
        names.setdefault(kind.casefold(), []).append(kind)
    for alike in names.values():
        if len(alike) > 1:
            yield f"the classes {' and '.join(map(repr, alike))} differ only in case"


SHARE = 0.05
"""Maximum fraction of a target's labels that may be text, unless ``--skip-bad-labels`` is set."""
MOST_GUESSED = 20
"""Maximum number of different texts in a column that is read as classes if ``--task`` is not
set.
"""


class LostLabel(NamedTuple):
    """Cell that is neither empty nor a valid label.

    Attributes:
        row: row of the cell, from 0.
        line: line of the row in the file.
        target: name of the cell's column.
        text: content of the cell.
        reason: the reason why the cell is not a valid label.
    """

    row: int
    line: int
    target: str
    text: str
    reason: str


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of k table rows, and the cells that are not valid labels.

    Attributes:
        task: regression for numbers, classification for classes.
        y: [k, t] float64 with NaN for a missing label; for classes [k, t] objects: unchanged
            strings, whole numbers, or None for a missing label.
        problems: k texts, the reason why a row has no label; empty if it has a label or if all its
            cells are empty.
        lost: the cells that are not empty but are not valid labels, also in rows that have a label
            of another target.
        counts: for each target the numbers of cells that were ``read``, are ``missing``, were
            ``left_out``, or are ``censored`` and were treated as missing.
        notes: sentences about the cells for the report.
        bounds: [k, t, 2] float64, the lower and the upper end of each label, equal for a measured
            value and NaN where nothing is known; None unless the number format reads limits.
    """

    task: Task
    y: np.ndarray
    problems: list[str]
    lost: tuple[LostLabel, ...] = ()
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bounds: np.ndarray | None = None


def read_labels(
    cells: Sequence[Sequence[str]],
    targets: Sequence[str],
    task: Literal["auto"] | Task = "auto",
    lines: Sequence[int] | None = None,
    *,
    learnable: bool = True,
    style: NumberFormat | None = None,
    skip_bad: bool = False,
) -> Labels:
    """Read the labels of molecules from the target cells of a table.

    With the task ``"auto"``, a column contains classes if all its cells are 0 or 1, or if it has
    no number and two different texts, or three to twenty different texts that each occur at least
    twice. All other columns contain numbers.

    A cell that is not a valid label is left out, and its row too if it has no other label. A
    pattern such as ``>10`` or ``1,008`` is an error instead, because leaving such cells out would
    select labels by their value. It is also an error if more than 5 % of a target's labels are
    texts, unless they are all the same text and their rows all have a label of another target.

    Args:
        cells: k rows of t texts.
        targets: the t names of the columns.
        task: task of the labels.
        lines: line of each row in the file, for error messages; by default counted from 1.
        learnable: whether a column of one class or of one number is an error.
        style: format of the numbers; None for plain numbers.
        skip_bad: whether to leave out all invalid cells, regardless of their number.

    Returns:
        The labels.

    Raises:
        ValueError: a column has no label, a single class or number, more classes than the task
            allows, or no numbers; a number is not finite; the columns have different tasks; a
            column contains 0, 1 and texts, and ``task`` is "auto"; or cells are not numbers, as
            described above.

    >>> read_labels([["0.5"], ["1.5"], ["NA"], ["high"]], ["logS"]).problems
    ['', '', '', "logS must be a number or empty; it is 'high'"]
    >>> read_labels([["yes"], ["no"], [""]], ["toxic"]).task
    'classification'
    """
    style = style or NumberFormat()
    lines = range(1, len(cells) + 1) if lines is None else lines
    columns = [[row[i].strip() for row in cells] for i in range(len(targets))]
    for target, column in zip(targets, columns):
        if all(is_missing(cell) for cell in column):
            words = _missing_words(column)
            reason = f" ({_joined(words)}: read as missing values)" if words else ""
            raise ValueError(f"column {target!r} has no label at all{reason}")
    bounds: np.ndarray | None = None
    chosen = _common_task(columns, targets, lines, style) if task == "auto" else task
    if chosen != "regression":
        most = MOST_CLASSES if chosen == "multiclass" else 2
        parsed = [
            _classes(column, target, lines, learnable, most, task == "auto")
            for column, target in zip(columns, targets)
        ]
        if chosen == "multiclass" and learnable:
            _check_several(parsed, targets)
        y = np.array([column.values for column in parsed], object).T.reshape(len(cells), -1)
        empty = np.array([[label is None for label in row] for row in y], bool)
        expected = "a class" if chosen == "multiclass" else "one of two classes"
    else:
        parsed = [
            number_labels(column, target, lines, learnable, style, skip_bad, task == "auto")
            for column, target in zip(columns, targets)
        ]
        y = np.array([column.values for column in parsed], float).T.reshape(
            len(cells), len(targets)
        )
        empty = np.isnan(y)
        expected = "a number"
        if style.censored == "limit":
            bounds = np.array(
                [[style.limits(row[i]) for i in range(len(targets))] for row in cells]
            )
            bounds = bounds.reshape(len(cells), len(targets), 2)
            # The label of this row is not used, so it has no lower and upper end.
            bounds[np.isnan(y) & np.isfinite(bounds).all(2)] = np.nan
            empty = np.isnan(bounds).all(2)
    without = np.asarray(empty.reshape(len(cells), len(targets)).all(axis=1))
    problems = [""] * len(cells)
    lost: list[LostLabel] = []
    notes: list[str] = []
    for target, column, read in zip(targets, columns, parsed):
        for row in read.unread:
            reason = f"{target} must be {expected} or empty; it is {column[row]!r}"
            lost.append(LostLabel(row, lines[row], target, column[row], reason))
            if without[row]:
                problems[row] = "; ".join(filter(None, (problems[row], reason)))
        if not skip_bad:
            _check_texts(column, target, lines, read, without)
        notes += _column_notes(column, target, lines, read, expected)
    counts = {
        target: {
            "read": len(cells) - read.missing - read.censored - len(read.unread),
            "missing": read.missing,
            "left_out": len(read.unread),
            "censored": read.censored,
        }
        for target, read in zip(targets, parsed)
    }
    return Labels(chosen, y, problems, tuple(sorted(lost)), counts, tuple(notes), bounds)


def _common_task(
    columns: Sequence[Sequence[str]],
    targets: Sequence[str],
    lines: Sequence[int],
    style: NumberFormat,
) -> Task:
    tasks: dict[str, Task] = {
        target: _task(column, target, lines, style) for target, column in zip(targets, columns)
    }
    if set(tasks.values()) == {"classification", "multiclass"}:
        return "multiclass"
    if len(set(tasks.values())) > 1:
        listed = ", ".join(f"{target}: {task}" for target, task in tasks.items())
        raise ValueError(
            f"the targets of a run must have the same task; they are {listed}: train one "
            "model for each task, or use --task regression to predict 0 and 1 as numbers"
        )
    return next(iter(tasks.values()))


def _task(column: Sequence[str], target: str, lines: Sequence[int], style: NumberFormat) -> Task:
    kinds = {cell for cell in column if not is_missing(cell)}
    numbers = {style.parse(cell) for cell in kinds}
    if numbers <= {0.0, 1.0}:
        return "classification"
    words = {cell for cell in kinds if classify(cell).kind in ("text", "odd", "censored")}
    if numbers == {None} and len(kinds) <= 2 and words == kinds:
        return "classification"
    if numbers == {None} and len(kinds) <= MOST_GUESSED and all(map(_is_text, kinds)):
        counts = Counter(cell for cell in column if cell in kinds)
        if min(counts.values()) > 1:
            return "multiclass"
    texts = [row for row, cell in enumerate(column) if cell in words and _is_text(cell)]
    if texts and numbers - {None} and numbers <= {0.0, 1.0, None}:
        raise ValueError(
            f"column {target!r}: every number is 0 or 1, and {plural(len(texts), 'label')} "
            f"{'is a text' if len(texts) == 1 else 'are texts'}, the first "
            f"{column[texts[0]]!r} in line {lines[texts[0]]}: choose --task classification or "
            "--task regression, both leave the texts out, or correct the texts"
        )
    return "regression"


def _is_text(cell: str) -> bool:
    return classify(cell).kind == "text"


def _classes(
    column: Sequence[str],
    target: str,
    lines: Sequence[int],
    learnable: bool,
    most: int,
    guessed: bool,
) -> LabelColumn:
    """Return the classes in a column, as whole numbers if all cells are whole numbers, otherwise as
    texts.

    If the column has two different whole numbers and texts besides, the texts are invalid labels.
    If more than two classes are allowed, they are invalid if at most 5 % of the labels are texts.
    """
    style = NumberFormat()
    numbers = {cell: style.parse(cell) for cell in column if not is_missing(cell)}
    whole = {cell: int(v) for cell, v in numbers.items() if v is not None and v.is_integer()}
    texts = [cell for cell in numbers if cell not in whole]
    some = {cell for cell in texts if _is_text(cell)}
    stray = len(set(whole.values())) >= 2 and bool(texts) and some == set(texts)
    if most > 2:
        stray = stray and sum(cell in some for cell in column) <= SHARE * len(column)
    else:
        stray = stray and len(set(whole.values())) == 2
    labels: dict[str, int | str] = {**whole}
    if texts and not stray:
        labels = {cell: cell for cell in numbers}
    unread = [row for row, cell in enumerate(column) if cell in some] if stray else []
    counts = Counter(labels[cell] for cell in column if cell in labels)
    words = _missing_words(column)
    if len(counts) > most or (len(counts) < 2 and learnable):
        kinds = sorted(counts, key=str)
        shown = ", ".join(
            f"{kind!r} ({plural(counts[kind], 'label')}, first in line "
            f"{lines[next(i for i, cell in enumerate(column) if labels.get(cell) == kind)]})"
            for kind in kinds[:5]
        )
        number = "two classes" if most == 2 else f"2 to {most} classes"
        message = f"column {target!r} must have {number}; it has {len(counts)}: {shown}"
        message += ", ..." * (len(kinds) > 5)
        message += "".join(f"; {hint}" for hint in case_hints(counts))
        if most == 2 < len(counts):
            message += "; --task multiclass reads more than two classes"
        if words:
            message += (
                f"; {_joined(words)}: read as missing values, so rename a class with this name"
            )
        raise ValueError(message)
    missing = sum(map(is_missing, column))
    notes = []
    if words and not whole:
        notes.append(
            f"Column {target!r}: {_joined(words)}: read as missing values, not as a class."
        )
    if len(counts) > 2 and guessed:
        shown = ", ".join(map(str, sorted(counts, key=str)))
        notes.append(
            f"Column {target!r}: its {len(counts)} different texts are read as classes: {shown}."
        )
    notes += [f"Column {target!r}: {hint}." for hint in case_hints(counts)]
    return LabelColumn([labels.get(cell) for cell in column], unread, missing, 0, notes)


def _check_several(parsed: Sequence[LabelColumn], targets: Sequence[str]) -> None:
    """Raise an error if no target has more than two classes."""
    if all(len({label for label in read.values if label is not None}) <= 2 for read in parsed):
        raise ValueError(
            "--task multiclass needs a target with three classes or more; "
            f"{', '.join(map(repr, targets))} {'has' if len(targets) == 1 else 'have'} two: use "
            "--task classification"
        )


def _check_texts(
    column: Sequence[str],
    target: str,
    lines: Sequence[int],
    read: LabelColumn,
    without: np.ndarray,
) -> None:
    """Raise an error if too many labels of a target are texts.

    There is no error if they are all the same text and their rows have labels of other targets.
    """
    labelled = len(column) - read.missing
    if len(read.unread) <= max(1, SHARE * labelled):
        return
    texts = {column[row] for row in read.unread}
    if len(texts) == 1 and not without[list(read.unread)].any():
        return
    first = read.unread[0]
    raise ValueError(
        f"column {target!r}: {len(read.unread):,} of {labelled:,} labels are texts, for "
        f"example {column[first]!r} in line {lines[first]}; that is more than {SHARE:.0%}: "
        f"correct them, or leave them out with {SKIP}"
    )


def _column_notes(
    column: Sequence[str], target: str, lines: Sequence[int], read: LabelColumn, expected: str
) -> Iterator[str]:
    """Yield a note on a target's invalid cells, and the notes on its column."""
    if read.unread:
        first, count = read.unread[0], len(read.unread)
        yield (
            f"Column {target!r}: {plural(count, 'label')} left out, the first {column[first]!r} "
            f"in line {lines[first]}, which is not {expected}."
        )
    yield from read.notes


def _missing_words(column: Sequence[str]) -> Counter[str]:
    """Count the texts, such as ``NA``, that mark missing labels in a column."""
    return Counter(cell for cell in column if cell and is_missing(cell))


def _joined(words: Counter[str]) -> str:
    return ", ".join(f"{word!r} in {plural(count, 'cell')}" for word, count in words.items())
