"""ResGatedGraphConv compared with PyG's layer."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg

import gattn
from gattn.nn import ResGatedGraphConv


def test_res_gated_graph_conv_ignores_an_edge_of_weight_zero():
    torch.manual_seed(0)
    layer, x = ResGatedGraphConv(6, 4, edge_dim=2), torch.randn(4, 6)
    edge_index, features = torch.tensor([[0, 1, 2], [1, 2, 1]]), torch.randn(3, 2)
    plain = layer(x, edge_index[:, :2], features[:2])
    weighted = layer(x, edge_index, features, edge_weight=torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(weighted, plain)
    layer.register_message_forward_hook(lambda layer, inputs, out: None)
    slow = layer(x, edge_index, features, edge_weight=torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(slow, plain)


def test_res_gated_graph_conv_raises_error_for_missing_or_unexpected_edge_features():
    x, edge_index = torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match="edge_dim=None and takes no edge_attr"):
        ResGatedGraphConv(6, 4)(x, edge_index, torch.randn(3, 2))
    with pytest.raises(ValueError, match="edge_dim=2 and needs edge_attr"):
        ResGatedGraphConv(6, 4, edge_dim=2)(x, edge_index)


def test_res_gated_graph_conv_of_meta_tensors_returns_the_shape_of_its_output():
    x, edge_index = torch.empty(4, 6, device="meta"), torch.empty(2, 3, device="meta").long()
    assert ResGatedGraphConv(6, 5).to("meta")(x, edge_index).shape == (4, 5)


GATES = [torch.nn.Softmax(dim=1), lambda gate: gate.softmax(1), torch.nn.PReLU(4)]


@pytest.mark.parametrize("act", GATES, ids=["module", "function", "parameters"])
def test_res_gated_graph_conv_with_a_gate_over_channels_or_with_parameters_matches_pyg(act):
    x, edge_index = torch.randn(5, 6), torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 2, 0, 0, 3]])
    theirs = pyg.ResGatedGraphConv(6, 4, act=act)
    ours = gattn.convert(copy.deepcopy(theirs))
    assert isinstance(ours, ResGatedGraphConv)
    assert "is not known to be elementwise" in ours.slow_path_reason
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


def test_res_gated_graph_conv_gives_gradients_to_its_gate_and_accepts_dropout_as_gate():
    scale = torch.nn.Parameter(torch.tensor(2.0))
    x, edge_index = torch.randn(5, 6), torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 2, 0, 0, 3]])
    ResGatedGraphConv(6, 4, act=lambda gate: (scale * gate).sigmoid())(
        x, edge_index
    ).sum().backward()
    assert scale.grad is not None
    assert ResGatedGraphConv(6, 4, act=torch.nn.Dropout())(x, edge_index).shape == (5, 4)
