"""The report of a conversion: layers with and without a twin, subclasses, log messages."""

import logging
import types

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import attention

import gattn.nn
from gattn.conversion import conversion_report, convert
from tests.conversion import MyGATConv


def test_conversion_report_lists_layers_that_cannot_be_replaced(caplog):
    patched = pyg.GATConv(8, 8)
    patched.message = types.MethodType(lambda self, x_j, alpha: x_j, patched)
    odd = pyg.GPSConv(8, pyg.GATConv(8, 8), attn_kwargs={"add_zero_attn": True})
    model = torch.nn.ModuleDict(
        {
            "plain": pyg.GATConv(8, 8),
            "mine": MyGATConv(8, 8),
            "patched": patched,
            "odd": odd,
            "pool": pyg.MemPooling(8, 8, 2, 2),
            "gcn": pyg.GCNConv(8, 8),
            "mha": torch.nn.MultiheadAttention(8, 2),
        }
    )
    outputs = {key: model[key] for key in ("mine", "patched", "odd", "pool", "gcn", "mha")}
    with caplog.at_level(logging.INFO, logger="gattn"):
        convert(model)
    assert all(model[key] is module for key, module in outputs.items())
    report = conversion_report(model)
    assert report.replaced == {"plain": "GATConv", "odd.conv": "GATConv"}
    assert report.left == {
        "mine": "a subclass of GATConv that overrides message",
        "patched": "its message was replaced on the instance",
        "odd": "its attention has options other than bias and dropout",
        "pool": "gattn has no MemPooling with the same parameters",
        "mha": "gattn has no MultiheadAttention with the same parameters",
    }
    assert caplog.messages == [str(report)]
    assert "not replaced, 5: mine (a subclass of GATConv" in str(report)


MODULES = [pyg.JumpingKnowledge("cat"), pyg.MultiAggregation(["sum", "max"])]
MODULES += [pyg.GENConv(8, 8, aggr="add"), pyg.SAGPooling(8)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: type(module).__name__)
def test_conversion_report_omits_modules_without_attention(module):
    report = conversion_report(torch.nn.ModuleList([pyg.GATConv(8, 8), module]))
    assert report.left == {}
    assert report.convertible == {"0": "GATConv"}


def test_conversion_report_gives_the_module_path_of_nested_attention():
    changed = pyg.Polynormer(8, 8, 8, local_layers=1, global_layers=1, local_attn=True)
    changed.global_attn[0] = attention.PerformerAttention(8, 2)
    models = {
        "polynormer": changed,
        "encoder": torch.nn.TransformerEncoderLayer(8, 2),
        "both": pyg.MultiAggregation(
            ["sum", "max"], mode="attn", mode_kwargs={"in_channels": 8, "out_channels": 8,
                                                      "num_heads": 2},
        ),
        "pool": pyg.SAGPooling(8, GNN=pyg.GATConv),
        "gen": pyg.GENConv(8, 8),
    }  # fmt: skip
    report = conversion_report(convert(torch.nn.ModuleDict(models)))
    layers = {"polynormer.local_convs.0": "GATConv", "pool.gnn": "GATConv"}
    assert report.replaced == layers | {"gen.aggr_module": "SoftmaxAggregation"}
    has_no = "gattn has no {} with the same parameters".format
    assert report.left == {
        "polynormer": f"its global_attn.0 is not replaced: {has_no('PerformerAttention')}",
        "encoder.self_attn": has_no("MultiheadAttention"),
        "both.multihead_attn": has_no("MultiheadAttention"),
    }


@pytest.mark.parametrize("package", [pyg, gattn.nn])
def test_conversion_report_lists_performer_attention_of_gps(package):
    model = package.GPSConv(8, pyg.GATConv(8, 8), heads=2, attn_type="performer")
    report = conversion_report(model)
    reason = "its attention is a PerformerAttention, which gattn does not implement"
    assert (report.replaced, report.left) == ({}, {"": reason})
    assert report.convertible == {"conv": "GATConv"}
    converted = conversion_report(convert(model))
    assert (converted.replaced, converted.left) == (report.convertible, report.left)


class Plain(pyg.GATConv):
    """Subclass of the same layer with another name."""


class Weighted(MyGATConv):
    def __init__(self, channels):
        super().__init__(channels, channels)
        self.scale = 2.0

    def forward(self, x, edge_index, temperature=1.0):
        return super().forward(x / temperature, edge_index)

    def anneal(self):
        self.scale /= 2


def test_conversion_report_names_overridden_methods_of_a_subclass():
    model = torch.nn.ModuleDict({"a": Plain(8, 8), "b": Weighted(8), "c": pyg.GATConv(8, 8)})
    report = conversion_report(convert(model))
    assert report.replaced == {"c": "GATConv"}
    heir = "a subclass of GATConv that"
    reasons = [
        f"{heir} may change what it computes",
        f"{heir} overrides __init__, forward, message",
    ]
    assert list(report.left.items()) == list(zip("ab", reasons))
    assert "seen" not in str(report)


def test_conversion_report_states_why_layers_use_no_fused_operators():
    class Doubled(gattn.nn.GATConv):
        def message(self, x_j, alpha):
            return 2 * alpha.unsqueeze(-1) * x_j

    layers = {"plain": gattn.nn.GATConv(4, 4), "hooked": gattn.nn.GATConv(4, 4)}
    layers |= {"doubled": Doubled(4, 4), "own": gattn.nn.GraphAttention(4, score=torch.add)}
    layers["hooked"].register_message_forward_hook(lambda layer, inputs, out: None)
    report = conversion_report(torch.nn.ModuleDict(layers))
    assert report.replaced.keys() == layers.keys()
    assert report.edge_by_edge == {n: x.slow_path_reason for n, x in layers.items() if n != "plain"}
    assert report.edge_by_edge["doubled"] == "Doubled overrides message"
    assert "\nedge by edge, as slow as PyG, 3: hooked (a hook on message" in str(report)


def test_conversion_report_of_a_pyg_model_lists_layers_to_replace():
    parts = [pyg.GPSConv(8, pyg.GATConv(8, 8), heads=2), MyGATConv(8, 8)]
    model = torch.nn.ModuleList(parts)
    report = conversion_report(model)
    assert report.replaced == {}
    assert report.convertible == {"0": "GPSConv", "0.conv": "GATConv"}
    assert set(report.left) == {"1"}
    assert "gattn.convert would replace 2 attention layers: 0 (GPSConv), 0.conv" in str(report)
    converted = conversion_report(convert(model))
    assert (converted.replaced, converted.left) == (report.convertible, report.left)


def test_convert_warns_with_the_names_of_modules_if_no_layer_is_replaced():
    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = [pyg.GATConv(8, 8)]
            self.lins = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
            self.mine = MyGATConv(8, 8)

    model = Hidden()
    with pytest.warns(UserWarning, match=r"replaced nothing") as caught:
        assert convert(model) is model
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert "ModuleList" in message
    for part in ("runs 0 attention layers", "mine (a subclass of GATConv", "2 Linear", "1 Hidden"):
        assert part in message
        assert part in str(conversion_report(model))
