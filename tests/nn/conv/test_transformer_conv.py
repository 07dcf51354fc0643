import pytest
import torch

from gattn.nn import TransformerConv


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 3, "concat": False, "beta": True},
        {"heads": 2, "beta": True, "bias": False},
        {"heads": 2, "root_weight": False, "beta": True},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "beta": True, "concat": False},
    ],
    ids=str,
)
def test_matches_pyg_on_every_graph(beside_pyg, dtype, options):
    pair = beside_pyg.pair("TransformerConv", 6, 4, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = None
        if "edge_dim" in options:
            edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(
            *pair, x, case.edge_index, edge_attr, return_attention_weights=True, where=case.name
        )


@pytest.mark.parametrize("in_channels", [(6, 5), (-1, -1)], ids=str)
def test_matches_pyg_on_bipartite_graphs(beside_pyg, dtype, in_channels):
    for case in beside_pyg.graphs(bipartite=True):
        m, n = case.size
        x = beside_pyg.draw(m, 6, dtype=dtype), beside_pyg.draw(n, 5, dtype=dtype)
        edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        first = (x, case.edge_index, edge_attr) if in_channels == (-1, -1) else None
        pair = beside_pyg.pair(
            "TransformerConv", in_channels, 4, heads=2, edge_dim=3, dtype=dtype, first=first
        )
        beside_pyg.check(*pair, x, case.edge_index, edge_attr, where=case.name)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["EdgeIndex", "coo", "csr"])
def test_matches_pyg_for_every_kind_of_edges(beside_pyg, kind):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    pair = beside_pyg.pair("TransformerConv", 6, 4, heads=2)
    edges = beside_pyg.kinds[kind](pairs, (5, 5))
    beside_pyg.check(*pair, beside_pyg.draw(5, 6), edges, return_attention_weights=True)


def test_bad_input_gets_one_clear_error():
    x, edge_index = torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(ValueError, match="created without edge_dim and takes no edge_attr"):
        TransformerConv(6, 4)(x, edge_index, torch.randn(3, 2))
    with pytest.raises(ValueError, match="edge_dim=2 and needs edge_attr"):
        TransformerConv(6, 4, edge_dim=2)(x, edge_index)
    with pytest.raises(ValueError, match="features for source and destination"):
        TransformerConv(6, 4)((x, None), edge_index)
