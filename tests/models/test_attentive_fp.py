import torch

from gattn import Graph
from gattn.models import AttentiveFP

OPTIONS = {"edge_dim": 3, "num_layers": 3, "num_timesteps": 2}


def test_attentive_fp_matches_pyg_on_unusual_graphs(beside_pyg, dtype):
    pair = beside_pyg.pair("AttentiveFP", 6, 8, 2, ours=AttentiveFP, dtype=dtype, **OPTIONS)
    for case in beside_pyg.graphs():
        if case.size[0] == 0:
            # PyG fails on a graph without nodes, because it takes the maximum of an empty tensor.
            continue
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(*pair, x, case.edge_index, edge_attr, case.index, where=case.name)


def test_attentive_fp_accepts_the_number_of_molecules_as_an_argument():
    model = AttentiveFP(6, 8, 2, **OPTIONS)
    x, edge_attr = torch.randn(4, 6), torch.randn(4, 3)
    graph = Graph(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), 4)
    batch = torch.tensor([0, 0, 1, 1])
    out = model(x, graph, edge_attr, batch, batch_size=4)
    assert out.shape == (4, 2)
    torch.testing.assert_close(out[:2], model(x, graph, edge_attr, batch))
    assert torch.equal(out[2], out[3])  # molecules 2 and 3 have no atoms
    none = torch.empty(0, dtype=torch.int64)
    assert model(x[:0], none.view(2, 0), edge_attr[:0], none, batch_size=3).shape == (3, 2)
