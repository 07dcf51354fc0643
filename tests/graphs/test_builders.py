"""Builders against their definition written as loops."""

import itertools

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_geometric.utils import from_scipy_sparse_matrix

import gattn
from gattn import graphs
from gattn.layout import layout as reference
from gattn.layout import stats
from gattn.nn import token_offsets
from gattn.structure import path_lengths
from gattn.testing import awkward_graphs

SIZES = [[], [0], [1], [4], [3, 5], [0, 2, 0, 4, 1, 0], [1, 1, 1]]


def pairs(graph):
    """The edges as a list of (source, destination), in the caller's order."""
    return [tuple(pair) for pair in graph.edge_index.t().tolist()]


def members(sizes):
    """The nodes of each member of a batch."""
    ends = list(itertools.accumulate(sizes))
    return [range(end - size, end) for size, end in zip(sizes, ends)]


def assert_consistent(graph):
    """The layout is the one that sorting its edges gives."""
    source, destination = graph.edge_index
    expected = reference.build(source, destination, graph.num_src, graph.num_dst)
    for name, got, target in zip(expected._fields[:6], graph.layout, expected):
        assert got.dtype == target.dtype, name
        assert torch.equal(got, target), name
    assert graph.num_edges == source.numel()


@pytest.mark.parametrize("sizes", SIZES)
def test_complete(sizes):
    graph = graphs.complete(sizes)
    assert pairs(graph) == [(j, i) for nodes in members(sizes) for i in nodes for j in nodes]
    assert graph.size == (sum(sizes), sum(sizes))
    assert_consistent(graph)


@pytest.mark.parametrize("sizes", SIZES)
def test_causal(sizes):
    graph = graphs.causal(sizes)
    expected = [(j, i) for nodes in members(sizes) for i in nodes for j in nodes if j <= i]
    assert pairs(graph) == expected
    assert_consistent(graph)


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("width", [0, 1, 2, 10])
@pytest.mark.parametrize("sizes", SIZES)
def test_band(sizes, width, one_sided):
    graph = graphs.band(sizes, width, one_sided=one_sided)
    assert pairs(graph) == [
        (j, i)
        for nodes in members(sizes)
        for i in nodes
        for j in nodes
        if i - width <= j <= (i if one_sided else i + width)
    ]
    assert_consistent(graph)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_bipartite(sizes):
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


@pytest.mark.parametrize("build", [graphs.complete, graphs.causal])
def test_blocks_are_laid_out_when_asked_for(build):
    graph = build([10**7, 10**6])
    assert graph.num_edges > 10**13
    assert "_layout" not in graph.__dict__
    assert "num_edges" in repr(graph)
    small = build([2, 3])
    assert small.layout is small.layout


def test_blocks_survive_pickle_and_copy():
    import copy
    import pickle

    for graph in (graphs.complete([2, 3]), graphs.causal([2, 3])):
        for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), graph.to("cpu")):
            assert again.blocks == graph.blocks
            assert torch.equal(again.edge_index, graph.edge_index)
        assert graph.transpose().blocks is None
        assert torch.equal(graph.transpose().edge_index, graph.edge_index.flip(0))
        assert gattn.Graph(graph).blocks == graph.blocks


@pytest.mark.parametrize("build", [graphs.complete, graphs.causal, lambda s: graphs.band(s, 1)])
def test_sizes_are_checked(build):
    for sizes in (3, torch.tensor([3]), [1.0], ["a"], None, [[1, 2]]):
        with pytest.raises(TypeError, match="sizes must be a list of ints"):
            build(sizes)
    with pytest.raises(ValueError, match="must be >= 0; got -1"):
        build([3, -1])


def test_band_and_bipartite_are_checked():
    with pytest.raises(ValueError, match="width must be >= 0; got -1"):
        graphs.band([3], -1)
    with pytest.raises(ValueError, match="the same length; got 1 and 2"):
        graphs.bipartite([3], [1, 2])


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
def test_grid(shape, radii, batch):
    offsets = graphs.window_offsets(radii)
    expected, kinds = brute_grid(shape, offsets, batch)
    graph = graphs.grid(shape, offsets, batch=batch)
    assert pairs(graph) == expected
    assert graph.size == (batch * int(np.prod(shape)),) * 2
    assert graphs.grid_offsets(shape, offsets, batch=batch).tolist() == kinds
    assert_consistent(graph)
    if len(set(radii)) == 1:
        assert pairs(graphs.grid(shape, radii[0], batch=batch)) == expected


