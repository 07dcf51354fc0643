"""Reader of the labelled table for training or evaluation: SMILES, labels and parts."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from gattn.apps.fitting.tasks import REGRESSION
from gattn.apps.molecules.atoms.labels import Places, read_lists
from gattn.apps.molecules.descriptor_columns import DescriptorColumns, SmilesRows, open_tables
from gattn.apps.molecules.relations import relation_columns, with_relation
from gattn.apps.molecules.row_format import row_text
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.labels import (
    SHARE,
    SKIP,
    Labels,
    read_labels,
    unit_columns,
    unit_notes,
)
from gattn.apps.run.run_folder import file_hash
from gattn.apps.run.text import plural
from gattn.apps.tables.csv_table import SEPARATORS, Table, TableRow, as_number
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import NumberFormat, classify, is_missing, read_times
from gattn.data import BadRow, get_dataset, load_molecules

ERROR_OF_EXACT_LABELS = 0.2
"""Error of a model of exact labels, as a share of their standard deviation. From 0.05 to 0.3, the
RMSE for ESOL changes by 3 % (``python -m benchmarks.molecules.errors``); larger shares are worse
with errors of 2, and smaller ones with errors of 0.8 (``--errors 0.1 0.8``).
"""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows of a table of molecules, or of the data set that is distributed with RDKit.

    Attributes:
        name: name of the file or data set.
        sha256: checksum of its content.
        smiles: SMILES of the n rows; several molecules of a row are one text.
        targets: names of the t targets.
        labels: labels of the n rows.
        lines: the line of each row in the file.
        parts: the value of each row in the split column; None if there is no such column.
        bad: rows with a wrong number of cells or with an invalid label. These rows stay in the
            lists, with an empty SMILES and missing labels, so that row numbers do not change.
        descriptors: names of the f descriptor columns.
        descriptor_values: [n, f] float64, the cells of these columns, NaN for an empty cell; None
            if there are no such columns.
        columns: names of the SMILES columns.
        weights: [n] float64, the weight of each row, 1 for a bad row or without a column of weights
            or errors; None for equal weights.
        fixed: "val" or "test" for each row of a file of that part, "" for the rows that the split
            divides; None if there are no such files.
        times: [n] float64, the time of each row, NaN for a bad row; None if there is no such
            column.
        places: what the labels belong to if they are lists; None for labels of molecules.
        lists: the cells of each column of lists.
    """

    name: str
    sha256: str
    smiles: list[str]
    targets: tuple[str, ...]
    labels: Labels
    lines: Sequence[int]
    parts: list[str] | None
    bad: tuple[BadRow, ...]
    descriptors: tuple[str, ...] = ()
    descriptor_values: np.ndarray | None = None
    columns: tuple[str, ...] = ("smiles",)
    weights: np.ndarray | None = None
    fixed: list[str] | None = None
    times: np.ndarray | None = None
    places: Places | None = None
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def without(self, targets: Collection[str]) -> Source:
        """Return the rows without some targets."""
        places = [i for i, name in enumerate(self.targets) if name not in targets]
        bounds = self.labels.bounds
        labels = replace(
            self.labels,
            y=self.labels.y[:, places],
            counts={n: count for n, count in self.labels.counts.items() if n not in targets},
            lost=tuple(label for label in self.labels.lost if label.target not in targets),
            bounds=None if bounds is None else bounds[:, places],
        )
        return replace(self, targets=tuple(self.targets[i] for i in places), labels=labels)

    @property
    def rows(self) -> list[str] | SmilesRows:
        """The input of an estimator: n SMILES, or SMILES and descriptors."""
        if self.descriptor_values is None:
            return self.smiles
        return SmilesRows(self.smiles, self.descriptor_values, list(self.descriptors))


