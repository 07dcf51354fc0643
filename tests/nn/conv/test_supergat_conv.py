import pytest
import torch
from torch_geometric.utils import to_undirected

from gattn import Graph
from gattn.nn import SuperGATConv
from gattn.nn.conv.negatives import sample_non_edges, sample_within_graphs


@pytest.mark.parametrize("attention_type", ["MX", "SD"])
def test_attention_loss_of_supergat_conv_equals_that_of_pyg(beside_pyg, dtype, attention_type):
    pair = beside_pyg.pair("SuperGATConv", 6, 4, 2, attention_type=attention_type, dtype=dtype)
    case = beside_pyg.graphs()[-1]
    negatives = torch.tensor([[0, 3, 5], [2, 2, 1]])
    results = []
    for layer in pair:
        layer.train()
        layer(beside_pyg.draw(case.size[0], 6, dtype=dtype), case.edge_index, negatives)
        loss = layer.get_attention_loss()
        loss.backward()
        results.append((loss, layer.att_x, layer.att_y, layer.lin.weight.grad))
    for expected, actual in zip(*results, strict=True):
        tolerance = 1e-10 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    assert pair[1].eval().get_attention_loss() == 0


def test_edge_sample_of_supergat_conv_equals_that_of_pyg_with_the_same_seed(beside_pyg):
    pair = beside_pyg.pair("SuperGATConv", 6, 4, edge_sample_ratio=0.5)
    case = beside_pyg.graphs()[-1]
    logits = []
    for layer in pair:
        torch.manual_seed(0)
        layer(beside_pyg.draw(case.size[0], 6), case.edge_index, torch.tensor([[0], [1]]))
        logits.append(layer.att_x)
    torch.testing.assert_close(logits[1], logits[0])


@pytest.mark.parametrize("nodes", [12, 400])
@pytest.mark.parametrize("symmetric", [False, True])
def test_sampled_negative_pairs_have_no_edge(nodes, symmetric):
    torch.manual_seed(0)
    edge_index = torch.randint(nodes, (2, 5 * nodes))
    edge_index = to_undirected(edge_index) if symmetric else edge_index
    pairs = sample_non_edges(Graph(edge_index, nodes), 3 * nodes, symmetric=symmetric)
    adjacent = torch.eye(nodes, dtype=torch.bool)
    adjacent[edge_index[0], edge_index[1]] = True
    adjacent[edge_index[1], edge_index[0]] = True
    free = int((~adjacent).sum())
    assert pairs.shape == (2, min(3 * nodes, free))
    assert not adjacent[pairs[0], pairs[1]].any()
    assert pairs.unique(dim=1).shape == pairs.shape
    if free > 6 * nodes:
        # With enough pairs to choose from, all nodes are drawn about equally often.
        drawn = torch.bincount(pairs.flatten(), minlength=nodes).double()
        assert drawn.std() < 2 * drawn.mean().sqrt()


def test_negative_pairs_are_sampled_within_each_graph_of_a_batch():
    layer = SuperGATConv(3, 2)
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    edge_index = torch.tensor([[0, 1, 4, 5], [1, 0, 5, 4]])
    pairs = layer.negative_sampling(edge_index, 7, batch)
    assert pairs.shape[1] > 0
    assert torch.equal(batch[pairs[0]], batch[pairs[1]])
    layer(torch.randn(7, 3), edge_index, batch=batch)
    assert layer.get_attention_loss() > 0


def test_negative_pairs_of_an_unsorted_batch_have_no_edge():
    torch.manual_seed(0)
    # Graphs 0, 2, 4 and 6 have nodes; graphs 1, 3 and 5 are empty.
    batch = torch.randint(4, (30,)) * 2
    edge_index = torch.randint(30, (2, 90))
    edge_index = edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]
    adjacent = torch.eye(30, dtype=torch.bool)
    adjacent[edge_index[0], edge_index[1]] = adjacent[edge_index[1], edge_index[0]] = True
    free = ~adjacent & (batch[:, None] == batch)
    pairs = sample_within_graphs(Graph(edge_index, 30), batch, 1000)
    drawn = torch.zeros_like(free).index_put(tuple(pairs), torch.tensor(True))
    assert torch.equal(drawn, free)
    some = sample_within_graphs(Graph(edge_index, 30), batch, 5)
    assert free[some[0], some[1]].all()
    assert torch.equal(batch[some[0]].bincount(), torch.tensor([5, 0, 5, 0, 5, 0, 5]))
    assert sample_within_graphs(Graph(edge_index[:, :0], 0), batch[:0], 5).shape == (2, 0)


def test_checkpointed_supergat_conv_has_the_same_gradient_as_without_checkpointing():
    torch.manual_seed(0)
    x, batch, edge_index = torch.randn(40, 6), torch.arange(40) // 10, torch.randint(40, (2, 200))
    edge_index = edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]
    layer, grads = SuperGATConv(6, 4, 2, dropout=0.3, neg_sample_ratio=0.05), []
    for layer.checkpoint in (False, True):
        torch.manual_seed(1)
        layer.zero_grad()
        layer(x, edge_index, batch=batch)
        layer.get_attention_loss().backward()
        grads.append(layer.lin.weight.grad.clone())
    assert torch.equal(*grads)


def test_invalid_attention_type_or_sampling_ratio_of_supergat_conv_raises_error():
    with pytest.raises(ValueError, match="attention_type must be 'MX' or 'SD'"):
        SuperGATConv(3, 2, attention_type="XM")
    with pytest.raises(ValueError, match="neg_sample_ratio"):
        SuperGATConv(3, 2, neg_sample_ratio=0.0)
