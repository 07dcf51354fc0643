"""Links of a graph (pairs of nodes that an edge connects), other pairs, and parts of links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
MUTUAL = 0.95
"""If at least this fraction of the edges have an opposite edge, links have no direction by default:
the other edges are more probably gaps of a list that contains both directions of every link.
"""


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
    """Divide links at random. If links have a direction, (a, b) and (b, a) are divided separately.

    Args:
        links: the links.
        seed: seed of the random numbers.
        val: share of the validation part, above 0.
        test: share of the test part; 0 for none.

    Returns:
        The positions of the links in each part, ascending. The validation part, and the test part
        unless its share is 0, contain at least one link.

    Raises:
        GraphError: there are fewer than 10 links.

    Example:
        >>> import networkx
        >>> from gattn.apps.links.pairs import read_links
        >>> from gattn.apps.nodes.reading import read_graph
        >>> links, _ = read_links(read_graph(networkx.path_graph(11)), None)
        >>> split = random_parts(links, 0, 0.1, 0.2)
        >>> len(split.train), len(split.val), len(split.test)
        (7, 1, 2)
    """
    count = len(links)
    _check_count(count)
    order = np.random.default_rng(seed).permutation(count)
    sizes = [max(1, round(share * count)) if share else 0 for share in (test, val)]
    part = np.full(count, 2)
    part[order[: sizes[0]]] = 0
    part[order[sizes[0] : sum(sizes)]] = 1
    return _split(part, "random links")


def time_parts(links: Links, times: NDArray, val: float, test: float, name: str) -> Split:
    """Divide links by time. The oldest links are for training, and the newest for testing.

    Links of equal times are in the same part.

    Args:
        links: the links.
        times: [m] the time of each link.
        val: share of the validation part, above 0.
        test: share of the test part; 0 for none.
        name: name of the column of times.

    Returns:
        The positions of the links in each part, ascending.

    Raises:
        GraphError: there are fewer than 10 links, or fewer different times than parts.
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
    """Return the times [m] of the links. The time of a link is that of its first edge; if the edges
    have no such column, it is the time of its newer node.

    Raises:
        GraphError: neither the edges nor the nodes have such a column, or a time is missing or
            cannot be read.
    """
    table, times = graph.edge_table, edge_times(graph, name)
    if times is None:
        at = node_times(graph, name)
        return np.maximum(at[links.pairs[0]], at[links.pairs[1]])
    pairs = table.pairs.numpy()
    is_edge = pairs[0] != pairs[1]
    pairs, times = pairs[:, is_edge], times[is_edge]
    keys, group = np.unique(links.numbers(pairs), return_inverse=True)
    first = np.full(len(keys), np.inf)
    np.minimum.at(first, group, times)
    return first[np.searchsorted(keys, links.numbers(links.pairs))]


def make_folds(train: NDArray, seed: int, times: NDArray | None = None) -> list[Fold]:
    """Divide the training links into folds; each fold is predicted from the edges of other links.

    Without times, the groups are random, and each is predicted from all other training links. With
    times, each group is predicted from older links only, and the older half of the training links
    is in no group. If more than half of them have the newest time, the groups are random.

    Args:
        train: positions of the training links, at least one.
        seed: seed of the random numbers.
        times: [m] the time of each link; None if there are no times.

    Returns:
        At most five folds, which contain positions of training links.
    """
    if times is not None:
        edges = np.quantile(times[train], 1 - WINDOW * np.arange(FOLDS + 1))
        at, folds = times[train], []
        for late, early in pairwise(edges):
            new = train[(at > early) & (at <= late)]
            old = train[at <= early]
            if len(new) and len(old):
                folds.append(Fold(new, old))
        if folds:
            return folds
    number = min(FOLDS, len(train))
    fold = np.random.default_rng(seed).permutation(len(train)) % number
    return [Fold(train[fold == one], train[fold != one]) for one in range(number)]


def _split(part: NDArray, protocol: str) -> Split:
    test, val, train = (torch.from_numpy(np.flatnonzero(part == one)) for one in range(3))
    return Split(train, val, test, protocol)


