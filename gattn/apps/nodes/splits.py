"""Splits of labelled nodes into training, validation and test parts."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, attribute_names
from gattn.apps.nodes.values import as_texts
from gattn.data import Split, random_split
from gattn.data.splits import NAMES

PARTS = {
    "train": ("train_mask",),
    "val": ("val_mask", "valid_mask", "validation_mask"),
    "test": ("test_mask",),
}
"""Possible names of the mask attribute for each part. The first name that exists is used."""
MASKS = tuple(name for names in PARTS.values() for name in names)
MASK_TITLE = re.compile(
    r"((is|in|mask)[ _.-]?)?(?P<part>train(ing)?|val(id(ation)?)?|dev|test(ing)?)"
    r"([ _.-]?(mask|set|part|split|flag))?",
    re.IGNORECASE,
)
"""Pattern for names of columns that may be masks if they contain true and false."""
PART_TITLES = (
    *("split", "splits", "part", "parts", "partition", "fold", "set", "subset", "data_split"),
    *("dataset", "phase", "role"),
)
"""Names of columns that probably assign nodes to parts, even if they also contain unknown words."""
VALIDATION = 0.2
"""Fraction of the training part that becomes the validation part if a split has no validation
part.
"""
# Number of nodes of each class in the training part and in the validation part.
TRAIN, VAL = 20, 30
SHOWN = 10
"""Maximum number of classes that a message lists."""
TITLES = {"train": "training", "val": "validation", "test": "test"}


def mask_columns(graph: AttributedGraph) -> dict[str, str]:
    """Return the name of the mask attribute of each part; parts without a mask are left out.

    >>> import pandas as pd
    >>> from gattn.apps.nodes.reading import read_graph
    >>> edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    >>> nodes = pd.DataFrame({"id": ["a", "b"], "train_mask": [1, 0], "test_mask": [0, 1]})
    >>> mask_columns(read_graph((edges, nodes)))
    {'train': 'train_mask', 'test': 'test_mask'}
    """
    present = {*graph.table.columns, *graph.unreadable}
    first = {part: next((n for n in names if n in present), None) for part, names in PARTS.items()}
    return {part: name for part, name in first.items() if name is not None}


def split_column_notes(graph: AttributedGraph) -> dict[Hashable, str]:
    """Return notes on columns, other than masks, that seem to assign nodes to parts.

    There are three kinds of such columns: a column that contains only names of parts, at least two;
    a column with a name like ``split`` that contains the name of a part; and a column with a name
    like ``train`` or ``is_test`` that contains true and false.

    Returns:
        A note for each such column, with the ways to use the column, by its name.

    >>> import pandas as pd
    >>> from gattn.apps.nodes.reading import read_graph
    >>> edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    >>> nodes = pd.DataFrame({"id": ["a", "b"], "fold": ["train", "test"], "train": [1, 0]})
    >>> list(split_column_notes(read_graph((edges, nodes))))
    ['fold', 'train']
    """
    notes: dict[Hashable, str] = {}
    for name in graph.table.columns:
        if name in MASKS:
            continue
        mask = MASK_TITLE.fullmatch(str(name).strip())
        values = graph.table[name]
        if mask is None and values.dtype.kind in "biufcmM":
            continue
        words = {text.strip().lower() for text in as_texts(values, gaps=True)} - {""}
        named = {NAMES[word] for word in words if word in NAMES}
        use = ""
        if mask is not None and words and words <= set(TRUTH):
            title = PARTS[NAMES.get(mask["part"].lower(), "val")][0]
            use = f"rename it to {title!r}, and use --split public"
        elif (words <= set(NAMES) and len(named) > 1) or (
            named and str(name).strip().lower() in PART_TITLES
        ):
            use = f"use --split column:{name}, with train, val, test or an empty cell in each row"
        if use:
            notes[name] = (
                f"Column {name!r} looks like a part of a split: it is not used as a feature. To "
                f"train on its parts, {use}; --features {name} uses it as a feature."
            )
    return notes


def masked_split(
    graph: AttributedGraph,
    y: Tensor,
    seed: int,
    fraction: float = VALIDATION,
    *,
    by_class: bool,
) -> tuple[Split, list[str]]:
    """Split the nodes by the masks of the graph; without its mask, the validation part is drawn at
    random.

    A mask contains true and false, possibly as texts or as 1 and 0; an empty cell counts as false.
    If there is no validation mask, the validation part is drawn from the training mask. If there is
    no training mask, the training part is all labelled nodes outside the other masks. If there is a
    training mask but no test mask, the test part is all labelled nodes outside the other masks. A
    validation or test mask without a true value is ignored.

    Args:
        graph: a graph with at least one mask.
        y: [n] labels, NaN for nodes without a label. Such nodes are in no part, even if a mask
            marks them.
        seed: seed with which a validation part is drawn.
        fraction: share of the training part that is drawn if there is no validation mask.
        by_class: True to draw from each class separately.

    Returns:
        The split, and sentences about the decisions that were made.

    Raises:
        GraphError: there is no mask, a mask contains other values, two masks share a node, or a
            mask marks only nodes without a label.
    """
    columns = mask_columns(graph)
    if not columns:
        raise GraphError(
            "split public needs masks: the nodes have no attribute 'train_mask', 'val_mask' or "
            f"'test_mask'; {attribute_names(graph.table)}"
        )
    marks = {part: _mask(graph, name) for part, name in columns.items()}
    faults = [
        _overlap(graph, (columns[a], marks[a]), (columns[b], marks[b]))
        for a, b in combinations(marks, 2)
        if bool((marks[a] & marks[b]).any())
    ]
    if faults:
        raise GraphError(f"a node must be in one part; {'; '.join(faults)}")
    return _complete(marks, columns, y, seed, fraction, by_class, "public")


def _overlap(graph: AttributedGraph, one: tuple[str, Tensor], other: tuple[str, Tensor]) -> str:
    """Return the sentence that two parts have common nodes, with an example."""
    both = (one[1] & other[1]).nonzero().flatten()
    nodes = f"{len(both):,} node{'s' * (len(both) > 1)}"
    return f"{one[0]} and {other[0]} share {nodes}, for example {graph.node(int(both[0]))}"


def _complete(
    marks: Mapping[str, Tensor],
    titles: Mapping[str, str],
    y: Tensor,
    seed: int,
    fraction: float,
    by_class: bool,
    protocol: str,
) -> tuple[Split, list[str]]:
    """Create a split from masks [n] bool, and draw missing parts as in :func:`masked_split`. Raises
    GraphError if a part of the training or validation would be empty or have no label. ``marks``
    are the masks of the parts and ``titles`` their names in messages. Returns the split and notes.
    """
    labelled, notes = y.isfinite(), []
    for part, mask in marks.items():
        total, without = int(mask.sum()), int((mask & ~labelled).sum())
        if part != "test" and total and without == total:
            raise GraphError(f"{titles[part]} marks {total:,} nodes, but none of them has a label")
        if without:
            notes.append(
                f"{without:,} of the {total:,} nodes of {titles[part]} have no label: they "
                "are left out of this part."
            )
    rest = labelled & ~torch.stack([*marks.values()]).any(0)
    if "train" not in marks:
        train, source = rest, "the labelled nodes in no mask"
        if not rest.any():
            raise GraphError(
                f"there is no train_mask, and {' and '.join(titles.values())} contain every "
                "labelled node: no node is left for training"
            )
        notes.append(
            f"There is no train_mask: the {int(rest.sum()):,} labelled nodes in no mask are "
            "used for training."
        )
    else:
        train, source = marks["train"], titles["train"]
        if not train.any():
            raise GraphError(f"{titles['train']} contains no node: no node is left for training")
    test = _marked(marks, "test")
    if test is None:
        test = rest if "train" in marks else torch.zeros_like(labelled)
        if test.any():
            notes.append(
                f"{_absent(titles, 'test')}: the {int(test.sum()):,} labelled nodes in no "
                "mask are the test part."
            )
    val = _marked(marks, "val")
    if val is not None:
        train, val, test = (part.nonzero().flatten() for part in (train, val, test))
        return Split(train, val, test, protocol), notes
    train = train & labelled
    some = torch.where(train, y, torch.nan)
    drawn = random_node_split(some, seed, (1 - fraction, fraction, 0.0), by_class=by_class)
    if not len(drawn.val):
        raise GraphError(
            f"{_absent(titles, 'val')}, and the {int(train.sum()):,} labelled nodes of "
            f"{source} are too few to draw a validation part from: add a validation mask"
        )
    notes.append(
        f"{_absent(titles, 'val')}: the validation part is drawn from {source}, "
        f"{len(drawn.val):,} of {int(train.sum()):,} nodes (seed {seed})."
    )
    protocol = f"{protocol}, validation drawn from the training part (seed {seed})"
    rows = test.nonzero().flatten()
    return replace(drawn, test=rows, protocol=protocol), notes


def _marked(marks: Mapping[str, Tensor], part: str) -> Tensor | None:
    """Return the mask [n] of a part; None if the part has no mask or the mask selects no node."""
    mask = marks.get(part)
    return None if mask is None or not mask.any() else mask


def _absent(titles: Mapping[str, str], part: str) -> str:
    return f"{titles[part]} contains no node" if part in titles else f"There is no {PARTS[part][0]}"


TRUTH = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def _mask(graph: AttributedGraph, name: str) -> Tensor:
    """Convert an attribute that contains true and false to a mask [n] bool. Raises GraphError for
    another value; a missing value is false.
    """
    words = [text.strip().lower() for text in as_texts(graph.column(name), gaps=True)]
    for row, word in enumerate(words):
        if word and word not in TRUTH:
            raise GraphError(
                f"{name} must contain true and false; it contains {word!r} {graph.where(row)}"
            )
    return torch.tensor([TRUTH.get(word, False) for word in words], dtype=torch.bool)


def column_split(
    graph: AttributedGraph,
    column: str,
    y: Tensor,
    seed: int,
    *,
    by_class: bool,
) -> tuple[Split, list[str]]:
    """Split the nodes by a column that contains train, val, test or an empty cell in each row.

    A node with an empty cell is in no part.

    Args:
        graph: the graph.
        column: name of the column.
        y: [n] labels, NaN for nodes without a label.
        seed: seed with which a validation part is drawn.
        by_class: True to draw from each class separately.

    Returns:
        The split, and sentences about the decisions that were made.

    Raises:
        GraphError: the column does not exist or contains another word, or a part has no labelled
            node.
    """
    names = [text.strip().lower() for text in as_texts(graph.column(column), gaps=True)]
    for row, name in enumerate(names):
        if name and name not in NAMES:
            raise GraphError(
                f"column {column!r}: the part of a node must be train, val or test, or empty; "
                f"{graph.node(row)} has {name!r}"
            )
    parts = [NAMES.get(name) for name in names]
    marks = {part: torch.tensor([one == part for one in parts]) for part in PARTS}
    titles = {part: f"part {part!r} of column {column!r}" for part in PARTS}
    return _complete(marks, titles, y, seed, VALIDATION, by_class, f"column:{column}")


def per_class_split(y: Tensor, seed: int) -> Split:
    """Split the nodes randomly: 20 nodes of each class for training, 30 for validation, and the
    rest for testing.

    From a class of fewer than 50 nodes, two fifths are drawn for training; from a class of fewer
    than 100 nodes, three tenths are drawn for validation.

    Args:
        y: [n] numbers of classes from 0, NaN for nodes without a label; at least one label.
        seed: seed of the draw.

    Returns:
        The split, with ascending indices of nodes in each part.

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