def read_source(
    settings: RunSettings, *, learnable: bool = True, style: NumberFormat | None = None
) -> Source:
    """Read the tables of a run: SMILES, labels, and what else the columns of a row contain.

    A row with a descriptor, weight, error, time or list of labels that cannot be read is left out;
    more than 5 % of such rows are an error, unless ``settings.skip_bad_labels`` is set. Weights are
    numbers above 0, and standard errors of labels numbers of at least 0; see
    :func:`error_weights`. Without ``settings.relation_column``, the only column of relations is
    read, if there is one.

    Args:
        settings: the files, which have the same columns and whose rows follow one another, their
            columns, and the formats of the cells.
        learnable: whether a column of one class or of one number is an error.
        style: format of the numbers; by default that of the settings.

    Returns:
        All rows of the files in order, including the bad ones.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file, a column or a label cannot be used.
    """
    targets, level, part_column = settings.label_columns, settings.level, settings.split_rule.column
    encoding, relation, skip_bad = (
        settings.encoding,
        settings.relation_column,
        settings.skip_bad_labels,
    )
    weight, error, time = settings.weight_column, settings.error_column, settings.time
    descriptors, style = settings.descriptors_columns, style or settings.style
    molecules, paths = settings.smiles_columns, settings.files
    path = ", ".join(paths)
    names = [*targets, *descriptors, *filter(None, (weight, error, time, part_column))]
    if targets and not level:
        relation = relation or _relation_column(paths[0], molecules, names, targets, encoding)
        names += [relation] * bool(relation)
    every = [*molecules, *names]
    if len(set(every)) < len(every):
        raise ValueError(f"a column can be used only once; got {', '.join(every)}")
    table = open_tables(paths, molecules, names, parts=settings.file_parts, encoding=encoding)
    molecules = table.smiles
    places = [table.place(target) for target in targets]
    numeric = [*descriptors, *filter(None, (error, weight))]
    columns = DescriptorColumns.of(table, numeric, style)
    values, unread = array("d"), array("q")
    part_place = table.place(part_column or molecules[0])
    texts: list[str] = []
    cells: list[tuple[str, ...]] = []
    parts: list[str] | None = None if part_column is None else []
    faults: list[str] = []
    lines: Any = array("q") if len(paths) == 1 else []
    moments: list[str] = []
    units = {name: set[str]() for name in unit_columns(table.columns, names)}
    unit_places = list(map(table.place, units))
    first: TableRow | None = None
    # To save memory, only the cells of the columns that the run needs are stored.
    for row in table.rows():
        # If a row has more or fewer cells than the header, its cells may be in wrong columns.
        fits = not row.problem
        texts.append(row_text(row.cells, columns.smiles))
        labels_of_row = [row.cells[p] if fits else "" for p in places]
        if relation:
            sign = row.cells[table.place(relation)]
            labels_of_row = [with_relation(cell, sign) for cell in labels_of_row]
        cells.append(tuple(labels_of_row))
        if parts is not None:
            # A row with a wrong number of cells has no label, so no part uses it. Its part is
            # therefore arbitrary.
            parts.append(intern(row.cells[part_place]) if fits else "train")
        if not fits and not skip_bad:
            _check_split_number(table, row, places)
            first = first or row
        if fits:
            for some, place in zip(units.values(), unit_places):
                some.add(row.cells[place].strip())
        numbers, problem = columns.read(row)
        if error and not problem and not numbers[len(descriptors)] >= 0:
            cell = row.cells[columns.places[len(descriptors)]]
            problem = f"{error} must be a number of at least 0; it is {cell!r}"
            numbers[len(descriptors)] = math.nan
        if weight and not problem and not numbers[-1] > 0:
            cell = row.cells[columns.places[-1]]
            problem = f"{weight} must be a number above 0; it is {cell!r}"
            numbers[-1] = math.nan
        values.extend(numbers)
        if time:
            moments.append(row.cells[table.place(time)] if fits else "")
        if fits and problem:
            unread.append(len(faults))
        faults.append(problem)
        lines.append(row.line)
    if not texts:
        raise ValueError(f"{path} has a header but no rows")
    list_cells: dict[str, list[str]] = {}
    places_of_labels: Places | None = None
    lines_of_labels: Any = lines
    if level:
        list_cells = {name: [row[i] for row in cells] for i, name in enumerate(targets)}
        lists = read_lists(cells, targets)
        places_of_labels = Places(level, lists.owners)
        cells = [tuple("" if v is None else str(v) for v in values) for values in lists.values]
        lines_of_labels = [lines[row] for row in lists.owners.tolist()]
        for i, problem in enumerate(lists.problems):
            if problem and not faults[i]:
                faults[i] = problem
                unread.append(i)
    times = read_times(moments) if time else None
    if times is not None:
        for i in np.flatnonzero(np.isnan(times)).tolist():
            if not faults[i]:
                faults[i] = f"{time} must be a number or a date; it is {moments[i]!r}"
                unread.append(i)
    if len(unread) > max(1, SHARE * len(texts)) and not skip_bad:
        raise ValueError(
            f"{path}: {len(unread):,} of {len(texts):,} rows have a list, a descriptor, a weight, "
            f"an error or a time that cannot be read, the first in line {lines[unread[0]]}: "
            f"{faults[unread[0]]}; correct them, or leave the rows out with {SKIP}"
        )
    misfits = sum(map(bool, faults)) - len(unread)
    if first is not None and misfits > max(1, SHARE * len(texts)):
        raise ValueError(
            f"{path}: {misfits:,} of {len(texts):,} rows have a wrong number of cells; the "
            f"first is in line {first.line}: {first.problem} (separated by "
            f"{SEPARATORS[table.separator]}); quote cells that contain a "
            f"{SEPARATORS[table.separator]}, or leave the rows out with {SKIP}"
        )
    read, dropped = list(targets), []
    if learnable and len(targets) > 1:
        read, dropped = _learnable(cells, targets)
        cells = [tuple(row[targets.index(name)] for name in read) for row in cells]
    signs = f" (relations: column {relation!r})" if relation else ""
    try:
        labels = read_labels(
            cells, read, settings.task, lines_of_labels, learnable=learnable, style=style,
            skip_bad=skip_bad,
        )  # fmt: skip
    except ValueError as exception:
        raise ValueError(f"{path}{signs}: {exception}") from None
    notes = unit_notes(units)
    if relation:
        notes.append(f"Column {relation!r} is read as the relations of the labels.")
    notes += [_dropped_note(dropped)] * bool(dropped)
    labels = replace(labels, notes=(*notes, *labels.notes))
    problems = faults
    if places_of_labels is None:
        problems = [fault or problem for fault, problem in zip(faults, labels.problems)]
    else:
        owners = places_of_labels.owners.tolist()
        lost = (label._replace(row=owners[label.row]) for label in labels.lost)
        labels = replace(labels, lost=tuple(lost))
    numbers_of_rows = np.array(values).reshape(len(texts), len(numeric))
    weights = np.nan_to_num(numbers_of_rows[:, -1], nan=1.0) if weight else None
    if error:
        if labels.task.is_class or len(read) > 1:
            raise ValueError(
                f"{path}: the column of errors {error} needs one target of numbers; got "
                f"{', '.join(read)} with the task {labels.task}"
            )
        errors = np.nan_to_num(numbers_of_rows[:, len(descriptors)])
        weights = error_weights(labels.y[:, 0], errors) * (1.0 if weights is None else weights)
    return Source(
        name=path,
        sha256=file_hash(*map(Path, paths)),
        smiles=["" if problem else text for text, problem in zip(texts, problems)],
        targets=tuple(read),
        labels=labels,
        lines=lines,
        parts=parts,
        bad=tuple(
            BadRow(i, texts[i], problem, lines[i]) for i, problem in enumerate(problems) if problem
        ),
        descriptors=tuple(descriptors),
        descriptor_values=numbers_of_rows[:, : len(descriptors)] if descriptors else None,
        columns=molecules,
        weights=weights,
        fixed=[line.part for line in lines] if any(settings.file_parts) else None,
        times=times,
        places=places_of_labels,
        lists=list_cells,
    )


