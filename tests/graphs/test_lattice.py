"""Compare grids with loops over all pairs of cells."""

import itertools

import numpy as np
import pytest

from gattn import graphs
from tests.graphs.checks import assert_consistent, pairs


def brute_grid(shape, offsets, batch):
    cells = list(itertools.product(*map(range, shape)))
    number = {cell: position for position, cell in enumerate(cells)}
    actual, kinds = [], []
    for b in range(batch):
        for cell in cells:
            for kind, offset in enumerate(offsets):
                other = tuple(c + o for c, o in zip(cell, offset))
                if other in number:
                    actual.append((b * len(cells) + number[other], b * len(cells) + number[cell]))
                    kinds.append(kind)
    return actual, kinds


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize(
    ("shape", "radii"),
    [((5,), (1,)), ((4, 3), (1, 1)), ((3, 4), (0, 2)), ((3, 2, 4), (1, 1, 1)), ((0, 3), (1, 1)),
     ((2, 2), (5, 5)), ((2, 2, 2, 2), (1, 0, 1, 0))],
)  # fmt: skip
def test_grid_connects_cells_within_the_window(shape, radii, batch):
    offsets = graphs.window_offsets(radii)
    expected, kinds = brute_grid(shape, offsets, batch)
    graph = graphs.grid(shape, offsets, batch=batch)
    assert pairs(graph) == expected
    assert graph.size == (batch * int(np.prod(shape)),) * 2
    assert graphs.grid_offsets(shape, offsets, batch=batch).tolist() == kinds
    assert_consistent(graph)
    if len(set(radii)) == 1:
        assert pairs(graphs.grid(shape, radii[0], batch=batch)) == expected


@pytest.mark.parametrize(
    ("shape", "neighbourhood", "error"),
    [((), 1, "for at least one"), ((3, -1), 1, ">= 0"), ((3,), -1, "radii must be >= 0"),
     ((3, 3), [(1,)], "must have 2 axes")],
)  # fmt: skip
def test_invalid_shape_radius_or_offsets_of_a_grid_raise_error(shape, neighbourhood, error):
    with pytest.raises(ValueError, match=error):
        graphs.grid(shape, neighbourhood)
