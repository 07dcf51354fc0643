"""Sizes and checks that the tests of graph builders share."""

import itertools

import torch

from gattn.layout import layout as reference

SIZES = [[], [0], [1], [4], [3, 5], [0, 2, 0, 4, 1, 0], [1, 1, 1]]


def pairs(graph):
    """Return the edges as a list of (source, destination), in the caller's order."""
    return [tuple(pair) for pair in graph.edge_index.t().tolist()]


def members(sizes):
    """Return the range of nodes of each member of a batch."""
    ends = list(itertools.accumulate(sizes))
    return [range(end - size, end) for size, end in zip(sizes, ends)]


def assert_consistent(graph):
    """Check that the layout of a graph equals the layout that sorts its edges."""
    source, destination = graph.edge_index
    expected = reference.build(source, destination, graph.num_src, graph.num_dst)
    for name, got, target in zip(expected._fields[:6], graph.layout, expected):
        assert got.dtype == target.dtype, name
        assert torch.equal(got, target), name
    assert graph.num_edges == source.numel()
