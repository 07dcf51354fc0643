import pytest
import torch

from gattn import Graph, graphs
from gattn.nn import GraphAttention, record_attention
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.scores import EdgeScore, SortedScore, attend_with_score

SCORES = ["dot", "scaled_dot", "embedded_gaussian", "additive", "cosine"]


def _written_out(layer, query, key, value, edge_index, edge_attr=None):
    """Compute the attention with loops over edges and heads."""
    h, c = layer.heads, layer.channels
    q, k, v = (
        linear(x).view(-1, h, c)
        for linear, x in zip((layer.lin_query, layer.lin_key, layer.lin_value), (query, key, value))
    )
    source, destination = edge_index
    q, k, v = q[destination], k[source], v[source]
    if edge_attr is not None:
        projected = layer.lin_edge(edge_attr).view(-1, h, c)
        k, v = k + projected, v + projected * (layer.score != "additive")
    if layer.score == "additive":
        score = (layer.weight * (q + k).tanh()).sum(-1)
    elif layer.score == "cosine":
        score = layer.beta * torch.cosine_similarity(q, k, dim=-1)
    else:
        score = (q * k).sum(-1) / (c**0.5 if layer.score == "scaled_dot" else 1)
    out = query.new_zeros(len(query), h, c)
    weights = torch.zeros_like(score)
    for i in range(len(query)):
        weights[destination == i] = score[destination == i].softmax(0)
        out[i] = (weights[destination == i, :, None] * v[destination == i]).sum(0)
    return layer.lin_out(out.flatten(1)), weights


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_graph_attention_matches_the_equation_of_each_score(score, edge_dim):
    if score == "cosine" and edge_dim:
        pytest.skip("a cosine takes no edge features")
    torch.manual_seed(0)
    layer = GraphAttention(
        6, 10, 2, key_channels=5, value_channels=4, channels=3, edge_dim=edge_dim,
        score=score,
    ).double()  # fmt: skip
    query, key, value = torch.randn(4, 6), torch.randn(5, 5), torch.randn(5, 4)
    query, key, value = query.double(), key.double(), value.double()
    edge_index = torch.tensor([[0, 4, 2, 2, 3, 1], [0, 0, 1, 1, 3, 3]])
    edge_attr = None if edge_dim is None else torch.randn(6, 3, dtype=torch.float64)
    expected, weights = _written_out(layer, query, key, value, edge_index, edge_attr)
    graph = Graph(edge_index, (5, 4))
    torch.testing.assert_close(layer(query, key, value, graph, edge_attr=edge_attr), expected)
    got = layer.attention_weights(query, key, graph, edge_attr=edge_attr)
    torch.testing.assert_close(got, weights)


def test_graph_attention_with_a_callable_score_matches_its_formula():
    def gaussian_kernel(query, key, edge_attr):
        return -(query - key).square().sum(-1) - edge_attr[:, None]

    torch.manual_seed(0)
    layer = GraphAttention(6, heads=2, score=gaussian_kernel).double()
    x, distance = torch.randn(4, 6, dtype=torch.float64), torch.rand(16, dtype=torch.float64)
    graph = graphs.complete([4])
    q, k = (lin(x).view(4, 2, 3) for lin in (layer.lin_query, layer.lin_key))
    source, destination = graph.edge_index
    score = gaussian_kernel(q[destination], k[source], distance)
    weights = layer.attention_weights(x, x, graph, edge_attr=distance)
    dense = torch.zeros(4, 4, 2, dtype=torch.float64)
    dense[destination, source] = score
    torch.testing.assert_close(weights, dense.softmax(1)[destination, source])
    expected = torch.einsum("ijh,jhc->ihc", dense.softmax(1), layer.lin_value(x).view(4, 2, 3))
    got = layer(x, x, x, graph, edge_attr=distance)
    torch.testing.assert_close(got, layer.lin_out(expected.flatten(1)))


def test_callable_score_equals_the_built_in_score_on_edges_in_shuffled_order(shuffled):
    """The scores are computed in the order of destinations, whereas features, biases and weights
    are in the caller's order of edges.
    """
    graph, distance, bias = shuffled

    def scaled_dot(query, key, edge_attr):
        return (query * key).sum(-1) / 3**0.5 - edge_attr[:, None]

    torch.manual_seed(0)
    fused = GraphAttention(6, heads=2).double()
    custom = GraphAttention(6, heads=2, score=scaled_dot).double()
    custom.load_state_dict(fused.state_dict())
    x = torch.randn(5, 6, dtype=torch.float64)
    total_bias = bias - distance[:, None]
    expected = fused(x, x, x, graph, attn_bias=total_bias)
    options = {"edge_attr": distance, "attn_bias": bias}
    with record_attention(custom) as recorded:
        torch.testing.assert_close(custom(x, x, x, graph, **options), expected)
    weights = fused.attention_weights(x, x, graph, attn_bias=total_bias)
    torch.testing.assert_close(custom.attention_weights(x, x, graph, **options), weights)
    torch.testing.assert_close(recorded[0].weights, weights)


