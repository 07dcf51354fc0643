"""Labels of nodes: which attribute contains them, and their encoding as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.apps.nodes.values import (
    LISTS,
    as_numbers,
    as_texts,
    describe_patterns,
    finite_numbers,
    gap_notes,
    is_missing,
    shape_fault,
)
from gattn.apps.run.text import case_hints
from gattn.apps.tables.copies import is_rewritten
from gattn.apps.tables.numbers import read_numbers

Labels: TypeAlias = Sequence[object] | Tensor | Mapping[Hashable, object]
USUAL = ("y", "label")
UNLABELLED = -1
"""Value that marks nodes without a label in a tensor of classes, as in PyG's data sets."""
EMPTY = "write numbers there, or leave these cells empty, so that the nodes have no label"
ENOUGH = 1000
"""Number of labelled nodes on which attributes are compared with the labels."""
FEW = 5
"""Labels that are numbers may be no classes if there are fewer nodes for each of them."""
MANY = 20
"""A column of numbers is read as classes if it contains at most this number of different values."""


def usual_labels(graph: AttributedGraph) -> list[str]:
    """Return the attributes that are probably labels, because they are called ``y`` or
    ``label``.
    """
    return [name for name in USUAL if name in graph.table.columns or name in graph.unreadable]


def read_labels(
    graph: AttributedGraph,
    label: str | None = None,
    y: Labels | None = None,
    *,
    classes: bool = False,
) -> tuple[pd.Series, list[str]]:
    """Read the labels of n nodes without encoding them as numbers.

    Args:
        graph: the graph.
        label: the attribute that holds the labels; None for ``y`` or ``label``.
        y: labels in the order of the nodes, or a mapping from nodes' names to labels; None to read
            an attribute.
        classes: True if the labels are classes, where -1 in a tensor of whole numbers marks a node
            without a label.

    Returns:
        The labels (None for a missing label), as a series with the name of their attribute; and
        sentences about decisions, such as the choice of the attribute.

    Raises:
        GraphError: there are no labels, their number differs from the number of nodes, a mapping
            names an unknown node, both ``y`` and ``label`` exist, ``y`` may be a coordinate because
            there is also ``x``, or a tensor of classes contains a number below -1.
    """
    notes, is_tensor = [], isinstance(y, Tensor)
    if y is not None:
        values = _in_order(graph, y)
    else:
        name = label
        if name is None:
            name = _choose(graph)
            notes.append(f"The labels are attribute {name!r}.")
        values = graph.column(name)
        is_tensor = graph.tensor_labels and name == "y"
    unlabelled: list[str] = []
    if is_tensor and classes:
        values, unlabelled = _without_unlabelled(values, graph)
    elif classes and values.dtype.kind == "O":
        notes += [f"Of the labels, {hint}." for hint in case_hints(set(as_texts(values)))]
    return values, [*notes, *(unlabelled or [*_missing_notes(values), *_negative_notes(values)])]


def _without_unlabelled(values: pd.Series, graph: AttributedGraph) -> tuple[pd.Series, list[str]]:
    """Replace the integer label -1, which stands for no label, by None; return the labels, and a
    note if there are any such. If some labels are not whole numbers, all are returned unchanged.
    Raises GraphError for an integer label below -1.
    """
    numbers = as_numbers(values)
    if (numbers[np.isfinite(numbers)] % 1 != 0).any():
        return values, []
    low = np.flatnonzero(numbers < UNLABELLED)
    if len(low):
        raise GraphError(
            f"y must have classes numbered from 0, and {UNLABELLED} for a node without a "
            f"label; {graph.node(int(low[0]))} has {numbers[low[0]]:g}. For numbers use "
            "NodeRegressor"
        )
    gone = numbers == UNLABELLED
    if not gone.any():
        return values, []
    note = f"y is {UNLABELLED} for {gone.sum():,} of {len(values):,} nodes: they have no label."
    return values.astype(object).mask(pd.Series(gone, values.index), None), [note]