def test_grid_with_offsets_in_any_order():
    cross = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    graph = graphs.grid((3, 3), cross, batch=2)
    assert pairs(graph) == brute_grid((3, 3), cross, 2)[0]


def test_grid_of_box_is_complete_when_wide():
    assert pairs(graphs.grid((3, 2), 3)) == pairs(graphs.complete([6]))


def test_grid_is_band_on_one_axis():
    assert pairs(graphs.grid((7,), 2, batch=2)) == pairs(graphs.band([7, 7], 2))


@pytest.mark.parametrize(
    ("shape", "neighbourhood", "error"),
    [((), 1, "for at least one"), ((3, -1), 1, ">= 0"), ((3,), -1, "radii must be >= 0"),
     ((3, 3), [(1,)], "must have 2 axes")],
)  # fmt: skip
def test_grid_is_checked(shape, neighbourhood, error):
    with pytest.raises(ValueError, match=error):
        graphs.grid(shape, neighbourhood)


def test_grid_refuses_bare_radii():
    with pytest.raises(TypeError, match="such as window_offsets"):
        graphs.grid((3, 3), [1, 1])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("index", [[], [0], [0, 0, 1, 1, 1, 3], [2, 0, 2, 1, 0]])
@pytest.mark.parametrize("k", [1, 3])
def test_pooling_graph(index, k, dtype):
    graph = graphs.pooling_graph(torch.tensor(index, dtype=dtype), k, 5)
    assert pairs(graph) == [(j, g * k + q) for j, g in enumerate(index) for q in range(k)]
    assert graph.size == (len(index), 5 * k)
    assert_consistent(graph)
    assert (
        graphs.pooling_graph(torch.tensor(index, dtype=dtype)).num_dst == max(index, default=-1) + 1
    )


def test_readout_is_checked():
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


def brute_neighbours(position, index, self_loops):
    """For each point, the others of its cloud from near to far."""
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
def test_knn_and_radius(clouds, self_loops):
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


def test_knn_of_equal_points():
    graph = graphs.knn(torch.zeros(6, 2), 2)
    assert graph.in_degree().tolist() == [2] * 6
    assert all(j != i for j, i in pairs(graph))
    assert graphs.radius(torch.zeros(6, 2), 0.0).num_edges == 30


@pytest.mark.parametrize("points", [0, 1, 2])
def test_knn_and_radius_of_few_points(points):
    position = torch.arange(points, dtype=torch.float32)[:, None]
    both = [(1, 0), (0, 1)] if points == 2 else []
    assert pairs(graphs.knn(position, 5)) == both
    assert pairs(graphs.radius(position, 1.0)) == both
    assert graphs.knn(position, 5).num_dst == points


def test_knn_and_radius_are_checked():
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


def test_networkx_both_ways():
    for case in awkward_graphs():
        graph = case.graph()
        result = graphs.to_networkx(graph)
        if case.size[0] != case.size[1]:
            sources = [node for node, part in result.nodes(data="bipartite") if part == 0]
            assert len(sources) == case.size[0]
            assert result.number_of_nodes() == sum(case.size)
            continue
        again = graphs.from_networkx(result)
        assert again.size == graph.size
        assert sorted(pairs(again)) == sorted(pairs(graph))
        by_key = {key: (j, i) for j, i, key in result.edges(keys=True)}
        assert [by_key[key] for key in range(graph.num_edges)] == pairs(graph)


def test_from_networkx_of_any_kind():
    undirected = networkx.Graph([("a", "b"), ("b", "b")])
    assert pairs(graphs.from_networkx(undirected)) == [(0, 1), (1, 0), (1, 1)]
    multi = networkx.MultiDiGraph([(5, 7), (5, 7), (7, 5)])
    assert pairs(graphs.from_networkx(multi)) == [(0, 1), (0, 1), (1, 0)]
    assert graphs.from_networkx(networkx.Graph()).size == (0, 0)
    with pytest.raises(TypeError, match="networkx graph; got list"):
        graphs.from_networkx([(0, 1)])


WEIGHTED = [(0, 1, {"weight": 2.0, "kind": 7}), (1, 1, {"weight": 3.0}), (2, 1, {"weight": 4.0})]


