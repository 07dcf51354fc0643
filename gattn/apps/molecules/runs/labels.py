"""Reader of the labels of molecules in a table, which are numbers or classes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gattn.apps.fitting.tasks import CLASSIFICATION, MULTICLASS, REGRESSION, TASKS, Task, class_task
from gattn.apps.run.text import case_hints, plural
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


@dataclass(frozen=True)
class Column:
    """Cells of one target.

    Attributes:
        target: name of the column.
        cells: the cells, without white space at their ends.
        lines: the line of each cell in the file.
        learnable: whether a single class or number is an error.
        guessed: whether the task follows from the cells.
    """

    target: str
    cells: Sequence[str]
    lines: Sequence[int]
    learnable: bool
    guessed: bool

    def place(self, row: int) -> str:
        """Return the words that name a row in a message."""
        return f"in line {self.lines[row]}"


class LabelColumn(NamedTuple):
    """Labels of one target (None or NaN if missing), the rows whose cells are invalid, the numbers
    of missing cells and of censored cells that were left out, and notes for the report.
    """

    values: Sequence[float | str | int | None]
    unread: Sequence[int]
    missing: int
    censored: int
    notes: Sequence[str]


def number_labels(column: Column, style: NumberFormat, skip_bad: bool) -> LabelColumn:
    """Return the numbers in a column.

    Raises ValueError for a column without numbers, for one that is trained on and has a single
    number, and for cells such as ``>10``, ``1,008`` or infinity, unless ``skip_bad`` is set.
    Leaving such cells out would select labels by their value.
    """
    cells, target = column.cells, column.target
    read = read_numbers(cells, style)
    values, unread = read.values, set(read.unread)
    large = np.flatnonzero(np.abs(np.nan_to_num(values)) > LARGEST)
    patterns = [pattern for pattern in read.recognised() if pattern.kind != "infinite"]
    if patterns and not skip_bad:
        shown = "; ".join(pattern.sentence(column.place, "label") for pattern in patterns)
        advice = _advice(patterns, learnable=column.learnable)
        raise ValueError(f"column {target!r}: {shown}. {advice}")
    infinite = [row for row in unread if classify(cells[row]).kind == "infinite"]
    if (beyond := sorted({*infinite, *large.tolist()})) and not skip_bad:
        row = beyond[0]
        message = f"{target} must be finite; it is {cells[row]!r} {column.place(row)}"
        raise ValueError(message + ", beyond float32" * any(map(str.isdigit, cells[row])))
    values[large] = math.nan
    unread.update(large.tolist())
    different = np.unique(values[~np.isnan(values)])
    if not len(different):
        raise ValueError(_no_numbers(column, read))
    if len(different) == 1 and column.learnable:
        message = f"column {target!r} must have two different labels or more"
        raise ValueError(f"{message}; every label is {different[0]:g}")
    notes = [f"Column {target!r}: {note}" for note in _notes(read, column, style)]
    return LabelColumn(values.tolist(), sorted(unread), read.missing, read.dropped, notes)


def _advice(patterns: Sequence[Pattern], *, learnable: bool) -> str:
    """Return advice for labels such as ``>10`` that cannot be parsed with the current options.
    ``learnable`` is False for a column on which no model is trained.
    """
    advice = []
    if any(pattern.example.startswith("[") for pattern in patterns):
        advice.append("--atom-target and --bond-target read lists of numbers")
    if any(pattern.kind != "censored" for pattern in patterns):
        option = "Use the option that reads these labels, or write"
        advice.append(
            f"{option if any(pattern.options for pattern in patterns) else 'Write'} plain numbers: "
            "leaving out labels because of their format would bias the model "
            f"({SKIP} does so)"
        )
    if any(pattern.kind == "censored" for pattern in patterns):
        limits = "--loss-function bounded-mse trains on censored labels as limits; "
        advice.append(
            f"{limits if learnable else ''}--censored bound uses the bound as the value, although "
            "the real value is beyond it; --censored drop leaves these labels out"
        )
    return ". ".join(advice)


def _notes(read: NumberColumn, column: Column, style: NumberFormat) -> Iterator[str]:
    """Yield notes on a numeric column: how its limits are read, and whether its labels may be
    classes.
    """
    if read.dropped and style.censored == "limit":
        yield (
            f"{plural(read.dropped, 'censored label')} read as limits for training; metrics and "
            "intervals use measured values only."
        )
    elif read.dropped:
        yield f"{plural(read.dropped, 'censored label')} treated as missing (--censored drop)."
    if style.censored == "bound":
        bounds = sum(bool(classify(cell).relation) for cell in column.cells)
        if bounds:
            yield f"the bound of {plural(bounds, 'censored label')} is used as the value."
    different = np.unique(read.values[~np.isnan(read.values)])
    few = 2 <= len(different) <= FEW and read.labelled >= 4 * len(different)
    if column.guessed and few and not (different % 1).any():
        shown = ", ".join(f"{value:g}" for value in different)
        task = class_task(len(different))
        yield f"its labels {shown} are read as numbers; --task {task} reads them as classes."


def _no_numbers(column: Column, read: NumberColumn) -> str:
    """Return the error message for a column that contains no number; ``read`` is what was read from
    its cells.
    """
    target = column.target
    kinds = list(dict.fromkeys(cell for cell in column.cells if not is_missing(cell)))
    shown = ", ".join(map(repr, kinds[:5])) + ", ..." * (len(kinds) > 5)
    if read.dropped and not read.unread:
        return f"column {target!r} has only censored values: {shown}; --censored bound reads them"
    task = class_task(len(kinds))
    return f"column {target!r} has no numbers: {shown}; for classes use --task {task}"


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


def unit_columns(columns: Iterable[str], used: Sequence[str]) -> list[str]:
    """Return the names of unused columns that are those of units.

    >>> unit_columns(["smiles", "IC50", "IC50 units"], ["IC50"])
    ['IC50 units']
    """
    return [
        name for name in dict.fromkeys(columns)
        if name.casefold().endswith(("unit", "units")) and name not in used
    ]  # fmt: skip


def unit_notes(columns: Mapping[str, set[str]]) -> list[str]:
    """Return a list with a sentence for each column that has several units, given its cells."""
    notes = []
    for name, cells in columns.items():
        units = cells - {""}
        if len(units) > 1:
            shown = ", ".join(sorted(units)[:3])
            notes.append(
                f"Column {name!r} contains {len(units)} units ({shown}), and the labels are read "
                "without them: if these are the units of the labels, convert all to one unit."
            )
    return notes


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
        task: type of the labels.
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
    task: str = "auto",
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
        task: name of the task of the labels, or "auto".
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
    >>> read_labels([["yes"], ["no"], [""]], ["toxic"]).task.name
    'classification'
    """
    style = style or NumberFormat()
    lines = range(1, len(cells) + 1) if lines is None else lines
    columns = [
        Column(target, [row[i].strip() for row in cells], lines, learnable, task == "auto")
        for i, target in enumerate(targets)
    ]
    for column in columns:
        if all(map(is_missing, column.cells)):
            words = _missing_words(column)
            reason = f" ({_joined(words)}: read as missing values)" if words else ""
            raise ValueError(f"column {column.target!r} has no label at all{reason}")
    bounds: np.ndarray | None = None
    chosen = _common_task(columns, style) if task == "auto" else TASKS[task]
    if chosen.is_class:
        parsed = [_classes(column, chosen.most_classes) for column in columns]
        if chosen.most_classes > 2 and learnable:
            _check_several(parsed, targets)
        y = np.array([column.values for column in parsed], object).T
        empty = np.array([[label is None for label in row] for row in y], bool)
    else:
        parsed = [number_labels(column, style, skip_bad) for column in columns]
        y = np.array([column.values for column in parsed], float).T
        empty = np.isnan(y)
        if style.censored == "limit":
            bounds = np.array([[style.limits(cell) for cell in row] for row in cells])
            # The label of this row is not used, so it has no lower and upper end.
            bounds[np.isnan(y) & np.isfinite(bounds).all(2)] = np.nan
            empty = np.isnan(bounds).all(2)
    without = np.asarray(np.all(empty, axis=1))
    problems = [""] * len(cells)
    lost: list[LostLabel] = []
    notes: list[str] = []
    for column, read in zip(columns, parsed):
        for row in read.unread:
            cell = column.cells[row]
            reason = f"{column.target} must be {chosen.label} or empty; it is {cell!r}"
            lost.append(LostLabel(row, lines[row], column.target, cell, reason))
            if without[row]:
                problems[row] = "; ".join(filter(None, (problems[row], reason)))
        if not skip_bad:
            _check_texts(column, read, without)
        if read.unread:
            row = read.unread[0]
            notes.append(
                f"Column {column.target!r}: {plural(len(read.unread), 'label')} left out, the "
                f"first {column.cells[row]!r} {column.place(row)}, which is not {chosen.label}."
            )
        notes += read.notes
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


