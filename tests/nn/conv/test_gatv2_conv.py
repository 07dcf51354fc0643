import pytest
import torch

from gattn.nn import GATv2Conv


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 3, "concat": False, "negative_slope": 0.01},
        {"heads": 2, "residual": True, "bias": False},
        {"heads": 2, "share_weights": True, "add_self_loops": False},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "share_weights": True, "fill_value": "max"},
        {"heads": 2, "edge_dim": 3, "add_self_loops": False, "residual": True},
    ],
    ids=str,
)
def test_matches_pyg_on_every_graph(beside_pyg, dtype, options):
    pair = beside_pyg.pair("GATv2Conv", 6, 4, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = None
        if "edge_dim" in options:
            edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(
            *pair, x, case.edge_index, edge_attr, return_attention_weights=True, where=case.name
        )


@pytest.mark.parametrize("in_channels", [(6, 5), (-1, -1)], ids=str)
@pytest.mark.parametrize("loops", [False, True])
def test_matches_pyg_on_bipartite_graphs(beside_pyg, dtype, in_channels, loops):
    options = {"heads": 2, "edge_dim": 3, "residual": True, "add_self_loops": loops}
    for case in beside_pyg.graphs(bipartite=True):
        m, n = case.size
        if loops and n > m:
            continue  # PyG would read out of bounds if there are fewer sources than destinations
        x = beside_pyg.draw(m, 6, dtype=dtype), beside_pyg.draw(n, 5, dtype=dtype)
        edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        first = (x, case.edge_index, edge_attr) if in_channels == (-1, -1) else None
        pair = beside_pyg.pair("GATv2Conv", in_channels, 4, dtype=dtype, first=first, **options)
        beside_pyg.check(*pair, x, case.edge_index, edge_attr, where=case.name)


def test_bad_input_gets_one_clear_error():
    x, edge_index = torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(ValueError, match="created without edge_dim and takes no edge_attr"):
        GATv2Conv(6, 4)(x, edge_index, torch.randn(3, 2))
    with pytest.raises(ValueError, match="features for source and destination"):
        GATv2Conv(6, 4)((x, None), edge_index)