@pytest.mark.parametrize("make", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph])
def test_features_of_a_networkx_graph_lie_along_its_edges(make):
    stored = make(WEIGHTED)
    graph, weight = gattn.Graph(stored), graphs.edge_features(stored)
    assert weight.shape == (graph.num_edges, 1)
    order = list(stored.nodes)
    for (source, destination), actual in zip(pairs(graph), weight.flatten().tolist()):
        ends = order[source], order[destination]
        assert actual == next(iter(w["weight"] for *e, w in WEIGHTED if set(e) == set(ends)))
    both = graphs.edge_features(stored, ["weight", "kind"], default=-1, dtype=torch.float64)
    assert both[:, 0].tolist() == weight.flatten().tolist()
    assert set(both[:, 1].tolist()) == {7.0, -1.0}
    with pytest.raises(ValueError, match=r"every edge must have 'kind' .*at edge \[1, 1\]"):
        graphs.edge_features(stored, "kind")
    stored.add_edge(2, 2, weight="heavy")
    with pytest.raises(TypeError, match=r"'weight' must be a number; got 'heavy' at edge \[2, 2\]"):
        graphs.edge_features(stored)
    assert graphs.edge_features(make()).shape == (0, 1)


def test_features_of_a_scipy_matrix():
    stored = scipy.sparse.csr_array(np.array([[0.0, 5.0], [6.0, 7.0]]))
    graph, weight = gattn.Graph(stored), graphs.edge_features(stored)
    dense = torch.tensor(stored.toarray())
    source, destination = graph.edge_index
    assert weight.flatten().tolist() == dense[source, destination].tolist()
    with pytest.raises(TypeError, match="networkx graph or a SciPy matrix; got Tensor"):
        graphs.edge_features(torch.eye(2))


SCIPY = [
    scipy.sparse.coo_array, scipy.sparse.csr_array, scipy.sparse.csc_array,
    scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix,
]  # fmt: skip


@pytest.mark.parametrize("kind", SCIPY)
def test_a_scipy_matrix_has_the_direction_of_networkx_and_pyg(kind):
    stored = networkx.DiGraph()
    stored.add_nodes_from(range(4))
    stored.add_weighted_edges_from([(2, 0, 5.0), (0, 1, 2.0), (0, 3, 3.0), (1, 2, 7.0), (3, 3, 1)])
    matrix = kind(networkx.to_scipy_sparse_array(stored))
    pairs, expected = from_scipy_sparse_matrix(matrix)
    graph, weight = gattn.Graph(matrix), graphs.edge_features(matrix)
    assert graph.edge_index.tolist() == pairs.tolist()
    assert weight.flatten().tolist() == expected.tolist()
    of_networkx = dict(zip(stored.edges, graphs.edge_features(stored).flatten().tolist()))
    of_matrix = dict(zip(zip(*graph.edge_index.tolist()), weight.flatten().tolist()))
    assert of_matrix == of_networkx


@pytest.mark.parametrize("kind", SCIPY)
def test_a_scipy_matrix_of_two_kinds_of_nodes_has_a_row_for_each_source(kind):
    graph = gattn.Graph(kind(([1.0, 1.0], ([0, 2], [1, 0])), shape=(3, 2)))
    assert graph.size == (3, 2)
    assert sorted(zip(*graph.edge_index.tolist())) == [(0, 1), (2, 0)]


def test_a_scipy_array_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match=r"SciPy matrix of edges must have 2 dimensions; .*\(3,\)"):
        gattn.Graph(scipy.sparse.coo_array(np.array([0.0, 1.0, 2.0])))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_pack_and_unpack(data):
    lengths = data.draw(st.lists(st.integers(0, 5), max_size=5))
    length = max(lengths, default=0) + data.draw(st.integers(0, 2))
    x = torch.randn(len(lengths), length, 3)
    rows, sizes = graphs.pack(x, lengths)
    assert sizes == tuple(lengths)
    assert torch.equal(rows, torch.cat([torch.empty(0, 3), *(s[:n] for s, n in zip(x, lengths))]))
    mask = torch.arange(length) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    for same in (torch.tensor(lengths, dtype=torch.int64), mask):
        again, sizes = graphs.pack(x, same)
        assert torch.equal(again, rows)
        assert sizes == tuple(lengths)
    padded = graphs.unpack(rows, sizes, length, fill=7.0)
    assert torch.equal(padded, torch.where(mask[:, :, None], x, torch.tensor(7.0)))
    assert graphs.unpack(rows, sizes).shape[1] == max(lengths, default=0)


