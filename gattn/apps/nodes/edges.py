"""Encoding of edge columns (features, weights, types and times) as inputs of the models of
nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, doubled_note
from gattn.apps.nodes.columns import Column, learn_columns
from gattn.apps.nodes.edge_table import (
    EdgeInputs,
    EdgeStructure,
    EdgeTable,
    first_of_equal,
    is_symmetric,
    message_ages,
    narrow_block,
    row_codes,
)
from gattn.apps.nodes.scratch import Matrix, Scratch, pieces
from gattn.apps.nodes.times import are_dates, as_times, edge_times, prediction_times
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
LARGEST, SMALLEST = 1e30, 1e-30
"""Maximum and minimum weight of an edge. They keep sums and ratios finite in float32."""
NUMBERING = ("id", "edge_id", "edgeid", "index", "level_0")
"""An edge column with one of these names is treated as row numbers if each edge has a different
whole number.
"""


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


def edge_column(edges: EdgeTable, name: Hashable, why: str = "") -> pd.Series:
    """Return an edge column. Raises GraphError if it does not exist, cannot be read, or contains
    the names of nodes. ``why`` is a part of the message after the name of the column.
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
    """Return the names of the columns that are read as features, and notes on the other columns. A
    chosen attribute that is a list stands for its columns; if none are chosen, a column that
    numbers the edges is not read. Raises GraphError if a chosen column is missing, cannot be read,
    contains the names of nodes or is named twice.
    """
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
    """Raise GraphError if the same column is chosen for two of weight, type and time."""
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
    """Return the weights [m] float64 in a column. Raises GraphError, whose message describes the
    position by ``where``, if a weight is missing, is no finite number, is negative, is above
    :data:`LARGEST`, or is between 0 and :data:`SMALLEST`.
    """
    title = f"weights of edges (column {values.name!r})"
    missing, weights = is_missing(values, numbers=True), as_numbers(values)
    faults = (
        (missing, "must be given for every edge"),
        (np.isnan(weights), "must be numbers"),
        (np.isinf(weights), "must be finite"),
        (weights < 0, "must not be negative"),
        (weights > LARGEST, f"must be at most {LARGEST:g}"),
        ((weights > 0) & (weights < SMALLEST), f"must be 0 or at least {SMALLEST:g}"),
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
    """Return the mean of the positive weights, the standard deviation of their logarithms (1 if
    they are all equal), and notes. Raises GraphError if no weight is positive, and for the faults
    of :func:`edge_column` and :func:`edge_weights`.
    """
    weights = edge_weights(edge_column(edges, name), where)
    positive = weights[weights > 0]
    if not len(positive):
        raise GraphError(all_zero(name))
    notes = []
    if zeros := len(weights) - len(positive):
        notes.append(f"Column {name!r} of the edges: edges of weight 0 are removed ({zeros:,}).")
    if positive.min() == positive.max():
        notes.append(f"Column {name!r} of the edges is constant: the weights have no effect.")
        return float(positive[0]), 1.0, notes
    return float(positive.mean()), float(np.log(positive).std()), notes


def all_zero(name: str) -> str:
    """Return the error message for a column of weights that are all 0."""
    return f"weights of edges (column {name!r}) must not all be 0"


def learn_types(edges: EdgeTable, name: str) -> tuple[Column | None, list[str]]:
    """Return the column of edge types, whose categories begin with the most frequent type, and
    notes. The first :data:`TYPES` types have features of their own. The column is None if there are
    fewer than two types. Raises GraphError for the faults of :func:`edge_column`.
    """
    texts = as_texts(edge_column(edges, name), gaps=False)
    counts = Counter(text for text in texts if text)
    notes = []
    if empty := texts.count(""):
        notes.append(f"Column {name!r} of the edges is empty for {empty:,} of {len(texts):,}.")
    if len(counts) < 2:
        reason = f"all edges are of type {next(iter(counts))!r}" if counts else "it is empty"
        notes.append(f"Column {name!r} of the edges has no effect: {reason}.")
        return None, notes
    most = sorted(counts, key=lambda text: (-counts[text], text))
    if len(most) > TYPES:
        rest = sum(counts[text] for text in most[TYPES:])
        notes.append(
            f"Column {name!r} of the edges contains {len(most):,} types: separate means are "
            f"computed for the {TYPES} most frequent ones, but not for the other {rest:,} edges."
        )
    gaps = bool(is_empty(edges.table[name]).any())
    return Column(name, "category", gaps=gaps, categories=tuple(most)), notes


def learn_cuts(
    columns: Sequence[Column], table: pd.DataFrame, where: Where
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the standardised quartiles of the first :data:`QUARTILE_COLUMNS` numeric columns: for
    each column its name and its quartiles, ascending. Quartiles that equal the minimum are left
    out, and so is a column without other quartiles.

    Args:
        columns: encoders of the columns.
        table: rows of the edges.
        where: describes the position of an edge.
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
    """Return the standardised numbers [m] of a numeric column, given its features [m, 1] or (with a
    mask of missing values) [m, 2]; NaN for a missing value that has a mask.
    """
    dense = np.asarray(block.todense(), np.float64)
    return np.where(dense[:, 1:].any(1), np.nan, dense[:, 0])


def edge_note(note: str) -> str:
    """Return a note on an edge column, made from the corresponding note on a node column."""
    note = note.replace("--features / features=", "--edge-features / edge_features=")
    return COLUMN.sub(r"\g<0> of the edges", note, count=1)


NARROW, PROJECTED = 32, 16
"""For attention, a column with more than ``NARROW`` features is projected to ``PROJECTED``
features.
"""
WIDE, REDUCED = 512, 128
"""For means over edges, a column with more than ``WIDE`` features is projected to ``REDUCED``
features.
"""


@dataclass(frozen=True)
class EdgeEncoder:
    r"""Encoder of edge columns as inputs of models.

    A weight :math:`w` is divided by the mean :math:`\bar w` of the weights above 0 in training. The
    logarithm of the result is added to the scores of attention, so that attention is proportional
    to the weight. Means over neighbours are weighted by the result.

    With times, each node has a time of prediction, and messages pass from node j to node i only if
    neither the time of j nor that of the edge is later than the time of prediction of i. If the
    nodes have times, these are the times of prediction. If only the edges have times, a node is
    predicted at the end of the part of the split in which its first edge lies: see
    :func:`gattn.apps.nodes.times.prediction_times`.

    Attributes:
        columns: encoders of the features.
        dates: columns of ``columns`` that hold dates, which are read as days.
        weight: column of weights; None if there is none.
        scale: mean of the weights above 0.
        spread: standard deviation of the logarithms of these weights, above 0.
        type: column of types, from the most frequent one; None if there is none.
        cuts: for each column of numbers that divides the edges, its name and its standardised
            quartiles.
        time: column of times of the nodes or the edges; None if there is none.
        has_edge_times: True if the edges have the column ``time``.
        cutoffs: ends of the parts of a split by the times of edges; empty if there is none.
        age: mean and standard deviation of the ages of edges, if there are times.
        has_direction: True if the direction of the edges in the data is a feature.
    """

    columns: tuple[Column, ...]
    dates: tuple[str | int, ...] = ()
    weight: str | None = None
    scale: float = 1.0
    spread: float = 1.0
    type: Column | None = None
    cuts: tuple[tuple[str | int, tuple[float, ...]], ...] = ()
    time: str | None = None
    has_edge_times: bool = False
    cutoffs: tuple[float, ...] = ()
    age: tuple[float, float] = (0.0, 1.0)
    has_direction: bool = False

    @property
    def names(self) -> list[str | int]:
        """Names of the edge columns that are read, without the column of times."""
        columns = self.columns if self.type is None else (self.type, *self.columns)
        special = [] if self.weight is None else [self.weight]
        return list(dict.fromkeys([*special, *(column.name for column in columns)]))

    @property
    def types(self) -> tuple[str, ...]:
        """Types of edges that have separate features."""
        return () if self.type is None else self.type.categories[:TYPES]

    @property
    def width(self) -> int:
        """Number of edge features that attention layers receive."""
        one = sum(min(c.width, PROJECTED) if c.width > NARROW else c.width for c in self.columns)
        further = self.weight is not None, self.time is not None, self.has_direction
        return one + len(self.types) + sum(further)

    def attach(self, graph: AttributedGraph) -> AttributedGraph:
        """Return a copy of the graph with the inputs of its edges.

        Args:
            graph: the graph, with the columns that are read.

        Returns:
            The graph with an edge for each combination of attributes, and with ``edge_inputs``. It
            has no edges of weight 0 and, with times, no messages from the future.

        Raises:
            GraphError: a column is missing or cannot be read, or a weight is missing or negative.
        """
        arcs, edges, structure = self._structure(graph)
        inputs = self._inputs(structure, graph.names)
        return replace(graph, arcs=arcs, edge_index=edges, edge_inputs=inputs)

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """Return a note for each column that has values without a feature, because they did not
        occur in training.

        Args:
            graph: another graph than that of the training.
        """
        table = graph.edge_table.table
        columns = self.columns if self.type is None else (*self.columns, self.type)
        notes = [
            column.unknown(table[column.name], "edges")
            for column in columns
            if column.name in table.columns
        ]
        return [edge_note(note) for note in notes if note]

    def _edges(self, graph: AttributedGraph) -> EdgeTable:
        """Check the edge columns of a graph; return its edges, without edges of weight 0. Raises
        GraphError if a column is missing or its weights cannot be used.
        """
        edges = graph.edge_table
        times = [self.time] if self.time is not None and self.has_edge_times else []
        for name in (*self.names, *times):
            edge_column(edges, name, ", which the model reads")
        if self.weight is None:
            return edges
        weights = edge_weights(edges.table[self.weight], lambda row: edges.where(graph.names, row))
        if not (weights > 0).any():
            raise GraphError(all_zero(self.weight))
        return edges.select(weights > 0) if (weights == 0).any() else edges

    def _structure(self, graph: AttributedGraph) -> tuple[Tensor, Tensor, EdgeStructure]:
        """Return the edges ``arcs`` [2, k] in the direction of the data, the edges ``edge_index``
        [2, e] along which messages are sent, both sorted by destination and source, and the rows of
        the edge table for them. Edges that are equal in the columns that are read are merged. Edges
        of weight 0 are left out and, with times, the directions of ``edge_index`` in which messages
        would come from the future. Raises GraphError if a column or a time is missing or cannot be
        read.
        """
        edges = self._edges(graph)
        names = [*self.names, *([self.time] if self.has_edge_times else [])]
        source, destination = edges.pairs.numpy()
        if edges.two_way:
            source, destination = np.minimum(source, destination), np.maximum(source, destination)
        columns: Any = edges.table[list(dict.fromkeys(names))]
        codes = row_codes(columns, source.dtype)
        is_first = first_of_equal(source, destination, codes)
        rows = edges
        if not is_first.all():
            rows, codes = edges.select(is_first), codes[is_first]
        source, destination = rows.pairs.numpy()
        # These arrays are int32 in a compact graph, to limit the memory.
        place = np.arange(len(rows), dtype=source.dtype)
        if rows.two_way:
            source, destination = np.r_[source, destination], np.r_[destination, source]
            place, codes = np.r_[place, place], np.r_[codes, codes]
        order = np.lexsort((codes, source, destination))
        source, destination, place, codes = (a[order] for a in (source, destination, place, codes))
        is_two_way = is_symmetric(source, destination, codes)
        arcs = np.stack([source, destination])
        messages, against, message_place = arcs, None, place
        if not graph.directed and not is_two_way:
            messages = np.hstack([arcs, arcs[::-1]])
            message_place = np.r_[place, place]
            against = np.repeat([False, True], len(place))
            order = np.lexsort((against, messages[0], messages[1]))
            messages, message_place = messages[:, order], message_place[order]
            against = against[order]
        open_arcs = ages = None
        if self.time is not None:
            times, at = prediction_times(graph, self.time, self.cutoffs), None
            if self.has_edge_times:
                at = edge_times(replace(graph, edge_table=rows), self.time)
            is_open, gap = message_ages(times, at, messages, message_place)
            messages, message_place, ages = (
                messages[:, is_open], message_place[is_open], gap[is_open]
            )  # fmt: skip
            against = None if against is None else against[is_open]
            along, back = (message_ages(times, at, pair, place)[0] for pair in (arcs, arcs[::-1]))
            open_arcs = np.stack([along, back])
        structure = EdgeStructure(rows, place, message_place, against, ages, open_arcs)
        return _as_tensor(arcs), _as_tensor(messages), structure

    def _inputs(self, structure: EdgeStructure, names: Sequence[Hashable]) -> EdgeInputs:
        """Return the tensors for the edges of a graph: features, weights and their logarithms, and
        the division of the edges by type and by quartile. Raises GraphError for a value that cannot
        be used.
        """
        rows, edge_rows, arc_rows = structure.rows, structure.edge_rows, structure.arc_rows

        def where(row: int) -> str:
            return rows.where(names, row)

        blocks: list[Matrix] = []
        try:
            for column in self.columns:
                values = _with_days(rows.table[column.name], column.name in self.dates, where)
                blocks.append(column.features(values, where))
        except ValueError as error:
            raise GraphError(edge_note(str(error))) from None
        weights, bias = None, None
        if self.weight is not None:
            weights = edge_weights(rows.table[self.weight], where) / self.scale
            bias = np.log(weights)
            blocks.append(sp.csr_matrix((bias / self.spread)[:, None]))
        groups: list[tuple[NDArray, int]] = []
        if self.type is not None:
            texts = as_texts(rows.table[self.type.name])
            types = pd.Index(self.types).get_indexer(pd.Index(texts))
            hot = np.flatnonzero(types >= 0)
            shape = len(rows), len(self.types)
            blocks.append(sp.csr_matrix((np.ones(len(hot)), (hot, types[hot])), shape))
            groups.append((types.astype(np.int8), len(self.types)))
        place = {column.name: place for place, column in enumerate(self.columns)}
        for name, cuts in self.cuts:
            numbers = column_numbers(blocks[place[name]])
            parts = np.searchsorted(cuts, numbers, side="right")
            parts = np.where(np.isnan(numbers), -1, parts).astype(np.int8)
            groups.append((parts, len(cuts) + 1))
        wide = [narrow_block(block, WIDE, REDUCED) for block in blocks]
        row_features: Matrix = None
        if wide:
            row_features = sp.csr_matrix(sp.hstack(wide, format="csr", dtype=np.float32))
        weights = None if weights is None else weights[arc_rows].astype(np.float32)
        bias = None if bias is None else torch.from_numpy(bias[edge_rows].astype(np.float32))
        narrow = [narrow_block(block, NARROW, PROJECTED) for block in blocks]
        return EdgeInputs(
            **{each.name: getattr(structure, each.name) for each in fields(EdgeStructure)},
            has_direction=self.has_direction, features=self._features(narrow, structure),
            bias=bias, weights=weights, row_features=row_features,
            groups=[(parts[arc_rows], count) for parts, count in groups],
        )  # fmt: skip

    def _features(self, blocks: Sequence[Matrix], structure: EdgeStructure) -> Tensor | None:
        """Return the features of the edges of ``edge_index``, [e, width] float32; None if there are
        none.

        The columns are the blocks, then the standardised age if there are times, then the direction
        if it is a feature: 1 along the edge of the data, -1 against it, and 0 if the edges of this
        graph have no direction. In a compact graph, the features are in a temporary file if they
        are large.

        Args:
            blocks: features of the rows, [m, d] each.
            structure: the rows of the edges.
        """
        if not self.width:
            return None
        edge_rows, against = structure.edge_rows, structure.against
        if edge_rows.dtype == np.int32:
            features = Scratch().array(len(edge_rows), self.width)
        else:
            features = np.empty((len(edge_rows), self.width), np.float32)
        mean, std = self.age
        for part in pieces(len(edge_rows)):
            rows = edge_rows[part]
            columns = [block[rows].toarray() for block in blocks]
            if structure.ages is not None:
                columns.append((structure.ages[part] - mean)[:, None] / std)
            if self.has_direction:
                sign = np.zeros(len(rows)) if against is None else np.where(against[part], -1, 1)
                columns.append(sign[:, None])
            features[part] = np.hstack(columns)
        return torch.from_numpy(features)


def read_edge_columns(
    graph: AttributedGraph, chosen: EdgeColumns
) -> tuple[AttributedGraph, EdgeEncoder | None, list[str]]:
    """Fit an encoder to the edge columns of a graph.

    Args:
        graph: the graph.
        chosen: the columns to read.

    Returns:
        The graph with the inputs of its edges; the encoder, or None if no column is read and the
        graph is unchanged; and notes for the user.

    Raises:
        GraphError: a column that was named does not exist or cannot be read, or a weight is
            negative or missing.
    """
    edges = graph.edge_table
    check_different(chosen)

    def where(row: int) -> str:
        return edges.where(graph.names, row)

    names, notes = feature_names(edges, chosen)
    dates = tuple(name for name in names if is_date_column(edges.table[name]))
    table = edges.table.copy()
    for name in dates:
        table[name] = as_times(table[name], f"column {name!r} of the edges", where)
        notes.append(f"Column {name!r} of the edges is read as dates, in days.")
    try:
        columns, column_notes = learn_columns(table, names, where)
    except ValueError as error:
        raise GraphError(edge_note(str(error))) from None
    notes += map(edge_note, column_notes)
    scale, spread = 1.0, 1.0
    if chosen.weight is not None:
        scale, spread, weight_notes = learn_weights(edges, chosen.weight, where)
        notes += weight_notes
    types = None
    if chosen.type is not None:
        types, type_notes = learn_types(edges, chosen.type)
        notes += type_notes
    if not columns and (chosen.weight, chosen.type, chosen.time) == (None, None, None):
        return graph, None, [*notes, *merged_edges_note(graph, None)]
    cuts = learn_cuts(columns, table, where)
    encoder = EdgeEncoder(
        tuple(columns), dates, chosen.weight, scale, spread, types, cuts, chosen.time,
        chosen.time is not None and edge_times(graph, chosen.time) is not None, chosen.cutoffs,
    )  # fmt: skip
    arcs, messages, structure = encoder._structure(graph)
    ages = structure.ages
    if ages is not None and len(ages):
        encoder = replace(encoder, age=(float(ages.mean()), float(ages.std()) or 1.0))
    encoder = replace(encoder, has_direction=structure.against is not None)
    inputs = encoder._inputs(structure, graph.names)
    attached = replace(graph, arcs=arcs, edge_index=messages, edge_inputs=inputs)
    notes += _read_notes(encoder) + merged_edges_note(attached, encoder)
    if structure.open is not None:
        used, all_edges = attached.edge_index.shape[1], structure.open.shape[1]
        all_edges *= 1 if structure.against is None else 2
        notes.append(
            f"Messages never come from the future: {used:,} of {all_edges:,} directions of edges "
            f"lead to a node that is predicted later, by column {chosen.time!r}."
        )
    return attached, encoder, notes


def merged_edges_note(graph: AttributedGraph, encoder: EdgeEncoder | None) -> list[str]:
    """Return notes on duplicate edges. They depend on the edge columns that the model reads.

    Args:
        graph: the graph, after :meth:`EdgeEncoder.attach` if there is an encoder.
        encoder: the encoder of the edges; None if no column is read.
    """
    edges, inputs = graph.edge_table, graph.edge_inputs
    if encoder is None or inputs is None:
        return doubled_note(len(edges) - graph.arcs.shape[1] // (1 + edges.two_way))
    rows = inputs.rows
    notes = doubled_note(len(encoder._edges(graph)) - len(rows), " with the same columns")
    ends = np.sort(rows.pairs.numpy(), 0) if rows.two_way else rows.pairs.numpy()
    if different := int((~first_of_equal(*ends)).sum()):
        notes.append(
            f"{different:,} further edge{'s' * (different > 1)} between the same nodes with other "
            "columns: all are used."
        )
    return notes


def _with_days(values: pd.Series, is_date: bool, where: Where) -> pd.Series:
    """Convert a column of dates to days since 1970, NaN for a missing date; another column is
    returned unchanged. Raises GraphError if a date cannot be read, or if the column is empty.
    """
    if not is_date:
        return values
    days = as_times(values, f"column {values.name!r} of the edges", where)
    return pd.Series(days, name=values.name)


def _read_notes(encoder: EdgeEncoder) -> list[str]:
    """Return a list with one note on the columns that the encoder reads; an empty list if it reads
    none.
    """
    kinds = {"number": "numbers", "category": "categories", "text": "texts"}
    parts = [
        f"{column.name!r} ({'dates' if column.name in encoder.dates else kinds[column.kind]})"
        for column in encoder.columns
    ]
    if encoder.weight is not None:
        parts.append(f"{encoder.weight!r} (weights)")
    if encoder.type is not None:
        parts.append(f"{encoder.type.name!r} ({len(encoder.types)} types)")
    if encoder.has_edge_times:
        parts.append(f"{encoder.time!r} (times)")
    return [f"Columns of the edges that are used: {', '.join(parts)}."] if parts else []


def _as_tensor(pairs: NDArray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pairs))
