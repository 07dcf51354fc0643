import networkx
import pytest
import torch

from gattn import Graph, graphs
from gattn.structure import path_lengths


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("max_length", [0, 1, 3, 20])
def test_networkx_agrees(directed, max_length):
    plain = networkx.gnm_random_graph(14, 15, seed=3, directed=directed)
    graph = graphs.from_networkx(plain)
    over = graphs.complete([14])
    expected = torch.full((14, 14), max_length + 1)
    for source, lengths in networkx.all_pairs_shortest_path_length(plain, cutoff=max_length):
        for destination, length in lengths.items():
            expected[destination, source] = length
    found = path_lengths(graph, over, max_length)
    assert torch.equal(found.view(14, 14), expected)


def test_in_the_order_of_the_edges_that_ask():
    chain = torch.tensor([[0, 1, 2], [1, 2, 3]])
    over = Graph(torch.tensor([[3, 0, 0, 1, 0], [0, 3, 1, 1, 3]]), 5)
    assert path_lengths(chain, over, 3).tolist() == [4, 3, 1, 0, 3]
    assert path_lengths(chain, over, 2).tolist() == [3, 3, 1, 0, 3]


def test_empty_graphs():
    none = torch.empty(2, 0, dtype=torch.long)
    assert path_lengths(none, Graph(none, 0), 3).shape == (0,)
    assert path_lengths(none, graphs.complete([2]), 3).tolist() == [0, 4, 4, 0]


def test_bad_input_gets_one_clear_error():
    none = torch.empty(2, 0, dtype=torch.long)
    with pytest.raises(ValueError, match="max_length must be >= 0; got -1"):
        path_lengths(none, graphs.complete([2]), -1)
    with pytest.raises(ValueError, match="over must join the nodes of one set"):
        path_lengths(none, graphs.bipartite([1], [2]), 2)
