"""The command ``gattn links explain``, which writes a table and a picture for one pair of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from gattn.apps.links.model import LinkModel
from gattn.apps.links.pairs import Links, restrict, unordered_keys
from gattn.apps.links.runs.predict import read_run
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.nodes.runs.explain import place_of
from gattn.apps.report.style import with_digits
from gattn.apps.run.text import plural
from gattn.apps.run.train import Log, no_log
from gattn.draw import draw_network
from gattn.files import new_folder, write_rows


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
        without_opposite: probability of the link without the opposite link; None if there is none,
            or if links have no direction.
        edges: [2, e] edges of the paths.
    """

    probability: float
    distance: float
    bridges: tuple[Bridge, ...]
    count: int
    separated: float
    without_opposite: float | None
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
    any. The pair's own link is removed from G first. The paths do not contain the opposite link,
    which the model reads if links have a direction.

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
    each = unordered_keys(links.pairs, n)
    pair_key = unordered_keys(ends[:, None], n)
    keys = np.setdiff1d(each, pair_key)
    pairs = np.stack([keys // n, keys % n])
    both = sp.csr_matrix((np.ones(len(keys)), (pairs[0], pairs[1])), (n, n))
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
    others = links.numbers(links.pairs) != links.numbers(ends)

    def score(removed: NDArray[np.int64]) -> tuple[float, float]:
        """Return the probability and the log odds without the edges with some keys."""
        rows = others & ~np.isin(each, removed)
        scores = model.score(restrict(graph, links, rows), ends[:1], ends[1:])
        return float(model.probability(scores)[0]), float(model.log_odds(scores)[0])

    probability, odds = score(keys[:0])
    bridges = []
    for place in middle[np.argsort(degree[middle], kind="stable")][:most].tolist():
        without, rest = score(keys[of_path & (pairs == place).any(0)])
        bridges.append(Bridge(place, int(degree[place]), without, odds - rest))
    bridges.sort(key=lambda one: -abs(one.change))
    opposite = score(pair_key)[0] if (others & (each == pair_key)).any() else None
    return LinkExplanation(
        probability, distance, tuple(bridges), len(middle), score(keys[of_path])[0], opposite,
        pairs[:, of_path],
    )  # fmt: skip


def explain_pair(
    run: str | Path,
    path: str | Path,
    source: str,
    target: str,
    out: str | Path,
    *,
    most: int = 10,
    reading: GraphReading = DEFAULT_READING,
    threads: int = 0,
    log: Log = no_log,
) -> LinkExplanation:
    """Explain the score of one pair of nodes by the nodes on the shortest paths between them.

    The folder ``out`` has the table ``nodes.csv``, with one row for each
    :class:`gattn.apps.links.runs.explain.Bridge`, and ``network.png``, a picture of these nodes.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        source: name of the source.
        target: name of the target.
        out: a new folder.
        most: maximum number of nodes, those with the fewest neighbours.
        reading: rules for reading the files, and the table of nodes.
        threads: number of threads inside one operator; 0 to choose it by the size of the graph.
        log: called with each line that the user should read.

    Returns:
        The explanation, which is also written to the folder.

    Raises:
        RunError: the folder contains no model that can be read.
        GraphError: the graph cannot be read, has no such node, or lacks an attribute that the model
            reads; or the pair is one node, or no pair of source and target of the graph.
        FileNotFoundError: a file of the graph, or the folder in which ``out`` is created, does not
            exist.
        FileExistsError: ``out`` exists.
        ImportError: matplotlib or networkx, which draw the picture, is missing.
    """
    with new_folder(out) as folder:
        estimator, graph, links = read_run(run, path, reading, threads, log)
        ends = [place_of(graph, name) for name in (source, target)]
        if ends[0] == ends[1]:
            raise GraphError(f"source and target must differ; both are {source!r}")
        if ends[0] not in links.sources or ends[1] not in links.targets:
            raise GraphError(
                f"links lead from {plural(len(links.sources), 'source')} to other nodes, and "
                f"{source!r} and {target!r} are no source and target"
            )
        explanation = explain_link(estimator.predictor_, graph, links, *ends, most=most)
        write_rows(folder / "nodes.csv", _rows(graph, explanation))
        (folder / "network.png").write_bytes(_picture(graph, explanation, ends))
    is_link = bool(links.are_links(*np.array(ends)[:, None])[0])
    linked = " They are linked; the model did not read this link." * is_link
    probability = with_digits(explanation.probability, 4)
    log(f"{source} and {target}: probability {probability} if half of the pairs are links.{linked}")
    if explanation.without_opposite is not None:
        without = with_digits(explanation.without_opposite, 4)
        log(f"{target} - {source} is a link; without it: {without}")
    if not explanation.count:
        log("no path over other nodes joins them: the score depends on their columns and edges.")
        return explanation
    log(
        f"{plural(explanation.count, 'node')} on the shortest paths, of {explanation.distance:.0f} "
        f"edges; without these paths: {with_digits(explanation.separated, 4)}"
    )
    for one in explanation.bridges[:5]:
        log(
            f"without the edges of {graph.names[one.place]} on the paths: "
            f"{with_digits(one.without, 4)} (log odds {one.change:+.3g})"
        )
    return explanation


def _rows(graph: AttributedGraph, explanation: LinkExplanation) -> Iterator[Sequence[object]]:
    """Yield the header and a row for each explained node of ``nodes.csv``."""
    yield "node", "degree", "probability_without", "change_of_log_odds"
    for one in explanation.bridges:
        yield graph.names[one.place], one.degree, with_digits(one.without, 6), f"{one.change:.6g}"


def _picture(graph: AttributedGraph, explanation: LinkExplanation, ends: Sequence[int]) -> bytes:
    """Return a PNG drawing of the pair, whose two nodes have the indices ``ends``, and the
    explained nodes. The width of a line is the change by its node. Raises ImportError without
    matplotlib or networkx.
    """
    shown = np.array([*ends, *(one.place for one in explanation.bridges)])
    place = np.full(len(graph), -1)
    place[shown] = np.arange(len(shown))
    edges = place[explanation.edges]
    edges = edges[:, (edges >= 0).all(0)]
    changes = np.abs([0.0, 0.0, *(one.change for one in explanation.bridges)])
    weights = changes[edges].max(0, initial=0.0) / max(changes.max(), 1e-12)
    names = [str(graph.names[one]) for one in shown]
    return draw_network(
        np.hstack([edges, edges[::-1]]), np.tile(weights, 2), labels=names,
        colour=np.minimum(np.arange(len(shown)), 2) // 2, names=["pair", "on its shortest paths"],
        title=f"{names[0]} and {names[1]}",
    )  # fmt: skip
