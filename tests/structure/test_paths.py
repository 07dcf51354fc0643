from itertools import pairwise

import networkx
import pytest
import torch

from gattn import Graph, graphs
from gattn.structure import path_features, path_lengths


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("max_length", [0, 1, 3, 20])
def test_shortest_path_lengths_equal_those_of_networkx(directed, max_length):
    plain = networkx.gnm_random_graph(14, 15, seed=3, directed=directed)
    graph = Graph(plain)
    over = graphs.complete([14])
    expected = torch.full((14, 14), max_length + 1)
    for source, lengths in networkx.all_pairs_shortest_path_length(plain, cutoff=max_length):
        for destination, length in lengths.items():
            expected[destination, source] = length
    actual = path_lengths(graph, over, max_length)
    assert torch.equal(actual.view(14, 14), expected)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("max_length", [1, 3, 20])
def test_path_features_are_the_mean_over_all_shortest_paths(directed, max_length):
    plain = networkx.gnm_random_graph(12, 30, seed=1, directed=directed)
    graph = Graph(plain)
    attr = torch.randn(graph.num_edges, 2, dtype=torch.float64, requires_grad=True)
    place = {pair: at for at, pair in enumerate(map(tuple, graph.edge_index.t().tolist()))}
    over = graphs.complete([12])
    length, actual = path_features(graph, over, attr, max_length)
    assert torch.equal(length, path_lengths(graph, over, max_length))
    expected, several = torch.zeros_like(actual), 0
    for at, (source, destination) in enumerate(over.edge_index.t().tolist()):
        steps = int(length[at])
        if 0 < steps <= max_length:
            paths = list(networkx.all_shortest_paths(plain, source, destination))
            several += len(paths) > 1 and steps > 1
            ways = [attr[[place[pair] for pair in pairwise(path)]] for path in paths]
            expected[at, :steps] = torch.stack(ways).mean(0)
    assert max_length == 1 or several
    torch.testing.assert_close(actual, expected)
    grad = torch.randn_like(actual)
    torch.testing.assert_close(
        *(torch.autograd.grad(out, attr, grad) for out in (actual, expected))
    )


def test_path_features_of_a_repeated_edge_are_the_mean_of_both_edges():
    double, attr = torch.tensor([[0, 0], [1, 1]]), torch.tensor([[1.0], [3.0]])
    length, actual = path_features(double, Graph(double[:, :1], 2), attr, 2)
    assert length.tolist() == [1]
    assert actual.tolist() == [[[2.0], [0.0]]]


def test_path_lengths_are_in_the_order_of_the_edges():
    chain = torch.tensor([[0, 1, 2], [1, 2, 3]])
    over = Graph(torch.tensor([[3, 0, 0, 1, 0], [0, 3, 1, 1, 3]]), 5)
    assert path_lengths(chain, over, 3).tolist() == [4, 3, 1, 0, 3]
    assert path_lengths(chain, over, 2).tolist() == [3, 3, 1, 0, 3]


def test_invalid_max_length_nodes_or_edge_features_raise_error():
    none = torch.empty(2, 0, dtype=torch.long)
    with pytest.raises(ValueError, match="max_length must be >= 0; got -1"):
        path_lengths(none, graphs.complete([2]), -1)
    with pytest.raises(ValueError, match="over must have the same nodes"):
        path_lengths(none, graphs.bipartite([1], [2]), 2)
    with pytest.raises(ValueError, match=r"edge_attr must have shape \(0, d\); got \(2, 1\)"):
        path_features(none, graphs.complete([2]), torch.ones(2, 1), 2)
    with pytest.raises(TypeError, match=r"must contain floating-point numbers; got torch\.int64"):
        path_features(none, graphs.complete([2]), none.t(), 2)
