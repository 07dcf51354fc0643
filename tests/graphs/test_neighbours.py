"""Compare grids, k nearest neighbours and radius graphs with loops over all pairs."""

import itertools

import numpy as np
import pytest
import torch

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


def brute_neighbours(position, index, self_loops):
    """Return for each point the other points of its cloud, sorted by distance."""
    distance = torch.cdist(position.double(), position.double())
    for i in range(len(position)):
        near = [
            (float(distance[i, j]), j)
            for j in range(len(position))
            if index[j] == index[i] and (self_loops or j != i)
        ]
        yield i, sorted(near)


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("clouds", [None, [0] * 9 + [2] * 3 + [1] * 8, [0, 1, 2, 0] * 5])
def test_knn_and_radius_equal_a_search_over_all_pairs(clouds, self_loops):
    position = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    index = None if clouds is None else torch.tensor(clouds)
    expected_knn, expected_radius = [], []
    for i, near in brute_neighbours(position, clouds or [0] * 20, self_loops):
        expected_knn += [(j, i) for _, j in near[:4]]
        expected_radius += [(j, i) for distance, j in near if distance <= 0.5]
    knn = graphs.knn(position, 4, index=index, self_loops=self_loops)
    assert sorted(pairs(knn)) == sorted(expected_knn)
    radius = graphs.radius(position, 0.5, index=index, self_loops=self_loops)
    assert sorted(pairs(radius)) == sorted(expected_radius)
    if clouds is None:
        assert pairs(knn) == expected_knn
        assert pairs(radius) == sorted(expected_radius, key=lambda pair: pair[::-1])


@pytest.mark.parametrize("points", [0, 1, 2])
def test_knn_and_radius_connect_all_points_if_points_are_few(points):
    position = torch.arange(points, dtype=torch.float32)[:, None]
    both = [(1, 0), (0, 1)] if points == 2 else []
    assert pairs(graphs.knn(position, 5)) == both
    assert pairs(graphs.radius(position, 1.0)) == both
    assert graphs.knn(position, 5).num_dst == points


def test_invalid_k_radius_position_or_index_raises_error():
    position = torch.rand(4, 2)
    with pytest.raises(ValueError, match="k must be >= 1"):
        graphs.knn(position, 0)
    with pytest.raises(ValueError, match="r must be >= 0; got nan"):
        graphs.radius(position, float("nan"))
    with pytest.raises(ValueError, match=r"shape \(n, d\)"):
        graphs.knn(position[0], 1)
    with pytest.raises(ValueError, match=r"index must have shape \(4,\)"):
        graphs.knn(position, 1, index=torch.zeros(3))
    position[1, 1] = float("nan")
    with pytest.raises(ValueError, match="must be finite"):
        graphs.radius(position, 1.0)
