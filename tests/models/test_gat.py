import pytest
import torch

from gattn import Graph
from gattn.models import GAT
from gattn.nn import GATConv, GATv2Conv


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 4, "out_channels": 3},
        {"heads": 2, "v2": True, "edge_dim": 3, "norm": "graph_norm", "jk": "cat"},
        {"heads": 3, "concat": False, "residual": True, "act": "elu", "act_first": True},
    ],
    ids=str,
)
def test_is_pyg(beside_pyg, dtype, options):
    pair = beside_pyg.pair("GAT", 6, 8, 3, ours=GAT, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = None
        if "edge_dim" in options:
            edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(*pair, x, case.edge_index, edge_attr=edge_attr, where=case.name)


def test_layers_and_dropout():
    model = GAT(6, 8, 2, 3, dropout=0.5, heads=2)
    assert [type(conv) for conv in model.convs] == [GATConv, GATConv]
    assert [type(conv) for conv in GAT(6, 8, 2, v2=True).convs] == [GATv2Conv, GATv2Conv]
    assert all(conv.dropout == 0.5 for conv in model.convs)
    x, graph = torch.randn(4, 6), Graph(torch.tensor([[0, 1], [1, 2]]), 4)
    assert not torch.equal(model(x, graph), model(x, graph))
    assert torch.equal(model.eval()(x, graph), model(x, graph.edge_index))
    with pytest.raises(ValueError, match=r"heads must divide the channels \(8\); got 3"):
        GAT(6, 8, 2, heads=3)
