"""Explanation of the score of one pair of nodes by the nodes on the shortest paths between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from gattn.apps.links.model import LinkModel
from gattn.apps.links.pairs import Links, restrict, unordered_keys
from gattn.apps.nodes.attributed import AttributedGraph


@dataclass(frozen=True)
class Bridge:
    """Node on a shortest path between the two nodes of a pair.

    Attributes:
        place: index of the node.
        degree: number of neighbours of the node.
        without: probability of the link if the edges between the node and the other nodes of the
            paths are removed.
        change: logarithm of the odds of the link, minus that without these edges. It is positive if
            the node makes the link more probable.
    """

    place: int
    degree: int
    without: float
    change: float


@dataclass(frozen=True)
class LinkExplanation:
    """Explanation of the score of one pair of nodes.

    Attributes:
        probability: probability of the link, if half of all pairs are links.
        distance: number of edges of the shortest paths; infinite if there is no path.
        bridges: nodes of the paths, sorted by decreasing absolute change.
        count: number of nodes on the shortest paths.
        separated: probability of the link if the edges of all these paths are removed. It depends
            on the columns of both nodes and on the other edges of both.
        edges: [2, e] edges of the paths.
    """

    probability: float
    distance: float
    bridges: tuple[Bridge, ...]
    count: int
    separated: float
    edges: NDArray[np.int64]


def explain_link(
    model: LinkModel,
    graph: AttributedGraph,
    links: Links,
    source: int,
    target: int,
    *,
    most: int = 10,
) -> LinkExplanation:
    r"""Measure how the score of a pair changes without each node on its shortest paths.

    .. math:: \mathrm{change}_w = \operatorname{logit} p(G) - \operatorname{logit} p(G \setminus
        \{(w, x) : x \in P\})

    P are the nodes of the shortest paths in G, with both ends: the common neighbours, if there are
    any. An edge between both nodes of the pair is removed from G first.

    Args:
        model: the trained model.
        graph: the graph whose edges send messages.
        links: the links of the graph.
        source: index of the source.
        target: index of the target.
        most: maximum number of nodes; those with the fewest neighbours are chosen, whose neighbours
            have the most in common. The pair is scored once without each of them.

    Returns:
        The explanation; it has no bridges if no path joins the pair.
    """
    n, ends = len(graph), np.array([source, target])
    keys = np.setdiff1d(links.unordered, unordered_keys(ends[:, None], n))
    pairs = np.stack([keys // n, keys % n])
    ones = np.ones(pairs.shape[1])
    both = sp.csr_matrix((ones, (pairs[0], pairs[1])), (n, n))
    steps = dijkstra(both, directed=False, unweighted=True, indices=ends)
    distance = float(steps[0, target])
    on_path = steps.sum(0) == distance if np.isfinite(distance) else np.zeros(n, bool)
    # An edge of a path leads one step away from the source.
    rows = np.flatnonzero(on_path[pairs[0]] & on_path[pairs[1]])
    first, second = steps[0][pairs[:, rows]]
    of_path = np.zeros(len(keys), bool)
    of_path[rows[np.abs(first - second) == 1]] = True
    degree = np.bincount(pairs.ravel(), minlength=n)
    middle = np.setdiff1d(np.flatnonzero(on_path), ends)

    def score(removed: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the probability and the log odds without some edges."""
        scores = model.score(restrict(graph, keys[~removed]), ends[:1], ends[1:])
        return float(model.probability(scores)[0]), float(model.log_odds(scores)[0])

    probability, odds = score(np.zeros(len(keys), bool))
    bridges = []
    for place in middle[np.argsort(degree[middle], kind="stable")][:most].tolist():
        without, rest = score(of_path & ((pairs[0] == place) | (pairs[1] == place)))
        bridges.append(Bridge(place, int(degree[place]), without, odds - rest))
    bridges.sort(key=lambda one: -abs(one.change))
    separated, _ = score(of_path)
    return LinkExplanation(
        probability, distance, tuple(bridges), len(middle), separated, pairs[:, of_path]
    )
