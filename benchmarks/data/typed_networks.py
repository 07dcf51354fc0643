"""Generated networks with several tables of nodes, whose labels depend on the types.

Each function returns tables of nodes by type and of edges by relation; the papers are labelled.
``write`` writes one file for each table and, for the comparison without types, one table of all
nodes and one of all edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["TYPED_NETWORKS", "write"]

Tables = tuple[dict[str, pd.DataFrame], dict[tuple[str, str, str], pd.DataFrame]]
WRITES, REVIEWS = ("authors", "writes", "papers"), ("authors", "reviews", "papers")


def write(name: str, folder: Path, *, ignore_types: bool = False) -> list[str]:
    """Write the tables of one of the :data:`TYPED_NETWORKS`, and return the arguments of the
    command that read them.

    Args:
        name: name of the network.
        folder: to write in.
        ignore_types: True to write one table of all nodes and one of all edges.
    """
    nodes, edges = TYPED_NETWORKS[name]()
    folder.mkdir(parents=True, exist_ok=True)
    if ignore_types:
        pd.concat(nodes.values()).to_csv(folder / "nodes.csv", index=False)
        pairs = [table.set_axis(["source", "target"], axis=1) for table in edges.values()]
        pd.concat(pairs).to_csv(folder / "edges.csv", index=False)
        return [str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--label", "label"]
    options = ["--label", "label"]
    for kind, table in nodes.items():
        table.to_csv(folder / f"{kind}.csv", index=False)
        options += ["--nodes", f"{kind}={folder / kind}.csv"]
    for relation, table in edges.items():
        path = folder / f"{relation[1]}.csv"
        table.to_csv(path, index=False)
        options += ["--edges", f"{'-'.join(relation)}={path}"]
    return options


def neighbour_columns(papers: int = 1500, authors: int = 600, seed: int = 0) -> Tables:
    """Return a network in which the label of a paper depends on the columns of its authors.

    Of the three authors of a paper, two have its topic and one has any topic. The numbers of an
    author are normal around the centre of the author's topic. The papers' own numbers are noise.
    """
    draw, label, topic, pools = _topics(papers, authors, seed)
    writes = [
        (int(draw.choice(pools[label[paper]] if place < 2 else authors)), paper)
        for paper in range(papers)
        for place in range(3)
    ]
    x = 0.6 * draw.normal(size=(4, 6))[topic] + draw.normal(size=(authors, 6))
    nodes = {
        "papers": _nodes("p", draw.normal(size=(papers, 4)), label, "x"),
        "authors": _nodes("a", x, None, "y"),
    }
    return nodes, {WRITES: _edges(writes)}


def relations(papers: int = 1500, authors: int = 600, seed: int = 0) -> Tables:
    """Return a network in which the label of a paper depends on the relation of its edges.

    The two writers of a paper have its topic with a probability of 0.8, and the two reviewers have
    the next topic with a probability of 0.8, so that the edges without their relation show two
    topics. The numbers of an author are normal around the centre of the author's topic.
    """
    draw, label, topic, pools = _topics(papers, authors, seed)

    def pairs(offset: int) -> list[tuple[int, int]]:
        return [
            (
                int(
                    draw.choice(
                        pools[(label[paper] + offset) % 4] if draw.random() < 0.8 else authors
                    )
                ),
                paper,
            )
            for paper in range(papers)
            for _ in range(2)
        ]

    x = draw.normal(size=(4, 6))[topic] + draw.normal(size=(authors, 6))
    nodes = {
        "papers": _nodes("p", draw.normal(size=(papers, 4)), label, "x"),
        "authors": _nodes("a", x, None, "y"),
    }
    return nodes, {WRITES: _edges(pairs(0)), REVIEWS: _edges(pairs(1))}


def shared_neighbours(papers: int = 1500, authors: int = 600, seed: int = 0) -> Tables:
    """Return a network in which papers with a common author often have the same label.

    The authors have no columns. Of the two authors of a paper each has its topic with a probability
    of 0.7. Each paper also has one of ten reviewers, who are independent of the topic.
    """
    draw, label, _, pools = _topics(papers, authors, seed)
    writes = [
        (int(draw.choice(pools[label[paper]] if draw.random() < 0.7 else authors)), paper)
        for paper in range(papers)
        for _ in range(2)
    ]
    reviews = [(int(draw.integers(10)), paper) for paper in range(papers)]
    nodes = {
        "papers": _nodes("p", draw.normal(size=(papers, 4)), label, "x"),
        "authors": pd.DataFrame({"id": [f"a{author}" for author in range(authors)]}),
    }
    return nodes, {WRITES: _edges(writes), REVIEWS: _edges(reviews)}


def typed_noise(papers: int = 1500, authors: int = 600, seed: int = 0) -> Tables:
    """Return a network whose columns and edges are independent of the three labels."""
    draw = np.random.default_rng(seed)
    label = draw.choice(3, size=papers, p=(0.5, 0.3, 0.2))
    writes = [(int(draw.integers(authors)), paper) for paper in range(papers) for _ in range(3)]
    nodes = {
        "papers": _nodes("p", draw.normal(size=(papers, 4)), label, "x"),
        "authors": _nodes("a", draw.normal(size=(authors, 6)), None, "y"),
    }
    return nodes, {WRITES: _edges(writes)}


TYPED_NETWORKS = {
    "neighbour-columns": neighbour_columns,
    "relations": relations,
    "shared-neighbours": shared_neighbours,
    "typed-noise": typed_noise,
}
"""Function that returns the tables of each network, by name."""


def _topics(
    papers: int, authors: int, seed: int
) -> tuple[np.random.Generator, NDArray[np.int64], NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return a random generator, the labels of the papers, the topics of the authors, and the
    authors of each topic.
    """
    draw = np.random.default_rng(seed)
    label, topic = draw.integers(4, size=papers), draw.integers(4, size=authors)
    return draw, label, topic, [np.flatnonzero(topic == kind) for kind in range(4)]


def _nodes(letter: str, x: NDArray[np.float64], label: NDArray | None, column: str) -> pd.DataFrame:
    table = pd.DataFrame(x.round(5), columns=[f"{column}{place}" for place in range(x.shape[1])])
    table.insert(0, "id", [f"{letter}{place}" for place in range(len(x))])
    if label is not None:
        table["label"] = [f"class {kind}" for kind in label]
    return table


def _edges(pairs: Sequence[tuple[int, int]]) -> pd.DataFrame:
    named = [(f"a{author}", f"p{paper}") for author, paper in pairs]
    return pd.DataFrame(named, columns=["author", "paper"])
