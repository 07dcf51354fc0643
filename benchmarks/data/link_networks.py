"""Networks without columns, generated or taken from networkx, on which links are predicted.

Each function returns an undirected graph that depends only on its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import networkx as nx
import numpy as np
from scipy.spatial import KDTree

__all__ = ["LINK_NETWORKS"]


def power_grid(seed: int, nodes: int = 2000, extra: int = 650) -> nx.Graph:
    """Return points of the unit square with a minimum spanning tree and some short edges."""
    draw = np.random.default_rng(seed)
    points = draw.random((nodes, 2))
    lengths, near = map(np.asarray, KDTree(points).query(points, 8))
    every = nx.Graph()
    for a in range(nodes):
        every.add_weighted_edges_from(zip([a] * 7, near[a, 1:].tolist(), lengths[a, 1:].tolist()))
    graph = nx.Graph(list(nx.minimum_spanning_edges(every, data=False)))
    rest = [edge for edge in every.edges if not graph.has_edge(*edge)]
    weights = np.exp([-60 * every.edges[edge]["weight"] for edge in rest])
    chosen = draw.choice(len(rest), extra, replace=False, p=weights / weights.sum())
    graph.add_edges_from(rest[place] for place in chosen)
    return graph


def street_grid(seed: int) -> nx.Graph:
    """Return a grid of 50 x 40 nodes with 70 % of its edges and 60 random ones."""
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(50, 40))
    draw = np.random.default_rng(seed)
    edges = list(graph.edges)
    graph.remove_edges_from([edge for edge in edges if draw.random() < 0.3])
    return _with_random_edges(graph, 60, draw)


def tree(seed: int) -> nx.Graph:
    """Return a random tree of 1,500 nodes with 120 further random edges."""
    graph = nx.random_labeled_tree(1500, seed=seed)
    return _with_random_edges(graph, 120, np.random.default_rng(seed))


def hubs(seed: int) -> nx.Graph:
    """Return a tree grown by preferential attachment with 500 further edges between its hubs."""
    graph, draw = nx.barabasi_albert_graph(2000, 1, seed=seed), np.random.default_rng(seed)
    ends = np.array(graph.edges).ravel()
    graph.add_edges_from(draw.choice(ends, (500, 2)).tolist())
    return graph


def blocks(seed: int, within: float = 0.12, between: float = 0.01) -> nx.Graph:
    """Return six blocks of 100 nodes."""
    chances = np.full((6, 6), between) + (within - between) * np.eye(6)
    return nx.stochastic_block_model([100] * 6, chances.tolist(), seed=seed)


def opposites(seed: int) -> nx.Graph:
    """Return four blocks of 100 nodes, most of whose links join the blocks of a pair."""
    chances = np.kron(np.eye(2), [[0.01, 0.12], [0.12, 0.01]])
    chances[chances == 0] = 0.01
    return nx.stochastic_block_model([100] * 4, chances.tolist(), seed=seed)


def tastes(seed: int) -> nx.Graph:
    """Return a bipartite network of 500 users and 200 items, directed from users to items, whose
    links depend on four hidden properties.
    """
    draw = np.random.default_rng(seed)
    users, items = draw.normal(size=(500, 4)), draw.normal(size=(200, 4))
    logits = 0.8 * users @ items.T + draw.normal(size=200) + 0.7 * draw.normal(size=(500, 1)) - 4.2
    pairs = np.argwhere(draw.random(logits.shape) < 1 / (1 + np.exp(-logits)))
    return nx.DiGraph((pairs + np.array([0, 500])).tolist())


def dense(seed: int) -> nx.Graph:
    """Return 250 points in space, with links that depend on distances and on the activity of both
    nodes.
    """
    draw = np.random.default_rng(seed)
    points, activity = draw.random((250, 3)), np.exp(0.6 * draw.normal(size=250))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    chances = 2 * np.outer(activity, activity) * np.exp(-7 * apart)
    return nx.from_numpy_array(np.triu(draw.random(apart.shape) < chances, 1))


def friends(seed: int) -> nx.Graph:
    """Return a growing network of at most 800 people, whose 4,000 links have a column of times.

    Most links close a triangle; the others lead to an end of an earlier link.
    """
    draw, graph, ends = random.Random(seed), nx.Graph(), [0, 1, 1, 2]
    graph.add_edges_from([(0, 1), (1, 2)], time=0)
    while (time := len(ends) // 2) < 4000:
        source, target = draw.randrange(min(800, 20 + time // 4)), draw.choice(ends)
        if source in graph and draw.random() < 0.7:
            target = draw.choice(list(graph[draw.choice(list(graph[source]))]))
        if source != target and not graph.has_edge(source, target):
            graph.add_edge(source, target, time=time)
            ends += [source, target]
    return graph


def _with_random_edges(graph: nx.Graph, count: int, draw: np.random.Generator) -> nx.Graph:
    graph.add_edges_from(draw.integers(len(graph), size=(count, 2)).tolist())
    return graph


LINK_NETWORKS: dict[str, Callable[[int], nx.Graph]] = {
    "power-grid": power_grid,
    "street-grid": street_grid,
    "tree": tree,
    "hubs": hubs,
    "internet": lambda seed: nx.random_internet_as_graph(2000, seed=seed),
    "small-world": lambda seed: nx.watts_strogatz_graph(1000, 6, 0.1, seed=seed),
    "attachment": lambda seed: nx.barabasi_albert_graph(1000, 4, seed=seed),
    "triangles": lambda seed: nx.powerlaw_cluster_graph(1000, 3, 0.5, seed=seed),
    "blocks": blocks,
    "opposites": opposites,
    "tastes": tastes,
    "dense": dense,
    "friends": friends,
    "karate": lambda seed: nx.Graph(nx.karate_club_graph().edges),
    "miserables": lambda seed: nx.Graph(nx.les_miserables_graph().edges),
    "florentine": lambda seed: nx.florentine_families_graph(),
    "random": lambda seed: nx.gnm_random_graph(600, 2400, seed=seed),
    "random-directed": lambda seed: nx.gnm_random_graph(600, 2400, seed=seed, directed=True),
    "random-bipartite": lambda seed: nx.bipartite.gnmk_random_graph(
        300, 200, 2000, seed=seed, directed=True
    ),
}
"""Function that returns each network for a seed, by name."""
