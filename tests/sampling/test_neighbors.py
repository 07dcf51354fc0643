"""Tests of neighbour samples: their edges, their numbering, which is PyG's, and their graphs."""

import pytest
import torch

from gattn import Graph
from gattn.kernels import cpu
from gattn.layout import layout as reference
from gattn.nn import GATConv
from gattn.sampling import NeighborSampler, TypedNeighborSampler

NODES, EDGES = 500, 4000
NUM_NEIGHBORS = [5, 3, 2]


@pytest.fixture(scope="module")
def pairs() -> torch.Tensor:
    """Return edges with hubs, parallel edges, self-loops and isolated last nodes."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.rand(2, EDGES, generator=generator) ** 3 * (NODES - 20)
    return ends.long()


@pytest.fixture(scope="module")
def graph(pairs) -> Graph:
    return Graph(pairs, NODES)


SEEDS = torch.tensor([499, 3, 120, 3, 0, 77])


def test_sampling_gives_equal_edges_with_and_without_kernels(graph, monkeypatch):
    expected = NeighborSampler(graph, NUM_NEIGHBORS).sample(SEEDS, random_seed=1)
    monkeypatch.setattr(cpu, "_kernels", None)
    monkeypatch.setattr(cpu, "_LARGE", 1)
    sample = NeighborSampler(graph, NUM_NEIGHBORS).sample(SEEDS, random_seed=1)
    assert torch.equal(sample.edge_index, expected.edge_index)
    assert torch.equal(sample.edges, expected.edges)


def check(sample, graph, pairs, seeds, num_neighbors, replace):
    """Check every property of a sample."""
    nodes, edges, edge_index = sample.nodes, sample.edges, sample.edge_index
    assert torch.equal(nodes[: seeds.numel()], seeds)
    assert torch.equal(nodes[edge_index], pairs[:, edges])  # every sampled edge exists in the graph
    others = nodes[seeds.numel() :]
    assert others.unique().numel() == others.numel()
    assert not torch.isin(others, seeds).any()
    assert sum(sample.num_nodes) == nodes.numel()
    assert sum(sample.num_edges) == edges.numel()
    # New nodes are numbered in the order of their first edge.
    fresh = edge_index[0][edge_index[0] >= seeds.numel()]
    assert torch.equal(torch.tensor(list(dict.fromkeys(fresh.tolist()))), nodes_of(sample))
    begin_node, begin_edge = 0, 0
    for hop, number in enumerate(num_neighbors):
        count, drawn = sample.num_nodes[hop], sample.num_edges[hop]
        part = edge_index[:, begin_edge : begin_edge + drawn]
        rows = torch.arange(begin_node, begin_node + count)
        degree = graph.in_degree()[nodes[rows]]
        counts = torch.bincount(part[1], minlength=nodes.numel())
        sampled = (degree > 0) * number if replace else degree.clamp(max=number)
        expected = degree if number < 0 else sampled
        assert torch.equal(counts[rows], expected)
        assert counts.sum() == expected.sum()
        if not replace:
            joined = part[1] * EDGES + edges[begin_edge : begin_edge + drawn]
            assert joined.unique().numel() == drawn
        begin_node, begin_edge = begin_node + count, begin_edge + drawn


def nodes_of(sample):
    return torch.arange(sample.num_nodes[0], sample.nodes.numel())


def test_graph_of_each_layer_equals_one_built_from_the_sampled_edges_of_its_hops(graph):
    sample = NeighborSampler(graph, NUM_NEIGHBORS).sample(SEEDS, random_seed=2)
    assert len(sample.layer_graphs) == 3
    for layer, block in enumerate([*sample.layer_graphs, sample.graph]):
        hops = max(3 - layer, 0) or 3
        edges = sum(sample.num_edges[:hops])
        size = sum(sample.num_nodes[: hops + 1]), sum(sample.num_nodes[:hops])
        if layer == 3:
            size = (sample.nodes.numel(),) * 2
        assert block.size == size
        expected = reference.build(*sample.edge_index[:, :edges], *size)
        for actual, index in zip(block.layout[:6], expected[:6], strict=True):
            assert torch.equal(actual, index)


def test_sampler_gives_equal_samples_for_equal_seeds_with_1_to_4_threads(graph):
    sampler = NeighborSampler(graph, [40, 40, 5])
    seeds = torch.arange(300)
    threads = torch.get_num_threads()
    samples = []
    for count in (1, 2, 3, 4, 4):
        torch.set_num_threads(count)
        samples.append(sampler.sample(seeds, random_seed=7))
    torch.set_num_threads(threads)
    for other in samples[1:]:
        assert torch.equal(samples[0].nodes, other.nodes)
        assert torch.equal(samples[0].edges, other.edges)
        assert torch.equal(samples[0].edge_index, other.edge_index)
    assert not torch.equal(sampler.sample(seeds, random_seed=8).edges[:500], samples[0].edges[:500])


def test_layer_outputs_on_samples_of_all_neighbours_equal_those_on_the_whole_graph(graph, pairs):
    """With all neighbours, outputs of the seed nodes equal those on the full graph."""
    torch.manual_seed(0)
    x = torch.randn(NODES, 6, dtype=torch.float64)
    layers = [GATConv(6, 6).double(), GATConv(6, 4).double()]
    seeds = SEEDS.unique()
    sample = NeighborSampler(graph, [-1, -1]).sample(seeds, random_seed=0)
    h, whole = x[sample.nodes], x
    for layer, part in zip(layers, sample.layer_graphs, strict=True):
        h, whole = layer((h, h[: part.num_dst]), part), layer(whole, graph)
    torch.testing.assert_close(h, whole[seeds])


def test_failed_sample_does_not_change_later_samples(graph, pairs):
    sampler = NeighborSampler(graph, NUM_NEIGHBORS)
    expected = sampler.sample(SEEDS, random_seed=3)
    with pytest.raises(
        ValueError, match=r"seed_nodes must be in \[0, 500\); got 500 at position 1"
    ):
        sampler.sample(torch.tensor([1, 500]), random_seed=3)
    again = sampler.sample(SEEDS, random_seed=3)
    assert torch.equal(again.nodes, expected.nodes)
    assert torch.equal(again.edges, expected.edges)


@pytest.fixture(scope="module")
def typed() -> dict[tuple[str, str, str], torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    sizes = {"author": 40, "paper": 70, "venue": 3}
    kinds = [("author", "writes", "paper"), ("paper", "cites", "paper")]
    kinds += [("paper", "written by", "author"), ("venue", "prints", "paper")]
    return {
        kind: torch.stack(
            [torch.randint(sizes[kind[i]], (200,), generator=generator) for i in (0, 2)]
        )
        for kind in kinds
    }


TYPED_SIZES = {"author": 40, "paper": 70, "venue": 3}


def test_typed_sampler_samples_neighbours_along_each_edge_type(typed):
    graphs = {
        kind: Graph(pairs, (TYPED_SIZES[kind[0]], TYPED_SIZES[kind[2]]))
        for kind, pairs in typed.items()
    }
    num_neighbors = {kind: [3, 2] for kind in typed}
    num_neighbors["paper", "cites", "paper"] = [1, -1]
    sampler = TypedNeighborSampler(graphs, num_neighbors)
    seeds = torch.tensor([5, 60, 1])
    sample = sampler.sample({"paper": seeds}, random_seed=9)
    assert torch.equal(sample.nodes["paper"][:3], seeds)
    assert sample.num_nodes["author"][0] == sample.num_nodes["venue"][0] == 0
    assert len(sample.layer_graphs) == 2
    for kind, pairs in typed.items():
        source, _, destination = kind
        ends = sample.edge_index[kind]
        assert torch.equal(sample.nodes[source][ends[0]], pairs[0, sample.edges[kind]])
        assert torch.equal(sample.nodes[destination][ends[1]], pairs[1, sample.edges[kind]])
        first = sample.num_edges[kind][0]
        counts = torch.bincount(ends[1, :first], minlength=3)
        if destination == "paper":
            degree = graphs[kind].in_degree()[seeds]
            assert torch.equal(counts, degree.clamp(max=num_neighbors[kind][0]))
        for layer, block in enumerate(graphs_of[kind] for graphs_of in sample.layer_graphs):
            hops = 2 - layer
            of_source = sum(sample.num_nodes[source][: hops + 1])
            size = of_source, sum(sample.num_nodes[destination][:hops])
            assert block.size == size
            assert torch.equal(block.edge_index, ends[:, : sum(sample.num_edges[kind][:hops])])
    assert sample.nodes.keys() == TYPED_SIZES.keys()
    for nodes in sample.nodes.values():
        assert nodes.unique().numel() == nodes.numel()


def test_invalid_graphs_neighbours_or_seeds_of_a_sampler_raise_error(graph):
    bipartite = Graph(torch.tensor([[0], [0]]), (2, 3))
    sampler = NeighborSampler(graph, [2])
    with pytest.raises(TypeError, match=r"graph must be a gattn.Graph; got Tensor"):
        NeighborSampler(torch.zeros(2, 0), [2])
    with pytest.raises(ValueError, match="all edges must connect the same nodes; got 2 and 3"):
        NeighborSampler(bipartite, [2])
    with pytest.raises(ValueError, match="each of num_neighbors must be >= -1; got -2"):
        NeighborSampler(graph, [3, -2])
    with pytest.raises(TypeError, match=r"each of num_neighbors must be an int; got 2.5"):
        NeighborSampler(graph, [2.5])
    with pytest.raises(ValueError, match="at least one hop; got"):
        NeighborSampler(graph, [])
    with pytest.raises(
        TypeError, match=r"seed_nodes must be a tensor of integers; got torch.float32"
    ):
        sampler.sample(torch.zeros(2), random_seed=0)
    with pytest.raises(ValueError, match=r"seed_nodes must have shape \(b,\); got \(1, 1\)"):
        sampler.sample(torch.zeros(1, 1, dtype=torch.int64), random_seed=0)
    with pytest.raises(ValueError, match=r"got -1 at position 0"):
        sampler.sample(torch.tensor([-1]), random_seed=0)
    with pytest.raises(ValueError, match=r"random_seed must be below 2\*\*63"):
        sampler.sample(SEEDS, random_seed=2**63)
    kinds = {("a", "x", "b"): bipartite, ("b", "y", "a"): bipartite}
    with pytest.raises(ValueError, match="the same nodes of type 'b'; got 3 and 2"):
        TypedNeighborSampler(kinds, [2])
    with pytest.raises(ValueError, match="num_neighbors must have the edge types"):
        TypedNeighborSampler({("a", "x", "b"): bipartite}, {})
    with pytest.raises(ValueError, match=r"seed_nodes must be of \['a', 'b'\]; got 'c'"):
        TypedNeighborSampler({("a", "x", "b"): bipartite}, [1]).sample({"c": SEEDS}, random_seed=0)
