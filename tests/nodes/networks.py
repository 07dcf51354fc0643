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


def probabilities(y, strength, draw):
    """Return probabilities [m, 4] whose most probable class is correct more often if ``strength``
    is larger.
    """
    scores = draw.normal(size=(len(y), 4)) + strength * np.eye(4)[y]
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
