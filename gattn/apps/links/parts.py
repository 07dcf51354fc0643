"""Training, validation and test links, and the folds of training links."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gattn.apps.links.pairs import Links, unordered_keys
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.times import edge_times, node_times
from gattn.data import Split

FOLDS = 5
"""Number of folds of the training links. A model is trained to predict the links of one fold
from messages along the edges of the other folds.
"""
LEAST = 10
"""Minimum number of links that can be divided into parts."""
WINDOW = 0.1
"""Fraction of the training links in each of the ``FOLDS`` folds, if the links have times."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Fold of training links: the links to predict, and the links along which messages are sent for
    this prediction.

    Attributes:
        links: positions of the links to predict, along whose edges no messages are sent.
        messages: positions of the links whose edges send messages.
    """

    links: NDArray[np.int64]
    messages: NDArray[np.int64]


def random_parts(links: Links, seed: int, val: float, test: float) -> Split:
    """Divide links at random; (a, b) and (b, a) are always in the same part.

    Args:
        links: the links.
        seed: seed of the random numbers.
        val: share of the validation part, above 0.
        test: share of the test part; 0 for none.

    Raises:
        GraphError: there are too few links.

    Example:
        >>> import networkx
        >>> from gattn.apps.links.pairs import read_links
        >>> from gattn.apps.nodes.reading import read_graph
        >>> links, _ = read_links(read_graph(networkx.path_graph(11)), None)
        >>> split = random_parts(links, 0, 0.1, 0.2)
        >>> len(split.train), len(split.val), len(split.test)
        (7, 1, 2)
    """
    _, group = np.unique(links.unordered, return_inverse=True)
    count = int(group.max()) + 1 if len(group) else 0
    _check_count(count)
    order = np.random.default_rng(seed).permutation(count)
    sizes = [max(1, round(share * count)) if share else 0 for share in (test, val)]
    part = np.full(count, 2)
    part[order[: sizes[0]]] = 0
    part[order[sizes[0] : sum(sizes)]] = 1
    return _split(part[group], "random links")


def time_parts(links: Links, times: NDArray, val: float, test: float, name: str) -> Split:
    """Divide links by time. The oldest links are for training, and the newest for testing.

    Links of equal times are in the same part.

    Args:
        links: the links.
        times: [m] the time of each link.
        val: share of the validation part, above 0.
        test: share of the test part; 0 for none.
        name: name of the column of times.

    Raises:
        GraphError: there are too few links, or too few different times.
    """
    _check_count(len(links))
    values, counts = np.unique(times, return_counts=True)
    parts = 2 + (test > 0)
    if len(values) < parts:
        raise GraphError(
            f"a split by time needs {parts} different times of links; column {name!r} has "
            f"{len(values)}"
        )
    shares = counts.cumsum() / counts.sum()
    first = 1 + int(np.abs(shares[: len(values) - parts + 1] - (1 - val - test)).argmin())
    last = len(values)
    if test > 0:
        last = first + 1 + int(np.abs(shares[first : len(values) - 1] - (1 - test)).argmin())
    place = np.searchsorted(values, times)
    part = np.where(place < first, 2, np.where(place < last, 1, 0))
    return _split(part, f"by time, column {name}")


def link_times(graph: AttributedGraph, links: Links, name: str) -> NDArray[np.float64]:
    """Return the time of each link, which is the time of its first edge or, without edge times, of
    its newer node.

    Raises:
        GraphError: neither the edges nor the nodes have such a column, or a time is missing or
            cannot be read.
    """
    table, times = graph.edge_table, edge_times(graph, name)
    if times is None or table is None:
        at = node_times(graph, name)
        return np.maximum(at[links.pairs[0]], at[links.pairs[1]])
    pairs = table.pairs.numpy()
    is_edge = pairs[0] != pairs[1]
    pairs, times = pairs[:, is_edge], times[is_edge]

    def numbers(ends: NDArray) -> NDArray[np.int64]:
        return ends[0] * links.nodes + ends[1] if links.directed else unordered_keys(ends, n)

    n = links.nodes
    keys, group = np.unique(numbers(pairs), return_inverse=True)
    first = np.full(len(keys), np.inf)
    np.minimum.at(first, group, times)
    return first[np.searchsorted(keys, numbers(links.pairs))]


def make_folds(links: Links, train: NDArray, seed: int, times: NDArray | None = None) -> list[Fold]:
    """Divide the training links into folds; each fold is predicted from the edges of other links.

    Without times, the groups are random, and each is predicted from all other training links. With
    times, each group is predicted from older links only.

    Args:
        links: the links.
        train: positions of the training links.
        seed: seed of the random numbers.
        times: [m] the time of each link; None if there are no times.
    """
    keys = links.unordered
    if times is not None:
        edges = np.quantile(times[train], 1 - WINDOW * np.arange(FOLDS + 1))
        at, folds = times[train], []
        for late, early in pairwise(edges):
            new = train[(at > early) & (at <= late)]
            old = train[at <= early]
            old = old[~np.isin(keys[old], keys[new])]
            if len(new) and len(old):
                folds.append(Fold(new, old))
        if folds:
            return folds
    _, group = np.unique(keys[train], return_inverse=True)
    count = int(group.max()) + 1
    number = min(FOLDS, count)
    fold = (np.random.default_rng(seed).permutation(count) % number)[group]
    return [Fold(train[fold == one], train[fold != one]) for one in range(number)]


def _split(part: NDArray, protocol: str) -> Split:
    import torch

    test, val, train = (torch.from_numpy(np.flatnonzero(part == one)) for one in range(3))
    return Split(train, val, test, protocol)


def _check_count(count: int) -> None:
    if count < LEAST:
        raise GraphError(
            f"a network must have at least {LEAST} links, because training and validation need "
            f"different links; got {count}"
        )