def _common_task(columns: Sequence[Column], style: NumberFormat) -> Task:
    """Return the task of all columns; a ValueError is raised if regression and classes are mixed.

    Targets of two classes and of several classes are a task of several classes.
    """
    tasks = {column.target: _task(column, style) for column in columns}
    if set(tasks.values()) == {CLASSIFICATION, MULTICLASS}:
        return MULTICLASS
    if len(set(tasks.values())) > 1:
        listed = ", ".join(f"{target}: {task}" for target, task in tasks.items())
        raise ValueError(
            f"the targets of a run must have the same task; they are {listed}: train one model for "
            "each task; if all labels are numbers, --task regression predicts 0 and 1 as numbers"
        )
    return next(iter(tasks.values()))


def _task(column: Column, style: NumberFormat) -> Task:
    """Choose the task for a column of labels by its values. Raises ValueError if the numbers are 0
    or 1 and there are texts besides.
    """
    cells = column.cells
    kinds = {cell for cell in cells if not is_missing(cell)}
    numbers = {style.parse(cell) for cell in kinds}
    if numbers <= {0.0, 1.0}:
        return CLASSIFICATION
    words = {cell for cell in kinds if classify(cell).kind in ("text", "odd", "censored")}
    if numbers == {None} and len(kinds) <= 2 and words == kinds:
        return CLASSIFICATION
    if numbers == {None} and len(kinds) <= MOST_GUESSED and all(map(_is_text, kinds)):
        counts = Counter(cell for cell in cells if cell in kinds)
        if min(counts.values()) > 1:
            return MULTICLASS
    texts = [row for row, cell in enumerate(cells) if cell in words and _is_text(cell)]
    if texts and numbers - {None} and numbers <= {0.0, 1.0, None}:
        raise ValueError(
            f"column {column.target!r}: every number is 0 or 1, and {plural(len(texts), 'label')} "
            f"{'is a text' if len(texts) == 1 else 'are texts'}, the first "
            f"{cells[texts[0]]!r} {column.place(texts[0])}: choose --task classification or "
            "--task regression, both leave the texts out, or correct the texts"
        )
    return REGRESSION


