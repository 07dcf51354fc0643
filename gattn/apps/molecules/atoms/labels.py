"""Labels of the atoms or bonds of graphs, which are read from lists in the order of the SMILES."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.atoms.entries import find_entries, place_values
from gattn.data.molecules.arrays import MoleculeArrays


class Places(NamedTuple):
    """Level of the labels of a table, and the row of each label.

    Attributes:
        level: ``"atom"`` or ``"bond"``.
        owners: [r] int64, ascending, the row of the table of each label.
    """

    level: str
    owners: np.ndarray


def first_rows(arrays: MoleculeArrays, level: str) -> Tensor:
    """Return the first atom or bond of each of k molecules, and their number: [k + 1] int64."""
    # A bond has two edges in the graph.
    return arrays.ptr if level == "atom" else arrays.edge_ptr // 2


def labels_of_graphs(
    y: Tensor, places: Places, rows: Sequence[int], smiles: Sequence[str],
    arrays: MoleculeArrays, *, add_h: bool,
) -> tuple[Tensor, list[str]]:  # fmt: skip
    """Return the labels of the atoms or bonds of graphs.

    Args:
        y: [r, t] float64, the labels in the order of the lists.
        places: what they belong to.
        rows: the row of each of k graphs in the table.
        smiles: SMILES of the graphs.
        arrays: the graphs.
        add_h: whether hydrogens are nodes of the graph.

    Returns:
        [n, t] float64 for n atoms or bonds of the graphs, with NaN for missing labels; and for each
        graph the reason why its lists cannot be used, or "".
    """
    ptr = first_rows(arrays, places.level)
    labels = torch.full((int(ptr[-1]), y.shape[1]), math.nan, dtype=torch.float64)
    begins, ends = (np.searchsorted(places.owners, rows, side) for side in ("left", "right"))
    problems = [""] * len(rows)
    for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist())):
        if begin == end:
            continue
        entries = find_entries(smiles[i], arrays, i, add_h=add_h)
        try:
            positions, nodes = place_values(end - begin, places.level, entries)
        except ValueError as error:
            problems[i] = str(error)
            continue
        labels[ptr[i] + torch.from_numpy(nodes)] = y[begin + torch.from_numpy(positions)]
    return labels, problems


def list_rows(
    level: str, smiles: Sequence[str], arrays: MoleculeArrays, *, add_h: bool
) -> Iterator[np.ndarray]:
    """Yield for each of k graphs the row of the predictions of each entry of its list, [m] int64;
    -1 for an entry that is not in the graph.
    """
    ptr = first_rows(arrays, level).tolist()
    for i, text in enumerate(smiles):
        entries = find_entries(text, arrays, i, add_h=add_h)
        places = entries.atoms if level == "atom" else entries.bonds
        yield np.where(places >= 0, places + ptr[i], -1)


def join_cells(columns: Sequence[Sequence[str]], rows: Iterator[np.ndarray]) -> list[list[str]]:
    """Combine the cells of atoms or bonds to lists in JSON, one for each molecule and column.

    >>> join_cells([["0.5", "nan"], ["red", "1"]], iter([np.array([0, -1, 1])]))
    [['[0.5, null, null]', '["red", null, 1]']]
    """
    values = [[*map(_value, column), "null"] for column in columns]
    return [
        [f"[{', '.join(column[row] for row in some)}]" for column in values]
        for some in (each.tolist() for each in rows)
    ]


def _value(cell: str) -> str:
    """Return a cell as JSON: a finite number, null for another number, or a text."""
    if cell in ("nan", "inf", "-inf"):
        return "null"
    try:
        return cell if isinstance(json.loads(cell), (int, float)) else json.dumps(cell)
    except ValueError:
        return json.dumps(cell, ensure_ascii=False)