def _check_count(count: int) -> None:
    """Raise GraphError if there are fewer than :data:`LEAST` links for training and validation."""
    if count < LEAST:
        raise GraphError(
            f"a network must have at least {LEAST} links, because training and validation need "
            f"different links; got {count}"
        )


POOL = 200
"""Maximum number of different sources among the random pairs of a ranking; scores of all targets
are computed for each source.
"""
ROUNDS = 30
"""Number of attempts to replace a random target that is linked or repeated. After these attempts,
all unlinked targets are listed.
"""


@dataclass(frozen=True, eq=False)
class Links:
    """Distinct links of a graph, and the nodes that can be targets of links.

    Attributes:
        pairs: [2, m] int64, the source and the target of each link; if links have no direction and
            the graph is not bipartite, the source is the smaller index.
        nodes: number n of nodes.
        directed: True if (a, b) and (b, a) are different links.
        bipartite: True if the sources and the targets are disjoint sets of nodes.
        sources: [s] int64, the nodes that a link may start from, sorted.
        targets: [t] int64, the nodes that a link may lead to, sorted.
        keys: sorted numbers ``source * n + target`` of all ordered pairs that are linked.
    """

    pairs: NDArray[np.int64]
    nodes: int
    directed: bool
    bipartite: bool
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    keys: NDArray[np.int64]

    def __len__(self) -> int:
        return self.pairs.shape[1]

    @property
    def density(self) -> float:
        """Fraction of the pairs of a source and another node as target that are links."""
        targets = len(self.targets) - (not self.bipartite)
        return len(self.keys) / ((1 + self.bipartite) * len(self.sources) * targets)

    def numbers(self, pairs: NDArray) -> NDArray[np.int64]:
        """Return a number for each of k pairs, [2, k]. It is the same for (a, b) and (b, a) if
        links have no direction.
        """
        if self.directed:
            return pairs[0] * self.nodes + pairs[1]
        return unordered_keys(pairs, self.nodes)

    def in_data(self, graph: AttributedGraph) -> NDArray[np.int64]:
        """Return the source and the target of each link, [m, 2], in the order in which the data
        list them. A link that they list in both orders keeps its order.
        """
        source, target = graph.arcs.numpy()
        listed = _contains(
            np.unique(source * self.nodes + target), self.pairs[0] * self.nodes + self.pairs[1]
        )
        return np.where(listed, self.pairs, self.pairs[::-1]).T

    def are_links(self, sources: NDArray, targets: NDArray) -> NDArray[np.bool_]:
        """Return a mask that is True for linked pairs of nodes, and for pairs of a node with
        itself. The arrays of sources and of targets are broadcast.
        """
        return _contains(self.keys, sources * self.nodes + targets) | (sources == targets)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Links, each with random other targets and with random other pairs. A model should give the
    highest score to the link.

    Attributes:
        sources: [m] int64 sources.
        candidates: [m, 1 + k] int64: the true target, then up to k different targets without a
            link, then -1.
        pairs: [2, m, j] int64 sources and targets of random pairs without a link; the target is -1
            if almost all pairs are linked.
    """

    sources: NDArray[np.int64]
    candidates: NDArray[np.int64]
    pairs: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sources)

    def first(self, rows: int, count: int) -> Ranking:
        """Return the first ``rows`` links, with at most ``count`` candidates each, of which the
        first is the true target.
        """
        return Ranking(self.sources[:rows], self.candidates[:rows, :count], self.pairs[:, :rows])

    def ends(self, metric: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sources and the targets, [m, c] each, of the pairs that a metric compares: in
        the first column the links, and then the other targets of their sources for ``mrr``, or the
        random pairs for ``roc_auc``. A missing target is -1.
        """
        sources, targets = self.sources[:, None], self.candidates
        if metric == "mrr":
            return np.broadcast_to(sources, targets.shape), targets
        return np.hstack([sources, self.pairs[0]]), np.hstack([targets[:, :1], self.pairs[1]])


def unordered_keys(pairs: NDArray, nodes: int) -> NDArray[np.int64]:
    """Return a number for each of m pairs, [2, m], which is the same for (a, b) and (b, a)."""
    return np.minimum(*pairs) * nodes + np.maximum(*pairs)


