"""Tests of one hop: C++ kernel and reference give the same bits, and draws are uniform."""

import numpy as np
import pytest
import torch
from scipy import stats

from gattn import Graph
from gattn.kernels import cpu, sampling
from gattn.kernels.sampling import Draw

HUB, NODES = 3, 60
MANY = 5000
"""Number of destinations; the kernel uses several threads from 4,096 rows or edges on."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Graph with a hub, isolated nodes, self-loops and parallel edges, whose edges are not
    sorted.
    """
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, NODES - 5, (2, 400), generator=generator)
    hub = torch.stack([torch.arange(2, NODES), torch.full((NODES - 2,), HUB)])
    pairs = torch.cat([pairs, pairs[:, :50], hub, torch.tensor([[7, 7], [7, 7]])], 1)
    return Graph(pairs[:, torch.randperm(pairs.shape[1], generator=generator)], NODES)


def hop_of(function, graph: Graph, nodes: torch.Tensor, draw: Draw):
    """Run one hop; return its fields and the batch index that it wrote."""
    batch_index = torch.full((graph.num_src,), -1, dtype=torch.int32)
    # If a node occurs several times, its last position is stored. NumPy guarantees this; torch does
    # not, because its threads write in any order.
    batch_index.numpy()[nodes.numpy()] = np.arange(nodes.numel(), dtype=np.int32)
    hop = function(graph.layout, nodes, batch_index, draw, (0, nodes.numel()))
    return [*hop, batch_index]


@pytest.mark.skipif(not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built")
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("num_neighbors", [-1, 0, 1, 3, 40, 1000])
@pytest.mark.parametrize("wide", [False, True])
def test_sampling_kernel_gives_the_same_bits_as_the_reference(graph, num_neighbors, replace, wide):
    nodes = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))[:40]
    draw = Draw(num_neighbors, replace, seed=2**62 + 11, edge_offset=2**20 + 1)
    check_beside_reference(widened(graph) if wide else graph, nodes, draw)


@pytest.fixture(scope="module")
def many() -> Graph:
    """Graph with more destinations and edges than one thread samples, and with a hub."""
    generator = torch.Generator().manual_seed(2)
    pairs = torch.randint(0, 2 * MANY, (2, 8 * MANY), generator=generator)
    hub = torch.stack([torch.arange(MANY), torch.full((MANY,), HUB)])
    return Graph(torch.cat([pairs, hub], 1), 2 * MANY)


@pytest.mark.skipif(not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built")
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("num_neighbors", [-1, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_sampling_with_1_2_or_5_threads_gives_the_same_bits_as_the_reference(
    many, num_neighbors, replace, wide, threads
):
    order = torch.randperm(2 * MANY, generator=torch.Generator().manual_seed(3))
    nodes = torch.cat([torch.tensor([HUB]), order[order != HUB][: MANY - 1]])
    draw = Draw(num_neighbors, replace, seed=2**62 + 11, edge_offset=2**20 + 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check_beside_reference(widened(many) if wide else many, nodes, draw)
    finally:
        torch.set_num_threads(before)


def check_beside_reference(graph: Graph, nodes: torch.Tensor, draw: Draw) -> None:
    got = hop_of(sampling.sample_hop, graph, nodes, draw)
    expected = hop_of(sampling.reference_hop, graph, nodes, draw)
    assert len(got) == len(expected) == 6
    for mine, plain in zip(got, expected, strict=True):
        assert mine.dtype == plain.dtype
        assert torch.equal(mine, plain)


def widened(graph: Graph) -> Graph:
    """Return the graph with int64 indices, which graphs with 2**31 edges need."""
    layout = graph.layout
    return Graph.from_layout(
        layout._replace(**{name: getattr(layout, name).long() for name in layout._fields[:6]})
    )


@pytest.mark.parametrize("function", [sampling.sample_hop, sampling.reference_hop])
@pytest.mark.parametrize("replace", [False, True])
def test_each_neighbour_is_sampled_with_equal_probability(graph, function, replace):
    """Apply a chi-square test to the numbers of times that the edges of the hub are drawn, at many
    positions of many batches.
    """
    degree, num_neighbors, rounds = int(graph.in_degree()[HUB]), 5, 400
    counts = torch.zeros(graph.num_edges, dtype=torch.int64)
    nodes = torch.full((10,), HUB)
    for seed in range(rounds):
        hop = hop_of(function, graph, nodes, Draw(num_neighbors, replace, seed, edge_offset=0))
        counts += torch.bincount(hop[3], minlength=graph.num_edges)
    of_hub = counts[graph.edge_index[1] == HUB]
    assert of_hub.sum() == counts.sum() == rounds * 10 * num_neighbors
    expected = rounds * 10 * num_neighbors / degree
    # Sampling without replacement has a smaller variance.
    spread = 1 if replace else 1 - (num_neighbors - 1) / (degree - 1)
    chi_square = float(((of_hub - expected) ** 2 / expected).sum()) / spread
    assert 0.001 < stats.chi2.sf(chi_square, degree - 1) < 0.999


def test_batch_of_more_than_2147418112_edges_raises_error(graph):
    with pytest.raises(ValueError, match="fewer than 2147418112 edges; got 2147483650"):
        hop_of(sampling.sample_hop, graph, torch.tensor([HUB]), Draw(2, True, 0, 2**31))
