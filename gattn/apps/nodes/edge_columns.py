"""Choice of the edge columns that a model reads, and the checks of their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where
from gattn.apps.nodes.columns import Column
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.times import are_dates
from gattn.apps.nodes.values import (
    are_distinct_integers,
    as_numbers,
    as_texts,
    is_empty,
    is_missing,
)

TYPES = 10
"""Maximum number of edge types for which means over neighbours are computed separately; the most
frequent types are chosen.
"""
QUARTILE_COLUMNS = 4
"""Maximum number of numeric edge columns for which means over neighbours are computed separately
for each quartile.
"""
COLUMN = re.compile(r"^(Column|attribute) (['\"]).*?\2")
"""Pattern for the name of a column at the beginning of a note or an error message."""
LARGEST = 1e30
"""Maximum weight of an edge. It keeps sums of weights finite in float32."""
NUMBERING = ("id", "edge_id", "edgeid", "index", "level_0")
"""An edge column with one of these names is treated as row numbers if each edge has a different
whole number.
"""
Matrix: TypeAlias = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


@dataclass(frozen=True)
class EdgeColumns:
    """Names of the edge columns that an encoder reads.

    Attributes:
        features: columns to read as features; None for all others.
        weight: column of weights; None if there is none.
        type: column of types; None if there is none.
        time: column of times, of the nodes or of the edges; None if there is none.
        cutoffs: ends of the training and the validation part of a split by the times of edges,
            which :func:`gattn.apps.nodes.times.time_cutoffs` returns; empty for other splits.
    """

    features: tuple[str, ...] | None = None
    weight: str | None = None
    type: str | None = None
    time: str | None = None
    cutoffs: tuple[float, ...] = ()


ALL_COLUMNS = EdgeColumns()
"""Value that selects all edge columns as features."""


def edge_table_of(graph: AttributedGraph) -> EdgeTable:
    """Return the table of edge columns; it has no columns if the graph has no edge attributes."""
    if graph.edge_table is not None:
        return graph.edge_table
    return EdgeTable(graph.arcs, pd.DataFrame(index=range(graph.arcs.shape[1])))


def edge_column(edges: EdgeTable, name: str, why: str = "") -> pd.Series:
    """Return an edge column; if it does not exist, raise an error that lists the existing
    columns.
    """
    if name in edges.unreadable:
        raise GraphError(f"column {name!r} of the edges: {edges.unreadable[name]}")
    if name in edges.ends:
        raise GraphError(
            f"column {name!r} of the edges contains the names of nodes{why}: choose another column"
        )
    if name not in edges.table.columns:
        columns = ", ".join(map(repr, edges.table.columns[:20])) or "only the names of nodes"
        raise GraphError(f"the edges have no column {name!r}{why}; they have {columns}")
    return edges.table[name]


def feature_names(edges: EdgeTable, chosen: EdgeColumns) -> tuple[list[str], list[str]]:
    """Return the names of the columns that are read as features, and notes on the other columns."""
    if chosen.features is not None:
        columns = [str(column) for column in edges.table.columns]
        names: list[str] = []
        for name in chosen.features:
            if name in names:
                raise GraphError(f"each feature of edges must be named once; got {name!r} twice")
            parts = [one for one in columns if one.rpartition(".")[0] == name]
            if name not in columns and parts:
                # This attribute is a list of numbers, which the reader has divided into several
                # columns.
                names += parts
                continue
            edge_column(edges, name)
            names.append(name)
        rest = [name for name in columns if name not in (*names, *_special(chosen))]
        shown = ", ".join(map(repr, rest))
        return names, [f"Not used: the columns {shown} of the edges."] if rest else []
    notes = [
        f"Column {name!r} of the edges is not used: {reason}."
        for name, reason in edges.unreadable.items()
    ]
    names = []
    for name in edges.table.columns:
        if name in _special(chosen):
            continue
        if _numbers_edges(name, edges.table[name]):
            notes.append(f"Column {name!r} of the edges is not used: it numbers the edges.")
        else:
            names.append(name)
    return names, notes


def _special(chosen: EdgeColumns) -> list[str]:
    return [name for name in (chosen.weight, chosen.type, chosen.time) if name is not None]


def check_different(chosen: EdgeColumns) -> None:
    """Raise an error if the same column is chosen for two of weight, type and time."""
    options = {"edge_weight": chosen.weight, "edge_type": chosen.type, "time": chosen.time}
    for first, second in combinations(options, 2):
        if options[first] is not None and options[first] == options[second]:
            raise GraphError(
                f"{first} and {second} must be different columns; got {options[first]!r} for both"
            )


def _numbers_edges(name: Hashable, values: pd.Series) -> bool:
    """Return True if a column numbers the rows, by its name and its values."""
    is_usual = str(name).strip().lower() in NUMBERING
    return is_usual and bool(len(values)) and are_distinct_integers(as_numbers(values))


def is_date_column(values: pd.Series) -> bool:
    """Return True if a column contains dates and no numbers."""
    return not np.isfinite(as_numbers(values)).any() and are_dates(values)


def edge_weights(values: pd.Series, where: Where) -> NDArray[np.float64]:
    """Return the weights [m]; raise an error if a weight is missing, negative or not a number."""
    title = f"weights of edges (column {values.name!r})"
    missing, weights = is_missing(values, numbers=True), as_numbers(values)
    faults = (
        (missing, "must be given for every edge"),
        (np.isnan(weights), "must be numbers"),
        (np.isinf(weights), "must be finite"),
        (weights < 0, "must not be negative"),
        (weights > LARGEST, f"must be at most {LARGEST:g}"),
    )
    for is_bad, requirement in faults:
        if is_bad.any():
            row = int(is_bad.argmax())
            # The list contains Python's numbers, whose text is shorter than that of NumPy's.
            shown = repr(values.iloc[[row]].tolist()[0])
            value = "an empty cell" if is_empty(values)[row] else shown
            others = f" ({int(is_bad.sum()):,} edges)" * (int(is_bad.sum()) > 1)
            raise GraphError(f"{title} {requirement}; got {value} {where(row)}{others}")
    return weights


def learn_weights(edges: EdgeTable, name: str, where: Where) -> tuple[float, float, list[str]]:
    """Return the mean of the positive weights, the standard deviation of their logarithms, and
    notes.
    """
    weights = edge_weights(edge_column(edges, name), where)
    positive = weights[weights > 0]
    if not len(positive):
        raise GraphError(all_zero(name))
    notes = []
    if zeros := len(weights) - len(positive):
        notes.append(f"Column {name!r} of the edges: {zeros:,} edges of weight 0 are removed.")
    if positive.min() == positive.max():
        notes.append(f"Column {name!r} of the edges is constant: the weights have no effect.")
        return float(positive[0]), 1.0, notes
    return float(positive.mean()), float(np.log(positive).std()), notes


def all_zero(name: str) -> str:
    """Return the error message for a column of weights that are all 0."""
    return f"weights of edges (column {name!r}) must not all be 0"


def learn_types(edges: EdgeTable, name: str) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """Return the edge types that get their own features, all other types, and notes."""
    texts = as_texts(edge_column(edges, name), gaps=False)
    counts = Counter(text for text in texts if text)
    notes = []
    if empty := texts.count(""):
        notes.append(f"Column {name!r} of the edges is empty for {empty:,} of {len(texts):,}.")
    if len(counts) < 2:
        reason = f"all edges are of type {next(iter(counts))!r}" if counts else "it is empty"
        notes.append(f"Column {name!r} of the edges has no effect: {reason}.")
        return (), (), notes
    most = [text for text, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    if len(most) > TYPES:
        rest = sum(counts[text] for text in most[TYPES:])
        notes.append(
            f"Column {name!r} of the edges contains {len(most):,} types: separate means are "
            f"computed for the {TYPES} most frequent ones, but not for the other {rest:,} edges."
        )
    return tuple(most[:TYPES]), tuple(most[TYPES:]), notes


def learn_cuts(
    columns: Sequence[Column], table: pd.DataFrame, where: Where
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the standardised quartiles of the first numeric columns, as a dictionary by column
    name.
    """
    cuts = []
    for column in [one for one in columns if one.kind == "number"][:QUARTILE_COLUMNS]:
        numbers = column_numbers(column.features(table[column.name], where))
        numbers = numbers[np.isfinite(numbers)]
        values = np.unique(np.quantile(numbers, (0.25, 0.5, 0.75)))
        values = values[values > numbers.min()]
        if len(values):
            cuts.append((column.name, tuple(values.tolist())))
    return tuple(cuts)


def column_numbers(block: Matrix) -> NDArray[np.float64]:
    """Return the numbers [m] of a numeric column, given its features [m, 1] or (with a mask of
    missing values) [m, 2].
    """
    dense = np.asarray(block.todense(), np.float64)
    return np.where(dense[:, 1:].any(1), np.nan, dense[:, 0])


def edge_note(note: str) -> str:
    """Return a note on an edge column, made from the corresponding note on a node column."""
    note = note.replace("--features / features=", "--edge-features / edge_features=")
    return COLUMN.sub(r"\g<0> of the edges", note, count=1)
