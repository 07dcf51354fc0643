"""Tests of NeighborLoader: PyG's fields, the graphs of the layers, and equal batches for any number
of threads.
"""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import trim_to_layer

from gattn import Graph
from gattn.data import NeighborLoader
from gattn.nn import GATConv, GATv2Conv, TransformerConv

NODES, EDGES = 200, 1500


@pytest.fixture(scope="module")
def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, NODES - 10, (2, EDGES), generator=generator)
    return Data(
        x=torch.randn(NODES, 8, generator=generator),
        y=torch.arange(NODES),
        edge_index=edge_index,
        edge_attr=torch.randn(EDGES, 3, generator=generator),
        train_mask=torch.arange(NODES) % 3 == 0,
        name="network",
    )


def loader_of(data, **options):
    options = {"batch_size": 16, "generator": torch.Generator().manual_seed(5), **options}
    return NeighborLoader(data, options.pop("num_neighbors", [4, 3]), **options)


def test_sampled_batches_have_the_fields_of_pyg_batches_and_match_the_data(data):
    loader = loader_of(data, input_nodes=data.train_mask, shuffle=True)
    batches = list(loader)
    assert len(batches) == len(loader) == 5
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in batches])
    assert torch.equal(seeds.sort().values, data.train_mask.nonzero().squeeze(1))
    assert not torch.equal(seeds, seeds.sort().values)
    for batch in batches:
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, batch.n_id)
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert batch.name == "network"
        assert sum(batch.num_sampled_nodes) == batch.num_nodes == batch.graph.num_src
        assert sum(batch.num_sampled_edges) == batch.num_edges == batch.graph.num_edges
        assert torch.equal(batch.graph.edge_index, batch.edge_index)
        for layer, graph in enumerate(batch.layer_graphs):
            assert torch.equal(graph.edge_index, batch.edge_index[:, : graph.num_edges])
            assert graph.num_dst == sum(batch.num_sampled_nodes[: 2 - layer])


@pytest.mark.parametrize("kind", [GATConv, GATv2Conv, TransformerConv])
def test_layer_outputs_on_sampled_graphs_equal_those_with_trim_to_layer(data, kind):
    """With the graph of each layer, the outputs of the seed nodes equal those with PyG's
    ``trim_to_layer``.
    """
    torch.manual_seed(0)
    layers = [kind(8, 8), kind(8, 4)]
    batches = list(loader_of(data, num_neighbors=[3, -1], num_workers=0, batch_size=64))
    assert len(batches) == 4
    for batch in batches:
        assert len(batch.layer_graphs) == 2
        x, edge_index, trimmed = batch.x, batch.edge_index, batch.x
        sampled = batch.num_sampled_nodes, batch.num_sampled_edges
        for number, (layer, graph) in enumerate(zip(layers, batch.layer_graphs)):
            x = layer((x, x[: graph.num_dst]), graph)
            trimmed, edge_index, _ = trim_to_layer(number, *sampled, trimmed, edge_index)
            trimmed = layer(trimmed, edge_index)
        seeds = batch.batch_size
        assert x.shape[0] == seeds
        torch.testing.assert_close(x, trimmed[:seeds], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 3])
def test_number_of_workers_does_not_change_batches(data, workers):
    expected = list(loader_of(data, num_workers=0, shuffle=True))
    background = list(loader_of(data, num_workers=workers, prefetch_factor=2, shuffle=True))
    assert len(expected) == len(background)
    for one, other in zip(expected, background, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert torch.equal(one.e_id, other.e_id)


def test_loaders_with_equal_torch_seeds_give_equal_samples(data):
    def epochs(seed):
        torch.manual_seed(seed)
        loader = NeighborLoader(data, [2], batch_size=100)
        return [batch.e_id for _ in range(2) for batch in loader]

    first, again, other = epochs(0), epochs(0), epochs(1)
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], first[2])  # The loader draws a new sample in each epoch.
    assert not torch.equal(first[0], other[0])


def test_loader_restarts_after_a_break_and_raises_errors_of_its_transform(data):
    loader = loader_of(data, num_workers=2)
    for _ in loader:
        break
    assert next(iter(loader)).batch_size == 16

    def fail(batch):
        raise RuntimeError("not this one")

    with pytest.raises(RuntimeError, match="not this one"):
        next(iter(loader_of(data, transform=fail)))


