"""Labels of atoms, bonds and molecules that are read from table cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gattn.apps.molecules.atoms.entries import find_entries, place_values
from gattn.apps.molecules.atoms.lists import Item, read_list
from gattn.apps.molecules.atoms.values import KINDS, Targets, Values, pointers
from gattn.apps.molecules.classes import MOST_CLASSES
from gattn.apps.molecules.settings import Task
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.numbers import classify
from gattn.data.molecules.arrays import MoleculeArrays

MOST_GUESSED = 20
"""Maximum number of different texts in a column that is read as classes if ``--task`` is not
set.
"""

Cells = Mapping[str, Mapping[str, Sequence[object]]]


@dataclass(frozen=True, eq=False)
class AtomCells:
    """Parsed cells of the label columns for n rows.

    Attributes:
        targets: the names of the columns by kind.
        values: for each target the values of each row, None for an empty cell.
        problems: n texts, the reason why the cells of a row cannot be read, or "".
        column_problems: the first such reason of each column that has one, by the column's name.
    """

    targets: Targets
    values: Mapping[str, Sequence[Sequence[Item] | None]]
    problems: list[str]
    column_problems: Mapping[str, str]

    def items(self, name: str) -> list[Item]:
        """Return all values of a target except missing ones."""
        cells = self.values[name]
        return [value for values in cells for value in values or () if value is not None]


@dataclass(frozen=True)
class Coding:
    """Task of the labels, and the classes of each target.

    Attributes:
        task: the task.
        classes: for each target its classes, ascending; empty for a regression.
    """

    task: Task
    classes: tuple[tuple[float | str, ...], ...] = ()

    @property
    def width(self) -> int:
        """Number of outputs for each target."""
        return max(map(len, self.classes)) if self.task == "multiclass" else 1


def read_cells(cells: Cells) -> AtomCells:
    """Parse the cells of label columns.

    Args:
        cells: the cells of each column, by kind and name.

    Raises:
        ValueError: there is no column, a name is used twice, or a column has another number of
            rows.
    """
    targets = Targets(**{kind: tuple(map(str, cells.get(kind, {}))) for kind in KINDS})
    names = targets.names
    if not names:
        raise ValueError("at least one target of atoms or bonds is needed")
    if len(set(names)) < len(names):
        raise ValueError(f"targets must have different names; got {', '.join(names)}")
    columns = {name: list(cells[kind][name]) for kind, _, name in targets}
    count = len(columns[names[0]])
    problems, values = [""] * count, {}
    column_problems: dict[str, str] = {}
    for name in names:
        if len(columns[name]) != count:
            raise ValueError(
                f"{name} must have {count} rows, as {names[0]}; got {len(columns[name])}"
            )
        values[name] = []
        for row, cell in enumerate(columns[name]):
            parsed = None
            try:
                parsed = read_list(cell)
            except ValueError as error:
                problem = f"{name}: {error}"
                problems[row] = problems[row] or problem
                column_problems.setdefault(name, problem)
            if parsed is not None and all(value is None for value in parsed):
                parsed = None
            values[name].append(parsed)
    return AtomCells(targets, values, problems, column_problems)


def coding_of(cells: AtomCells, task: Literal["auto"] | Task = "auto") -> Coding:
    """Determine the task and the classes from the labels.

    With the task ``"auto"``, the labels are classes if all of them are 0 or 1, or if none is a
    number and each target has at most twenty different texts. Otherwise they are numbers, and
    lists with other values are left out; see
    :func:`gattn.apps.molecules.atoms.labels.number_faults`.

    Raises:
        ValueError: the targets have different tasks, a target has no label or one class or value,
            or it has no list of numbers only.
    """
    different = {name: Counter(cells.items(name)) for name in cells.targets.names}
    for name, counts in different.items():
        if not counts:
            wrong = cells.column_problems.get(name, "")
            raise ValueError(f"column {name!r} has no label at all{'; ' * bool(wrong)}{wrong}")
        if len(counts) == 1:
            (value,) = counts
            raise ValueError(f"column {name!r} is constant: every label is {value!r}")
    tasks: dict[str, Task] = {name: _task(counts) for name, counts in different.items()}
    chosen = next(iter(tasks.values())) if task == "auto" else task
    if task == "auto" and len(set(tasks.values())) > 1:
        chosen = "multiclass"
        if set(tasks.values()) != {"classification", "multiclass"}:
            listed = ", ".join(f"{name}: {each}" for name, each in tasks.items())
            raise ValueError(
                f"the targets of a run must have the same task; they are {listed}: train one "
                "model for each task, or use --task regression to predict 0 and 1 as numbers"
            )
    if chosen == "regression":
        usable = without_faults(cells)
        for name, counts in different.items():
            _check_numbers(name, counts, Counter(usable.items(name)), task == "auto")
        return Coding(chosen)
    classes = []
    most = MOST_CLASSES if chosen == "multiclass" else 2
    for name, counts in different.items():
        if len(counts) > most:
            shown = ", ".join(map(repr, list(counts)[:5]))
            raise ValueError(
                f"column {name!r} must have at most {most} classes; it has {len(counts)}: "
                f"{shown}, ..."
            )
        texts = any(isinstance(value, str) for value in counts)
        kinds = [str(_whole(v)) if texts else _whole(v) for v in counts]
        classes.append(tuple(sorted(kinds, key=lambda v: (isinstance(v, str), v))))
    return Coding(chosen, tuple(classes))


def _task(counts: Counter[Item]) -> Task:
    kinds = set(counts)
    if kinds <= {0, 1}:
        return "classification"
    texts = {kind for kind in kinds if isinstance(kind, str) and not _is_limit(kind)}
    if texts == kinds and len(kinds) <= MOST_GUESSED:
        return "classification" if len(kinds) == 2 else "multiclass"
    return "regression"


def _check_numbers(name: str, counts: Counter[Item], usable: Counter[Item], guessed: bool) -> None:
    """Raise an error if a target cannot be learned as numbers.

    Args:
        name: the target.
        counts: its values.
        usable: its values without the lists that have other values than numbers.
        guessed: whether the task was derived from the labels.
    """
    texts = [value for value in counts if isinstance(value, str)]
    others = [text for text in texts if not _is_limit(text)]
    numbers = {value for value in counts if not isinstance(value, str)}
    if guessed and others and numbers <= {0, 1}:
        raise ValueError(
            f"column {name!r}: every number is 0 or 1, but some labels are texts, such as "
            f"{others[0]!r}: correct the texts, or choose --task multiclass or --task regression, "
            "which leaves the lists with texts out"
        )
    if not usable:
        raise ValueError(f"{name} must have numbers; it has {(texts or list(counts))[0]!r}")
    if len(usable) == 1:
        raise ValueError(f"column {name!r} is constant: every number is {next(iter(usable))!r}")


def _whole(value: Item) -> float | str:
    """Return a whole number or a Boolean as int, so that class 1.0 is displayed as 1."""
    assert value is not None
    whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else value


def labels_of_graphs(
    cells: AtomCells,
    coding: Coding,
    rows: Sequence[int],
    smiles: Sequence[str],
    arrays: MoleculeArrays,
    *,
    add_h: bool,
) -> tuple[Values, list[str]]:
    """Return the labels of the nodes and of the bonds of graphs.

    Args:
        cells: the cells of all rows.
        coding: the task and the classes.
        rows: the row of each of the k graphs.
        smiles: the SMILES of each graph.
        arrays: the graphs.
        add_h: whether hydrogens are nodes of the graphs.

    Returns:
        The labels [r, t] by kind, and for each graph the reason why its lists cannot be used, or
        "".
    """
    ptr, targets = pointers(arrays), cells.targets
    y: dict[str, Tensor] = {}
    for kind in targets.kinds:
        shape = (int(ptr[kind][-1]), len(targets.of(kind)))
        y[kind] = torch.full(shape, torch.nan, dtype=torch.float64)
    numbers = [{kind: number for number, kind in enumerate(kinds)} for kinds in coding.classes] or [
        {}
    ] * len(targets)
    problems = [""] * len(rows)
    starts = {kind: ptr[kind].tolist() for kind in KINDS}
    for i, row in enumerate(rows):
        if all(cells.values[name][row] is None for name in targets.names):
            continue
        entries = find_entries(smiles[i], arrays, i, add_h=add_h)
        for (kind, column, name), codes in zip(targets, numbers):
            values = cells.values[name][row]
            if values is None:
                continue
            try:
                places, values = place_values(values, kind, entries)
            except ValueError as error:
                problems[i] = problems[i] or f"{name}: {error}"
                continue
            encoded = [_encode(value, codes) for value in values]
            index = torch.from_numpy(places) + starts[kind][i]
            y[kind][index, column] = torch.tensor(encoded, dtype=torch.float64)
    return Values(y, ptr), problems


def _encode(value: Item, codes: Mapping[float | str, int]) -> float:
    """Return a label as a number; NaN for a missing label and for an unknown class."""
    if value is None:
        return float("nan")
    if codes:
        key = value if value in codes else str(_whole(value))
        return float(codes.get(key, "nan"))
    return float(value)


class Fault(NamedTuple):
    """List with a value that is not a label of a regression.

    Attributes:
        row: row of the list, from 0.
        name: its column.
        reason: the reason why the value is not a label. It begins with the name of the column.
        selective: whether a row that is left out for this reason would select labels by their
            value: the value is too large, or it is a limit.
    """

    row: int
    name: str
    reason: str
    selective: bool


def number_faults(cells: AtomCells) -> list[Fault]:
    """Return the first value of each list that is not a number, in the order of the rows.

    Args:
        cells: the parsed cells of all rows.

    >>> from gattn.apps.molecules.atoms.labels import read_cells
    >>> [fault.reason for fault in number_faults(read_cells({"atom": {"a": ["[1, 'x']"]}}))]
    ["a: value 2 must be a number or null; it is 'x'"]
    """
    faults = []
    for name in cells.targets.names:
        for row, values in enumerate(cells.values[name]):
            for place, value in enumerate(values or ()):
                reason, selective = _reason(value)
                if reason:
                    words = f"{name}: value {place + 1} {reason}"
                    faults.append(Fault(row, name, words, selective))
                    break
    return sorted(faults)


def without_faults(cells: AtomCells) -> AtomCells:
    """Return the cells after each list that :func:`number_faults` reports was replaced by None. The
    problem of its row is the reason of the fault.
    """
    faults = number_faults(cells)
    if not faults:
        return cells
    problems = list(cells.problems)
    values = {name: list(lists) for name, lists in cells.values.items()}
    for row, name, reason, _ in faults:
        problems[row] = problems[row] or reason
        values[name][row] = None
    return replace(cells, values=values, problems=problems)


def _reason(value: Item) -> tuple[str, bool]:
    """Return the reason why a value is not a label, or "", and whether it is selective."""
    if value is None:
        return "", False
    if _is_limit(value):
        return f"is the limit {value!r}, which is not a measured value", True
    if isinstance(value, bool) or (isinstance(value, str) and classify(value).kind != "infinite"):
        return f"must be a number or null; it is {value!r}", False
    if isinstance(value, str) or abs(value) > LARGEST:
        return f"must be finite and in the range of float32; it is {value!r}", True
    return "", False


def _is_limit(value: Item) -> bool:
    return isinstance(value, str) and classify(value).kind == "censored"
