"""Converted models compute what the models of PyG compute, and keep their state."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg

import gattn.nn
from gattn.conversion import TWINS, conversion_report, convert
from tests.conversion import EDGES, METADATA, MODELS, every_layer, make_inputs, run


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_converted_model_has_the_same_outputs_gradients_and_parameters_as_the_pyg_model(
    name, dtype
):
    torch.manual_seed(1)
    build, takes = MODELS[name]
    model = build().to(dtype).eval()
    inputs, before = make_inputs(dtype), copy.deepcopy(model)
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    converted = convert(model)
    assert {name: id(p) for name, p in converted.named_parameters()} == {
        name: id(p) for name, p in parameters.items()
    }
    assert list(converted.state_dict()) == list(before.state_dict())
    assert not converted.training
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    expected, got = run(before, inputs, takes), run(converted, inputs, takes)
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    for out in (expected, got):
        out.square().sum().backward()
    for (path, a), b in zip(before.named_parameters(), converted.parameters(), strict=True):
        if a.grad is not None:
            scale = max(1.0, float(a.grad.abs().max()))
            torch.testing.assert_close(
                b.grad, a.grad, rtol=tolerance, atol=tolerance * scale, msg=path
            )
    optimizer.step()  # the optimizer updates the parameters of the converted model
    assert not torch.equal(run(converted, inputs, takes), got)


def test_convert_replaces_every_supported_layer_of_pyg():
    torch.manual_seed(0)
    seen = set()
    for layer, inputs in every_layer():
        layer.eval()
        expected = layer(*inputs)
        twin = convert(layer)
        assert type(twin).__module__.startswith("gattn."), type(layer)
        assert conversion_report(twin).left == {}
        torch.testing.assert_close(twin(*inputs), expected, rtol=1e-5, atol=1e-5)
        twin.reset_parameters()
        seen.add(type(layer))
    assert seen == {*TWINS}


def test_convert_keeps_training_mode_hooks_and_shared_parameters():
    shared = pyg.GATConv(8, 8)
    model = torch.nn.ModuleDict({"first": shared, "again": shared, "other": pyg.GATConv(8, 8)})
    model["other"].eval()
    model["other"].att_src.requires_grad_(False)
    calls = []
    handle = shared.register_forward_hook(lambda module, args, out: calls.append(type(module)))
    shared.lin.register_forward_hook(lambda *_: calls.append("lin"))
    message = shared.register_message_forward_hook(lambda *_: calls.append("message"))
    converted = convert(model)
    assert converted is model
    assert converted["first"] is converted["again"]
    assert converted["first"].training
    assert not converted["other"].training
    assert not converted["other"].att_src.requires_grad
    x = torch.randn(9, 8)
    converted["first"](x, EDGES)
    assert calls == ["lin", "message", gattn.nn.GATConv]
    handle.remove()
    message.remove()
    assert converted["first"].fused
    converted["first"](x, EDGES)
    assert calls[3:] == ["lin"]


def test_converted_heterogeneous_model_gives_the_same_output_as_the_pyg_model():
    model = pyg.HeteroConv({key: pyg.GATConv((-1, -1), 4, add_self_loops=False)
                            for key in METADATA[1]})  # fmt: skip
    x, edges = {"a": torch.randn(9, 5), "b": torch.randn(9, 3)}, dict.fromkeys(METADATA[1], EDGES)
    expected = model(x, edges)
    got = convert(model)(x, edges)
    assert len(conversion_report(model).replaced) == 2
    assert got.keys() == expected.keys() == x.keys()
    for key in expected:
        torch.testing.assert_close(got[key], expected[key])


def test_convert_keeps_changed_settings_and_additional_attributes():
    layer = pyg.GATConv(8, 4, 2, edge_dim=3, aggr="max", flow="target_to_source")
    layer.dropout, layer.negative_slope, layer.note = 0.3, 0.5, "third"
    layer.more = torch.nn.Linear(2, 2)
    layer.register_buffer("scratch", torch.zeros(3), persistent=False)
    layer.eval()
    twin = convert(layer)
    assert (twin.dropout, twin.negative_slope, twin.note) == (0.3, 0.5, "third")
    assert (twin.aggr, twin.flow, twin.training) == ("max", "target_to_source", False)
    assert twin.more is layer.more
    assert twin.scratch is layer.scratch
    assert list(twin.state_dict()) == list(layer.state_dict())
    x, edge_attr = torch.randn(9, 8), torch.randn(7, 3)
    torch.testing.assert_close(twin(x, EDGES, edge_attr), layer(x, EDGES, edge_attr))