def test_loader_with_features_on_disk_gives_the_same_batches_as_in_memory(data, tmp_path):
    np.save(tmp_path / "x.npy", data.x.numpy())
    x = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    stored = Data(x=x, y=data.y)
    graph = Graph(data.edge_index, NODES)
    batch = next(iter(loader_of(stored, graph=graph)))
    plain = next(iter(loader_of(data)))
    assert torch.equal(batch.edge_index, plain.edge_index)
    assert torch.equal(batch.x, plain.x)


def test_batches_of_a_hetero_graph_contain_sampled_nodes_of_each_type():
    generator = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["author"].x = torch.randn(30, 4)
    data["paper"].x = torch.randn(50, 4)
    sizes = {"author": 30, "paper": 50}
    kinds = [("author", "writes", "paper"), ("paper", "cites", "paper")]
    kinds.append(("paper", "rev_writes", "author"))
    for source, name, destination in kinds:
        pairs = [
            torch.randint(sizes[k], (150,), generator=generator) for k in (source, destination)
        ]
        data[source, name, destination].edge_index = torch.stack(pairs)
    loader = NeighborLoader(
        data, {kind: [3, 2] for kind in kinds}, ("paper", torch.arange(20)), batch_size=7
    )
    batches = list(loader)
    assert [batch["paper"].batch_size for batch in batches] == [7, 7, 6]
    for batch in batches:
        seeds = batch["paper"].batch_size
        assert torch.equal(batch["paper"].n_id[:seeds], batch["paper"].input_id)
        for kind in kinds:
            nodes = batch[kind[0]].n_id, batch[kind[2]].n_id
            edges = torch.stack([ids[row] for ids, row in zip(nodes, batch[kind].edge_index)])
            assert torch.equal(data[kind].edge_index[:, batch[kind].e_id], edges)
            assert torch.equal(batch.graph[kind].edge_index, batch[kind].edge_index)
        last = batch.layer_graphs[-1]["author", "writes", "paper"]
        out = GATConv((4, 4), 2, add_self_loops=False)(
            (batch["author"].x[: last.num_src], batch["paper"].x[:seeds]), last
        )
        assert out.shape == (seeds, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subgraph_type": "induced"}, "subgraph_type must be 'directional'; got 'induced'"),
        ({"disjoint": True}, "does not support disjoint: it must be False; got True"),
        ({"time_attr": "t"}, "does not support time_attr: it must be None; got 't'"),
        ({"weight_attr": "w"}, "does not support weight_attr"),
        ({"batch_size": None}, "batch_size must be an int; got None"),
        ({"num_workers": -1}, "num_workers must be >= 0; got -1"),
        ({"num_neighbors": [-2]}, "each of num_neighbors must be >= -1; got -2"),
        ({"graph": Graph(torch.tensor([[0], [0]]), 3)}, "graph must have the 200 nodes"),
        ({"input_nodes": torch.ones(150) > 0}, r"a mask of seeds must have shape \(200,\); got"),
        ({"input_nodes": [True, False]}, r"a mask of seeds must have shape \(200,\); got \(2,"),
    ],
)
def test_unsupported_or_invalid_loader_options_raise_error(data, options, message):
    with pytest.raises(ValueError, match=message):
        loader_of(data, **options)


def test_unknown_arguments_or_invalid_data_or_seeds_of_a_loader_raise_error(data):
    with pytest.raises(TypeError, match="has no argument 'batchsize'"):
        loader_of(data, batchsize=3)
    with pytest.raises(TypeError, match="data must be a Data or HeteroData; got Tensor"):
        NeighborLoader(data.x, [2])
    with pytest.raises(ValueError, match="data must have an edge_index or an adj_t"):
        NeighborLoader(Data(x=data.x), [2])
    for layout, attr in ((torch.sparse_csr, None), (torch.sparse_coo, "edge_attr")):
        sparse = ToSparseTensor(attr, layout=layout)(data.clone())
        with pytest.raises(
            ValueError, match=r"adj_t must be a .*SparseTensor.*; got torch\.sparse"
        ):
            NeighborLoader(sparse, [2])
    with pytest.raises(TypeError, match="num_neighbors must be a list with an int per hop; got 5"):
        NeighborLoader(data, 5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="one num_neighbors list; got a dict"):
        NeighborLoader(data, {("a", "b", "c"): [2]})
    with pytest.raises(ValueError, match=r"seed_nodes must be in \[0, 200\); got 200 at"):
        list(loader_of(data, input_nodes=torch.tensor([1, 200])))
