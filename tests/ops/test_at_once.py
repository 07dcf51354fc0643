"""Layers on small graphs run as one autograd function and compute what PyG's layers compute."""

import pytest
import torch
import torch_geometric.nn as pyg

from gattn import nn
from gattn.ops import projection

NAMES = ["GATConv", "GATv2Conv", "TransformerConv"]
EDGES = torch.tensor([[0, 1, 2, 3, 3, 4, 0], [1, 2, 0, 0, 3, 1, 2]])
NODES, FEATURES, EDGE_FEATURES = 6, 4, 3


def make(name, edges=True, **options):
    torch.manual_seed(0)
    edge_dim = EDGE_FEATURES if edges else None
    layer = getattr(nn, name)(FEATURES, 5, heads=2, edge_dim=edge_dim, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    inputs = [torch.randn(NODES, FEATURES, dtype=torch.double, requires_grad=True)]
    if edges:
        shape = EDGES.shape[1], EDGE_FEATURES
        inputs.append(torch.randn(shape, dtype=torch.double, requires_grad=True))
    return layer, inputs


def runs_at_once(out):
    return "LayerFunction" in out.grad_fn.name()


def gradients(layer, out, inputs):
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return torch.autograd.grad(out, [*inputs, *layer.parameters()], weights)


@pytest.mark.parametrize("options", [{}, {"concat": False}, {"residual": True}])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_layer_at_once_equals_pyg(name, edges, options):
    if name == "TransformerConv" and "residual" in options:
        options = {}
    layer, inputs = make(name, edges, **options)
    edge_dim = EDGE_FEATURES if edges else None
    theirs = getattr(pyg, name)(FEATURES, 5, heads=2, edge_dim=edge_dim, **options).double()
    theirs.load_state_dict(layer.state_dict())
    out, expected = layer(inputs[0], EDGES, *inputs[1:]), theirs(inputs[0], EDGES, *inputs[1:])
    assert runs_at_once(out)
    torch.testing.assert_close(out, expected)
    actual = gradients(layer, out, inputs)
    torch.testing.assert_close(actual, gradients(theirs, expected, inputs))
    with torch.no_grad():
        assert torch.equal(layer(inputs[0], EDGES, *inputs[1:]), out)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_and_in_place_writes_equal_those_of_single_operators(name):
    layer, inputs = make(name, dropout=0.5)
    one = torch.ones(EDGES.shape[1], dtype=torch.double)
    torch.manual_seed(1)
    out = layer(inputs[0], EDGES, inputs[1])
    torch.manual_seed(1)
    expected = layer(inputs[0], EDGES, inputs[1], edge_weight=one)
    assert runs_at_once(out)
    assert not runs_at_once(expected)
    actual = gradients(layer, out.relu_(), inputs)
    torch.testing.assert_close(actual, gradients(layer, expected.relu(), inputs))
    torch.manual_seed(2)
    assert not torch.equal(layer(inputs[0], EDGES, inputs[1]).relu(), out)


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_of_a_layer_at_once(name):
    layer, inputs = make(name)
    names = dict(layer.named_parameters())

    def run(x, edge_attr, *parameters):
        parameters = dict(zip(names, parameters))
        out = torch.func.functional_call(layer, parameters, (x, EDGES, edge_attr))
        assert runs_at_once(out)
        return out

    assert torch.autograd.gradgradcheck(run, (*inputs, *names.values()))


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_any_strides_give_the_same_gradients(name):
    layer, inputs = make(name)
    expected = gradients(layer, layer(inputs[0], EDGES, inputs[1]), inputs)
    for parameter in layer.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.t().contiguous().t()
    out = layer(inputs[0], EDGES, inputs[1])
    assert runs_at_once(out)
    torch.testing.assert_close(gradients(layer, out, inputs), expected)


def test_gradients_are_computed_only_where_they_are_required():
    layer, (x, edge_attr) = make("GATv2Conv")
    layer.requires_grad_(False)
    layer.att.requires_grad_(True)
    out = layer(x.detach(), EDGES, edge_attr.detach())
    assert runs_at_once(out)
    out.sum().backward()
    assert layer.att.grad.abs().sum() > 0
    assert x.grad is None
    assert layer.lin_l.weight.grad is None


@pytest.mark.parametrize("name", NAMES)
def test_other_calls_run_operator_by_operator(name, monkeypatch):
    layer, (x, edge_attr) = make(name)
    call = layer(x, EDGES, edge_attr)
    assert runs_at_once(call)
    assert not runs_at_once(layer((x, x.clone()), EDGES, edge_attr))
    assert not runs_at_once(layer(x, EDGES, edge_attr, return_attention_weights=True)[0])
    assert not runs_at_once(layer(x, EDGES, edge_attr, attn_bias=torch.zeros(7).double()))
    assert not runs_at_once(layer(x[None], EDGES, edge_attr))
    with nn.record_attention(layer) as recorded:
        torch.testing.assert_close(layer(x, EDGES, edge_attr), call)
    assert len(recorded) == 1
    handle = layer.lin_edge.register_forward_hook(lambda module, inputs, out: None)
    assert not runs_at_once(layer(x, EDGES, edge_attr))
    handle.remove()
    with torch.autocast("cpu", torch.bfloat16):
        assert not runs_at_once(layer.float()(x.float(), EDGES, edge_attr.float()))
    layer.double()
    monkeypatch.setattr("gattn.ops.at_once.LARGE", 10)
    torch.testing.assert_close(layer(x, EDGES, edge_attr), call)
    assert not runs_at_once(layer(x, EDGES, edge_attr))
    assert projection.LARGE > 10


def test_bad_arguments_raise_the_errors_of_the_operators():
    layer, (x, edge_attr) = make("GATConv")
    with pytest.raises(ValueError, match="x must have 4 features"):
        layer(x[:, :2], EDGES, edge_attr)
    with pytest.raises(TypeError, match=r"x must be torch.float64"):
        layer(x.float(), EDGES, edge_attr)
    layer.dropout = 2.0
    with pytest.raises(ValueError, match="dropout must be a probability"):
        layer(x, EDGES, edge_attr)
    layer.dropout, layer.negative_slope = 0.0, None
    with pytest.raises(TypeError, match="negative_slope must be a number"):
        layer(x, EDGES, edge_attr)