def random_node_split(
    y: Tensor, seed: int, fractions: tuple[float, float, float], *, by_class: bool
) -> Split:
    """Split the labelled nodes at random.

    Args:
        y: [n] labels, NaN for nodes without a label; at least one label with ``by_class``.
        seed: seed of the draw.
        fractions: shares of the training, validation and test part, which add up to 1.
        by_class: True to draw these shares from each class separately.

    Returns:
        The split.

    Raises:
        ValueError: ``by_class`` is False and the fractions do not add up to 1.
    """
    ratio = ":".join(f"{10 * share:g}" for share in fractions)
    if not by_class:
        rows = y.isfinite().nonzero().flatten()
        split = random_split(len(rows), seed=seed, fractions=fractions)
        train, val, test = (rows[part] for part in (split.train, split.val, split.test))
        return replace(split, train=train, val=val, test=test)
    parts = []
    for members in _shuffled_classes(y, seed):
        first = max(1, round(fractions[0] * len(members)))
        second = round((fractions[0] + fractions[1]) * len(members))
        parts.append(members.tensor_split([first, max(first, second)]))
    split = _joined(parts, f"random {ratio} of every class (seed {seed})")
    return replace(split, drawn_validation=True)


def has_drawn_validation(split: Split) -> bool:
    """Return True if the validation part was drawn from the training nodes.

    It is False if the data define the part, and for the parts of 20 nodes a class, with which
    published models are compared.

    >>> has_drawn_validation(random_node_split(torch.rand(9), 0, (0.8, 0.2, 0.0), by_class=False))
    True
    """
    return split.drawn_validation and len(split.val) > 0