def error_weights(y: np.ndarray, errors: np.ndarray) -> np.ndarray:
    r"""Return the weights [n] of rows whose labels y [n] have standard errors [n].

    .. math:: w_i = \frac{s^2}{s^2 + \sigma_i^2}, \qquad s = 0.2\, \mathrm{std}(y)

    s stands for the error of a model that was trained on exact labels.

    >>> error_weights(np.array([0.0, 10.0]), np.array([0.0, 1.0])).tolist()
    [1.0, 0.5]
    """
    exact = (ERROR_OF_EXACT_LABELS * np.nanstd(y)) ** 2
    return exact / (exact + errors**2)


def _relation_column(
    path: str,
    smiles: Sequence[str],
    names: Sequence[str],
    targets: Sequence[str],
    encoding: str | None,
) -> str:
    """Read a table; return its only unused column of relations, or "" if there is none. ``smiles``
    are the columns of SMILES, ``names`` the used ones, and ``targets`` those of the labels.

    Raises:
        FileNotFoundError: there is no file ``path``.
        ValueError: there are several such columns, or several targets to which one may belong; or
            the file cannot be read or lacks a column of SMILES.
    """
    table = open_molecules(path, smiles, names, encoding=encoding)
    candidates = relation_columns(
        (row.cells for row in table.rows() if not row.problem), table.columns
    )
    columns = [name for name in candidates if name not in names and table.columns.count(name) == 1]
    if columns and len(columns) + len(targets) > 2:
        raise ValueError(
            f"{path}: the relations of the labels may be in {', '.join(map(repr, columns))}: train "
            "on one target, and name its column with --relation-column"
        )
    return columns[0] if columns else ""


