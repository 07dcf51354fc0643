"""Layouts on devices without the C++ kernels, and the statistics of layouts."""

import re

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gattn.graph.graph
import gattn.graphs
from gattn import Graph
from gattn.kernels import cpu
from gattn.layout import stats
from gattn.layout.layout import without_stats
from gattn.nn import GATConv
from tests.graph.checks import CASES, assert_same_graph


class Waits(TorchDispatchMode):
    """Count the numbers that the host reads from tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.fixture
def elsewhere(monkeypatch):
    """Compute a layout as on a device that the C++ kernels do not support."""
    monkeypatch.setattr(cpu, "serves", lambda device: False)


@CASES
def test_layout_on_device_equals_layout_on_cpu(case, monkeypatch):
    expected = Graph(case.edge_index, case.size)
    monkeypatch.setattr(cpu, "serves", lambda device: False)
    actual = Graph(case.edge_index, case.size)
    assert_same_graph(actual, expected)
    looped = actual.with_self_loops()
    assert torch.equal(looped.edge_index, expected.with_self_loops().edge_index)
    for graph in (actual, looped, actual.transpose(), looped.transpose()):
        layout = graph.layout
        for transposed, offsets in ((False, layout.rowptr), (True, layout.colptr)):
            assert stats.max_degree(layout, transposed) >= int(stats.max_row_size(offsets))
            assert stats.max_row_size(offsets) == max([*offsets.diff().tolist(), 0])


def test_graph_with_self_loops_on_a_device_needs_one_synchronisation(elsewhere):
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    with Waits() as waits:
        graph = Graph(edges, 3)
    # The constructor reads all statistics together as a list, not one by one.
    assert waits.count == 0
    assert graph.layout.stats[:2].tolist() == [2, 2]
    with Waits() as waits:
        graph.with_self_loops()
    assert waits.count == 1  # the device is read once, to find out whether the graph has self-loops


def degrees(graph):
    """Return the largest in-degree and out-degree that the statistics contain, or None."""
    return [stats.max_degree(graph.layout), stats.max_degree(graph.layout, transposed=True)]


def test_largest_degrees_are_stored_on_the_cpu_after_a_move():
    graph = Graph(torch.tensor([[0, 1, 2, 2], [1, 1, 1, 0]]), 3)
    moved = graph.to("meta")  # tensors on the device "meta" have no values to read
    assert degrees(moved) == [3, 2]
    assert degrees(moved.transpose()) == [2, 3]
    more = stats.inherit_stats(moved.layout, without_stats(*moved.layout[:6]), extra_edges=1)
    assert degrees(Graph.from_layout(more)) == [4, 3]
    unknown = Graph.from_layout(without_stats(*moved.layout[:6]))
    assert degrees(unknown) == degrees(unknown.transpose()) == [None, None]


@CASES
def test_stored_largest_degrees_are_upper_bounds_of_all_degrees(case):
    graph = case.graph()
    others = [graph.with_self_loops(), graph.transpose(), graph.incidence(), Graph(graph)]
    back = graph.to("meta").to("meta")
    for other_graph in (graph, *others, graph.with_self_loops().transpose(), back):
        if other_graph.device.type == "cpu":
            bounds = other_graph.in_degree(), other_graph.out_degree()
            pairs = zip(bounds, degrees(other_graph))
            assert all(max([*bound.tolist(), 0]) <= degree for bound, degree in pairs)
    blocks = gattn.graphs.bipartite([2, 0, 1], [3, 9, 4])
    assert blocks.layout.stats[:2].tolist() == [4, 2]
    assert gattn.graphs.complete([0, 0]).layout.stats[:2].tolist() == [0, 0]


def test_copy_of_layout_statistics_is_invalid():
    """A copy of the statistics must not be used, because torch.compile replays a CUDA graph with
    other inputs than those with which it was recorded.
    """
    graph = gattn.graphs.complete([3, 4])
    layout = graph.layout
    assert stats.max_degree(layout) == 4
    copy = layout._replace(stats=layout.stats.clone())
    assert stats.get_stat(copy.stats, stats.MAX_IN_DEGREE) is None
    # The statistics of a copy are invalid, so set_stat writes nothing.
    stats.set_stat(copy.stats, stats.MAX_IN_DEGREE, 0)
    assert torch.equal(copy.stats, layout.stats)
    assert stats.are_valid(Graph.from_layout(copy).layout.stats)
    assert stats.get_stat(without_stats(*layout[:6]).stats, stats.MAX_IN_DEGREE) is None
    # The statistics were not modified in place, because backward must read the same values as
    # forward.
    assert graph.layout.stats._version == 0


def test_operator_of_compiled_code_returns_copies_without_statistics():
    edges = torch.tensor([[0, 1, 2, 2], [1, 1, 1, 0]])
    first, second = (torch.ops.gattn.build_layout(edges, 3, 3, 0) for _ in range(2))
    graph = Graph(edges, 3).with_self_loops()
    for left, right, expected in zip(first[:6], second, graph.layout, strict=False):
        assert torch.equal(left, expected)
        assert left.data_ptr() != right.data_ptr()
    assert first[6].numel() == 0
    assert first[7].tolist() == [0, 2, 3]


@pytest.mark.parametrize("first", [0, 3])
def test_compiled_self_loops_of_sources_from_an_offset_equal_those_of_eager_code(first):
    def ends(edges):
        return Graph(edges, (6, 3)).with_self_loops(first).edge_index

    edges = torch.tensor([[0, 3, 5, 1], [0, 0, 1, 2]])
    compiled = torch.compile(ends, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(edges), ends(edges))


def test_compiled_code_sorts_edges_again_only_after_a_change(sorts):
    edges, x = torch.tensor([[0, 1, 2, 2], [1, 1, 1, 0]]), torch.randn(3, 4)
    layer = GATConv(4, 4)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        compiled(x, edges)
    assert len(sorts) == 2  # without and with self-loops
    edges[0, 0] = 2
    out = compiled(x, edges)
    assert len(sorts) == 4
    torch.testing.assert_close(out, layer(x, edges))


@pytest.mark.parametrize(("edges", "message"), [
    ([[0, 3], [1, 1]], "source indices must be in [0, 3); got 3 at edge 1"),
    ([[-1, 3], [1, 1]], "source indices must be in [0, 3); got -1 at edge 0"),
    ([[0, 1], [1, 2]], "destination indices must be in [0, 2); got 2 at edge 1"),
    ([[0, 1], [1, -(2**33)]], "destination indices must be in [0, 2); got -8589934592 at edge 1"),
])  # fmt: skip
def test_edge_indices_out_of_range_on_a_device_raise_error(edges, message, elsewhere):
    with pytest.raises(ValueError, match=re.escape(message)):
        Graph(torch.tensor(edges), (3, 2))
