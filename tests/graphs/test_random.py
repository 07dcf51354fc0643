"""Expander graphs are regular, without repeated edges, reproducible, and have a spectral gap."""

import networkx
import pytest
import torch

from gattn import graphs

SMALL = [(n, d) for n in range(12) for d in range(n + 2)]


@pytest.mark.parametrize("seed", [0, 5])
def test_small_expanders_are_regular_symmetric_and_connected(seed):
    for nodes, degree in SMALL:
        graph = graphs.expander([nodes], degree, seed=seed)
        pairs = [tuple(pair) for pair in graph.edge_index.t().tolist()]
        expected = min(degree + nodes * degree % 2, max(nodes - 1, 0))
        assert graph.size == (nodes, nodes)
        assert graph.in_degree().tolist() == [expected] * nodes
        assert len(set(pairs)) == len(pairs)
        assert {pair[::-1] for pair in pairs} == set(pairs)
        assert all(source != destination for source, destination in pairs)
        assert pairs == sorted(pairs, key=lambda pair: pair[::-1])
        if expected >= 2:
            assert networkx.is_connected(networkx.Graph(pairs))


def test_expander_of_one_graph_does_not_depend_on_its_batch():
    sizes = [5, 0, 9, 1, 9, 2]
    parts = [graphs.expander([size], 3, seed=2) for size in sizes]
    batch = graphs.expander(sizes, 3, seed=2)
    assert torch.equal(batch.edge_index, graphs.disjoint_union(parts).edge_index)
    assert graphs.expander([], 3).size == (0, 0)


def test_expander_depends_on_its_seed_and_does_not_change_the_global_generator():
    assert graphs.expander([7], 2, seed=3).edge_index[0].tolist() == [
        1, 2, 0, 4, 0, 3, 2, 6, 1, 5, 4, 6, 3, 5,
    ]  # fmt: skip
    draws = [graphs.expander([30], 4, seed=seed).edge_index for seed in (0, 0, 1, 2**63 - 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[2], draws[3])
    torch.manual_seed(0)
    before = torch.get_rng_state()
    graphs.expander([30], 4)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        *(((3, 2), TypeError, "must be a list of ints"), (([3], -1), ValueError, "degree must be")),
        (([3], 2.0), TypeError, "degree must be an int; got 2.0"),
    ],
)
def test_invalid_sizes_or_degree_of_an_expander_raise_error(arguments, error, message):
    with pytest.raises(error, match=message):
        graphs.expander(*arguments)