def _learnable(
    cells: Sequence[Sequence[str]], targets: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the targets with at least two different labels, and the others. If no target has two
    labels, all are returned first, and the reader of the labels has an error.
    """
    kinds = [
        {cell for row in cells if not is_missing(cell := row[i].strip())}
        for i in range(len(targets))
    ]
    read = [name for name, labels in zip(targets, kinds) if len(labels) > 1]
    return (read, [name for name in targets if name not in read]) if read else ([*targets], [])


def _dropped_note(targets: Sequence[str]) -> str:
    shown = ", ".join(map(repr, targets[:5])) + ", ..." * (len(targets) > 5)
    return f"{plural(len(targets), 'target')} without two different labels left out: {shown}."


def _check_split_number(table: Table, row: TableRow, places: Sequence[int]) -> None:
    """Raise ValueError if a number contains the table's separator, so that its row has an extra
    cell.

    An example is the number 1,008, without quotes, in a table separated by commas.
    """
    parts = [*row.cells[:-1], *row.cells[-1].split(table.separator)]
    if len(parts) != len(table.columns) + 1:
        return
    for place in places:
        whole = table.separator.join(parts[place : place + 2])
        cells = [*parts[:place], whole, *parts[place + 2 :]]
        others = [cells[other] for other in places if other != place]
        if classify(whole).kind == "separated" and all(
            as_number(cell) is not None for cell in others
        ):
            raise ValueError(
                f"{table.path}: line {row.line} has {row.problem}, and {whole!r} in column "
                f"{table.columns[place]!r} looks like one number: put such cells in quotes or "
                f"separate the cells by semicolons, or leave the rows out with {SKIP}"
            )


def built_in() -> Source:
    """Read the 1,017 measured compounds of CHEMBL2321810, which are distributed with RDKit.

    Raises:
        ImportError: RDKit is not installed.
        FileNotFoundError: RDKit was built without its Contrib folder.
    """
    compounds = load_molecules("chembl2321810")
    record = get_dataset("chembl2321810")
    return Source(
        name="CHEMBL2321810",
        sha256=hashlib.sha256("".join(file.sha256 for file in record.files).encode()).hexdigest(),
        smiles=compounds.smiles,
        targets=compounds.targets,
        labels=Labels(REGRESSION, compounds.y.double().numpy(), [""] * len(compounds)),
        lines=[row + 1 for row in compounds.rows],
        parts=None,
        bad=(),
    )
