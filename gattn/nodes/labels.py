"""The labels of nodes: which attribute holds them, and what they are as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gattn.data.numbers import read_numbers
from gattn.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.nodes.notation import told_patterns
from gattn.nodes.values import (
    LISTS,
    as_numbers,
    as_texts,
    gap_words,
    is_empty,
    is_missing,
    shape_fault,
)

__all__ = [
    "Labels",
    "encode_classes",
    "encode_numbers",
    "find_classes",
    "read_labels",
    "usual_labels",
]

Labels: TypeAlias = Sequence[object] | Tensor | Mapping[Hashable, object]
USUAL = ("y", "label")
UNLABELLED = -1
"""The class of a node without a label in tensors, as PyG's data sets have it."""
EMPTY = "write numbers there, or leave these cells empty, so that the nodes have no label"
MANY = 20
"""Labels of more different numbers than this are rather numbers than classes."""


def usual_labels(graph: AttributedGraph) -> list[str]:
    """The attributes of the nodes that have a name which labels usually have."""
    return [name for name in USUAL if name in graph.table.columns or name in graph.unreadable]


def read_labels(
    graph: AttributedGraph,
    label: str | None = None,
    y: Labels | None = None,
    *,
    classes: bool = False,
) -> tuple[pd.Series, list[str]]:
    """The labels of the n nodes as they are, missing ones None.

    Args:
        graph: the graph.
        label: the attribute that holds them; None for ``y`` or ``label``.
        y: labels in the order of the nodes, or by the nodes' names, in place of an attribute.
        classes: whether the labels are classes, so that in a tensor of whole numbers -1 is a node
            without a label.

    Returns:
        The labels, a series with the name of their attribute where they come from one; and what
        was decided, in a sentence each.

    Raises:
        GraphError: there are none, too few or many, or nobody said which of two attributes; or
            ``y`` stands beside ``x``, and may be a coordinate; or a tensor of classes holds a
            number below -1.
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
    told: list[str] = []
    if is_tensor and classes:
        values, told = _without_unlabelled(values, graph)
    return values, [*notes, *(told or [*_told_missing(values), *_told_negative(values)])]


def _without_unlabelled(values: pd.Series, graph: AttributedGraph) -> tuple[pd.Series, list[str]]:
    """The labels of a tensor, in which -1 is None; where there are fractions, as they are."""
    numbers = as_numbers(values)
    if (numbers[np.isfinite(numbers)] % 1 != 0).any():
        return values, []
    low = np.flatnonzero(numbers < UNLABELLED)
    if len(low):
        raise GraphError(
            f"y must hold classes from 0 on, and {UNLABELLED} for a node without a label; "
            f"{graph.node(int(low[0]))} has {numbers[low[0]]:g}. For numbers take NodeRegressor"
        )
    gone = numbers == UNLABELLED
    if not gone.any():
        return values, []
    told = f"y is {UNLABELLED} for {gone.sum():,} of {len(values):,} nodes: they have no label."
    return values.astype(object).mask(pd.Series(gone, values.index), None), [told]


def _told_missing(values: pd.Series) -> list[str]:
    """Notes on which labels are missing, and on words that may have been meant as a gap."""
    missing, empty = is_missing(values), is_empty(values)
    words = ", ".join(f"{word!r} ({count:,})" for word, count in gap_words(values).items())
    title = "The label" if values.name is None else f"Label {values.name!r}"
    are_gaps, notes = int(missing.sum()) > int(empty.sum()), []
    if missing.any():
        as_word = f", or one of {words}" if are_gaps else ""
        notes.append(
            f"{title} is missing for {missing.sum():,} of {len(values):,} nodes: the cell is "
            f"empty{as_word}."
        )
    if words and not are_gaps:
        notes.append(
            f"{title} has the classes {words}: of a label that is a text, only an empty cell is "
            "missing. If such a word stands for a gap, name it with --missing."
        )
    return notes


def _told_negative(values: pd.Series) -> list[str]:
    """A note on one negative number among other labels, which may stand for a missing label.

    There is none where several labels are negative, or where without it one class is left.
    """
    if any(isinstance(value, LISTS) for value in values):
        return []
    numbers = as_numbers(values)
    negative, there = numbers < 0, ~is_missing(values)
    others = _stripped(values).loc[there & ~negative]
    count = int(negative.sum())
    if len(np.unique(numbers[negative])) != 1 or others.nunique() < 2:
        return []
    is_class = others.nunique() <= MANY and not (numbers[np.isfinite(numbers)] % 1 != 0).any()
    if count < 2 and not is_class:
        return []
    first = values.tolist()[int(negative.argmax())]
    sign = first.strip() if isinstance(first, str) else f"{numbers[negative][0]:g}"
    title = "The label" if values.name is None else f"Label {values.name!r}"
    return [
        f"{title} has the {'class' if is_class else 'number'} {sign} ({count:,} "
        f"node{'s' * (count > 1)}). If it stands for a missing label, name it with --missing "
        f"{sign}; in Python, replace it with None or NaN."
    ]


def find_classes(values: pd.Series, where: Where = at_row) -> np.ndarray:
    """The different labels, sorted; as texts where some are.

    Args:
        values: the labels of n nodes.
        where: the words for the position of a node.

    Raises:
        GraphError: there are fewer than two, or so many that they are no classes.
    """
    known = _stripped(values).loc[~is_missing(values)]
    lists = [value for value in known if isinstance(value, LISTS)]
    if lists:
        raise GraphError(
            f"labels{_of(values)} must be one class a node; got {lists[0]!r}, which holds several"
        )
    kinds = list(pd.unique(known))
    if len({str if isinstance(kind, str) else float for kind in kinds}) > 1:
        kinds = sorted({str(kind) for kind in kinds})
    if len(kinds) < 2:
        held = f"one: {kinds[0]!r}" if kinds else "none"
        raise GraphError(f"labels{_of(values)} must have at least two classes; there is {held}")
    if len(kinds) > max(20, len(known) / 2):
        patterns = told_patterns(read_numbers(as_texts(values)).recognised(), where)
        raise GraphError(
            f"labels{_of(values)} must be classes; {len(kinds):,} of {len(known):,} nodes have "
            "different ones. For numbers take NodeRegressor (--task regression)"
            f"{patterns and f'; {patterns}'}"
        )
    classes = np.array(sorted(kinds))
    is_count = classes.dtype.kind == "f" and (classes % 1 == 0).all()
    return classes.astype(np.int64) if is_count else classes  # 1.0 is 1 beside a gap


def encode_classes(values: pd.Series, classes: np.ndarray) -> Tensor:
    """The positions of labels among the classes: [n] float64, NaN where unknown.

    Raises:
        GraphError: another label.
    """
    as_text = classes.dtype.kind == "U"
    place = {label: float(i) for i, label in enumerate(classes.tolist())}
    y = np.full(len(values), np.nan)
    for i, (label, missing) in enumerate(zip(_stripped(values).tolist(), is_missing(values))):
        label = str(label) if as_text else label
        if not missing and label not in place:
            raise GraphError(f"labels{_of(values)} must be among {list(place)[:20]}; got {label!r}")
        y[i] = np.nan if missing else place[label]
    return torch.from_numpy(y)


def encode_numbers(values: pd.Series, where: Where = at_row) -> Tensor:
    """Labels that are numbers: [n] float64, NaN where unknown.

    Args:
        values: the labels of n nodes.
        where: the words for the position of a node.

    Raises:
        GraphError: one is no number, or infinite.
    """
    numbers = as_numbers(values)
    strange = np.isnan(numbers) & ~is_missing(values, numbers=True)
    if strange.any():
        label = values.tolist()[strange.argmax()]
        texts = ["" if gone else str(value) for value, gone in zip(values.tolist(), ~strange)]
        patterns = told_patterns(read_numbers(texts).patterns, where, EMPTY)
        raise GraphError(f"labels{_of(values)} must be numbers; got {label!r}: {patterns}")
    if np.isinf(numbers).any():
        raise GraphError(f"labels{_of(values)} must be finite; one is infinite")
    return torch.from_numpy(numbers)


def _choose(graph: AttributedGraph) -> str:
    """The attribute that holds the labels, where nobody named it: ``y`` or ``label``."""
    found = usual_labels(graph)
    wanted = "labels are wanted: y, or the name of an attribute (label, --label)"
    if not found:
        held = ", ".join(map(repr, graph.table.columns[:20])) or "none"
        raise GraphError(f"{wanted} among {held}")
    if len(found) > 1:
        raise GraphError(f"{wanted}, since the nodes have both {found[0]!r} and {found[1]!r}")
    if found == ["y"] and "x" in graph.table.columns:
        raise GraphError(f"{wanted}, since 'y' beside 'x' may be a coordinate")
    return found[0]


def _in_order(graph: AttributedGraph, y: Labels) -> pd.Series:
    """The labels ``y`` in the order of the n nodes, missing ones None.

    The names of tables are texts: a label may also be given by what is written like one.
    """
    if not isinstance(y, Mapping):
        if isinstance(y, Tensor | np.ndarray | pd.DataFrame):
            if fault := shape_fault("y", tuple(y.shape), len(graph)):
                raise GraphError(fault)
            array = y.to_numpy() if isinstance(y, pd.DataFrame) else y
            return pd.Series(array.reshape(-1).tolist(), dtype=object)
        if len(y) != len(graph):
            raise GraphError(f"y must hold {len(graph)} labels, one a node; got {len(y)}")
        return pd.Series(list(y), dtype=object)
    known = set(graph.names)
    found: dict[Hashable, object] = {}
    for key, label in y.items():
        as_text = str(int(key) if isinstance(key, float) and key.is_integer() else key)
        name = key if key in known else as_text
        if name not in known:
            raise GraphError(f"y has a label of {key!r}, which is no node")
        if name in found:
            raise GraphError(f"y has two labels of {name!r}")
        found[name] = label
    return pd.Series([found.get(name) for name in graph.names], dtype=object)


def _stripped(values: pd.Series) -> pd.Series:
    """Labels without the space around texts, as tables that were typed have it."""
    texts = [value.strip() if isinstance(value, str) else value for value in values.tolist()]
    return pd.Series(texts, dtype=object, name=values.name)


def _of(values: pd.Series) -> str:
    """Which attribute the labels come from, where they come from one."""
    return "" if values.name is None else f" ({values.name!r})"