def test_packed_sequences_attend_as_padded_ones():
    """Tokens at the end, and before them, of a mask; gradients reach the tokens alone."""
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], dtype=torch.bool)
    rows, sizes = graphs.pack(x, tokens)
    graph = graphs.complete(sizes)
    q, k, v = torch.nn.functional.linear(rows, layer.in_proj_weight, layer.in_proj_bias).chunk(3, 1)
    q, k, v = (t.unflatten(1, (2, 4)) for t in (q, k, v))
    out = gattn.functional.dot_product_attention(q, k, v, graph).flatten(1)
    out = graphs.unpack(layer.out_proj(out), sizes)
    expected, _ = layer(x, x, x, key_padding_mask=~tokens, need_weights=False)
    torch.testing.assert_close(graphs.pack(out, sizes)[0], expected[tokens])
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad.abs().sum(2) > 0, tokens)
    assert torch.equal(graphs.pack(x, tokens.long())[0], x[tokens])  # a tokenizer's mask


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: graphs.pack([1], [1]), TypeError, "x must be a tensor; got list"),
        (lambda x: graphs.pack(x[0, 0], [1]), ValueError, r"shape \(b, t, ...\); got \(4,\)"),
        (lambda x: graphs.pack(x, [1]), ValueError, "lengths must be 2, one for each .*; got 1"),
        (lambda x: graphs.pack(x, [1, 4]), ValueError, "lengths must be <= 3, .*; got 4"),
        (lambda x: graphs.pack(x, [1, -1]), ValueError, "lengths must be >= 0; got -1"),
        (lambda x: graphs.pack(x, 3), TypeError, "lengths must be a list of ints"),
        (
            lambda x: graphs.pack(x, torch.ones(2)),
            TypeError,
            "integers or bools; got torch.float32",
        ),
        (lambda x: graphs.pack(x, torch.ones(3).int()), ValueError, r"\(2,\); got \(3,\)"),
        (lambda x: graphs.pack(x, 2 * torch.ones(2, 3).int()), ValueError, "1 at tokens and 0 at"),
        (lambda x: graphs.pack(x, x[..., 0, None] > 0), ValueError, r"\(2, 3\); got \(2, 3, 1\)"),
        (lambda x: graphs.unpack([1], [1]), TypeError, "rows must be a tensor; got list"),
        (lambda x: graphs.unpack(x[0], [1]), ValueError, r"\(1, ...\); got \(3, 4\)"),
        (lambda x: graphs.unpack(x[0], [3], 2), ValueError, "length must be >= 3, .*; got 2"),
    ],
)
def test_padding_is_checked(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.randn(2, 3, 4))


@pytest.mark.parametrize("make", [gattn.nn.GATConv, gattn.nn.TransformerConv])
def test_a_padded_batch_handed_over_as_rows_is_told_what_to_do(make):
    x, graph = torch.randn(3, 9, 32), graphs.causal([9] * 3)
    with pytest.raises(ValueError, match=r"padded batch of 3 sequences: .* gattn.graphs.pack\(x"):
        make(32, 4)(x, graph)
    with pytest.raises(ValueError, match=r"query and key must have .* padded batch of 3 sequences"):
        gattn.nn.GraphAttention(32, heads=4)(x, x, x, graph)
    rows, sizes = graphs.pack(x, [9] * 3)
    assert make(32, 4)(rows, graphs.causal(sizes)).shape == (27, 4)


def test_a_padded_batch_of_several_lengths_is_told_what_to_do():
    x, graph = torch.randn(3, 9, 4, 8), graphs.causal([9, 4, 6])
    with pytest.raises(ValueError, match=r"padded batch of 3 sequences: .* gattn.graphs.pack\(x"):
        gattn.nn.TransformerBlock(32, heads=4)(x.flatten(2), graph)
    with pytest.raises(ValueError, match=r"\(3, 9, 4, 8\); gattn.graphs.pack removes the padding"):
        gattn.functional.dot_product_attention(x, x, x, graph)


