import pytest
from torch_geometric.nn.models import attentive_fp

from gattn.nn import GATEConv


def test_matches_pyg_on_every_graph(beside_pyg, dtype):
    pair = beside_pyg.pair("GATEConv", 6, 6, 3, theirs=attentive_fp.GATEConv, dtype=dtype)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(*pair, x, case.edge_index, edge_attr, where=case.name)


def test_channels_must_agree():
    with pytest.raises(ValueError, match=r"out_channels must be in_channels \(6\); got 4"):
        GATEConv(6, 4, 3)