def read_links(graph: AttributedGraph, directed: bool | None) -> tuple[Links, list[str]]:
    """Return the links of a graph, and notes on how edges were interpreted.

    Args:
        graph: the graph.
        directed: True if (a, b) and (b, a) are different links. With None, links have a direction
            if the data declare it or some edges have an opposite edge, and fewer than
            :data:`MUTUAL` of the edges have one. The links of a bipartite graph have no direction.

    Returns:
        The links and notes. If no node is both a source and a target of edges, the graph is
        bipartite: links start from sources and lead to targets.

    Raises:
        GraphError: the graph has no edges.

    Example:
        >>> import pandas as pd
        >>> from gattn.apps.nodes.reading import read_graph
        >>> orders = pd.DataFrame({"source": ["ann", "ben"], "target": ["tea", "tea"]})
        >>> links, _ = read_links(read_graph(orders), None)
        >>> links.bipartite, links.targets
        (True, array([2]))
    """
    nodes, arcs = len(graph), graph.arcs.numpy()
    if not arcs.shape[1]:
        raise GraphError("the graph has no edges, so there are no links to learn from")
    keys = np.unique(arcs[0] * nodes + arcs[1])
    pairs = source, target = np.stack([keys // nodes, keys % nodes])
    starts, ends = np.unique(source), np.unique(target)
    bipartite = not len(np.intersect1d(starts, ends))
    opposite = np.unique(target * nodes + source)
    if bipartite:
        rest = nodes - len(starts) - len(ends)
        notes = [
            f"The network is bipartite: links lead from {len(starts):,} to {len(ends):,} other "
            "nodes, and no node is in both sets."
            + f" {rest:,} nodes without an edge are in neither set."
            * bool(rest)
        ]
        both = np.union1d(keys, opposite)
        return Links(pairs, nodes, False, True, starts, ends, both), notes
    every = np.arange(nodes)
    notes = []
    count = int(np.isin(keys, opposite).sum())
    some = f"{count:,} of the {len(keys):,} edges have" if count else "No edge has"
    if directed is None:
        directed = (graph.has_direction or count > 0) and count < MUTUAL * len(keys)
        if not directed and count < len(keys):
            notes = [
                f"{some} an opposite edge, which is no evidence of a direction: links have none "
                "(--directed makes (a, b) and (b, a) different links)."
            ]
    if directed:
        predicts = ", which predicts them" * (count > 0)
        note = f"Links have a direction: (a, b) and (b, a) are different links. {some} an opposite "
        note += f"edge{predicts} (--undirected ignores the direction)."
        return Links(pairs, nodes, True, False, every, every, keys), [note]
    both = np.union1d(keys, opposite)
    source, target = both // nodes, both % nodes
    pairs = np.stack([source, target])[:, source < target]
    return Links(pairs, nodes, False, False, every, every, both), notes


def restrict(graph: AttributedGraph, links: Links, rows: NDArray) -> AttributedGraph:
    """Return a graph that contains only some links. Messages are sent in both directions of each.

    Args:
        graph: the graph, before or after an encoder attached the inputs of its edges.
        links: the links of the graph.
        rows: positions or mask of the links to retain.
    """
    keys = np.sort(links.numbers(links.pairs[:, rows]))

    def mask(pairs: Tensor) -> NDArray[np.bool_]:
        return _contains(keys, links.numbers(pairs.numpy()))

    arcs, table, inputs = mask(graph.arcs), graph.edge_table, graph.edge_inputs
    if inputs is None:
        pairs, every = graph.arcs.numpy()[:, arcs], graph.edge_index.numpy()
        both = np.unique(unordered_keys(pairs, links.nodes))
        edges = _contains(both, unordered_keys(every, links.nodes))
    else:
        # With attributes, an edge of each direction belongs to one row of the data.
        edges = mask(inputs.rows.pairs)[inputs.edge_rows]
    return replace(
        graph,
        edge_index=graph.edge_index[:, torch.from_numpy(edges)],
        arcs=graph.arcs[:, torch.from_numpy(arcs)],
        edge_table=table.select(mask(table.pairs)),
        edge_inputs=None if inputs is None else inputs.select(edges, arcs),
    )


def draw_negatives(
    links: Links, sources: NDArray, count: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Draw different unlinked targets for each source, uniformly.

    Args:
        links: all links of the graph, of every part.
        sources: [m] indices of the sources among the nodes.
        count: maximum number of targets for each source.
        draw: random numbers.

    Returns:
        [m, k] indices of the targets, where k is ``count`` or, if this is smaller, the number of
        possible targets. The row of a source with fewer unlinked targets contains all of them, and
        ends with -1.
    """
    pool = links.targets
    targets = np.full((len(sources), min(count, len(pool))), -1, np.int64)
    rows = np.arange(len(sources))
    if 2 * count < len(pool):
        targets[:] = pool[draw.integers(len(pool), size=targets.shape)]
        for _ in range(ROUNDS):
            bad = _unusable(links, sources[rows], targets[rows])
            rows, bad = rows[bad.any(1)], bad[bad.any(1)]
            if not len(rows):
                return targets
            again = targets[rows]
            again[bad] = pool[draw.integers(len(pool), size=int(bad.sum()))]
            targets[rows] = again
    for row in rows:
        free = pool[~links.are_links(np.full(len(pool), sources[row]), pool)]
        some = draw.permutation(free)[: targets.shape[1]]
        targets[row] = -1
        targets[row, : len(some)] = some
    return targets


def _unusable(links: Links, sources: NDArray, targets: NDArray) -> NDArray[np.bool_]:
    """Return a mask [m, k] of the targets that are linked to their source, are their source, or
    repeat another target of their row.
    """
    order = np.argsort(targets, 1, kind="stable")
    ordered = np.take_along_axis(targets, order, 1)
    repeated = np.zeros(targets.shape, bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return repeated | links.are_links(sources[:, None], targets)


def draw_pairs(
    links: Links, shape: tuple[int, int], draw: np.random.Generator
) -> NDArray[np.int64]:
    """Draw unlinked pairs of nodes, uniformly among those of at most :data:`POOL` random sources.

    Args:
        links: all links of the graph, of every part.
        shape: shape (m, j) of the result.
        draw: random numbers.

    Returns:
        [2, m, j] indices of the sources and targets. The target is -1 if no unlinked pair was found
        in :data:`ROUNDS` attempts.
    """
    pool = draw.permutation(links.sources)[:POOL]
    pairs = np.full((2, shape[0] * shape[1]), -1)
    pairs[0] = pool[0]
    for _ in range(ROUNDS):
        rest = np.flatnonzero(pairs[1] < 0)
        some = np.stack([draw.choice(ends, len(rest)) for ends in (pool, links.targets)])
        free = ~links.are_links(*some)
        pairs[:, rest[free]] = some[:, free]
    return pairs.reshape(2, *shape)


def make_ranking(
    links: Links,
    rows: NDArray,
    count: int,
    draw: np.random.Generator,
    most: int | None = None,
    pairs: int = 0,
) -> Ranking:
    """Draw negative targets and pairs for links. If links have no direction, also choose which end
    is the source.

    Args:
        links: all links of the graph, of every part.
        rows: positions of the links to rank.
        count: maximum number of negatives for each link; at least 1.
        draw: random numbers.
        most: maximum number of links, which are drawn from ``rows``; None for all.
        pairs: number of random pairs for each link.

    Returns:
        The ranking, without links whose source is linked to every possible target; it may be empty.
    """
    if most is not None and len(rows) > most:
        rows = draw.choice(rows, most, replace=False)
    source, target = links.pairs[:, rows]
    if not links.directed and not links.bipartite:
        flip = draw.random(len(rows)) < 0.5
        source, target = np.where(flip, target, source), np.where(flip, source, target)
    negatives = draw_negatives(links, source, count, draw)
    usable = negatives[:, 0] >= 0
    candidates = np.hstack([target[:, None], negatives])[usable]
    others = draw_pairs(links, (len(candidates), pairs), draw)
    return Ranking(source[usable], candidates, others)


def _contains(keys: NDArray, values: NDArray) -> NDArray[np.bool_]:
    """Return True for each value that occurs in the sorted keys."""
    if not len(keys):
        return np.zeros(values.shape, bool)
    place = np.searchsorted(keys, values).clip(max=len(keys) - 1)
    return keys[place] == values