def test_graphs_in_data_are_joined_by_disjoint_union():
    from torch_geometric.data import Batch, Data

    parts = [graphs.causal([3]), graphs.band([4], 1)]
    batch = Batch.from_data_list([Data(x=torch.randn(g.num_src, 5), graph=g) for g in parts])
    layer = gattn.nn.GATConv(5, 2)
    with pytest.raises(TypeError, match=r"gattn.graphs.disjoint_union\(batch.graph\)"):
        layer(batch.x, batch.graph)
    joined = graphs.disjoint_union(batch.graph)
    assert pairs(joined) == pairs(parts[0]) + [(j + 3, i + 3) for j, i in pairs(parts[1])]
    assert layer(batch.x, joined).shape == (7, 2)


def test_disjoint_union():
    parts = [graphs.causal([3]), graphs.bipartite([1], [2]), graphs.complete([])]
    graph = graphs.disjoint_union(parts)
    assert graph.size == (5, 4)
    assert pairs(graph) == [*pairs(parts[0]), (3, 3), (4, 3)]
    assert pairs(graphs.disjoint_union([graphs.causal([2]), graphs.causal([3])])) == pairs(
        graphs.causal([2, 3])
    )
    with pytest.raises(ValueError, match="at least one graph"):
        graphs.disjoint_union([])


def test_from_batch():
    edges = torch.tensor([[1, 0, 4, 3, 3], [0, 1, 3, 4, 3]])
    graph = graphs.from_batch(edges, torch.tensor([0, 2, 2, 5]))
    assert torch.equal(graph.edge_index, edges)
    assert graph.size == (5, 5)
    assert graphs.from_batch(edges[:, :0], torch.tensor([0])).size == (0, 0)
    assert graphs.from_batch(edges.int(), torch.tensor([0, 5], dtype=torch.int32)).num_edges == 5


def test_a_batch_of_small_graphs_is_known_as_one():
    edges = torch.tensor([[1, 0, 4, 3, 3], [0, 1, 3, 4, 3]])
    ptr = torch.tensor([0, 2, 5])
    batch = graphs.from_batch(edges, ptr)
    side_by_side = graphs.disjoint_union(
        [gattn.Graph(edges[:, :2], 2), gattn.Graph(edges[:, 2:] - 2, 3)]
    )
    for graph in (batch, batch.with_self_loops(), batch.transpose(), side_by_side):
        assert torch.equal(graph.layout.graph_ptr, ptr.int())
        assert stats.band_density(graph.layout) is None
    ptr_copy = ptr.int()
    batch = graphs.from_batch(edges, ptr_copy)
    ptr_copy.zero_()
    assert torch.equal(batch.layout.graph_ptr, ptr.int())
    assert batch.to("meta").layout.graph_ptr.shape == ptr.shape
    incidence = batch.incidence()
    chain = torch.arange(65)
    large = graphs.from_batch(torch.stack([chain[1:], chain[:-1]]), torch.tensor([0, 65]))
    dense = graphs.disjoint_union([graphs.complete([9]), graphs.complete([9])])
    bipartite = graphs.disjoint_union([graphs.bipartite([2], [3]), graphs.bipartite([3], [2])])
    for graph in (large, dense, bipartite, incidence, incidence.transpose()):
        assert graph.layout.graph_ptr.numel() == 0


def test_virtual_node():
    graph = gattn.Graph(torch.tensor([[1, 0], [0, 1]]), 3)
    index = torch.tensor([0, 0, 2])
    expected = [(1, 0), (0, 1), (0, 3), (1, 3), (2, 5), (3, 0), (3, 1), (5, 2)]
    result = graphs.virtual_node(graph, index, 3)
    assert pairs(result) == expected
    assert result.size == (6, 6)
    assert networkx.diameter(graphs.to_networkx(graphs.virtual_node(graphs.band([9], 1)))) == 2
    with pytest.raises(ValueError, match="must be square"):
        graphs.virtual_node(graphs.bipartite([1], [2]))
    with pytest.raises(ValueError, match=r"shape \(3,\); got \(2,\)"):
        graphs.virtual_node(graph, index[:2], 3)
    with pytest.raises(ValueError, match="index must be >= 0 and < 2"):
        graphs.virtual_node(graph, index, 2)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_union(data):
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


def test_union_is_checked():
    with pytest.raises(TypeError, match=r"other must be a gattn\.Graph; got"):
        graphs.causal([3]).union(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"size must be \(3, 3\)"):
        graphs.causal([3]) | graphs.causal([4])
    with pytest.raises(TypeError, match="unsupported operand"):
        graphs.causal([3]) | torch.zeros(2, 3)


