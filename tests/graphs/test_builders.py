"""Compare graph builders with their definitions, written as loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gattn
from gattn import graphs
from gattn.nn import token_offsets
from gattn.structure import path_lengths
from tests.graphs.checks import SIZES, assert_consistent, members, pairs


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("width", [0, 1, 2, 10])
@pytest.mark.parametrize("sizes", SIZES)
def test_band_connects_nodes_within_its_width(sizes, width, one_sided):
    graph = graphs.band(sizes, width, one_sided=one_sided)
    assert pairs(graph) == [
        (j, i)
        for nodes in members(sizes)
        for i in nodes
        for j in nodes
        if i - width <= j <= (i if one_sided else i + width)
    ]
    assert_consistent(graph)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_bipartite_connects_each_key_with_each_query(sizes):
    query_sizes, key_sizes = [q for q, _ in sizes], [k for _, k in sizes]
    graph = graphs.bipartite(query_sizes, key_sizes)
    expected = [
        (j, i)
        for queries, keys in zip(members(query_sizes), members(key_sizes))
        for i in queries
        for j in keys
    ]
    assert pairs(graph) == expected
    assert graph.size == (sum(key_sizes), sum(query_sizes))
    assert_consistent(graph)


@pytest.mark.parametrize("build", [graphs.complete, graphs.causal, lambda s: graphs.band(s, 1)])
def test_sizes_other_than_lists_of_non_negative_ints_raise_error(build):
    for sizes in (3, torch.tensor([3]), [1.0], ["a"], None, [[1, 2]]):
        with pytest.raises(TypeError, match="sizes must be a list of ints"):
            build(sizes)
    with pytest.raises(ValueError, match="must be >= 0; got -1"):
        build([3, -1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("index", [[], [0], [0, 0, 1, 1, 1, 3], [2, 0, 2, 1, 0]])
@pytest.mark.parametrize("k", [1, 3])
def test_pooling_graph_connects_nodes_with_their_queries(index, k, dtype):
    graph = graphs.pooling_graph(torch.tensor(index, dtype=dtype), k, 5)
    assert pairs(graph) == [(j, g * k + q) for j, g in enumerate(index) for q in range(k)]
    assert graph.size == (len(index), 5 * k)
    assert_consistent(graph)
    assert (
        graphs.pooling_graph(torch.tensor(index, dtype=dtype)).num_dst == max(index, default=-1) + 1
    )


def test_invalid_index_or_num_queries_of_pooling_graph_raises_error():
    with pytest.raises(ValueError, match="index must be >= 0 and < 2, num_graphs; got 0 to 2"):
        graphs.pooling_graph(torch.tensor([0, 2]), 1, 2)
    with pytest.raises(ValueError, match="index must be >= 0; got -1 to 2"):
        graphs.pooling_graph(torch.tensor([-1, 2]))
    with pytest.raises(ValueError, match=r"shape \(n,\); got \(1, 1\)"):
        graphs.pooling_graph(torch.tensor([[0]]))
    with pytest.raises(ValueError, match="num_queries must be >= 1; got 0"):
        graphs.pooling_graph(torch.tensor([0]), 0)
    for index in (torch.tensor([0.0]), torch.tensor([True]), [0]):
        with pytest.raises(TypeError, match="index must be an int32 or int64 tensor"):
            graphs.pooling_graph(index)


def test_disjoint_union_joins_the_graphs_of_a_pyg_batch():
    from torch_geometric.data import Batch, Data

    parts = [graphs.causal([3]), graphs.band([4], 1)]
    batch = Batch.from_data_list([Data(x=torch.randn(g.num_src, 5), graph=g) for g in parts])
    layer = gattn.nn.GATConv(5, 2)
    with pytest.raises(TypeError, match=r"gattn.graphs.disjoint_union\(batch.graph\)"):
        layer(batch.x, batch.graph)
    joined = graphs.disjoint_union(batch.graph)
    assert pairs(joined) == pairs(parts[0]) + [(j + 3, i + 3) for j, i in pairs(parts[1])]
    assert layer(batch.x, joined).shape == (7, 2)


def test_disjoint_union_shifts_the_nodes_of_each_part():
    parts = [graphs.causal([3]), graphs.bipartite([1], [2]), graphs.complete([])]
    graph = graphs.disjoint_union(parts)
    assert graph.size == (5, 4)
    assert pairs(graph) == [*pairs(parts[0]), (3, 3), (4, 3)]
    assert pairs(graphs.disjoint_union([graphs.causal([2]), graphs.causal([3])])) == pairs(
        graphs.causal([2, 3])
    )
    with pytest.raises(ValueError, match="at least one graph"):
        graphs.disjoint_union([])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_union_contains_the_edges_of_both_graphs_once(data):
    n, m = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    edge = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
    one, other = data.draw(st.lists(edge, max_size=8)), data.draw(st.lists(edge, max_size=8))

    def graph(edges):
        edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()
        return gattn.Graph(edge_index, (m, n))

    union = graph(one) | graph(other)
    assert pairs(union) == one + [pair for pair in other if pair not in one]
    assert union.size == (m, n)
    assert_consistent(union)

    positions = graph(one).union(graph(other))[1]
    both = torch.cat([graph(one).edge_index, graph(other).edge_index], dim=1)
    assert torch.equal(both[:, positions], union.edge_index)


def test_union_with_a_graph_of_another_size_or_a_tensor_raises_error():
    with pytest.raises(TypeError, match=r"other must be a gattn\.Graph; got"):
        graphs.causal([3]).union(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"size must be \(3, 3\)"):
        graphs.causal([3]) | graphs.causal([4])
    with pytest.raises(TypeError, match="unsupported operand"):
        graphs.causal([3]) | torch.zeros(2, 3)


def test_band_graph_of_a_million_tokens_has_symmetric_int32_edges():
    graph = graphs.band([10**6], 2)
    assert graph.num_edges == 5 * 10**6 - 6
    assert graph.layout.col.dtype == torch.int32
    rows = graph.layout.row.view(torch.int32)
    # The graph is symmetric, so each edge also exists in the other direction.
    assert torch.equal(rows, graph.layout.col)


INDEX = torch.tensor([0, 0, 1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: graphs.complete([True, 2]), TypeError, "sizes must be a list of ints"),
        (lambda: graphs.band([4], 1.5), TypeError, r"width must be an int; got 1\.5"),
        (lambda: graphs.band([4], True), TypeError, "width must be an int; got True"),
        (lambda: graphs.band([4], None), TypeError, "width must be an int; got None"),
        (lambda: graphs.grid((3,), []), ValueError, "at least one offset; got none"),
        (lambda: graphs.grid_offsets((3,), []), ValueError, "at least one offset; got none"),
        (lambda: graphs.grid((3,), [(0.5,)]), TypeError, "such as window_offsets"),
        (lambda: graphs.grid((3,), 1.0), TypeError, "such as window_offsets"),
        (lambda: graphs.grid((3,), True), TypeError, "each of radii must be an int; got True"),
        (lambda: graphs.grid((3.0,), 1), TypeError, "each of shape must be an int"),
        (lambda: graphs.grid(3, 1), TypeError, "shape must contain an int per axis; got 3"),
        (lambda: graphs.grid((3,), 1, batch=1.5), TypeError, "batch must be an int"),
        (lambda: graphs.grid((3,), 1, batch=-1), ValueError, "batch must be >= 0; got -1"),
        (lambda: graphs.window_offsets(1), TypeError, "radii must contain an int per axis"),
        (lambda: graphs.pooling_graph(INDEX, 1.5), TypeError, "num_queries must be an int"),
        (lambda: graphs.pooling_graph(INDEX[:0], 1, -1), ValueError, "num_graphs must be >= 0"),
        (lambda: graphs.pooling_graph(INDEX, 1, 2.5), TypeError, "num_graphs must be an int"),
        (lambda: graphs.disjoint_union([INDEX]), TypeError, "each of graphs must be a gattn.Graph"),
        (lambda: graphs.disjoint_union(graphs.causal([2])), TypeError, "must be a list of gattn"),
        (lambda: path_lengths(INDEX, INDEX, 1), TypeError, "over must be a gattn.Graph"),
        (lambda: path_lengths(INDEX, graphs.causal([2]), 0.5), TypeError, "max_length must be"),
        (lambda: token_offsets(graphs.causal([2]), -1), ValueError, "max_offset must be >= 0"),
    ],
)  # fmt: skip
def test_invalid_arguments_of_graph_builders_raise_error(call, error, message):
    with pytest.raises(error, match=message):
        call()
