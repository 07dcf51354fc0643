"""PointTransformerConv compared with PyG's layer."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import MLP

from gattn.nn import PointTransformerConv

EDGES = torch.tensor([[0, 1, 2, 3, 2], [1, 2, 1, 1, 2]])


def _networks(pos_norm=None):
    pos_nn = MLP([3, 5, 4], norm=pos_norm)
    return {"pos_nn": pos_nn, "attn_nn": nn.Sequential(nn.Linear(4, 4), nn.ReLU())}


@pytest.mark.parametrize(
    "options", [{}, {"add_self_loops": False}, _networks(), _networks("batch_norm")],
    ids=["plain", "no loops", "networks", "normalised"],
)  # fmt: skip
def test_point_transformer_conv_matches_pyg_on_unusual_graphs(beside_pyg, options):
    pair = [layer.eval() for layer in beside_pyg.pair("PointTransformerConv", 6, 4, **options)]
    assert pair[1].fused
    for case in beside_pyg.graphs():
        x, pos = beside_pyg.draw(case.size[0], 6), beside_pyg.draw(case.size[0], 3)
        beside_pyg.check(*pair, x, pos, case.edge_index, where=case.name)


def test_point_transformer_conv_with_batch_norm_is_not_fused_in_training_and_matches_pyg(
    beside_pyg,
):
    pair = beside_pyg.pair("PointTransformerConv", 6, 4, **_networks("batch_norm"))
    assert pair[1].slow_path_reason == "pos_nn: BatchNorm1d may combine several rows"
    x, pos = beside_pyg.draw(4, 6), beside_pyg.draw(4, 3)
    beside_pyg.check(*pair, x, pos, EDGES)
    assert pair[1].eval().fused
    assert (
        "may combine several rows"
        in PointTransformerConv(6, 4, attn_nn=torch.softmax).slow_path_reason
    )
    lazy = PointTransformerConv(6, 4, attn_nn=nn.LazyLinear(4))
    assert lazy.slow_path_reason == "attn_nn: LazyLinear takes its widths from its first input"


@pytest.mark.parametrize("options", [{}, _networks()], ids=["plain", "networks"])
def test_point_transformer_conv_with_edge_weight_and_attn_bias_equals_a_loop_over_edges(options):
    torch.manual_seed(0)
    layer = PointTransformerConv(6, 4, **options).double()
    args = torch.randn(4, 6).double(), torch.randn(4, 3).double(), EDGES
    weight, bias = torch.rand(5).double(), torch.randn(5).double()
    bias[1] = -torch.inf
    terms = {"edge_weight": weight, "attn_bias": bias}
    fused = layer(*args, **terms)
    torch.testing.assert_close(fused, _one_by_one(layer, *args, weight, bias))
    layer.register_message_forward_hook(lambda layer, inputs, out: None)
    torch.testing.assert_close(layer(*args, **terms), fused)


def _one_by_one(layer, x, pos, edge_index, weight, bias):
    """Compute the layer's equations point by point; the layer's self-loops replace those of the
    graph.
    """
    out = []
    for i in range(len(x)):
        edges = [e for e in range(edge_index.shape[1])
                 if edge_index[1, e] == i and edge_index[0, e] != i]  # fmt: skip
        sources = torch.tensor([*edge_index[0, edges].tolist(), i])
        offset = layer.pos_nn(pos[i] - pos[sources])
        score = layer.lin_dst(x[i]) - layer.lin_src(x[sources]) + offset
        score = score if layer.attn_nn is None else layer.attn_nn(score)
        score = score + torch.cat([bias[edges], bias.new_zeros(1)])[:, None]
        alpha = score.softmax(0) * torch.cat([weight[edges], weight.new_ones(1)])[:, None]
        out.append((alpha * (layer.lin(x[sources]) + offset)).sum(0))
    return torch.stack(out)


def test_point_transformer_conv_is_translation_invariant_up_to_rounding_of_positions():
    torch.manual_seed(0)
    layer, x = PointTransformerConv(6, 4), torch.randn(4, 6)
    pos = torch.randn(4, 3).round(decimals=1)
    here = layer(x, pos, EDGES)
    away = layer(x, pos + 4096, EDGES)
    # The rounding error of fp32 positions near 4096.
    torch.testing.assert_close(away, here, atol=2e-3, rtol=0)


def test_point_transformer_conv_raises_error_for_positions_of_wrong_shape_or_type():
    layer, x, pos = PointTransformerConv(6, 4), torch.randn(4, 6), torch.randn(4, 3)
    with pytest.raises(ValueError, match="pos must have 4 rows, like x of the source; got 3"):
        layer(x, pos[:3], EDGES)
    with pytest.raises(ValueError, match="pos must have 3 features"):
        layer(x, pos[:, :2], EDGES)
    with pytest.raises(TypeError, match="pos must be a tensor"):
        layer(x, (pos, None), EDGES)