def test_window_with_global_tokens():
    """A band joined with two tokens that see all and are seen by all."""
    star = [(j, i) for i in range(12) for j in range(12) if i < 2 or j < 2]
    graph = graphs.band([12], 1) | gattn.Graph(torch.tensor(star).t(), 12)
    assert sorted(pairs(graph)) == sorted(set(pairs(graphs.band([12], 1))) | set(star))


def test_million_tokens_are_laid_out_without_sorting():
    graph = graphs.band([10**6], 2)
    assert graph.num_edges == 5 * 10**6 - 6
    assert graph.layout.col.dtype == torch.int32
    rows = graph.layout.row.view(torch.int32)
    assert torch.equal(rows, graph.layout.col)  # a symmetric graph


NO_WIDTH, POINTS, INDEX = torch.zeros(3, 0), torch.zeros(3, 2), torch.tensor([0, 0, 1])
CHAIN = torch.tensor([[0, 1, 2], [1, 2, 3]])


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
        (lambda: graphs.grid(3, 1), TypeError, "shape must hold an int per axis; got 3"),
        (lambda: graphs.grid((3,), 1, batch=1.5), TypeError, "batch must be an int"),
        (lambda: graphs.grid((3,), 1, batch=-1), ValueError, "batch must be >= 0; got -1"),
        (lambda: graphs.window_offsets(1), TypeError, "radii must hold an int per axis"),
        (lambda: graphs.knn(NO_WIDTH, 1), ValueError, r"with d >= 1; got \(3, 0\)"),
        (lambda: graphs.radius(NO_WIDTH, 1.0), ValueError, r"with d >= 1; got \(3, 0\)"),
        (lambda: graphs.knn(POINTS, 1.5), TypeError, r"k must be an int; got 1\.5"),
        (lambda: graphs.knn([[0.0]], 1), TypeError, "position must be a tensor; got list"),
        (lambda: graphs.knn(POINTS, 1, index=[0, 0, 1]), TypeError, "index must be a tensor"),
        (lambda: graphs.knn(POINTS, 1, index=INDEX / 2), TypeError, "index must hold integers"),
        (lambda: graphs.radius(POINTS, "a"), TypeError, "r must be a number; got 'a'"),
        (lambda: graphs.pooling_graph(INDEX, 1.5), TypeError, "num_queries must be an int"),
        (lambda: graphs.pooling_graph(INDEX[:0], 1, -1), ValueError, "num_graphs must be >= 0"),
        (lambda: graphs.pooling_graph(INDEX, 1, 2.5), TypeError, "num_graphs must be an int"),
        (lambda: graphs.disjoint_union([INDEX]), TypeError, "each of graphs must be a gattn.Graph"),
        (lambda: graphs.disjoint_union(graphs.causal([2])), TypeError, "must be a list of gattn"),
        (lambda: graphs.from_batch(CHAIN, [0, 4]), TypeError, "ptr must be an int32 or int64"),
        (lambda: graphs.from_batch(CHAIN, torch.tensor([0, 3, 2])), ValueError, "ascend from 0"),
        (lambda: graphs.from_batch(CHAIN, torch.tensor(4)), ValueError, r"shape \(g \+ 1,\)"),
        (lambda: graphs.from_batch(CHAIN, torch.tensor([0, 1])), ValueError, r"be in \[0, 1\)"),
        (
            lambda: graphs.from_batch(CHAIN, torch.tensor([0, 2, 4])),
            ValueError,
            "got edge 1 from graph 0 to graph 1",
        ),
        (lambda: graphs.virtual_node(INDEX), TypeError, "graph must be a gattn.Graph; got Tensor"),
        (lambda: graphs.to_networkx(INDEX), TypeError, "graph must be a gattn.Graph; got Tensor"),
        (lambda: path_lengths(INDEX, INDEX, 1), TypeError, "over must be a gattn.Graph"),
        (lambda: path_lengths(INDEX, graphs.causal([2]), 0.5), TypeError, "max_length must be"),
        (lambda: token_offsets(graphs.causal([2]), -1), ValueError, "max_offset must be >= 0"),
    ],
)  # fmt: skip
def test_odd_arguments_get_one_clear_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_device_without_a_number_is_the_one_that_tensors_name():
    with FakeTensorMode():
        assert graphs.complete([3, 2]).to("cuda").device == torch.device("cuda", 0)
