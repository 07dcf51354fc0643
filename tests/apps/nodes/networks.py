"""Networks and predictions for the tests of stacked models."""

import numpy as np
import pandas as pd


def class_network(nodes=120, classes=3, seed=0, homophily=0.9):
    """Return tables of edges and nodes. The class of a node can be predicted from its neighbours
    and, with noise, from the column x.
    """
    draw = np.random.default_rng(seed)
    label = draw.integers(classes, size=nodes)
    members = [np.flatnonzero(label == kind) for kind in range(classes)]
    edges = []
    for node in range(nodes):
        for _ in range(3):
            kind = label[node] if draw.random() < homophily else draw.integers(classes)
            edges.append((f"n{node}", f"n{draw.choice(members[kind])}"))
    x = np.eye(classes)[label] + draw.normal(size=(nodes, classes))
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(classes)])
    table.insert(0, "id", [f"n{node}" for node in range(nodes)])
    table["label"] = [f"kind {kind}" for kind in label]
    return pd.DataFrame(edges, columns=["source", "target"]), table


def attributed_network(nodes=90, seed=0, classes=3, *, near, strong, weak, day):
    """Return tables in which the labels depend on the types and weights of the edges.

    Args:
        nodes: number of nodes.
        seed: seed of the random numbers.
        classes: number of classes.
        near: number of the six edges of a node that lead to nodes of its class.
        strong: mean weight of these edges, about.
        weak: mean weight of the others, about.
        day: function of the node and of the number of its edge that returns the day of the edge.
    """
    draw = np.random.default_rng(seed)
    label = draw.integers(classes, size=nodes)
    members = [np.flatnonzero(label == kind) for kind in range(classes)]
    edges = []
    for node in range(nodes):
        for place in range(6):
            is_near = place < near
            kind = label[node] if is_near else draw.integers(classes)
            other = f"n{draw.choice(members[kind])}"
            strength = (strong if is_near else weak) * draw.uniform(0.5, 2)
            words = f"word{place} common"
            edges.append(
                (f"n{node}", other, strength, "near" if is_near else "far", words, day(node, place))
            )
    table = pd.DataFrame(draw.normal(size=(nodes, 3)), columns=["x0", "x1", "x2"])
    table.insert(0, "id", [f"n{node}" for node in range(nodes)])
    table["year"] = 2000 + np.arange(nodes) // 5
    table["label"] = [f"kind {kind}" for kind in label]
    columns = ["source", "target", "strength", "kind", "words", "day"]
    return pd.DataFrame(edges, columns=columns), table


def repeating_network(nodes=90):
    """Return the tables of an attributed network in which some edges are repeated, with the same
    columns and with other columns.
    """
    frame, table = attributed_network(
        nodes, near=1, strong=5.0, weak=0.2, day=lambda node, place: float(node // 5)
    )
    again = pd.concat([frame[:3], frame[3:6].assign(strength=9.0)])
    return pd.concat([frame, again], ignore_index=True), table


def write_parquet(folder, edges, nodes=None):
    """Write tables to Parquet, and return their paths."""
    folder.mkdir(exist_ok=True)
    paths = [folder / "edges.parquet"]
    edges.to_parquet(paths[0], index=False)
    if nodes is not None:
        paths.append(folder / "nodes.parquet")
        nodes.to_parquet(paths[1], index=False)
    return paths


def probabilities(y, strength, draw):
    """Return probabilities [m, 4] whose most probable class is correct more often if ``strength``
    is larger.
    """
    scores = draw.normal(size=(len(y), 4)) + strength * np.eye(4)[y]
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
