import pytest
import torch
import torch_geometric.nn as pyg

import gattn.nn
from gattn.nn import GPSConv


def _check(beside_pyg, dtype, batch, conv=True, **options):
    pair = beside_pyg.pair(
        "GPSConv", 8, None, heads=2, dtype=dtype, first=None,
        theirs=lambda *args, **kwargs: _build(pyg, conv, **kwargs),
        ours=lambda *args, **kwargs: _build(gattn.nn, conv, **kwargs), **options,
    )  # fmt: skip
    x = beside_pyg.draw(9, 8, dtype=dtype)
    edge_index = torch.tensor([[0, 1, 2, 5, 6, 7], [1, 0, 0, 6, 5, 8]])
    for layer in pair:
        layer.eval()
    beside_pyg.check(*pair, x, edge_index, batch)


def _build(package, conv, **kwargs):
    torch.manual_seed(7)
    return package.GPSConv(8, package.GATv2Conv(8, 4, 2) if conv else None, **kwargs)


@pytest.mark.parametrize("batch", [None, torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 3])], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"conv": False, "norm": None},
        {"norm": "graph_norm", "act": "gelu", "attn_kwargs": {"bias": False}},
        {"norm": "layer_norm", "attn_type": "performer"},
    ],
    ids=str,
)
def test_gps_conv_matches_pyg_for_norms_and_types_of_attention(beside_pyg, dtype, batch, options):
    _check(beside_pyg, dtype, batch, **options)


def test_gps_conv_accepts_a_batch_vector_that_is_not_sorted():
    layer = GPSConv(8, None, heads=2, norm=None).double().eval()
    x, batch = torch.randn(6, 8, dtype=torch.float64), torch.tensor([1, 0, 1, 0, 1, 1])
    order = batch.argsort(stable=True)
    edges = torch.empty(2, 0, dtype=torch.int64)
    expected = layer(x[order], edges, batch[order])
    torch.testing.assert_close(layer(x, edges, batch)[order], expected)


def test_gps_conv_accepts_edge_features_for_its_local_layer():
    layer = GPSConv(8, gattn.nn.GATConv(8, 4, 2, edge_dim=3), heads=2, dropout=0.5)
    x, edge_index = torch.randn(4, 8), torch.tensor([[0, 1], [1, 2]])
    assert layer(x, edge_index, edge_attr=torch.randn(2, 3)).shape == (4, 8)
    layer.reset_parameters()


def test_unknown_attn_type_or_attn_kwargs_of_gps_conv_raises_error():
    with pytest.raises(ValueError, match="attn_type must be 'multihead', 'performer' or"):
        GPSConv(8, None, attn_type="bigbird")
    with pytest.raises(ValueError, match=r"got \['add_bias_kv'\]"):
        GPSConv(8, None, attn_kwargs={"add_bias_kv": True})


def test_gps_conv_with_exphormer_attends_along_attn_index():
    torch.manual_seed(0)
    local = gattn.nn.GATConv(8, 4, 2)
    layer = GPSConv(8, local, heads=2, attn_type="exphormer", attn_kwargs={"edge_dim": 3}).eval()
    x, features = torch.randn(5, 8), torch.randn(10, 3)
    edges, far = torch.tensor([[0, 1], [1, 2]]), gattn.graphs.expander([5], 2)
    out = layer(x, edges, attn_index=far, attn_attr=features)
    near, wide = local(x, edges) + x, layer.attn(x, far, features) + x
    both = layer.norm1(near) + layer.norm2(wide)
    torch.testing.assert_close(out, layer.norm3(both + layer.mlp(both)))
    before = layer.attn.lin_query.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.attn.lin_query.weight, before)
    with pytest.raises(
        ValueError, match="are only for attn_type='exphormer'; got attn_type 'multihead'"
    ):
        GPSConv(8, None)(x, edges, attn_index=far)
