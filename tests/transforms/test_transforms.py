import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from gattn import Graph, graphs, transforms
from gattn.nn import RelativeBias
from gattn.structure import path_lengths

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def _data(**attributes):
    return Data(edge_index=EDGES, num_nodes=4, **attributes)


def test_shortest_paths_of_a_pyg_batch_equal_those_of_the_joined_graph():
    transform = transforms.AddShortestPaths(2)
    batch = Batch.from_data_list([transform(_data()), transform(_data())])
    graph = Graph(batch.path_index, batch.num_nodes)
    assert graph.num_edges == 32
    expected = path_lengths(batch.edge_index, graph, 2)
    assert torch.equal(batch.path_length, expected)
    assert RelativeBias(4, heads=2)(batch.path_length).shape == (32, 2)


@pytest.mark.parametrize("virtual", [0, 2])
def test_expander_edges_of_a_pyg_batch_have_shifted_indices(virtual):
    """The second graph is a node without edges, whose target is no row of a node."""
    alone = Data(edge_index=EDGES[:, :0], num_nodes=1, x=torch.ones(1, 3), y=torch.ones(1, 1))
    arguments = [_data(x=torch.ones(4, 3), y=torch.zeros(1, 1)), alone]
    transform = transforms.AddExpander(2, num_virtual_nodes=virtual, seed=1)
    batch = Batch.from_data_list([transform(data) for data in arguments])
    assert batch.num_nodes == 5 + 2 * virtual
    assert batch.y.tolist() == [[0.0], [1.0]]
    assert batch.x.sum(1).tolist() == [3.0] * 4 + [0.0] * virtual + [3.0] + [0.0] * virtual
    kinds = [batch.expander_index[:, batch.expander_type == kind] for kind in range(4)]
    assert torch.equal(kinds[0], batch.edge_index)
    assert torch.equal(kinds[1], graphs.expander([4], 2, seed=1).edge_index)
    assert torch.equal(kinds[2], kinds[3].flip(0))
    joined = {tuple(pair) for pair in kinds[2].t().tolist()}
    assert joined == {(i, 4 + v) for i in range(4) for v in range(virtual)} | {
        (4 + virtual, 5 + virtual + v) for v in range(virtual)
    }
    if virtual:
        assert torch.equal(batch.is_virtual, batch.x.sum(1) == 0)


def test_transforms_of_hetero_data_or_data_without_edge_index_raise_error():
    with pytest.raises(TypeError, match="data must be a homogeneous"):
        transforms.AddShortestPaths(2)(HeteroData())
    with pytest.raises(ValueError, match="data must have edge_index"):
        transforms.AddShortestPaths(2)(Data(num_nodes=3))
