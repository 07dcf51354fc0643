"""Measurement of link models on several networks, compared with their components and heuristics.

    python -m benchmarks.links cora debian
    python -m benchmarks.links power-grid blocks --splits 5
    python -m benchmarks.links cora --options model=gatv2

Each split has its own parts, negatives and weights; generated networks are also generated again. In
the network ``debian``, the links are the relations Depends between packages, and the sections are
not read. The command prints the means and standard errors of the mean reciprocal rank, of the area
under the ROC curve and of the average precision on the test part, of the model, of each component
and of methods that train nothing, and appends a JSON line for each network to
benchmarks/results/links.jsonl.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.utils.extmath import randomized_svd

from benchmarks.core import record
from benchmarks.data.link_networks import LINK_NETWORKS
from benchmarks.data.networks import NETWORKS, debian, make
from gattn.apps.links import LinkPredictor
from gattn.apps.links.metrics import link_metrics
from gattn.apps.links.model import METRICS, RANDOM_PAIRS, RANKED_LINKS
from gattn.apps.links.pairs import Ranking, make_ranking, read_links
from gattn.apps.links.proximity import FEATURES, Proximity
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.stack.propagation import row_means

PARAMETERS: dict[str, dict[str, Any]] = {
    "debian": {"features": ["description"], "names": True},
    **{package: {"features": ["words"]} for package in ("torch", "sklearn", "sympy")},
    "friends": {"time": "time"},
}
"""Parameters that name the columns of some networks, other than the labels of nodes."""
SHOWN = "mrr", "roc_auc", "pr_auc"
MOST_NODES = 10_000
"""Maximum number of nodes for which the methods of :func:`references` are measured."""


def main(arguments: Sequence[str]) -> None:
    """Measure the metrics of links on some networks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.links", description=main.__doc__)
    parser.add_argument("networks", nargs="+", choices=(*LINK_NETWORKS, *NETWORKS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--options", nargs="*", default=[], help="parameters, such as model=gatv2")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "links.jsonl")
    options = parser.parse_args(arguments)
    environment = record.environment("benchmarks.links", arguments)
    for name in options.networks:
        entry = measure(name, options)
        record.append(options.out, {**entry, "environment": environment})
        print(f"{name}, {options.splits} splits, {entry['seconds']:.0f} s each")
        for title, values in entry["metrics"].items():
            cells = (
                f"{mean:.4f}" + ("" if error is None else f" ± {error:.4f}")
                for mean, error in values.values()
            )
            print(f"  {title:34s}", "  ".join(cells), flush=True)


def read(name: str, seed: int, folder: Path) -> AttributedGraph:
    """Return a network without the labels of its nodes."""
    if name in LINK_NETWORKS:
        graph = LINK_NETWORKS[name](seed)
        # Some generators store the block or the type of a node, which the model would read.
        columns = [
            (a, b, {} if at is None else {"time": at}) for a, b, at in graph.edges.data("time")
        ]
        return read_graph(type(graph)(columns), directed=False)
    path = folder / "edges.csv"
    if name == "debian":
        debian(folder)
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        with path.open("w", newline="", encoding="utf-8") as file:
            depends = [row[:2] for row in rows if row[2] == "Depends"]
            csv.writer(file).writerows([header[:2], *depends])
        return read_graph_file(path, folder / "nodes.csv", directed=False)
    first, *rest = make(name, folder)
    return read_graph_file(first, rest[1] if rest else None, directed=False)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train on each split of a network, and return means and standard errors of the metrics."""
    totals: dict[str, dict[str, list[float]]] = {}
    settings = (option.split("=", 1) for option in options.options)
    parameters: dict[str, Any] = {
        name: int(value) if value.isdigit() else value for name, value in settings
    }
    seconds, links = 0.0, None
    for seed in range(options.splits):
        with tempfile.TemporaryDirectory() as folder:
            graph = read(name, seed, Path(folder))
        links, _ = read_links(graph, None)
        began = time.perf_counter()
        model = LinkPredictor(**PARAMETERS.get(name, {}), **parameters, seed=seed)
        split, times = model.parts(graph, links, 0.1, 0.1)
        encoded = model.encode(graph, links, split)
        model.fit_parts(encoded, links, split, times)
        draw = np.random.default_rng(seed + 1)
        rankings = [
            make_ranking(links, part.numpy(), 500, draw, RANKED_LINKS, RANDOM_PAIRS)
            for part in (split.val, split.test)
        ]
        metrics = model.predictor_.measure(encoded.graph, rankings[1])["metrics"]
        seconds += time.perf_counter() - began
        if len(graph) <= MOST_NODES:
            kind = {"directed": links.directed, "bipartite": links.bipartite}
            proximity = Proximity(encoded.graph.arcs.numpy(), len(graph), None, **kind)
            metrics |= references(proximity, *rankings)
        for title, values in metrics.items():
            for metric in SHOWN:
                totals.setdefault(title, {}).setdefault(metric, []).append(values[metric])
    return {
        "case": f"links/{name}", "splits": options.splits, "options": options.options,
        "links": None if links is None else len(links), "seconds": seconds / options.splits,
        "metrics": {
            title: {metric: _mean_and_error(values) for metric, values in each.items()}
            for title, each in totals.items()
        },
    }  # fmt: skip


def references(
    proximity: Proximity, validation: Ranking, test: Ranking
) -> dict[str, dict[str, float]]:
    """Return the metrics of the local path index, of personalised PageRank with restarts of 15 %,
    of DeepWalk and, with the probability of each distance on the validation part, of the distance.
    """
    both, nodes = proximity.both.astype(np.float64), proximity.nodes
    square = (both @ both).toarray()
    steps = 0.85 * row_means(both)
    rank, walk = np.eye(nodes), np.eye(nodes)
    for _ in range(20):
        walk = steps @ walk
        rank += walk
    distance = FEATURES.index("distance")

    def distances(ends: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return np.nan_to_num(proximity.measure(*ends)[..., distance]).astype(int)

    near = distances(validation.ends("roc_auc"))
    counts = [np.bincount(part.ravel(), minlength=13) + 0.5 for part in (near[:, :1], near[:, 1:])]
    odds = counts[0] / counts[1]
    scores = {
        "local path": lambda ends: (square + 0.01 * (both @ square))[ends],
        "personalised PageRank": lambda ends: (rank + rank.T)[ends],
        "distance": lambda ends: odds[distances(ends)],
        "DeepWalk": deep_walk(both),
    }
    results = {}
    for title, score in scores.items():
        parts = [np.where(ends[1] < 0, -np.inf, score(ends)) for ends in map(test.ends, METRICS)]
        results[title] = link_metrics(*parts)
    return results


def deep_walk(both: Any) -> Callable[[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return a score of pairs by logistic regression on products of DeepWalk's embeddings, which
    are node2vec's with p = q = 1.

    The embeddings factorise the matrix that DeepWalk approximates (Qiu et al., "Network embedding
    as matrix factorization", WSDM 2018), with walks of at most ten steps and 64 dimensions. The
    regression compares the edges with as many random pairs.
    """
    nodes, window = both.shape[0], 10
    steps, degree = row_means(both), np.asarray(both.sum(1)).ravel()
    walk = total = steps.toarray()
    for _ in range(window - 1):
        walk = steps @ walk
        total = total + walk
    matrix = total * degree.sum() / (window * np.maximum(degree, 1))
    left, values, _ = randomized_svd(
        np.log(np.maximum(matrix, 1)), min(64, nodes - 1), random_state=0
    )
    z = left * np.sqrt(values)
    edges = np.stack(both.nonzero())
    pairs = np.hstack([edges, np.random.default_rng(0).integers(nodes, size=edges.shape)])
    is_edge = np.arange(pairs.shape[1]) < edges.shape[1]
    model = LogisticRegression(max_iter=1000).fit(z[pairs[0]] * z[pairs[1]], is_edge)
    return lambda ends: (z[ends[0]] * z[ends[1]]) @ model.coef_[0]


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error; the error is None if there is only one value."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.fmean(values), error


if __name__ == "__main__":
    main(sys.argv[1:])