def missing_classes(y: Tensor, split: Split, classes: Sequence[object]) -> list[str]:
    """Return notes on classes that have no node in one of the parts of a split.

    Args:
        y: [n] numbers of classes from 0, NaN for nodes without a label.
        split: the training, validation and test part.
        classes: the name of each class.

    Returns:
        A sentence for each part that has labelled nodes, but no node of one or more classes.

    Raises:
        GraphError: the data have several classes, but all labelled nodes of the training part are
            of one class.

    >>> y, (train, val) = torch.tensor([0.0, 0, 1, 1, 2]), torch.arange(5).split([4, 1])
    >>> split = Split(train, val, torch.tensor([], dtype=torch.int64), "public")
    >>> missing_classes(y, split, ["a", "b", "c"])[0].split(".")[0]
    "The training part has no node of the classes 'c' (1)"
    """
    total = _class_counts(y, len(classes))
    present = total > 0
    notes = []
    for part, title in TITLES.items():
        counts = _class_counts(y[getattr(split, part)], len(classes))
        if not (labelled := int(counts.sum())):
            continue
        if part == "train" and int((counts > 0).sum()) == 1 and int(present.sum()) > 1:
            raise GraphError(
                f"the training part must have at least two classes; its {labelled:,} labelled "
                f"nodes are of class {classes[int(counts.argmax())]!r} only, and the data have "
                f"the classes {_named_classes(classes, total, present)} (split: {split.protocol})"
            )
        missing = present & (counts == 0)
        if missing.any():
            named = _named_classes(classes, total, missing)
            notes.append(
                f"The {title} part has no node of the classes {named}. The number in brackets is "
                "the number of labelled nodes of the class in the data."
            )
    return notes


