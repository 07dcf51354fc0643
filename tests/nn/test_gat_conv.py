import pytest
import torch

from gattn.nn import GATConv

FILLS = ["mean", "add", "min", "max", "mul", 2.5, torch.tensor([0.1, -0.2, 0.3])]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 3, "concat": False},
        {"heads": 2, "residual": True, "bias": False},
        {"heads": 2, "add_self_loops": False, "negative_slope": 0.01},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "add_self_loops": False, "residual": True},
    ],
    ids=str,
)
def test_is_pyg_on_every_graph(beside_pyg, dtype, options):
    pair = beside_pyg.pair("GATConv", 6, 4, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = None
        if "edge_dim" in options:
            edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        beside_pyg.check(
            *pair, x, case.edge_index, edge_attr, return_attention_weights=True, where=case.name
        )
