import pytest
import torch

from gattn.nn import AGNNConv


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_is_pyg_on_every_graph(beside_pyg, dtype, requires_grad, loops):
    pair = beside_pyg.pair("AGNNConv", requires_grad, loops, dtype=dtype)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        beside_pyg.check(*pair, x, case.edge_index, where=case.name)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["EdgeIndex", "coo", "csr"])
def test_is_pyg_for_every_kind_of_edges(beside_pyg, kind):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    pair = beside_pyg.pair("AGNNConv")
    beside_pyg.check(*pair, beside_pyg.draw(5, 6), beside_pyg.kinds[kind](pairs, (5, 5)))


def test_a_node_of_zeros_is_alike_to_none():
    x, edge_index = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0, 1], [1, 0]])
    out = AGNNConv()(x, edge_index)
    torch.testing.assert_close(out[0], x.mean(0))
