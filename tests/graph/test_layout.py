"""Compare layouts with a sort in Python, for every builder and index type."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gattn.graph.graph
import gattn.graphs
from gattn import Graph
from gattn.layout import layout as reference
from gattn.layout.layout import without_stats
from tests.graph.checks import (
    BUILDERS,
    CASES,
    assert_same_graph,
    assert_same_layout,
    brute_layout,
    builder,
)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@CASES
def test_layout_of_unusual_graphs_equals_a_sort_in_plain_python(name, dtype, case):
    source, destination = case.edge_index.to(dtype)
    layout = builder(name)(source, destination, *case.size)
    expected = brute_layout(source.tolist(), destination.tolist(), *case.size)
    assert_same_layout(layout, expected)


@pytest.mark.parametrize("name", BUILDERS)
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_layout_of_random_graphs_equals_a_sort_in_plain_python(name, data):
    build = builder(name)
    num_src, num_dst = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    ends = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    edges = data.draw(st.lists(ends, max_size=40))
    # The transpose makes rows that are not contiguous.
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()
    layout = build(pairs[0], pairs[1], num_src, num_dst)
    source, destination = [j for j, _ in edges], [i for _, i in edges]
    assert_same_layout(layout, brute_layout(source, destination, num_src, num_dst))


@CASES
def test_graph_returns_edges_in_the_callers_order(case):
    graph = case.graph()
    assert torch.equal(graph.edge_index, case.edge_index)
    assert graph.num_edges == case.edge_index.shape[1]
    source, destination = case.edge_index
    assert torch.equal(graph.in_degree(), torch.bincount(destination, minlength=case.size[1]))
    assert torch.equal(graph.out_degree(), torch.bincount(source, minlength=case.size[0]))


@CASES
def test_transpose_exchanges_sources_and_destinations(case):
    graph = case.graph()
    turned = graph.transpose()
    assert turned.size == graph.size[::-1]
    assert torch.equal(turned.edge_index, case.edge_index.flip(0))
    assert_same_graph(turned.transpose(), graph)
    source, destination = case.edge_index
    expected = brute_layout(destination.tolist(), source.tolist(), *case.size[::-1])
    del expected["perm"], expected["csr2csc"]  # The order of repeated edges is not specified.
    assert_same_layout(turned.layout, expected)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((10, 10, 10), torch.int32), ((2**31 - 2**16 - 1, 1, 1), torch.int32),
     ((2**31 - 2**16, 1, 1), torch.int64), ((1, 2**31, 1), torch.int64),
     ((1, 1, 2**40), torch.int64)],
)  # fmt: skip
def test_layout_indices_have_32_bits_if_all_sizes_permit(sizes, dtype):
    assert reference.index_dtype(*sizes) == dtype


@CASES
def test_incidence_graph_has_one_source_for_each_edge(case):
    graph = case.graph()
    actual = graph.incidence()
    assert graph.incidence() is actual
    number = torch.arange(graph.num_edges)
    expected = Graph(torch.stack([number, graph.edge_index[1]]), (graph.num_edges, graph.num_dst))
    assert actual.size == expected.size
    assert torch.equal(actual.edge_index, expected.edge_index)
    assert torch.equal(actual.transpose().transpose().edge_index, expected.edge_index)
    assert torch.equal(actual.in_degree(), expected.in_degree())


@CASES
def test_by_destination_sorts_the_edges_once(case):
    """Sorting keeps the edges and changes only their order; sorting again changes nothing."""
    graph = case.graph()
    actual = graph.by_destination()
    assert graph.by_destination() is actual
    assert_same_graph(actual, Graph(case.edge_index[:, graph.layout.perm.long()], case.size))
    assert torch.equal(actual.layout.perm.long(), torch.arange(graph.num_edges))
    assert actual.by_destination() is actual


def test_sorted_moved_and_copied_parts_of_a_graph_keep_their_edge_offset():
    layout = Graph(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2).layout
    part = Graph.from_layout(layout, edge_offset=5)
    for other in (part.by_destination(), part.to("meta"), copy.copy(part), copy.deepcopy(part)):
        assert other.edge_offset == 5


def test_attention_is_equal_for_layouts_of_32_and_64_bits():
    """If positions have 64 bits, all tensors of the layout have the same dtype."""
    layout = Graph(torch.tensor([[0, 1, 2, 2], [1, 1, 0, 1]]), 3).layout
    wide = Graph.from_layout(without_stats(*(t.long() for t in layout[:6])))
    x = torch.randn(3, 2, 4)
    got = gattn.functional.dot_product_attention(x, x, x, wide, backend="reference")
    expected = gattn.functional.dot_product_attention(
        x, x, x, Graph.from_layout(layout), backend="reference"
    )
    assert torch.equal(got, expected)
    assert wide.transpose().layout.csr2csc.dtype == torch.int64
