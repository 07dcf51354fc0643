"""How labelled nodes are divided into training, validation and test parts."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.data import Split, random_split, split_by_names
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.values import as_texts

__all__ = ["MASKS", "masked_parts", "named_parts", "per_class_parts", "random_parts"]

MASKS = ("train_mask", "val_mask", "test_mask")
TRAIN, VAL = 20, 30  # nodes of a class


def masked_parts(graph: AttributedGraph) -> Split:
    """The parts that the graph's masks name.

    A mask holds true and false, also as texts or 1 and 0; where it is empty the node is in no part.

    Raises:
        GraphError: it lacks a mask, one holds something else, or a node is in two parts.
    """
    found = torch.stack([_mask(graph, name) for name in MASKS])
    twice = (found.sum(0) > 1).nonzero().flatten()
    if len(twice):
        node = graph.names[int(twice[0])]
        raise GraphError(f"a node must be in one part; the masks put {node!r} into several")
    train, val, test = (mask.nonzero().flatten() for mask in found)
    return Split(train, val, test, "public")


TRUTH = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def _mask(graph: AttributedGraph, name: str) -> Tensor:
    """[n] bool, of an attribute that holds no other words than these."""
    words = [text.strip().lower() for text in as_texts(graph.column(name))]
    strange = next((word for word in words if word and word not in TRUTH), None)
    if strange is not None:
        raise GraphError(f"{name} must hold true and false; it holds {strange!r}")
    return torch.tensor([TRUTH.get(word, False) for word in words], dtype=torch.bool)


def named_parts(graph: AttributedGraph, column: str) -> Split:
    """The parts that an attribute names: train, val or test; a node where it is empty is in none.

    Raises:
        GraphError: no such attribute, or another name.
    """
    values = graph.column(column)
    rows = torch.tensor(values.notna().to_numpy()).nonzero().flatten()
    try:
        found = split_by_names(values.dropna().astype(str).tolist())
    except ValueError as error:
        raise GraphError(f"column {column!r}: {error}") from None
    train, val, test = (rows[part] for part in (found.train, found.val, found.test))
    return Split(train, val, test, f"column:{column}")


def per_class_parts(y: Tensor, seed: int) -> Split:
    """Draw 20 nodes a class to train, 30 to validate, and test on the others.

    A class of fewer than 50 nodes gives two fifths to train and three tenths to validate.

    Args:
        y: [n] classes from 0, NaN where unknown.
        seed: of what is drawn.

    Returns:
        The split.

    Reference:
        Shchur et al., "Pitfalls of graph neural network evaluation" (NeurIPS workshop 2018).
    """
    parts = []
    for members in _shuffled_classes(y, seed):
        size = len(members)
        train = min(TRAIN, max(1, round(0.4 * size)))
        val = min(VAL, round(0.3 * size))
        parts.append(members.tensor_split([train, train + val]))
    return _joined(parts, f"{TRAIN} a class at random (seed {seed})")


def random_parts(
    y: Tensor, seed: int, fractions: tuple[float, float, float], *, by_class: bool
) -> Split:
    """Draw parts at random from the labelled nodes.

    Args:
        y: [n] labels, NaN where unknown.
        seed: of what is drawn.
        fractions: of train, val and test, adding up to 1.
        by_class: draw from every class apart, so that each part has its share of it.

    Returns:
        The split.
    """
    ratio = ":".join(f"{10 * share:g}" for share in fractions)
    if not by_class:
        rows = y.isfinite().nonzero().flatten()
        found = random_split(len(rows), seed=seed, fractions=fractions)
        return Split(rows[found.train], rows[found.val], rows[found.test], found.protocol)
    parts = []
    for members in _shuffled_classes(y, seed):
        first = max(1, round(fractions[0] * len(members)))
        second = round((fractions[0] + fractions[1]) * len(members))
        parts.append(members.tensor_split([first, max(first, second)]))
    return _joined(parts, f"random {ratio} of every class (seed {seed})")


def _shuffled_classes(y: Tensor, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for label in y[y.isfinite()].unique():
        members = (y == label).nonzero().flatten()
        found.append(members[torch.randperm(len(members), generator=generator)])
    return found


def _joined(parts: list[tuple[Tensor, ...]], protocol: str) -> Split:
    train, val, test = (torch.cat(part).sort().values for part in zip(*parts))
    return Split(train, val, test, protocol)