def _missing_notes(values: pd.Series) -> list[str]:
    """Return notes on missing labels, and on words such as ``NA`` that may stand for them."""
    title = "The label" if values.name is None else f"Label {values.name!r}"
    missing = int(is_missing(values).sum())
    notes = [f"{title} is missing for {missing:,} of {len(values):,} nodes."] * (missing > 0)
    return notes + gap_notes(values, title)


def _negative_notes(values: pd.Series) -> list[str]:
    """Return a note if a single negative number occurs repeatedly beside at least two other labels,
    because it may mark missing labels.
    """
    if any(isinstance(value, LISTS) for value in values):
        return []
    labels = _stripped(values).loc[~is_missing(values)]
    negative = labels[as_numbers(labels) < 0]
    if len(negative) < 2 or negative.nunique() != 1 or labels.nunique() < 3:
        return []
    title = "The label" if values.name is None else f"Label {values.name!r}"
    sign = negative.iloc[0]
    return [
        f"{title} is {sign} for {len(negative):,} nodes. If it stands for a missing label, use "
        f"--missing {sign}; in Python, replace it by None or NaN."
    ]


def copy_notes(values: pd.Series, graph: AttributedGraph, columns: Sequence[str]) -> list[str]:
    """Return a note for each attribute that contains the classes of the nodes in another writing.

    Args:
        values: the labels of n nodes.
        graph: the graph.
        columns: the attributes that are features.
    """
    rows = np.flatnonzero(~is_missing(values))
    rows = rows[:: max(1, len(rows) // ENOUGH)]
    labels = as_texts(values.iloc[rows])
    return [
        f"Attribute {name!r} contains label {values.name!r} in another writing. If it is not known "
        "for new nodes, name the other attributes with --features."
        for name in columns
        if is_rewritten(as_texts(graph.column(name).iloc[rows]), labels)
    ]


def number_notes(values: pd.Series) -> list[str]:
    """Return a note if labels that are read as classes are numbers that few nodes share."""
    present = _stripped(values).loc[~is_missing(values)]
    if present.nunique() * FEW <= len(present) or np.isnan(as_numbers(present)).any():
        return []
    return [
        f"Label {values.name!r} has {present.nunique()} different numbers, which are read as "
        "classes; --task regression predicts numbers."
    ]


def find_classes(values: pd.Series, where: Where = at_row) -> np.ndarray:
    """Return the sorted distinct labels. If one of them is a text, all are converted to texts.

    Args:
        values: the labels of n nodes.
        where: describes the position of a node.

    Raises:
        GraphError: there are fewer than two different labels, or too many to be classes, or a label
            is a list.
    """
    present = _stripped(values).loc[~is_missing(values)]
    if lists := [value for value in present if isinstance(value, LISTS)]:
        raise GraphError(
            f"{labels_of(values)} must be one class for each node; got {lists[0]!r}, "
            "which has several"
        )
    kinds = list(pd.unique(present))
    if len({str if isinstance(kind, str) else float for kind in kinds}) > 1:
        kinds = sorted({str(kind) for kind in kinds})
    if len(kinds) < 2:
        count = f"one: {kinds[0]!r}" if kinds else "none"
        raise GraphError(f"{labels_of(values)} must have at least two classes; there is {count}")
    if len(kinds) > max(MANY, len(present) / 2):
        patterns = describe_patterns(read_numbers(as_texts(values)).recognised(), where)
        raise GraphError(
            f"{labels_of(values)} must be classes; {len(kinds):,} of {len(present):,} nodes "
            "have different labels. For numbers use NodeRegressor (--task "
            f"regression){patterns and f'; {patterns}'}"
        )
    classes = np.array(sorted(kinds))
    is_count = classes.dtype.kind == "f" and (classes % 1 == 0).all()
    # If a label is missing, pandas stores integers as floats, so convert them back.
    return classes.astype(np.int64) if is_count else classes


def encode_classes(values: pd.Series, classes: np.ndarray) -> Tensor:
    """Return the index of each label in ``classes``, [n] float64; NaN for a missing label.

    Raises:
        GraphError: a label is not among the classes.
    """
    as_text = classes.dtype.kind == "U"
    place = {label: float(i) for i, label in enumerate(classes.tolist())}
    y = np.full(len(values), np.nan)
    for i, (label, missing) in enumerate(zip(_stripped(values).tolist(), is_missing(values))):
        label = str(label) if as_text else label
        if not missing and label not in place:
            raise GraphError(f"{labels_of(values)} must be among {list(place)[:20]}; got {label!r}")
        y[i] = np.nan if missing else place[label]
    return torch.from_numpy(y)


def encode_numbers(values: pd.Series, where: Where = at_row) -> Tensor:
    """Convert labels to numbers, [n] float64; NaN for a missing label.

    Args:
        values: the labels of n nodes.
        where: describes the position of a node.

    Raises:
        GraphError: a label is not a number, or is infinite or beyond float32.
    """
    title = labels_of(values)
    return torch.from_numpy(finite_numbers(values, title, "be numbers", where, EMPTY))


def _choose(graph: AttributedGraph) -> str:
    """Return the name of the label attribute if the user names none: ``y`` or ``label``. Raises
    GraphError if there is neither, if there are both, or if ``y`` may be a coordinate because there
    is also ``x``.
    """
    names = usual_labels(graph)
    message = "labels are required: y, or the name of an attribute (label, --label)"
    if not names:
        attributes = ", ".join(map(repr, graph.table.columns[:20])) or "none"
        raise GraphError(f"{message} among {attributes}")
    if len(names) > 1:
        raise GraphError(f"{message}, because the nodes have both {names[0]!r} and {names[1]!r}")
    if names == ["y"] and "x" in graph.table.columns:
        raise GraphError(f"{message}, because 'y' next to 'x' may be a coordinate")
    return names[0]


def _in_order(graph: AttributedGraph, y: Labels) -> pd.Series:
    """Return the labels ``y`` in the order of the n nodes; None stands for a missing label.

    The names of nodes that were read from tables are texts. A key of a mapping may also be a
    number: 7 stands for the name "7". Raises GraphError for a wrong number of labels, a label of an
    unknown node, or two labels of one node.
    """
    if not isinstance(y, Mapping):
        if isinstance(y, Tensor | np.ndarray | pd.DataFrame):
            if fault := shape_fault("y", tuple(y.shape), len(graph)):
                raise GraphError(fault)
            array = y.to_numpy() if isinstance(y, pd.DataFrame) else y
            return pd.Series(array.reshape(-1).tolist(), dtype=object)
        if len(y) != len(graph):
            raise GraphError(f"y must have {len(graph)} labels, one for each node; got {len(y)}")
        return pd.Series(list(y), dtype=object)
    names = set(graph.names)
    labels: dict[Hashable, object] = {}
    for key, label in y.items():
        as_text = str(int(key) if isinstance(key, float) and key.is_integer() else key)
        name = key if key in names else as_text
        if name not in names:
            raise GraphError(f"y has a label for {key!r}, which is not a node")
        if name in labels:
            raise GraphError(f"y has two labels for {name!r}")
        labels[name] = label
    return pd.Series([labels.get(name) for name in graph.names], dtype=object)


def _stripped(values: pd.Series) -> pd.Series:
    """Remove leading and trailing white space from the values that are texts."""
    texts = [value.strip() if isinstance(value, str) else value for value in values.tolist()]
    return pd.Series(texts, dtype=object, name=values.name)


def labels_of(values: pd.Series) -> str:
    """Return "labels" for a message, with the name of their attribute in parentheses."""
    return "labels" if values.name is None else f"labels ({values.name!r})"
