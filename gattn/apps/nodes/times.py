"""Times of nodes and edges as numbers or dates, and splits of the nodes by time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, attribute_names
from gattn.apps.nodes.values import NUMERIC, as_numbers, as_texts, is_missing
from gattn.apps.tables.numbers import read_days, read_times
from gattn.data import Split


def are_dates(values: pd.Series) -> bool:
    """Return True if all values except missing ones are ISO 8601 dates; False if all are missing.

    >>> are_dates(pd.Series(["2024-01-31", None])), are_dates(pd.Series(["2024", "2025"]))
    (True, False)
    """
    texts = [text for text in as_texts(values) if text]
    return bool(texts) and not np.isnan(read_days(texts)).any()


def as_times(values: pd.Series, title: str, where: Where) -> NDArray[np.float64]:
    """Convert a column of times to numbers.

    Args:
        values: n numbers, such as years or seconds, or dates of ISO 8601; missing values remain
            missing.
        title: description of the column for error messages.
        where: function that describes the position of a value in error messages.

    Returns:
        [n] float64: the numbers, or days since 1970; NaN for a missing value.

    Raises:
        GraphError: a value is neither missing nor a time, or the column has no time.

    Example:
        >>> as_times(pd.Series(["1970-01-02", "1970-01-01 12:00"]), "column 'day'", str)
        array([1. , 0.5])
    """
    missing = is_missing(values, numbers=True)
    if missing.all():
        raise GraphError(f"{title} must hold times; it is empty")
    # If a column contains both dates and numbers, the error names a value of the rarer kind.
    is_numeric = values.dtype.kind in NUMERIC
    times = as_numbers(values) if is_numeric else read_times(as_texts(values))
    bad = ~np.isfinite(times) & ~missing
    if bad.any():
        row = int(bad.argmax())
        raise GraphError(
            f"{title} must hold times, either numbers or dates such as 2024-01-31; "
            f"got {str(values.iloc[row])!r} {where(row)}"
        )
    return np.where(missing, np.nan, times)


def edge_times(graph: AttributedGraph, name: str) -> NDArray[np.float64] | None:
    """Return the times in the edge table, [m], one for each row; None if it has no time column.

    Raises:
        GraphError: a time is missing or cannot be read.
    """
    edges = graph.edge_table
    if name not in edges.table.columns and name not in edges.unreadable:
        return None
    if name in edges.unreadable:
        raise GraphError(edges.unreadable[name])
    title = f"column {name!r} of the edges"
    return _complete(edges.table[name], title, lambda row: edges.where(graph.names, row))


def node_times(graph: AttributedGraph, name: str) -> NDArray[np.float64]:
    """Return the time of each of n nodes.

    It is the node's attribute, or the time of the node's first edge if only the edges have such a
    column.

    Args:
        graph: the graph.
        name: name of the column.

    Returns:
        [n] float64; NaN for a node without edges if the edges have the times.

    Raises:
        GraphError: neither the nodes nor the edges have such a column, or a time is missing or
            cannot be read.
    """
    if _has_own_times(graph, name):
        return _complete(graph.column(name), f"column {name!r} of the nodes", graph.where)
    times, edges = edge_times(graph, name), graph.edge_table
    if times is None:
        columns = map(repr, edges.table.columns[:20])
        raise GraphError(
            f"neither the nodes nor the edges have a column {name!r} of times: of the nodes, "
            f"{attribute_names(graph.table)}; the edges have {', '.join(columns) or 'none'}"
        )
    first = np.full(len(graph), np.inf)
    for ends in edges.pairs.numpy():
        np.minimum.at(first, ends, times)
    return np.where(np.isfinite(first), first, np.nan)


def _has_own_times(graph: AttributedGraph, name: str) -> bool:
    return name in graph.table.columns or name in graph.unreadable


def time_cutoffs(graph: AttributedGraph, split: Split, name: str) -> tuple[float, ...]:
    """Return the times at which the training part and the validation part end, if the split follows
    the times of edges.

    Args:
        graph: the graph that was split.
        split: a split of its nodes.
        name: name of the column of times.

    Returns:
        The times of the newest node of each part; empty if the split is not by this column, or if
        the nodes have times of their own.

    Raises:
        GraphError: the times cannot be read.
    """
    if split.time != name or _has_own_times(graph, name):
        return ()
    times = node_times(graph, name)
    return tuple(float(times[part.numpy()].max()) for part in (split.train, split.val))


def prediction_times(
    graph: AttributedGraph, name: str, cutoffs: Sequence[float]
) -> NDArray[np.float64]:
    r"""Return the time at which each node is predicted. The prediction must not depend on newer
    nodes or edges.

    If the nodes have a column of times, it contains these times. Otherwise a node is predicted at
    the end of the part of the split in which its first edge lies. A node of the training part is
    thus predicted with all edges up to the end of the training part, and a node of the test part
    with all edges. If an edge of the time t leads from j into i, the first edge of j has the time t
    or an earlier one. The time of prediction of j is therefore not later than that of i, so that
    longer walks do not use later edges either.

    .. math:: p_i = \min \{c \in \{c_1, c_2, \infty\} : \min\nolimits_{e \in E_i} t_e \le c\}

    Args:
        graph: the graph.
        name: name of the column of times.
        cutoffs: the result of :func:`time_cutoffs`; empty to predict all nodes with all edges.

    Returns:
        [n] float64. Instead of infinity, it is the time of the newest edge, unless this is older
        than the last cut-off.

    Raises:
        GraphError: as in :func:`node_times`.
    """
    times = node_times(graph, name)
    if _has_own_times(graph, name):
        return times
    at = edge_times(graph, name)
    newest = -np.inf if at is None or not len(at) else at.max()
    ends = np.array([*cutoffs, max([newest, *cutoffs])])
    return ends[np.searchsorted(ends[:-1], times)]


def _complete(values: pd.Series, title: str, where: Where) -> NDArray[np.float64]:
    """Return the times of n rows, [n] float64, as :func:`as_times` reads them. Raises GraphError if
    a row has no time, or one that cannot be read.
    """
    times = as_times(values, title, where)
    if np.isnan(times).any():
        rows = np.flatnonzero(np.isnan(times))
        raise GraphError(
            f"{title} must hold a time in every row; {len(rows):,} of {len(times):,} have none, "
            f"the first {where(int(rows[0]))}"
        )
    return times


def time_split(
    y: Tensor, times: NDArray, fractions: tuple[float, float, float], name: str
) -> tuple[Split, list[str]]:
    """Split labelled nodes by time. The oldest nodes are for training, and the newest for testing.

    Nodes of equal times are in the same part, so the sizes of the parts may differ from the
    fractions.

    Args:
        y: [n] labels, NaN for nodes without a label.
        times: [n] times; labelled nodes without a time are in no part.
        fractions: shares of the training, validation and test part; the last may be 0.
        name: name of the column of times, for the protocol and the messages.

    Returns:
        The split, and notes.

    Raises:
        GraphError: the labelled nodes have too few different times.

    Example:
        >>> times = np.array([2.0, 0.0, 1.0, 3.0, 4.0])
        >>> split, _ = time_split(torch.zeros(5), times, (0.6, 0.2, 0.2), "year")
        >>> split.train, split.val, split.test
        (tensor([0, 1, 2]), tensor([3]), tensor([4]))
    """
    labelled, has_time = y.isfinite().numpy(), np.isfinite(times)
    rows = np.flatnonzero(labelled & has_time)
    parts = 2 + (fractions[2] > 0)
    values, counts = np.unique(times[rows], return_counts=True)
    if len(values) < parts:
        raise GraphError(
            f"a split by time needs {parts} different times of labelled nodes; column {name!r} "
            f"has {len(values)}"
        )
    # Times are divided after the i-th distinct time. The candidates for i begin at 1, so that no
    # part is empty.
    shares = counts.cumsum() / counts.sum()
    first = _nearest(shares, fractions[0], 0, len(values) - parts + 1)
    last = len(values)
    if parts == 3:
        last = _nearest(shares, fractions[0] + fractions[1], first, len(values) - 1)
    place = np.searchsorted(values, times[rows])
    train, val, test = (
        torch.from_numpy(rows[(place >= low) & (place < high)])
        for low, high in ((0, first), (first, last), (last, len(values)))
    )
    notes = [
        f"Split by column {name!r}: {len(train):,} oldest nodes for training, {len(val):,} for "
        f"validation, {len(test):,} newest for the test part."
    ]
    if without := int((labelled & ~has_time).sum()):
        notes.append(
            f"{without:,} labelled nodes without an edge have no time, and are in no part."
        )
    protocol = f"by time, column {name}"
    return Split(train, val, test, protocol, drawn_validation=True, time=name), notes


def _nearest(shares: NDArray, share: float, low: int, high: int) -> int:
    """Return the index i in low + 1, ..., high for which ``shares[i - 1]`` (cumulative) is
    nearest to ``share``.
    """
    return low + 1 + int(np.abs(shares[low:high] - share).argmin())