def check_numbers(y: Tensor, split: Split) -> None:
    """Raise an error if all labels in the training part are the same number.

    Args:
        y: [n] numbers, NaN for nodes without a label.
        split: the training, validation and test part.

    Raises:
        GraphError: the labelled nodes of the training part all have the same number.
    """
    labels = y[split.train][y[split.train].isfinite()]
    if len(labels) and bool((labels == labels[0]).all()):
        raise GraphError(
            f"the training part must have at least two different labels; its {len(labels):,} "
            f"labelled node{'s' * (len(labels) > 1)} all have {labels[0]:g} (split: "
            f"{split.protocol})"
        )


def _class_counts(y: Tensor, classes: int) -> Tensor:
    """Count the labelled nodes of each class: [c] int64."""
    return torch.bincount(y[y.isfinite()].long(), minlength=classes)


def _named_classes(classes: Sequence[object], counts: Tensor, which: Tensor) -> str:
    """Return the names of the classes in the mask ``which`` [c] and their numbers of labelled
    nodes, ``counts`` [c], as text for a message, which has at most ten classes.
    """
    places = which.nonzero().flatten().tolist()
    shown = [f"{classes[i]!r} ({int(counts[i]):,})" for i in places[:SHOWN]]
    return ", ".join([*shown, "..."] if len(places) > SHOWN else shown)


def _shuffled_classes(y: Tensor, seed: int) -> list[Tensor]:
    """Return the indices of the nodes of each class that occurs in the labels y [n], the lowest
    class first, in a random order that depends on ``seed``. Nodes without a label (NaN) are left
    out.
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = []
    for label in y[y.isfinite()].unique():
        members = (y == label).nonzero().flatten()
        shuffled.append(members[torch.randperm(len(members), generator=generator)])
    return shuffled


def _joined(parts: list[tuple[Tensor, ...]], protocol: str) -> Split:
    train, val, test = (torch.cat(part).sort().values for part in zip(*parts))
    return Split(train, val, test, protocol)
