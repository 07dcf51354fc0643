import copy
import importlib
import inspect
import logging
import pkgutil
import re
import types

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import attention
from torch_geometric.nn.aggr import utils as aggr_utils
from torch_geometric.nn.models import attentive_fp, sgformer, visnet

import gattn.nn
from gattn.conversion import (
    CONDITIONAL,
    REBUILT,
    TWINS,
    UNSUPPORTED,
    ConversionReport,
    conversion_report,
    convert,
)
from gattn.models import AttentiveFP

EDGES = torch.tensor([[0, 1, 2, 5, 6, 7, 3], [1, 0, 0, 6, 5, 8, 3]])
BATCH = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
ONE_GRAPH = torch.zeros(9, dtype=torch.int64)
METADATA = ["a", "b"], [("a", "to", "b"), ("b", "to", "a")]


class GraphTransformer(torch.nn.Module):
    """GPS layers with attention along the edges inside, and a Set Transformer on top."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            pyg.GPSConv(8, pyg.TransformerConv(8, 4, 2, edge_dim=3), heads=2) for _ in range(2)
        )
        self.pool = pyg.SetTransformerAggregation(8, num_seed_points=2, heads=2, layer_norm=True)

    def forward(self, x, edge_index, edge_attr, batch):
        for conv in self.convs:
            x = conv(x, edge_index, batch, edge_attr=edge_attr)
        return self.pool(x, batch)


def _inputs(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(9, 8, dtype=dtype), EDGES, torch.randn(7, 3, dtype=dtype), BATCH


MODELS = {
    "GAT": (lambda: pyg.GAT(8, 16, 3, heads=4, v2=False, dropout=0.3), 2),
    "GATv2": (lambda: pyg.GAT(8, 16, 3, heads=4, v2=True, edge_dim=3, jk="cat"), 3),
    "GraphTransformer": (GraphTransformer, 4),
    "AttentiveFP": (lambda: pyg.AttentiveFP(8, 16, 2, 3, 2, 2), 4),
}


def _run(model, inputs, takes):
    if takes == 3:
        return model(inputs[0], inputs[1], edge_attr=inputs[2])
    return model(*inputs[:takes])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_outputs_gradients_and_parameters_stay(name, dtype):
    torch.manual_seed(1)
    build, takes = MODELS[name]
    model = build().to(dtype).eval()
    inputs, before = _inputs(dtype), copy.deepcopy(model)
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    converted = convert(model)
    assert {name: id(p) for name, p in converted.named_parameters()} == {
        name: id(p) for name, p in parameters.items()
    }
    assert list(converted.state_dict()) == list(before.state_dict())
    assert not converted.training
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    expected, got = _run(before, inputs, takes), _run(converted, inputs, takes)
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    for out in (expected, got):
        out.square().sum().backward()
    for (path, a), b in zip(before.named_parameters(), converted.parameters(), strict=True):
        if a.grad is not None:
            scale = max(1.0, float(a.grad.abs().max()))
            torch.testing.assert_close(
                b.grad, a.grad, rtol=tolerance, atol=tolerance * scale, msg=path
            )
    optimizer.step()  # holds the very same parameters
    assert not torch.equal(_run(converted, inputs, takes), got)


def _layers():
    x = torch.randn(9, 8)
    kinds = torch.arange(7) % 2
    x_dict = {"a": torch.randn(9, 8), "b": torch.randn(9, 8)}
    edges = dict.fromkeys(METADATA[1], EDGES)
    return [
        (pyg.AGNNConv(), (x, EDGES)),
        (pyg.FAConv(8), (x, x, EDGES)),
        (pyg.GATConv(8, 4, 2, edge_dim=3, residual=True), (x, EDGES, torch.randn(7, 3))),
        (pyg.GATv2Conv((8, 8), 4, share_weights=True), ((x, x), EDGES)),
        (pyg.GPSConv(8, pyg.GINConv(torch.nn.Linear(8, 8)), heads=2), (x, EDGES, BATCH)),
        (pyg.GeneralConv(8, 4, 3, heads=2, attention=True), (x, EDGES, torch.randn(7, 3))),
        (pyg.HANConv(8, 8, METADATA, heads=2), (x_dict, edges)),
        (pyg.HGTConv(8, 8, METADATA, heads=2), (x_dict, edges)),
        (pyg.HEATConv(8, 4, 2, 2, 3, 3, 2), (x, EDGES, BATCH, kinds, torch.randn(7, 3))),
        (pyg.HypergraphConv(8, 4, True, heads=2), (x, EDGES, None, x)),
        (pyg.PointTransformerConv(8, 4), (x, torch.randn(9, 3), EDGES)),
        (pyg.RGATConv(8, 4, 2, heads=2), (x, EDGES, kinds)),
        (pyg.ResGatedGraphConv(8, 4, edge_dim=3), (x, EDGES, torch.randn(7, 3))),
        (pyg.GraphMultisetTransformer(8, 2, heads=2), (x, BATCH)),
        (pyg.Set2Set(8, 2), (x, BATCH)),
        (pyg.SoftmaxAggregation(0.5, learn=True), (x, BATCH)),
        (pyg.SuperGATConv(8, 4, 2), (x, EDGES)),
        (pyg.TransformerConv(8, 4, 2, beta=True), (x, EDGES)),
        (attentive_fp.GATEConv(8, 8, 3), (x, EDGES, torch.randn(7, 3))),
        (pyg.AttentiveFP(8, 8, 2, 3, 2, 2), (x, EDGES, torch.randn(7, 3), BATCH)),
        (attention.PolynormerAttention(8, 2), (x[None],)),
        (attention.SGFormerAttention(8, 2), (x[None],)),
        (pyg.Polynormer(8, 8, 3, 2, local_attn=True), (x, EDGES, ONE_GRAPH)),
        (pyg.SGFormer(8, 8, 3), (x, EDGES, ONE_GRAPH)),
        (sgformer.GraphModule(8, 8), (x, EDGES)),
        (sgformer.SGModule(8, 8), (x, ONE_GRAPH)),
        (pyg.AttentionalAggregation(pyg.MLP([8, 4, 1]), torch.nn.Linear(8, 4)), (x, BATCH)),
        (pyg.AttentionalAggregation(torch.nn.Linear(8, 1)), (x, BATCH)),
        (pyg.SetTransformerAggregation(8, 2, 2, 1, 2, False, True), (x, BATCH)),
    ]


def test_every_layer_has_its_twin():
    torch.manual_seed(0)
    seen = set()
    for layer, inputs in _layers():
        layer.eval()
        expected = layer(*inputs)
        twin = convert(layer)
        assert type(twin).__module__.startswith("gattn."), type(layer)
        assert conversion_report(twin).left == {}
        torch.testing.assert_close(twin(*inputs), expected, rtol=1e-5, atol=1e-5)
        twin.reset_parameters()
        seen.add(type(layer))
    assert seen == {*TWINS, *REBUILT}


def test_a_twin_has_the_attributes_that_its_class_gives():
    twins = [layer for layer, _ in _layers() if type(layer) in TWINS]
    assert {type(layer) for layer in twins} == set(TWINS)
    for layer in twins:
        ours, theirs = set(vars(convert(layer))), set(vars(layer))
        assert ours ^ theirs <= {"propagate"}
    fresh = gattn.nn.GATConv(8, 4)
    missing = set(vars(fresh)) - set(vars(convert(pyg.GATConv(8, 4))))
    assert all(vars(fresh)[name] is None for name in missing)  # a parameter that is None, there


def test_training_mode_flags_hooks_and_sharing_are_kept():
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


def test_lazy_layers_stay_lazy():
    model = convert(pyg.Sequential("x, e", [(pyg.GATConv(-1, 4), "x, e -> x")]))
    assert model(torch.randn(9, 5), EDGES).shape == (9, 4)


def test_a_heterogeneous_model_is_converted():
    model = pyg.HeteroConv({key: pyg.GATConv((-1, -1), 4, add_self_loops=False)
                            for key in METADATA[1]})  # fmt: skip
    x, edges = {"a": torch.randn(9, 5), "b": torch.randn(9, 3)}, dict.fromkeys(METADATA[1], EDGES)
    expected = model(x, edges)
    got = convert(model)(x, edges)
    assert len(conversion_report(model).replaced) == 2
    assert got.keys() == expected.keys() == x.keys()
    for key in expected:
        torch.testing.assert_close(got[key], expected[key])


class MyGATConv(pyg.GATConv):
    def message(self, x_j, alpha):
        return 2 * alpha.unsqueeze(-1) * x_j


def test_what_cannot_be_replaced_is_left_and_told(caplog):
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
        "mine": "a subclass of GATConv, which overrides message",
        "patched": "its message was replaced on the instance",
        "odd": "its attention has options other than bias and dropout",
        "pool": "gattn has no MemPooling of the same parameters",
        "mha": "gattn has no MultiheadAttention of the same parameters",
    }
    assert caplog.messages == [str(report)]
    assert "not replaced, 5: mine (a subclass of GATConv" in str(report)


def _unmade(kind):
    """A module that cannot be made here: it wants a library that is not installed."""
    module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    return module


ATTENDS = {
    "ASAPooling": lambda: pyg.ASAPooling(8),
    "CuGraphGATConv": lambda: _unmade(pyg.CuGraphGATConv),
    "DNAConv": lambda: pyg.DNAConv(8),
    "DenseGATConv": lambda: pyg.DenseGATConv(8, 8),
    "FeaStConv": lambda: pyg.FeaStConv(8, 8),
    "JumpingKnowledge": lambda: pyg.JumpingKnowledge("lstm", 8, 2),
    "LPAttLayer": lambda: pyg.LPFormer(8, 8).att_layers[0],
    "MemPooling": lambda: pyg.MemPooling(8, 8, 2, 2),
    "MultiheadAttention": lambda: torch.nn.MultiheadAttention(8, 2),
    "MultiheadAttentionBlock": lambda: aggr_utils.MultiheadAttentionBlock(8),
    "PatchTransformerAggregation": lambda: pyg.PatchTransformerAggregation(8, 8, 2, 8, 1),
    "PerformerAttention": lambda: attention.PerformerAttention(8, 2),
    "QFormer": lambda: attention.QFormer(8, 8, 8, 2, 1),
    "ViS_MP": lambda: visnet.ViS_MP(2, 8, 5.0, None, False),
}
"""Everything in torch and PyG that attends and has no twin."""


def test_every_attention_without_a_twin_is_known():
    assert set(ATTENDS) == UNSUPPORTED
    assert set(CONDITIONAL) < UNSUPPORTED


@pytest.mark.parametrize("name", ATTENDS)
def test_attention_without_a_twin_is_left_and_told(name):
    module = ATTENDS[name]()
    model = torch.nn.ModuleDict({"known": pyg.GATConv(8, 8), "other": module})
    convert(model)
    assert model["other"] is module
    report = conversion_report(model)
    assert report.replaced == {"known": "GATConv"}
    assert report.left == {"other": f"gattn has no {name} of the same parameters"}
    subclass = type("Mine", (type(module),), {})
    if name != "CuGraphGATConv":
        assert conversion_report(_retyped(module, subclass)).left


def _retyped(module, kind):
    module = copy.copy(module)
    module.__class__ = kind
    return module


DOES_NOT_ATTEND = {
    "ClusterPooling": "scores of edges decide which are merged",
    "DMoNPooling": "assigns nodes to clusters",
    "DiffGroupNorm": "assigns nodes to groups",
    "EdgePooling": "scores of edges decide which are merged",
    "NeuralFingerprint": "a distribution over the positions of a fingerprint",
    "PRBCDAttack": "an attack",
    "ProteinMPNN": "a distribution over amino acids",
    "RENet": "a distribution over entities",
    "SelectTopK": "scores of nodes decide which are kept",
    "SignedGCN": "a distribution over signs",
}
MADE_OF_WHAT_ATTENDS = {
    "Attention",
    "InducedSetAttentionBlock",
    "MultiAggregation",
    "MultiHead",
    "PerformerProjection",
    "PoolingByMultiheadAttention",
    "SetAttentionBlock",
    "ViSNetBlock",
}


@pytest.mark.filterwarnings("ignore")
def test_nothing_in_pyg_that_attends_is_unknown():
    """Every layer of PyG that takes a softmax or calls attention is in one of the lists."""
    names = {kind.__name__ for kind in (*TWINS, *REBUILT)} | UNSUPPORTED
    names |= MADE_OF_WHAT_ATTENDS | set(DOES_NOT_ATTEND)
    signs = re.compile(r"softmax\(|MultiheadAttention\b|scaled_dot_product|[Aa]ttention\w*\(")
    for package in (pyg, importlib.import_module("torch_geometric.contrib.nn")):
        submodules = list(pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
        assert submodules, package.__name__
        for module_info in submodules:
            module = importlib.import_module(module_info.name)
            for name, kind in vars(module).items():
                is_defined_here = inspect.isclass(kind) and kind.__module__ == module_info.name
                if is_defined_here and issubclass(kind, torch.nn.Module) and name not in names:
                    assert not signs.search(inspect.getsource(kind)), kind


@pytest.mark.parametrize(
    "module",
    [
        pyg.JumpingKnowledge("cat"),
        pyg.MultiAggregation(["sum", "max"]),
        pyg.GENConv(8, 8, aggr="add"),
        pyg.SAGPooling(8),
    ],
    ids=lambda module: type(module).__name__,
)
def test_what_does_not_attend_is_not_told_of(module):
    report = conversion_report(torch.nn.ModuleList([pyg.GATConv(8, 8), module]))
    assert report.left == {}
    assert report.convertible == {"0": "GATConv"}


def test_attention_inside_of_other_modules_is_told_by_its_path():
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
    assert report.replaced == {
        "polynormer.local_convs.0": "GATConv",
        "pool.gnn": "GATConv",
        "gen.aggr_module": "SoftmaxAggregation",
    }
    has_no = "gattn has no {} of the same parameters".format
    assert report.left == {
        "polynormer": f"its global_attn.0 is not replaced: {has_no('PerformerAttention')}",
        "encoder.self_attn": has_no("MultiheadAttention"),
        "both.multihead_attn": has_no("MultiheadAttention"),
    }


@pytest.mark.parametrize("package", [pyg, gattn.nn])
def test_performer_attention_inside_of_gps_is_told(package):
    model = package.GPSConv(8, pyg.GATConv(8, 8), heads=2, attn_type="performer")
    report = conversion_report(model)
    reason = "its attention is a PerformerAttention, which gattn does not have"
    assert (report.replaced, report.left) == ({}, {"": reason})
    assert report.convertible == {"conv": "GATConv"}
    converted = conversion_report(convert(model))
    assert (converted.replaced, converted.left) == (report.convertible, report.left)


def test_nothing_runs_on_gattn_where_gps_has_performer_attention_alone():
    model = pyg.GPSConv(8, None, heads=2, attn_type="performer")
    with pytest.warns(UserWarning, match="replaced nothing: gattn runs 0 attention layers"):
        assert convert(model) is model


def test_the_local_layer_of_gps_is_told_of_by_itself():
    local = pyg.FeaStConv(8, 8)
    report = conversion_report(pyg.GPSConv(8, local, heads=2))
    assert report.convertible == {"": "GPSConv"}
    assert report.left == {"conv": "gattn has no FeaStConv of the same parameters"}


def test_before_and_after_tell_of_the_same_layers():
    samples = list(_layers())
    assert samples
    for layer, _ in samples:
        before = conversion_report(layer)
        after = conversion_report(convert(layer))
        assert set(before.convertible) == set(after.replaced)
        assert (before.replaced, before.left, after.convertible, after.left) == ({}, {}, {}, {})


def test_what_pyg_does_not_have_runs_on_gattn_too():
    model = torch.nn.ModuleDict(
        {
            "block": gattn.nn.TransformerBlock(8, heads=2),
            "readout": gattn.nn.LearnedQueryReadout(8, 8),
            "sets": gattn.nn.SetAttentionBlock(8),
            "pool": gattn.nn.SetTransformerReadout(8),
            "linear": gattn.nn.LinearAttention(8),
        }
    )
    report = conversion_report(model)
    assert report.replaced == {
        "block.attention": "GraphAttention",
        "readout": "LearnedQueryReadout",
        "sets.mab": "MultiheadAttentionBlock",
        "pool": "SetTransformerReadout",
        "linear": "LinearAttention",
    }
    assert report.left == {}
    assert "seen" not in str(report)


def test_settings_changed_later_and_what_was_hung_on_a_layer_are_kept():
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


def test_random_numbers_are_left_as_they_were():
    models = [layer for layer, _ in _layers()]
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    for model in models:
        convert(model)
    assert torch.equal(torch.rand(2), expected)


def test_hooks_of_every_kind_stay_hooks():
    layer = pyg.GATConv(8, 4)
    seen = []
    layer.register_full_backward_hook(lambda *_: seen.append("backward"))
    layer.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append("pre"), with_kwargs=True
    )
    layer.register_state_dict_pre_hook(lambda *_: seen.append("state"))
    twin = convert(layer)
    twin(torch.randn(9, 8, requires_grad=True), EDGES).sum().backward()
    twin.state_dict()
    assert seen == ["pre", "backward", "state"]


def test_converting_twice_changes_nothing():
    model = convert(pyg.GAT(8, 16, 2))
    convs = list(model.convs)
    assert all(a is b for a, b in zip(convert(model).convs, convs, strict=True))
    assert str(ConversionReport()) == "gattn runs 0 attention layers"


class Plain(pyg.GATConv):
    """The same layer by another name."""


class Weighted(MyGATConv):
    def __init__(self, channels):
        super().__init__(channels, channels)
        self.scale = 2.0

    def forward(self, x, edge_index, temperature=1.0):
        return super().forward(x / temperature, edge_index)

    def anneal(self):
        self.scale /= 2


def test_a_subclass_is_left_with_what_it_overrides():
    model = torch.nn.ModuleDict({"a": Plain(8, 8), "b": Weighted(8), "c": pyg.GATConv(8, 8)})
    report = conversion_report(convert(model))
    assert report.replaced == {"c": "GATConv"}
    assert report.left == {
        "a": "a subclass of GATConv, which may change what it computes",
        "b": "a subclass of GATConv, which overrides __init__, forward, message",
    }
    assert "seen" not in str(report)


def test_a_subclass_of_gattn_s_layer_counts_as_gattn_s():
    class Mine(gattn.nn.GATConv):
        pass

    model = torch.nn.Sequential(Mine(8, 8))
    report = conversion_report(convert(model))
    assert report.replaced == {"0": "Mine"}


def test_a_report_tells_which_layers_run_edge_by_edge_and_why():
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


def test_a_report_before_conversion_tells_what_would_be_replaced():
    parts = [pyg.GPSConv(8, pyg.GATConv(8, 8), heads=2), MyGATConv(8, 8)]
    model = torch.nn.ModuleList(parts)
    report = conversion_report(model)
    assert report.replaced == {}
    assert report.convertible == {"0": "GPSConv", "0.conv": "GATConv"}
    assert set(report.left) == {"1"}
    assert "gattn.convert would replace 2 attention layers: 0 (GPSConv), 0.conv" in str(report)
    converted = conversion_report(convert(model))
    assert (converted.replaced, converted.left) == (report.convertible, report.left)


def test_replacing_nothing_warns_and_tells_what_was_seen():
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


@pytest.mark.parametrize(
    "build", [lambda: gattn.nn.GATConv(8, 8), lambda: gattn.nn.LearnedQueryReadout(8, 8)]
)
def test_a_model_of_gattn_s_own_layers_warns_of_nothing(build):
    convert(torch.nn.ModuleList([build()]))  # warnings are errors here


def test_a_converted_layer_can_be_copied_and_saved(tmp_path):
    layer = convert(pyg.TransformerConv(8, 4, 2))
    x = torch.randn(9, 8)
    assert torch.equal(copy.deepcopy(layer)(x, EDGES), layer(x, EDGES))
    torch.save(layer.state_dict(), tmp_path / "state.pt")
    back = pyg.TransformerConv(8, 4, 2)
    back.load_state_dict(torch.load(tmp_path / "state.pt"))
    torch.testing.assert_close(back(x, EDGES), layer(x, EDGES))


def test_explanations_of_a_converted_layer():
    layer = pyg.GATConv(8, 4)
    layer.explain = True
    assert not convert(layer).fused
    model = pyg.AttentiveFP(8, 8, 2, 3, 2, 2)
    assert convert(model).mol_conv.explain is False
    assert isinstance(convert(model), AttentiveFP)


def test_only_modules_are_converted():
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module; got list"):
        convert([pyg.GATConv(8, 8)])