def test_edge_weight_and_attn_bias_give_the_same_results_for_sorted_and_unsorted_scores(shuffled):
    graph, weight, bias = shuffled
    score = torch.randn(12, 2, dtype=torch.float64)
    value = torch.randn(5, 2, 3, dtype=torch.float64)
    sorted_score = SortedScore(score[graph.layout.perm.long()])
    for terms in (EdgeTerms(weight, bias), EdgeTerms(None, bias[:, :1]), EdgeTerms(weight)):
        expected = attend_with_score(EdgeScore(score), value, graph, terms=terms, want_weights=True)
        actual = attend_with_score(sorted_score, value, graph, terms=terms, want_weights=True)
        torch.testing.assert_close(actual, expected)
    doubled = SortedScore(sorted_score.score, bias).plus(EdgeTerms(None, bias))
    torch.testing.assert_close(doubled.weights(graph), EdgeScore(score + 2 * bias).weights(graph))


@pytest.fixture
def shuffled():
    """Edges in random order, with one feature and two biases for each."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    graph = Graph(pairs[torch.randperm(25, generator=generator)[:12]].t().contiguous(), 5)
    assert not graph.layout.perm.diff().eq(1).all()
    draw = torch.rand(12, 3, generator=generator, dtype=torch.float64)
    return graph, draw[:, 0], draw[:, 1:]


def test_invalid_options_features_or_edges_of_graph_attention_raise_error():
    x, graph = torch.randn(4, 6), graphs.complete([4])
    for call, message in [
        (lambda: GraphAttention(6, score="dots"), "score must be one of"),
        (lambda: GraphAttention(6, heads=4), r"heads must divide out_channels \(6\); got heads=4"),
        (lambda: GraphAttention(6, score="cosine", edge_dim=2), "dot or additive score"),
        (lambda: GraphAttention(6)(x, x, x, graph, edge_attr=x), "edge_dim is None"),
        (lambda: GraphAttention(6, edge_dim=2)(x, x, x, graph), "edge_dim is 2"),
        (lambda: GraphAttention(6, score=lambda q, *_: q)(x, x, x, graph), "got 3 dimensions"),
        (lambda: GraphAttention(6, score=lambda q, *_: q[:, 0])(x, x, x, graph), r"\(16, 1\); got"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match=r"edges must be a \(2, e\) integer tensor.*; got str"):
        GraphAttention(6)(x, x, x, "graph")


def test_graph_attention_gives_the_same_output_for_edge_index_sparse_matrix_and_graph():
    layer, query, memory = GraphAttention(6, heads=2), torch.randn(3, 6), torch.randn(4, 6)
    edge_index = torch.tensor([[0, 3, 1], [0, 0, 2]])
    graph = Graph(edge_index, (4, 3))
    want = layer(query, memory, memory, graph)
    adjacency = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(3), (3, 4))
    for edges in (edge_index, adjacency):
        assert torch.equal(layer(query, memory, memory, edges), want)
    weights = layer.attention_weights(query, memory, edge_index)
    assert torch.equal(weights, layer.attention_weights(query, memory, graph))


@pytest.mark.parametrize(
    ("bias", "error", "message"),
    [
        (torch.ones(3), ValueError, r"must have shape \(3, 2\) or \(3, 1\); got \(3,\)"),
        (torch.ones(3, 3), ValueError, r"got \(3, 3\)"),
        (torch.ones(1, 2), ValueError, r"got \(1, 2\)"),
        (3.0, TypeError, "attn_bias must be a tensor; got float"),
    ],
)
def test_attn_bias_of_wrong_shape_or_type_raises_error(bias, error, message):
    layer, x = GraphAttention(8, heads=2), torch.randn(4, 8)
    edges = torch.tensor([[0, 1, 2], [1, 2, 3]])
    with pytest.raises(error, match=message):
        layer(x, x, x, edges, attn_bias=bias)
    with pytest.raises(error, match=message):
        layer.attention_weights(x, x, edges, attn_bias=bias)
