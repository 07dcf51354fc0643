"""The theorem: self-attention is permutation equivariant, readouts by queries are invariant.

Checked in fp64 to 1e-10 for every layer and readout that gattn exports, over random graphs,
features and permutations.
"""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gattn
from gattn import functional, graphs
from gattn.testing import (
    AwkwardGraph,
    assert_batch_independent,
    assert_edge_order_independent,
    assert_permutation_equivariant,
    assert_permutation_invariant,
)

WIDTH = 4


class Call(torch.nn.Module):
    """A module with a call of its own, as the checks call layers."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *args, **options):
        return self.call(self.module, *args, **options)


def laid_out(function):
    """A function of (x [n, 1, c], graph) as a layer."""

    def layer(x, edge_index):
        return function(x.unsqueeze(1), gattn.Graph(edge_index, len(x))).squeeze(1)

    return layer


def attention(**options):
    """GraphAttention as self-attention on a graph."""
    return lambda nn: Call(
        nn.GraphAttention(WIDTH, 6, heads=2, **options),
        lambda m, x, edge_index, **more: m(x, x, x, gattn.Graph(edge_index, len(x)), **more),
    )


def cosine_of_ends(q, k, edge):
    return torch.cosine_similarity(q, k, dim=-1)


def hetero(name, **options):
    """A layer of heterogeneous graphs, on nodes and edges of one type."""
    kind = ("node", "to", "node")

    def call(module, x, edge_index):
        return module({"node": x}, {kind: edge_index})["node"]

    return lambda nn: Call(getattr(nn, name)(WIDTH, 6, (["node"], [kind]), heads=2), call)


def segments(index):
    """One edge from each node to its graph."""
    return graphs.readout(index, 1, int(index.max()) + 1 if len(index) else 0)


# Every layer of gattn.nn, by name: the name of the class, and how to make one.
LAYERS = {
    "GATConv": lambda nn: nn.GATConv(WIDTH, 3, heads=2),
    "GATConv, plain": lambda nn: nn.GATConv(WIDTH, 3, add_self_loops=False, residual=True),
    "GATv2Conv": lambda nn: nn.GATv2Conv(WIDTH, 3, heads=2),
    "GATv2Conv, shared": lambda nn: nn.GATv2Conv(WIDTH, 3, heads=2, share_weights=True),
    "TransformerConv": lambda nn: nn.TransformerConv(WIDTH, 3, heads=2, beta=True),
    "AGNNConv": lambda nn: nn.AGNNConv(),
    "SuperGATConv": lambda nn: nn.SuperGATConv(WIDTH, 3, heads=2),
    "FAConv": lambda nn: Call(nn.FAConv(WIDTH), lambda m, x, edge_index: m(x, x, edge_index)),
    "HGTConv": hetero("HGTConv"),
    "HANConv": hetero("HANConv"),
    "GraphAttention": attention(),
    "GraphAttention, gaussian": attention(score="gaussian"),
    "GraphAttention, additive": attention(score="additive"),
    "GraphAttention, cosine": attention(score="cosine"),
    "GraphAttention, a callable": attention(score=cosine_of_ends),
    "TransformerBlock": lambda nn: nn.TransformerBlock(WIDTH, heads=2),
    "TransformerBlock, post": lambda nn: nn.TransformerBlock(WIDTH, norm="post"),
    "DegreeEncoding": lambda nn: Call(
        nn.DegreeEncoding(4, WIDTH), lambda m, x, edge_index: x + m(edge_index, len(x))
    ),
    "RandomWalkEncoding": lambda nn: Call(
        nn.RandomWalkEncoding(4, WIDTH), lambda m, x, edge_index: x + m(edge_index, len(x))
    ),
    "SetAttentionBlock": lambda nn: Call(
        nn.SetAttentionBlock(WIDTH, heads=2),
        lambda m, x, edge_index: m(x, gattn.Graph(edge_index, len(x))),
    ),
}

# Layers with features per edge.
EDGE_LAYERS = {
    "GATConv": lambda nn: nn.GATConv(WIDTH, 3, heads=2, edge_dim=2, fill_value="mean"),
    "GATv2Conv": lambda nn: nn.GATv2Conv(WIDTH, 3, heads=2, edge_dim=2),
    "TransformerConv": lambda nn: nn.TransformerConv(WIDTH, 3, heads=2, edge_dim=2),
    "GATEConv": lambda nn: nn.GATEConv(WIDTH, WIDTH, 2),
    "GraphAttention": attention(edge_dim=2),
    "GraphAttention, additive": attention(edge_dim=2, score="additive"),
    "TransformerBlock": lambda nn: nn.TransformerBlock(WIDTH, edge_dim=2),
    "RGATConv": lambda nn: Call(
        nn.RGATConv(WIDTH, 3, 2, heads=2, edge_dim=2),
        lambda m, x, edge_index, edge_attr: m(
            x, edge_index, (edge_attr[:, 0] > 0).long(), edge_attr
        ),
    ),
}

# Layers from sources to other destinations.
BIPARTITE_LAYERS = {
    "GATConv": lambda nn: nn.GATConv((3, WIDTH), 3, heads=2, add_self_loops=False),
    "GATv2Conv": lambda nn: nn.GATv2Conv((3, WIDTH), 3, heads=2, add_self_loops=False),
    "TransformerConv": lambda nn: nn.TransformerConv((3, WIDTH), 3, heads=2),
    "GraphAttention": lambda nn: Call(
        nn.GraphAttention(WIDTH, 6, heads=2, key_channels=3),
        lambda m, x, edge_index: m(
            x[1], x[0], x[0], gattn.Graph(edge_index, (len(x[0]), len(x[1])))
        ),
    ),
    "MultiheadAttentionBlock": lambda nn: Call(
        nn.MultiheadAttentionBlock(WIDTH, heads=2),
        lambda m, x, edge_index: m(
            x[1],
            torch.nn.functional.pad(x[0], (0, 1)),
            gattn.Graph(edge_index, (len(x[0]), len(x[1]))),
        ),
    ),
}

# Layers that look beyond the edges, and are told the graph of each node.
GLOBAL_LAYERS = {
    "GPSConv": lambda nn: nn.GPSConv(WIDTH, nn.GATConv(WIDTH, 2, heads=2), heads=2),
    "GraphTransformerLayer": lambda nn: nn.GraphTransformerLayer(WIDTH, heads=2),
    "GraphTransformerLayer, linear": lambda nn: nn.GraphTransformerLayer(
        WIDTH, heads=2, global_attention="linear"
    ),
    "LinearAttention": lambda nn: Call(
        nn.LinearAttention(WIDTH, heads=2), lambda m, x, edge_index, batch: m(x, batch)
    ),
    "InducedSetAttentionBlock": lambda nn: Call(
        nn.InducedSetAttentionBlock(WIDTH, 3, heads=2),
        lambda m, x, edge_index, batch: m(x, segments(batch)),
    ),
}

READOUTS = {
    "LearnedQueryReadout": lambda nn: nn.LearnedQueryReadout(WIDTH, 6, num_queries=3, heads=2),
    "LearnedQueryReadout, normalised": lambda nn: nn.LearnedQueryReadout(
        WIDTH, 6, ff_channels=8, layer_norm=True, concat=False
    ),
    "AttentionalReadout": lambda nn: nn.AttentionalReadout(
        torch.nn.Linear(WIDTH, 1), torch.nn.Linear(WIDTH, 3)
    ),
    "SetTransformerReadout": lambda nn: nn.SetTransformerReadout(
        WIDTH, 2, 2, 1, heads=2, layer_norm=True
    ),
    "SetTransformerReadout, induced": lambda nn: nn.SetTransformerReadout(
        WIDTH, heads=2, num_induced_points=3
    ),
    "MultiReadout": lambda nn: nn.MultiReadout(
        ["sum", "mean", "max", nn.LearnedQueryReadout(WIDTH, 4)]
    ),
    "PoolingByAttention": lambda nn: Call(
        nn.PoolingByAttention(WIDTH, 2, heads=2),
        lambda m, x, index, dim_size: m(x, graphs.readout(index, 1, dim_size)),
    ),
}

# What is exported and no function of a graph's nodes: encodings of positions, biases of pairs,
# helpers. (Eigenvectors are defined up to their basis: their encoding has tests of its own.)
ELSEWHERE = {
    "LaplacianEncoding",
    "LearnedEncoding",
    "RelativeBias",
    "ShortestPathBias",
    "SinusoidalEncoding",
    "SparseDropout",
    "grid_to_nodes",
    "nodes_to_grid",
    "token_offsets",
}


def make(table, name):
    torch.manual_seed(0)
    return table[name](gattn.nn)


def every(table):
    return pytest.mark.parametrize("name", table)


@st.composite
def batches(draw):
    """A batch of one to three graphs of up to six nodes, with any edges."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    edges, start = [], 0
    for size in sizes:
        if size:
            node = st.integers(start, start + size - 1)
            edges += draw(st.lists(st.tuples(node, node), max_size=3 * size))
        start += size
    edges = draw(st.permutations(edges))
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return AwkwardGraph("drawn", edge_index, (start, start), index, len(sizes))


