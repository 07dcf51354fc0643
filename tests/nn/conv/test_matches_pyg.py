"""Convolutions with PyG's arguments compute what PyG's layers compute, on every kind of graph."""

import pytest
import torch
from torch import tanh
from torch_geometric.nn.models import attentive_fp

from gattn import nn

OPTIONS = {
    "AGNNConv": [{"add_self_loops": False}, {"requires_grad": False}],
    "GATConv": [
        {},
        {"heads": 3, "concat": False},
        {"heads": 2, "residual": True, "bias": False},
        {"heads": 2, "add_self_loops": False, "negative_slope": 0.01},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "add_self_loops": False, "residual": True},
    ],
    "GATEConv": [{"edge_dim": 3}],
    "GATv2Conv": [
        {},
        {"heads": 3, "concat": False, "negative_slope": 0.01},
        {"heads": 2, "residual": True, "bias": False},
        {"heads": 2, "share_weights": True, "add_self_loops": False},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "share_weights": True, "fill_value": "max"},
        {"heads": 2, "edge_dim": 3, "add_self_loops": False, "residual": True},
    ],
    "ResGatedGraphConv": [{}, {"edge_dim": 3}, {"root_weight": False, "bias": False, "act": tanh}],
    "SuperGATConv": [
        {},
        {"heads": 2, "concat": False, "bias": False},
        {"heads": 2, "attention_type": "SD", "negative_slope": 0.01},
        {"heads": 2, "attention_type": "SD", "add_self_loops": False},
    ],
    "TransformerConv": [
        {},
        {"heads": 3, "concat": False, "beta": True},
        {"heads": 2, "beta": True, "bias": False},
        {"heads": 2, "root_weight": False, "beta": True},
        {"heads": 2, "edge_dim": 3},
        {"heads": 2, "edge_dim": 3, "beta": True, "concat": False},
    ],
}
WIDTHS = {"AGNNConv": (), "GATEConv": (6, 6)}
"""Positional arguments of the layers whose widths are not (6, 4)."""
RETURN_WEIGHTS = ("GATConv", "GATv2Conv", "TransformerConv")


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name, several in OPTIONS.items() for options in several],
    ids=lambda value: str(value).partition(" at 0x")[0],  # workers have other addresses
)
def test_layers_match_pyg_on_unusual_graphs(beside_pyg, dtype, name, options):
    theirs = attentive_fp.GATEConv if name == "GATEConv" else None
    widths = WIDTHS.get(name, (6, 4))
    pair = beside_pyg.pair(name, *widths, theirs=theirs, dtype=dtype, **options)
    for layer in pair:
        layer.eval()
    returned = {"return_attention_weights": True} if name in RETURN_WEIGHTS else {}
    for case in beside_pyg.graphs():
        args = beside_pyg.draw(case.size[0], 6, dtype=dtype), case.edge_index
        if "edge_dim" in options:
            args += (beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype),)
        beside_pyg.check(*pair, *args, **returned, where=case.name)


@pytest.mark.parametrize("in_channels", [(6, 5), (-1, -1)], ids=str)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("GATConv", {"residual": True, "add_self_loops": False}),
        ("GATConv", {"residual": True, "add_self_loops": True}),
        ("GATv2Conv", {"residual": True, "add_self_loops": False}),
        ("GATv2Conv", {"residual": True, "add_self_loops": True}),
        ("TransformerConv", {}),
    ],
    ids=str,
)
def test_layers_match_pyg_on_bipartite_graphs(beside_pyg, dtype, name, options, in_channels):
    for case in beside_pyg.graphs(bipartite=True):
        m, n = case.size
        if options.get("add_self_loops") and n > m:
            continue  # PyG would read out of bounds if there are fewer sources than destinations
        x = beside_pyg.draw(m, 6, dtype=dtype), beside_pyg.draw(n, 5, dtype=dtype)
        args = x, case.edge_index, beside_pyg.draw(case.edge_index.shape[1], 3, dtype=dtype)
        first = args if in_channels == (-1, -1) else None
        pair = beside_pyg.pair(
            name, in_channels, 4, heads=2, edge_dim=3, dtype=dtype, first=first, **options
        )
        beside_pyg.check(*pair, *args, where=case.name)
        if name == "GATConv":
            beside_pyg.check(*pair, *args, size=case.size, where=case.name)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["pairs", "EdgeIndex", "coo", "csr"])
@pytest.mark.parametrize("loops", [False, True, None])
def test_gat_and_transformer_conv_match_pyg_for_every_format_of_edges(beside_pyg, loops, kind):
    name, options = "GATConv", {"add_self_loops": loops}
    if loops is None:
        name, options = "TransformerConv", {}
    # Sparse matrices sort edges by destination, then by source, so these edges are sorted in the
    # same way.
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    pair = beside_pyg.pair(name, 6, 4, heads=2, **options)
    edges = beside_pyg.kinds[kind](pairs, (5, 5))
    beside_pyg.check(*pair, beside_pyg.draw(5, 6), edges, return_attention_weights=True)


def test_cosine_of_a_zero_vector_in_agnn_conv_is_zero():
    x, edge_index = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0, 1], [1, 0]])
    torch.testing.assert_close(nn.AGNNConv()(x, edge_index)[0], x.mean(0))


X, EDGES = torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.GATv2Conv(6, 4)(X, EDGES, torch.ones(3, 2)), "edge_dim and takes no edge_attr"),
        (lambda: nn.GATv2Conv(6, 4)((X, None), EDGES), "features for source and destination"),
        (lambda: nn.TransformerConv(6, 4)((X, None), EDGES), "features for source and destination"),
        (lambda: nn.TransformerConv(6, 4)(X, EDGES, torch.ones(3, 2)), "takes no edge_attr"),
        (lambda: nn.TransformerConv(6, 4, edge_dim=2)(X, EDGES), "edge_dim=2 and needs edge_attr"),
        (lambda: nn.GATEConv(6, 4, 3), r"out_channels must be in_channels \(6\); got 4"),
    ],
)
def test_missing_or_unexpected_features_or_invalid_channels_of_layers_raise_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
