"""Splits of the labelled nodes into training, validation and test parts for a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.sources import CITATION
from gattn.apps.nodes.splits import (
    column_split,
    mask_columns,
    masked_split,
    per_class_split,
    random_node_split,
)
from gattn.apps.nodes.times import node_times, time_split
from gattn.apps.run.measure import PARTS
from gattn.apps.run.run_folder import file_hash
from gattn.data import Split, get_dataset

SHARES = (0.6, 0.2, 0.2)
DRAWN = ("random", "random-per-class")
"""Rules whose parts depend on the seed, so that each trial can have a different split."""


def make_split(
    settings: NodeRunSettings, graph: AttributedGraph, y: Tensor, number: int, *, is_class: bool
) -> tuple[Split, list[str]]:
    """Split the labelled nodes according to the settings.

    Args:
        settings: settings of the run.
        graph: the graph.
        y: [n] labels, NaN for nodes without a label.
        number: number of the draw, from 0; it is added to the seed of random parts.
        is_class: True if the labels are classes.

    Returns:
        The split, and notes on the choice of the parts.

    Raises:
        GraphError: the graph has no such parts, the split needs classes and the labels are numbers,
            or a part has no labelled node.
    """
    kind, seed = split_kind(settings, graph), settings.model.seed + number
    notes = []
    if kind == "public":
        split, notes = masked_split(graph, y, seed, by_class=is_class)
    elif kind == "time":
        split, notes = time_split(y, node_times(graph, settings.time), SHARES, settings.time)
    elif kind == "random":
        split = random_node_split(y, seed, SHARES, by_class=is_class)
    elif kind == "random-per-class":
        if not is_class:
            raise GraphError("split random-per-class needs classes; the labels are numbers")
        split = per_class_split(y, seed)
    else:
        column = settings.split_rule.column
        assert column is not None
        split, notes = column_split(graph, column, y, seed, by_class=is_class)
    masks = list(mask_columns(graph).values())
    if masks and kind != "public":
        notes.append(f"Split {kind} does not read {', '.join(masks)}.")
    for part in PARTS:
        if not y[getattr(split, part)].isfinite().any():
            columns = "" if kind != "public" else f"; the nodes have {', '.join(masks)}"
            count = int(y.isfinite().sum())
            raise GraphError(
                f"split {kind} puts none of the {count:,} labelled nodes into the {part} "
                f"part{columns}: label more nodes, or choose another --split"
            )
    return split, notes


def splits_record(
    settings: NodeRunSettings, graph: AttributedGraph, splits: Sequence[Split]
) -> dict[str, Any]:
    """Return the content of ``splits.json``: a description of the data, and the node indices of
    each part. Raises FileNotFoundError if a file of the graph is missing.
    """
    parts = [
        {
            "protocol": split.protocol,
            **{part: getattr(split, part).tolist() for part in PARTS},
        }
        for split in splits
    ]
    return {
        "data": settings.title,
        "sha256": data_hash(settings.data, *settings.tables),
        "nodes": len(graph),
        "splits": parts,
    }


def data_hash(data: str, *tables: str) -> str:
    """Return the SHA-256 of the data of a run, which are its files or a data set.

    Args:
        data: the graph, a file or the name of a data set; empty if all edges are in ``tables``.
        *tables: the files of tables of nodes and edges; an empty text stands for no file.

    Raises:
        FileNotFoundError: a file is missing.
    """
    if data.lower() in CITATION:
        hashes = "".join(file.sha256 for file in get_dataset(data).files)
        return hashlib.sha256(hashes.encode()).hexdigest()
    return file_hash(*(Path(path) for path in (data, *tables) if path))


def split_kind(settings: NodeRunSettings, graph: AttributedGraph) -> str:
    """Return the kind of split of a run; "auto" is by time with a column of times, by the masks of
    the graph if it has some, and otherwise random.
    """
    if settings.split != "auto":
        return settings.split
    if settings.time:
        return "time"
    return "public" if mask_columns(graph) else "random"
