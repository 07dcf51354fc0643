"""Recognition of adjacency matrices in tables and text files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LEAST = 3
"""Minimum size of a matrix without names; two lines with two numbers are two edges."""
LARGE = 5
"""Size of a square of numbers without names that is not taken for rows of edges."""
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?", re.IGNORECASE)


def matrix_edges(rows: Sequence[Sequence[Any]]) -> tuple[pd.DataFrame, NDArray[np.intp]] | None:
    """Return the weighted edges of an adjacency matrix; None if the rows are not such a matrix.

    The value in row i and column j is the weight of an edge from i to j, and 0 or an empty cell is
    no edge. The first row and the first column contain the same names. If the first column has no
    names, a square of numbers is a matrix if its diagonal is 0. Without names in the first row, the
    nodes are numbered from 0, and a large square is a matrix with any diagonal.

    Args:
        rows: cells of the file; the first row is the header.

    Returns:
        A table of the columns source, target and weight, and the index in ``rows`` of each edge.

    >>> matrix_edges([["", "a", "b"], ["a", "0", "1,5"], ["b", "0", "0"]])[0].values.tolist()
    [['a', 'b', 1.5]]
    >>> matrix_edges([["source", "target"], ["a", "b"]])
    """
    header, names = rows[0], [row[0] for row in rows[1:]]
    size = len(names)
    # A symmetric matrix without names repeats its first row in its first column, too.
    has_corner = len(header) > size and NUMBER.fullmatch(str(header[0]))
    is_named = not has_corner and list(map(str, header[-size:])) == list(map(str, names))
    if size > 1 and is_named:
        cells = [row[1:] for row in rows[1:]]
    elif len(header) == size:
        names, cells = header, rows[1:]
    else:
        names, cells = list(map(str, range(len(rows)))), rows
    first = len(rows) - len(cells)
    if len(cells) < LEAST - is_named or any(len(row) != len(cells) for row in cells):
        return None
    try:
        values = np.array([[_number(cell) for cell in row] for row in cells])
    except ValueError:
        return None
    # Rows of edges may be a square of numbers, too, but not with zeros on the diagonal.
    if not is_named and values.diagonal().any() and (first or len(cells) < LARGE):
        return None
    sources, targets = values.nonzero()
    table = pd.DataFrame(
        {
            "source": [names[place] for place in sources.tolist()],
            "target": [names[place] for place in targets.tolist()],
            "weight": values[sources, targets],
        }
    )
    return table, sources + first


def matrix_note(edges: int) -> str:
    """Return a note on a file that is read as a matrix."""
    return (
        f"It is read as an adjacency matrix with {edges:,} edges from rows to columns; the column "
        "'weight' of the edges contains the values."
    )


def _number(cell: Any) -> float:
    """Return the number in a cell; 0 if the cell is empty."""
    return float(str(cell).replace(",", ".")) if cell is not None and cell != "" else 0.0
