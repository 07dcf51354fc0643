import networkx
import pytest
import torch

from gattn import Graph, graphs
from gattn.structure import path_lengths


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


def test_path_lengths_are_in_the_order_of_the_edges():
    chain = torch.tensor([[0, 1, 2], [1, 2, 3]])
    over = Graph(torch.tensor([[3, 0, 0, 1, 0], [0, 3, 1, 1, 3]]), 5)
    assert path_lengths(chain, over, 3).tolist() == [4, 3, 1, 0, 3]
    assert path_lengths(chain, over, 2).tolist() == [3, 3, 1, 0, 3]


def test_invalid_max_length_or_nodes_of_path_lengths_raise_error():
    none = torch.empty(2, 0, dtype=torch.long)
    with pytest.raises(ValueError, match="max_length must be >= 0; got -1"):
        path_lengths(none, graphs.complete([2]), -1)
    with pytest.raises(ValueError, match="over must have the same nodes"):
        path_lengths(none, graphs.bipartite([1], [2]), 2)
