"""Networks with several types of nodes for the tests."""

import numpy as np
import pandas as pd

WRITES, CITES = ("authors", "writes", "papers"), ("papers", "cites", "papers")


def typed_tables(papers=90, authors=40, classes=3, seed=0, strength=0.9):
    """Return dictionaries of tables of edges and of nodes, in which the topic of a paper is shown
    by the countries of its authors. A fifth of the authors are drawn from all.
    """
    draw = np.random.default_rng(seed)
    topic = draw.integers(classes, size=authors)
    label = draw.integers(classes, size=papers)
    pools = [np.flatnonzero(topic == kind) for kind in range(classes)]
    everyone = np.arange(authors)
    writes = [
        (f"a{draw.choice(pools[label[paper]] if draw.random() < 0.8 else everyone)}", f"n{paper}")
        for paper in range(papers)
        for _ in range(2)
    ]
    cites = draw.integers(papers, size=(papers, 2))
    noisy = np.where(draw.random(authors) < strength, topic, draw.integers(classes, size=authors))
    pages, topics = draw.normal(size=papers), [f"topic {kind}" for kind in label]
    names = [f"n{paper}" for paper in range(papers)]
    countries, ages = [f"country {kind}" for kind in noisy], draw.normal(size=authors)
    people = [f"a{author}" for author in range(authors)]
    nodes = {
        "papers": pd.DataFrame({"id": names, "pages": pages, "topic": topics}),
        "authors": pd.DataFrame({"id": people, "country": countries, "age": ages}),
    }
    pairs = [(f"n{a}", f"n{b}") for a, b in cites]
    edges = {
        WRITES: pd.DataFrame(writes, columns=["author", "paper"]),
        CITES: pd.DataFrame(pairs, columns=["source", "target"]),
    }
    return edges, nodes


def write_tables(folder, edges, nodes):
    """Write the tables as CSV files; return the options of the command that read them."""
    options = []
    for kind, table in nodes.items():
        table.to_csv(folder / f"{kind}.csv", index=False)
        options += ["--nodes", f"{kind}={folder / f'{kind}.csv'}"]
    for relation, table in edges.items():
        table.to_csv(folder / f"{relation[1]}.csv", index=False)
        options += ["--edges", f"{'-'.join(relation)}={folder / f'{relation[1]}.csv'}"]
    return options