@st.composite
def bipartite_graphs(draw):
    m, n = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    edges = []
    if m and n:
        ends = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
        edges = draw(st.lists(ends, max_size=12))
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    return AwkwardGraph("drawn", edge_index, (m, n), torch.zeros(m).long(), bipartite=True)


SEEDS = st.integers(0, 2**31)
few = settings(max_examples=10, deadline=None, phases=[Phase.generate, Phase.shrink])


@every(LAYERS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_layer_is_equivariant(name, case, seed):
    layer = make(LAYERS, name)
    assert_permutation_equivariant(layer, WIDTH, cases=[case], seed=seed)
    assert_edge_order_independent(layer, WIDTH, cases=[case], seed=seed)
    assert_batch_independent(layer, WIDTH, cases=[case], seed=seed)


@every(EDGE_LAYERS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_layer_with_edge_features_is_equivariant(name, case, seed):
    layer = make(EDGE_LAYERS, name)
    assert_permutation_equivariant(layer, WIDTH, edge_dim=2, cases=[case], seed=seed)
    assert_edge_order_independent(layer, WIDTH, edge_dim=2, cases=[case], seed=seed)
    assert_batch_independent(layer, WIDTH, edge_dim=2, cases=[case], seed=seed)


@every(BIPARTITE_LAYERS)
@given(case=bipartite_graphs(), seed=SEEDS)
@few
def test_every_bipartite_layer_is_equivariant(name, case, seed):
    layer = make(BIPARTITE_LAYERS, name)
    assert_permutation_equivariant(layer, (3, WIDTH), cases=[case], seed=seed)
    assert_edge_order_independent(layer, (3, WIDTH), cases=[case], seed=seed)


@every(GLOBAL_LAYERS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_layer_with_global_attention_is_equivariant(name, case, seed):
    layer = make(GLOBAL_LAYERS, name)
    assert_permutation_equivariant(layer, WIDTH, batch=True, cases=[case], seed=seed)
    assert_edge_order_independent(layer, WIDTH, batch=True, cases=[case], seed=seed)
    assert_batch_independent(layer, WIDTH, batch=True, cases=[case], seed=seed)


@every(READOUTS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_readout_is_invariant(name, case, seed):
    readout = make(READOUTS, name)
    assert_permutation_invariant(readout, WIDTH, cases=[case], seed=seed)
    assert_batch_independent(readout, WIDTH, readout=True, cases=[case], seed=seed)


@pytest.mark.parametrize("check", ["layers", "readouts"])
def test_on_the_awkward_graphs(check):
    for name in LAYERS if check == "layers" else READOUTS:
        if check == "layers":
            layer = make(LAYERS, name)
            assert_permutation_equivariant(layer, WIDTH)
            assert_edge_order_independent(layer, WIDTH, tolerance=0.0)
            assert_batch_independent(layer, WIDTH)
        else:
            readout = make(READOUTS, name)
            assert_permutation_invariant(readout, WIDTH)
            assert_batch_independent(readout, WIDTH, readout=True)


def test_no_layer_is_left_out():
    """Whoever exports a layer or a readout proves the theorem for it here."""
    tables = LAYERS, EDGE_LAYERS, BIPARTITE_LAYERS, GLOBAL_LAYERS, READOUTS
    proven = {name.split(",")[0] for table in tables for name in table}
    assert set(gattn.nn.__all__) <= proven | ELSEWHERE
    assert not proven & ELSEWHERE


OPERATORS = {
    "dot_product_attention": lambda x, g: functional.dot_product_attention(x, x, x, g),
    "additive_attention": lambda x, g: functional.additive_attention(x[..., 0], x[..., 1], x, g),
    "mlp_attention": lambda x, g: functional.mlp_attention(x, x, x, x.new_ones(1, WIDTH), g),
    "aggregate of edge_softmax": lambda x, g: functional.aggregate(
        functional.edge_softmax(functional.edge_dot(x, x, g), g), x, g
    ),
}


@every(OPERATORS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_operator_is_equivariant(name, case, seed):
    layer = laid_out(OPERATORS[name])
    assert_permutation_equivariant(layer, WIDTH, cases=[case], seed=seed)
    assert_edge_order_independent(layer, WIDTH, cases=[case], seed=seed, tolerance=0.0)
    assert_batch_independent(layer, WIDTH, cases=[case], seed=seed, tolerance=0.0)


@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=3), seed=SEEDS)
@few
def test_self_attention_over_sets_is_equivariant(sizes, seed):
    """f(PX) = P f(X) where P moves nodes inside their sets: the statement without a graph."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(sizes), 1, WIDTH, generator=generator, dtype=torch.float64)
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    order = torch.cat(
        [start + torch.randperm(size, generator=generator) for start, size in zip(starts, sizes)]
    )
    graph = graphs.complete(sizes)
    out = functional.dot_product_attention(x, x, x, graph)
    moved = functional.dot_product_attention(x[order], x[order], x[order], graph)
    torch.testing.assert_close(moved, out[order], rtol=1e-10, atol=1e-10)


@given(size=st.integers(2, 8), seed=SEEDS)
@few
def test_masked_attention_is_not_equivariant(size, seed):
    """The mask is what tells a sequence from a set: a negative control."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 1, WIDTH, generator=generator, dtype=torch.float64)
    graph = graphs.causal([size])
    out = functional.dot_product_attention(x, x, x, graph)
    turned = functional.dot_product_attention(x.flip(0), x.flip(0), x.flip(0), graph)
    assert not torch.allclose(turned, out.flip(0), rtol=1e-6, atol=1e-6)


def convolution_over_node_order(x, edge_index):
    kernel = torch.tensor([[[1.0, 2.0, 4.0]]], dtype=x.dtype)
    return torch.conv1d(x.sum(1)[None, None], kernel, padding=1)[0, 0] if len(x) else x.sum(1)


def reads_node_ids(x, edge_index):
    return x + torch.arange(len(x))[:, None]


@pytest.mark.parametrize("layer", [convolution_over_node_order, reads_node_ids])
@given(size=st.integers(2, 8), seed=SEEDS)
@few
def test_layers_that_are_not_equivariant_are_rejected_on_every_graph(layer, size, seed):
    edge_index = torch.zeros(2, 0, dtype=torch.int64)
    index = torch.zeros(size, dtype=torch.int64)
    case = AwkwardGraph("drawn", edge_index, (size, size), index)
    with pytest.raises(AssertionError, match="permutation equivariance is broken"):
        assert_permutation_equivariant(layer, WIDTH, cases=[case], seed=seed)


def leaking_readout(x, index, dim_size):
    """Mean over the padded length: depends on the largest graph of the batch."""
    longest = int(torch.bincount(index, minlength=dim_size).max())
    return x.new_zeros(dim_size, x.shape[1]).index_add(0, index, x) / max(longest, 1)


@given(sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4, unique=True), seed=SEEDS)
@few
def test_readouts_that_leak_are_rejected_on_every_ragged_batch(sizes, seed):
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edge_index = torch.zeros(2, 0, dtype=torch.int64)
    case = AwkwardGraph("drawn", edge_index, (sum(sizes),) * 2, index, len(sizes))
    with pytest.raises(AssertionError, match="batch independence is broken"):
        assert_batch_independent(leaking_readout, WIDTH, readout=True, cases=[case], seed=seed)
