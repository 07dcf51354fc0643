"""Errors of Graph for indices, sizes and types that are not valid."""

import contextlib
import threading

import numpy as np
import pytest
import scipy.sparse
import torch

from gattn import Graph
from tests.graph.checks import builder


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("edges", "size", "error"),
    [
        ([[0, 3], [1, 1]], 3, r"source indices must be in \[0, 3\); got 3 at edge 1"),
        ([[0, 1], [1, 7]], (9, 3), r"destination indices must be in \[0, 3\); got 7 at edge 1"),
        ([[-1, 1], [1, 0]], 3, r"source indices must be in \[0, 3\); got -1 at edge 0"),
        ([[0, 1], [0, -2]], None, r"destination indices must be in \[0, 2\); got -2 at edge 1"),
        ([[-1], [-1]], None, r"source indices must be in \[0, 0\); got -1 at edge 0"),
        ([[0], [0]], 0, r"source indices must be in \[0, 0\); got 0 at edge 0"),
    ],
)
def test_edge_index_out_of_range_raises_error(edges, size, error, dtype):
    with pytest.raises(ValueError, match=error):
        Graph(torch.tensor(edges, dtype=dtype), size)


def test_range_in_the_error_does_not_overflow_for_the_largest_32_bit_index():
    edges = torch.tensor([[2**31 - 1], [-1]], dtype=torch.int32)
    with pytest.raises(ValueError, match=rf"in \[0, {2**31}\); got -1 at edge 0"):
        Graph(edges)


def test_sort_kernels_return_none_if_an_index_is_out_of_range():
    """Kernels check each index when they read it, because another thread may write to the indices
    at any time.
    """
    build = builder("cpu")
    for bad in ([[0, 3], [1, 1]], [[0, 1], [3, 1]], [[-1, 0], [0, 0]], [[0, 2**40], [0, 0]]):
        assert build(*torch.tensor(bad), 3, 3) is None
    assert build(*torch.tensor([[0, 2], [1, 1]]), 3, 3) is not None


def test_edges_written_during_sorting_never_give_an_invalid_layout():
    edges = torch.zeros(2, 20_000, dtype=torch.int64)
    numbers, done = edges.numpy(), threading.Event()

    def write():
        while not done.is_set():
            numbers[1, :] = 10**9
            numbers[1, :] = 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            with contextlib.suppress(ValueError):
                graph = Graph(edges, 3)
                assert graph.in_degree().tolist() == [20_000, 0, 0]
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("first", "last", "num_src", "num_edges"),
    [
        *(([2, 0], [4, 2], 4, 4), ([0, 1], [2, 1], 4, 2), ([0, 2], [1, 5], 4, 4)),
        *(([-1, 0], [1, 2], 4, 4), ([0, 0], [2, 2], 4, 3), ([1], [0], 4, -1), ([0], [1, 2], 4, 3)),
    ],
)
def test_graph_from_invalid_ranges_of_sources_raises_error(first, last, num_src, num_edges):
    with pytest.raises(ValueError, match="first and last must"):
        Graph.from_ranges(torch.tensor(first), torch.tensor(last), num_src, num_edges)


def test_index_beyond_32_bits_raises_error_instead_of_overflow():
    for index in (2**31, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)):
        with pytest.raises(ValueError, match=rf"source indices .*got {index} at edge 1"):
            Graph(torch.tensor([[0, index], [0, 0]]), 3)
        matrix = scipy.sparse.coo_array(([1.0], ([0], [1])), (2, 2))
        matrix.coords = (np.array([0]), np.array([index]))
        with pytest.raises(ValueError, match=rf"got {index} at edge 0"):
            Graph(matrix)


def test_index_of_two_to_the_power_of_62_raises_error():
    with pytest.raises((ValueError, RuntimeError, MemoryError)):
        Graph(torch.tensor([[0], [2**62]]))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.float32, torch.float64,
     torch.complex64],
)  # fmt: skip
def test_edge_index_of_unsupported_dtype_raises_error(dtype):
    with pytest.raises(TypeError, match=f"edge_index must be int32 or int64; got {dtype}"):
        Graph(torch.ones(2, 3).to(dtype), 3)


@pytest.mark.parametrize("shape", [(), (2,), (3, 4), (4, 2), (2, 3, 1), (0,)])
def test_edge_index_of_wrong_shape_raises_error(shape):
    error = r"edge_index must have shape \(2, e\); got \(" + ", ".join(map(str, shape))
    with pytest.raises(ValueError, match=error):
        Graph(torch.zeros(shape, dtype=torch.int64), 5)
