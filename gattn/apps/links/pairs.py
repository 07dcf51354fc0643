"""Links of a graph (pairs of nodes that an edge connects), and pairs without an edge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from gattn.apps.nodes.attributed import AttributedGraph, GraphError

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
        pairs: [2, m] int64, the source and the target of each link.
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
    def unordered(self) -> NDArray[np.int64]:
        """Number of each link, [m]. Both directions of a link have the same number."""
        return unordered_keys(self.pairs, self.nodes)

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
        itself.
        """
        return _contains(self.keys, sources * self.nodes + targets) | (sources == targets)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Links, each with random other targets and with random other pairs. A model should give the
    highest score to the link.

    Attributes:
        links: [m] int64, the position of each link among the links of the graph.
        sources: [m] int64 sources.
        candidates: [m, 1 + k] int64: the true target, then up to k different targets without a
            link, then -1.
        pairs: [2, m, j] int64 sources and targets of random pairs without a link; the target is -1
            if almost all pairs are linked.
    """

    links: NDArray[np.int64]
    sources: NDArray[np.int64]
    candidates: NDArray[np.int64]
    pairs: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sources)

    def first(self, rows: int, count: int) -> Ranking:
        """Return the first links, with at most ``count`` candidates each."""
        return Ranking(
            self.links[:rows], self.sources[:rows], self.candidates[:rows, :count],
            self.pairs[:, :rows],
        )  # fmt: skip

    def ends(self, metric: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sources and the targets [m, c] of the pairs that a metric compares: each link,
        and the other targets of its source for ``mrr``, or the random pairs for ``roc_auc``.
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
            if the data declare it, or if some edges have an opposite edge and others have none.
            The links of a bipartite graph have no direction.

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
    source, target = keys // nodes, keys % nodes
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
        pairs = np.stack([source, target])
        return Links(pairs, nodes, False, True, starts, ends, both), notes
    every = np.arange(nodes)
    notes = []
    if directed is None:
        one_way = not len(np.intersect1d(keys, opposite))
        directed = graph.has_direction or not one_way
        directed &= not np.array_equal(keys, opposite)
        if one_way and not directed:
            notes = [
                "No edge has an opposite edge, which is no evidence of a direction: links have "
                "none (--directed makes (a, b) and (b, a) different links)."
            ]
    if directed:
        note = "Links have a direction: (a, b) and (b, a) are different links (--undirected "
        note += "ignores the direction)."
        pairs = np.stack([source, target])
        return Links(pairs, nodes, True, False, every, every, keys), [note]
    both = np.union1d(keys, opposite)
    source, target = both // nodes, both % nodes
    pairs = np.stack([source, target])[:, source < target]
    return Links(pairs, nodes, False, False, every, every, both), notes


def restrict(graph: AttributedGraph, keys: NDArray) -> AttributedGraph:
    """Return a graph that contains only the given links, as edges in both directions.

    Args:
        graph: the graph, before or after an encoder attached the inputs of its edges.
        keys: sorted numbers of the links, by :func:`unordered_keys`.
    """
    nodes = len(graph)
    edges, arcs = (
        torch.from_numpy(_contains(keys, unordered_keys(each.numpy(), nodes)))
        for each in (graph.edge_index, graph.arcs)
    )
    table = graph.edge_table
    if table is not None:
        table = table.select(_contains(keys, unordered_keys(table.pairs.numpy(), nodes)))
    inputs = graph.edge_inputs
    return replace(
        graph,
        edge_index=graph.edge_index[:, edges],
        arcs=graph.arcs[:, arcs],
        edge_table=table,
        edge_inputs=None if inputs is None else inputs.select(edges.numpy(), arcs.numpy()),
    )


def draw_negatives(
    links: Links, sources: NDArray, count: int, draw: np.random.Generator
) -> NDArray[np.int64]:
    """Draw different unlinked targets for each source, uniformly.

    Args:
        links: all links of the graph, of every part.
        sources: [m] sources.
        count: maximum number k of targets for each source.
        draw: random numbers.

    Returns:
        [m, k] targets. The row of a source with fewer unlinked targets contains all of them, and
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
    """Return a mask [m, k] of the targets that are linked to their source or repeat another target
    of their row.
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
        [2, m, j] sources and targets. The target is -1 if no unlinked pair was found.
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
        The ranking, without links whose source is linked to every possible target.
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
    return Ranking(rows[usable], source[usable], candidates, others)


def _contains(keys: NDArray, values: NDArray) -> NDArray[np.bool_]:
    """Return True for each value that occurs in the sorted keys."""
    if not len(keys):
        return np.zeros(values.shape, bool)
    place = np.searchsorted(keys, values).clip(max=len(keys) - 1)
    return keys[place] == values
