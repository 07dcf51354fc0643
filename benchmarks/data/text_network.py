"""Generated network whose nodes have texts, written as tables of nodes and edges."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

CLASSES = 10
WORDS_OF_CLASS = 120
TEXT, SPECIAL = 60, 12
"""Number of words of a text, and number of these words that come from the vocabulary of its
class.
"""
INSIDE = 0.8
"""Probability that both ends of an edge have the same class."""


def write_text_network(
    folder: Path, nodes: int, edges: int, words: int, seed: int = 0
) -> list[str]:
    """Write the tables ``nodes.csv`` and ``edges.csv``.

    Args:
        folder: an existing folder.
        nodes: number of nodes; half of them have a label.
        edges: number of undirected edges, without duplicates.
        words: number of different words, drawn with probabilities 1 / rank.
        seed: seed of all draws.

    Returns:
        The arguments of ``gattn nodes train`` that name the data.
    """
    draw = np.random.default_rng(seed)
    field = draw.integers(CLASSES, size=nodes)
    special = draw.permutation(words)[: CLASSES * WORDS_OF_CLASS].reshape(CLASSES, -1)
    share = 1 / np.arange(1, words + 1)
    common = draw.choice(words, (nodes, TEXT - SPECIAL), p=share / share.sum())
    places = draw.integers(special.shape[1], size=(nodes, SPECIAL))
    texts = np.hstack([common, special[field[:, None], places]])
    with (folder / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "field"])
        for i, (text, label) in enumerate(zip(texts, draw.random(nodes) < 0.5)):
            row = " ".join(f"w{word}" for word in text)
            table.writerow([f"p{i}", row, f"field {field[i]}" if label else ""])
    with (folder / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        table.writerows((f"p{a}", f"p{b}") for a, b in _edges(field, edges, draw))
    data = [f"{folder}/edges.csv", "--nodes", f"{folder}/nodes.csv"]
    return [*data, "--label", "field", "--features", "text"]


def _edges(field: np.ndarray, edges: int, draw: np.random.Generator) -> np.ndarray:
    """Draw distinct undirected edges [edges, 2]; the first nodes of a class get more edges."""
    order = np.argsort(field, kind="stable")
    counts = np.bincount(field, minlength=CLASSES)
    starts = np.cumsum(counts) - counts
    source = draw.integers(len(field), size=2 * edges)
    kind = field[source]
    position = (counts[kind] * draw.random(2 * edges) ** 2).astype(np.int64)
    inside = order[starts[kind] + position]
    anyone = draw.integers(len(field), size=2 * edges)
    target = np.where(draw.random(2 * edges) < INSIDE, inside, anyone)
    pairs = np.sort(np.stack([source, target], 1), 1)[source != target]
    _, first = np.unique(pairs, axis=0, return_index=True)
    return pairs[np.sort(first)[:edges]]