def _is_text(cell: str) -> bool:
    return classify(cell).kind == "text"


def _classes(column: Column, most: int) -> LabelColumn:
    """Return the classes in a column, as whole numbers if all cells are whole numbers, otherwise as
    texts.

    If the column has two different whole numbers and texts besides, the texts are invalid labels.
    If more than two classes are allowed, they are invalid if at most 5 % of the labels are texts.
    Raises ValueError for more classes than ``most``, or for less than two in a column that is
    trained on.
    """
    style, cells, target = NumberFormat(), column.cells, column.target
    numbers = {cell: style.parse(cell) for cell in cells if not is_missing(cell)}
    whole = {cell: int(v) for cell, v in numbers.items() if v is not None and v.is_integer()}
    texts = [cell for cell in numbers if cell not in whole]
    some = {cell for cell in texts if _is_text(cell)}
    stray = len(set(whole.values())) >= 2 and bool(texts) and some == set(texts)
    if most > 2:
        stray = stray and sum(cell in some for cell in cells) <= SHARE * len(cells)
    else:
        stray = stray and len(set(whole.values())) == 2
    labels: dict[str, int | str] = {**whole}
    if texts and not stray:
        labels = {cell: cell for cell in numbers}
    unread = [row for row, cell in enumerate(cells) if cell in some] if stray else []
    counts = Counter(labels[cell] for cell in cells if cell in labels)
    words = _missing_words(column)
    if len(counts) > most or (len(counts) < 2 and column.learnable):
        kinds = sorted(counts, key=str)
        shown = ", ".join(
            f"{kind!r} ({plural(counts[kind], 'label')}, first "
            f"{column.place(next(i for i, one in enumerate(cells) if labels.get(one) == kind))})"
            for kind in kinds[:5]
        )
        number = "two classes" if most == 2 else f"2 to {most} classes"
        if column.guessed and len(counts) < 2:
            number = "two different labels or more"
        message = f"column {target!r} must have {number}; it has {len(counts)}: {shown}"
        message += ", ..." * (len(kinds) > 5) + "".join(f"; {hint}" for hint in case_hints(counts))
        if most == 2 < len(counts):
            message += "; --task multiclass reads more than two classes"
        if words:
            message += (
                f"; {_joined(words)}: read as missing values, so rename a class with this name"
            )
        raise ValueError(message)
    missing = sum(map(is_missing, cells))
    notes = []
    if words and not whole:
        notes.append(
            f"Column {target!r}: {_joined(words)}: read as missing values, not as a class."
        )
    if len(counts) > 2 or not (texts or counts.keys() <= {0, 1}):
        kinds = [*map(str, sorted(counts)[:MOST_GUESSED]), *["..."] * (len(counts) > MOST_GUESSED)]
        notes.append(
            f"Column {target!r}: its {len(counts)} different labels are read as classes: "
            f"{', '.join(kinds)}."
        )
    notes += [f"Column {target!r}: {hint}." for hint in case_hints(counts)]
    return LabelColumn([labels.get(cell) for cell in cells], unread, missing, 0, notes)


