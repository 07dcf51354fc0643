import pytest
import torch

from gattn.nn import AGNNConv


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_matches_pyg_on_every_graph(beside_pyg, dtype, requires_grad, loops):
    pair = beside_pyg.pair("AGNNConv", requires_grad, loops, dtype=dtype)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        beside_pyg.check(*pair, x, case.edge_index, where=case.name)


def test_cosine_with_zero_vector_is_zero():
    x, edge_index = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0, 1], [1, 0]])
    out = AGNNConv()(x, edge_index)
    torch.testing.assert_close(out[0], x.mean(0))