def _check_several(parsed: Sequence[LabelColumn], targets: Sequence[str]) -> None:
    """Raise ValueError if no target has more than two classes."""
    if all(len({label for label in read.values if label is not None}) <= 2 for read in parsed):
        raise ValueError(
            "--task multiclass needs a target with three classes or more; "
            f"{', '.join(map(repr, targets))} {'has' if len(targets) == 1 else 'have'} two: use "
            "--task classification"
        )


def _check_texts(column: Column, read: LabelColumn, without: np.ndarray) -> None:
    """Raise ValueError if too many labels of a target are texts; ``read`` are its labels.

    There is no error if they are all the same text and their rows have labels of other targets;
    ``without`` [n] bool is True for a row that has no label of any target.
    """
    labelled = len(column.cells) - read.missing
    if len(read.unread) <= max(1, SHARE * labelled):
        return
    texts = {column.cells[row] for row in read.unread}
    if len(texts) == 1 and not without[list(read.unread)].any():
        return
    first = read.unread[0]
    raise ValueError(
        f"column {column.target!r}: {len(read.unread):,} of {labelled:,} labels are texts, for "
        f"example {column.cells[first]!r} {column.place(first)}; that is more than {SHARE:.0%}: "
        f"correct them, or leave them out with {SKIP}"
    )


def _missing_words(column: Column) -> Counter[str]:
    """Count the texts, such as ``NA``, that mark missing labels in a column."""
    return Counter(cell for cell in column.cells if cell and is_missing(cell))


def _joined(words: Counter[str]) -> str:
    return ", ".join(f"{word!r} in {plural(count, 'cell')}" for word, count in words.items())
