"""Hooks, subclasses and unusual inputs behave as in PyG, or raise one clear error."""

import copy
import inspect
import re
import warnings
from pathlib import Path

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models.attentive_fp import GATEConv

from gattn import conversion_report, convert, graphs, models, nn
from gattn.nn.common.features import project

EDGES = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
KINDS = torch.tensor([0, 1, 1, 0, 1, 0])
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
WIDE = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
THIN = torch.arange(6.0)
"""Edge features of one number, [e]."""
TO_ITSELF = ("paper", "to", "paper")
TYPES = (["paper"], [TO_ITSELF])


def _gate(package):
    return (GATEConv if package is pyg else package.GATEConv)(6, 6, 3)


LAYERS = {
    "GATConv": (lambda p: p.GATConv(6, 4, 2, edge_dim=3), (X, EDGES, WIDE)),
    "GATConv, thin": (lambda p: p.GATConv(6, 4, 2, edge_dim=1), (X, EDGES, THIN)),
    "GATConv, thin, no loops": (
        lambda p: p.GATConv(6, 4, 2, edge_dim=1, add_self_loops=False),
        (X, EDGES, THIN),
    ),
    "GATConv, bipartite": (
        lambda p: p.GATConv((6, 6), 4, 2, add_self_loops=False),
        ((X, X.sin()), EDGES),
    ),
    "GATConv, sources only": (
        lambda p: p.GATConv((6, 6), 4, 2, add_self_loops=False),
        ((X, None), EDGES),
    ),
    "GATv2Conv": (lambda p: p.GATv2Conv(6, 4, 2, edge_dim=3), (X, EDGES, WIDE)),
    "GATv2Conv, thin": (lambda p: p.GATv2Conv(6, 4, 2, edge_dim=1), (X, EDGES, THIN)),
    "TransformerConv": (lambda p: p.TransformerConv(6, 4, 2, edge_dim=3), (X, EDGES, WIDE)),
    "AGNNConv": (lambda p: p.AGNNConv(), (X, EDGES)),
    "SuperGATConv": (lambda p: p.SuperGATConv(6, 4, 2).eval(), (X, EDGES)),
    "FAConv": (lambda p: p.FAConv(6), (X, X.sin(), EDGES)),
    "GATEConv": (_gate, (X, EDGES, WIDE)),
    "RGATConv": (
        lambda p: p.RGATConv(6, 4, 2, heads=2, edge_dim=3),
        (X, EDGES, KINDS, WIDE),
    ),
    "RGATConv, thin": (
        lambda p: p.RGATConv(6, 4, 2, heads=2, edge_dim=1, concat=False),
        (X, EDGES, KINDS, THIN),
    ),
    "RGATConv, multiplicative": (
        lambda p: p.RGATConv(
            6, 4, 2, heads=2, dim=2, attention_mode="multiplicative-self-attention"
        ),
        (X, EDGES, KINDS),
    ),
    "ResGatedGraphConv": (lambda p: p.ResGatedGraphConv(6, 4), (X, EDGES)),
    "ResGatedGraphConv, edges": (
        lambda p: p.ResGatedGraphConv(6, 4, edge_dim=3),
        (X, EDGES, WIDE),
    ),
    "GeneralConv": (
        lambda p: p.GeneralConv(6, 4, 3, heads=2, attention=True),
        (X, EDGES, WIDE),
    ),
    "HEATConv": (
        lambda p: p.HEATConv(6, 4, 2, 2, 3, 3, 2, heads=2),
        (X, EDGES, KINDS[:5], KINDS, WIDE),
    ),
    "HypergraphConv": (
        lambda p: p.HypergraphConv(6, 4, True, heads=2),
        (X, EDGES, torch.ones(5), X.sin()),
    ),
    "HANConv": (lambda p: p.HANConv(6, 4, TYPES, 2), ({"paper": X}, {TO_ITSELF: EDGES})),
    "HGTConv": (lambda p: p.HGTConv(6, 4, TYPES, 2), ({"paper": X}, {TO_ITSELF: EDGES})),
}


def _shape(value):
    """A value with shapes in the place of its tensors."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return [_shape(item) for item in value]
    if isinstance(value, dict):
        return {key: _shape(value[key]) for key in sorted(value)}
    return value


def _what_hooks_see(layer, args):
    seen = []
    for method in ("propagate", "message", "aggregate", "edge_update"):
        before = getattr(layer, f"register_{method}_forward_pre_hook")
        after = getattr(layer, f"register_{method}_forward_hook")
        before(lambda layer, inputs, name=method: seen.append((name, _shape(inputs))))
        after(lambda layer, inputs, out, name=method: seen.append((name, _shape(out))))
    out = layer(*args)
    return seen, out


@pytest.mark.parametrize("name", LAYERS)
def test_hooks_see_what_they_see_in_pyg(name):
    """The same arguments of the same shapes, in the same order; [e] stays [e]."""
    make, args = LAYERS[name]
    results = []
    for package in (pyg, nn):
        torch.manual_seed(0)
        results.append(_what_hooks_see(make(package), args))
    (expected, theirs), (seen, ours) = results
    assert seen == expected
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("loops", [False, True])
def test_a_subclass_sees_the_edge_features_of_pyg(loops):
    """As PyG's example of an attack, which differentiates by weights [e] that it hands over."""

    def weighted(base):
        class Weighted(base):
            def edge_update(self, alpha_j, alpha_i, edge_attr, index, ptr, dim_size):
                alpha = super().edge_update(alpha_j, alpha_i, None, index, ptr, dim_size)
                return edge_attr.view(-1, 1) * alpha if edge_attr.dim() == 1 else 1 / 0

        torch.manual_seed(0)
        return Weighted(6, 4, 2, add_self_loops=loops)

    weight = torch.rand(6)
    theirs, ours = weighted(pyg.GATConv), weighted(nn.GATConv)
    torch.testing.assert_close(ours(X, EDGES, weight), theirs(X, EDGES, weight))
    assert ours.slow_path_reason == "Weighted overrides edge_update"


# Weights and dropout


RETURN_WEIGHTS = {
    "GATConv": (lambda p: p.GATConv(6, 4, 2, dropout=0.5), lambda edges: (edges,)),
    "GATv2Conv": (lambda p: p.GATv2Conv(6, 4, 2, dropout=0.5), lambda edges: (edges,)),
    "TransformerConv": (lambda p: p.TransformerConv(6, 4, 2, dropout=0.5), lambda edges: (edges,)),
    "FAConv": (lambda p: p.FAConv(6, dropout=0.5), lambda edges: (X, edges)),
    "RGATConv": (
        lambda p: p.RGATConv(6, 4, 2, heads=2, dropout=0.5),
        lambda edges: (edges, torch.arange(edges.shape[1]) % 2),
    ),
}
"""Every layer that returns weights, and what it takes beside x."""


def test_every_layer_that_returns_weights_is_listed():
    exported = {name: getattr(nn, name) for name in nn.__all__}
    names = {
        name
        for name, kind in exported.items()
        if isinstance(kind, type)
        and issubclass(kind, torch.nn.Module)
        and "return_attention_weights" in inspect.signature(kind.forward).parameters
    }
    assert names == set(RETURN_WEIGHTS)


@pytest.mark.parametrize("name", RETURN_WEIGHTS)
@pytest.mark.parametrize("training", [False, True])
def test_weights_come_before_dropout_on_either_path(name, training):
    make, takes = RETURN_WEIGHTS[name]
    theirs, layer = make(pyg), make(nn)
    layer.load_state_dict(theirs.state_dict())
    edges = torch.randint(0, 5, (2, 100))
    args = X, *takes(edges)
    _, (expected_edges, expected) = theirs.eval()(*args, return_attention_weights=True)
    slow = copy.deepcopy(layer)
    slow.register_message_forward_hook(lambda layer, arguments, out: None)
    for one in (layer, slow):
        out, (pairs, weights) = one.train(training)(*args, return_attention_weights=True)
        assert torch.equal(pairs, expected_edges)
        torch.testing.assert_close(weights, expected)
        plain = one.eval()(*args)
        assert torch.allclose(out, plain) != training
    assert layer.fused
    assert not slow.fused


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "GATEConv"])
def test_recorded_weights_come_before_dropout_edge_by_edge(name):
    args = (6, 6, 3, 0.5) if name == "GATEConv" else (6, 4, 2)
    options = {} if name == "GATEConv" else {"dropout": 0.5}
    layer, edges = getattr(nn, name)(*args, **options), torch.randint(0, 5, (2, 100))
    arguments = (X, edges, torch.randn(100, 3)) if name == "GATEConv" else (X, edges)
    slow = copy.deepcopy(layer)
    slow.register_message_forward_hook(lambda layer, arguments, out: None)
    weights_of = []
    for one in (layer, slow):
        with nn.record_attention(one) as records:
            one(*arguments)
        weights_of.append(records[0].weights)
    torch.testing.assert_close(*weights_of)


class Halved(nn.GATConv):
    def edge_update(self, alpha_j, alpha_i, edge_attr, index, ptr, dim_size):
        return 0.5 * super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)


class HalvedV2(nn.GATv2Conv):
    def edge_update(self, x_j, x_i, edge_attr, index, ptr, dim_size):
        return 0.5 * super().edge_update(x_j, x_i, edge_attr, index, ptr, dim_size)


@pytest.mark.parametrize("kind", [Halved, HalvedV2])
def test_a_derived_edge_update_returns_what_it_gives_as_in_pyg(kind):
    layer, plain = kind(6, 4, 2, dropout=0.5), kind.__base__(6, 4, 2, dropout=0.5)
    plain.load_state_dict(layer.state_dict())
    edges = torch.randint(0, 5, (2, 100))
    _, (_, weights) = layer(X, edges, return_attention_weights=True)
    _, (_, before) = plain(X, edges, return_attention_weights=True)
    dropped = weights == 0
    assert 0.3 < dropped.float().mean() < 0.7
    torch.testing.assert_close(weights[~dropped], before[~dropped])


# Edge features


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "GATEConv"])
def test_integer_edge_features_are_taken_as_in_pyg(name, dtype):
    edge_attr = torch.randint(0, 4, (6, 3)).to(dtype)
    make = _gate if name == "GATEConv" else lambda p: getattr(p, name)(6, 4, 2, edge_dim=3)
    torch.manual_seed(0)
    theirs = make(pyg)
    ours = make(nn)
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(X, EDGES, edge_attr)
    torch.testing.assert_close(ours(X, EDGES, edge_attr), expected)
    slow = copy.deepcopy(ours)
    slow.register_message_forward_hook(lambda layer, args, out: None)
    torch.testing.assert_close(slow(X, EDGES, edge_attr), expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8])
@pytest.mark.parametrize("fill_value", ["mean", 2.0, "max"])
def test_integer_edge_features_are_those_numbers(dtype, fill_value):
    """Also where PyG refuses them, and in another precision than fp32."""
    edge_attr = torch.randint(0, 4, (6, 3)).to(dtype)
    calls = [
        (nn.GATConv(6, 4, edge_dim=3, fill_value=fill_value), (X, EDGES)),
        (nn.GATv2Conv(6, 4, edge_dim=3, fill_value=fill_value), (X, EDGES)),
        (nn.TransformerConv(6, 4, edge_dim=3), (X, EDGES)),
        (nn.RGATConv(6, 4, 2, edge_dim=3), (X, EDGES, KINDS)),
    ]
    for layer, (x, *edges) in calls:
        layer, x = layer.double(), x.double()
        got = layer(x, *edges, edge_attr=edge_attr)
        assert torch.equal(got, layer(x, *edges, edge_attr=edge_attr.double()))


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_other_dtypes_of_edge_features_are_refused_by_name(name):
    layer = getattr(nn, name)(6, 4, edge_dim=3)
    for dtype in (torch.float64, torch.bool):
        with pytest.raises(TypeError, match=rf"edge_attr must be torch\.float32.*; got {dtype}"):
            layer(X, EDGES, WIDE.to(dtype))


def test_ignored_edge_features_are_told_once():
    theirs, ours = pyg.GATConv(6, 4), nn.GATConv(6, 4)
    ours.load_state_dict(theirs.state_dict())
    with pytest.warns(UserWarning, match=r"GATConv\(6, 4, heads=1\) was made without edge_dim and "
                      "ignores edge_attr.*: make it with edge_dim=3") as warned:  # fmt: skip
        out = ours(X, EDGES, WIDE)
    assert warned[0].filename == __file__
    torch.testing.assert_close(out, theirs(X, EDGES, WIDE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(ours(X, EDGES, WIDE), out)
        nn.GATConv(6, 4)(X, EDGES)
    with pytest.raises(ValueError, match="was made without edge_dim and takes no edge_attr"):
        nn.GATv2Conv(6, 4)(X, EDGES, WIDE)  # PyG's fails, too


def _on_message(layer):
    layer.register_message_forward_hook(lambda layer, args, out: None)
    return layer


def _on_forward(layer):
    layer.register_forward_hook(lambda layer, args, out: None)
    return layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: _on_message(nn.GATConv(6, 4)),
        lambda: _on_forward(nn.GATConv(6, 4)),
        lambda: pyg.Sequential("x, e, a", [(nn.GATConv(6, 4), "x, e, a -> x")]),
        lambda: models.GAT(6, 4, 1),
    ],
    ids=["hook on messages", "hook", "Sequential", "GAT"],
)
def test_ignored_edge_features_are_told_to_the_caller(make):
    model = make()
    options = {"edge_attr": WIDE} if isinstance(model, models.GAT) else {}
    args = (X, EDGES) if options else (X, EDGES, WIDE)
    with pytest.warns(UserWarning, match="made without edge_dim and ignores edge_attr") as warned:
        model(*args, **options)
    assert [warning.filename for warning in warned] == [__file__]


def test_ignored_edge_features_that_are_an_error_stay_one():
    layer = nn.GATConv(6, 4)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="ignores edge_attr"):
                layer(X, EDGES, WIDE)


# Why a layer runs edge by edge


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "migrate.md"
SECTION = GUIDE.read_text().split("### Edge by edge")[1].split("```")[0]
REASONS = set(re.findall(r"^\| `(.+?)` +\|", SECTION, re.M)) - {"slow_path_reason"}
"""Those that the guide lists."""


def test_a_layer_tells_why_it_runs_edge_by_edge():
    class Mine(nn.GATConv):
        def message(self, x_j, alpha):
            return x_j

        def aggregate(self, inputs, index):
            return inputs

    class Heir(Mine):
        pass

    layer = nn.GATConv(6, 4, edge_dim=3)
    assert layer.slow_path_reason == ""
    assert Mine(6, 4).slow_path_reason == "Mine overrides message, aggregate"
    assert Heir(6, 4).slow_path_reason == "Mine overrides message, aggregate"
    assert (
        nn.GATConv(6, 4, aggr="max").slow_path_reason
        == "it aggregates by MaxAggregation(), not by the plain sum"
    )
    reverse = nn.GATConv(6, 4, flow="target_to_source")
    assert reverse.slow_path_reason == "flow is 'target_to_source'"
    layer.explain = True
    assert layer.slow_path_reason == "explain mode is on"
    layer.explain = False
    handle = layer.lin_edge.register_forward_hook(lambda m, args, out: None)
    assert layer.slow_path_reason == "lin_edge does more than multiply and add its bias"
    handle.remove()
    handle = layer.register_message_forward_hook(lambda m, args, out: None)
    assert layer.slow_path_reason == "a hook on message wants to see its edges"
    handle.remove()
    layer.message = lambda x_j, alpha: x_j
    assert layer.slow_path_reason == "message was replaced on the instance"
    assert {
        "explain mode is on",
        "Mine overrides message",
        "message was replaced on the instance",
        "a hook on message wants to see its edges",
        "this version of torch_geometric has no _message_forward_hooks: hooks cannot be seen",
        "flow is 'target_to_source'",
        "it aggregates by MaxAggregation(), not by the plain sum",
        "lin_edge does more than multiply and add its bias",
    } == REASONS
    assert not layer.fused
    del layer.message
    assert layer.fused


class Doubled:
    """A mixin, whose equation goes before that of the layer."""

    def message(self, x_j, alpha):
        return 2 * alpha.unsqueeze(-1) * x_j


def _mixed(base):
    return type("Mixed", (Doubled, base), {})(6, 4, 2)


def _given_later(base):
    kind = type("Later", (base,), {})
    layer = kind(6, 4, 2)
    layer(X, EDGES)
    kind.message = Doubled.message
    return layer


def _overriding(name):
    def make(base):
        def twice(self, *args, **options):
            return 2 * getattr(base, name)(self, *args, **options)

        return type("Overriding", (base,), {name: twice})(6, 4, 2)

    return make


def _replacing(name):
    def make(base):
        layer = base(6, 4, 2)
        plain = getattr(layer, name)
        setattr(layer, name, lambda *args, **options: 2 * plain(*args, **options))
        return layer

    return make


def _aggregating(aggr):
    def make(base):
        layer = base(6, 4, 2)
        layer.aggr_module = aggr()
        return layer

    return make


def _hooked_sum():
    aggr = pyg.SumAggregation()
    aggr.register_forward_hook(lambda module, args, out: 2 * out)
    return aggr


CHANGED = {
    "mixin": (_mixed, "Doubled overrides message"),
    "given to the class": (_given_later, "Later overrides message"),
    "propagate": (_overriding("propagate"), "Overriding overrides propagate"),
    "edge_updater": (_overriding("edge_updater"), "Overriding overrides edge_updater"),
    "own propagate": (_replacing("propagate"), "propagate was replaced on the instance"),
    "own edge_updater": (_replacing("edge_updater"), "edge_updater was replaced on the instance"),
    "mean": (
        _aggregating(pyg.MeanAggregation),
        "it aggregates by MeanAggregation(), not by the plain sum",
    ),
    "hooked sum": (
        _aggregating(_hooked_sum),
        "it aggregates by SumAggregation(), not by the plain sum",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_changes_a_layer_of_pyg_changes_ours(name):
    make, reason = CHANGED[name]
    theirs, ours = make(pyg.GATConv), make(nn.GATConv)
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(X, EDGES)
    for layer in (ours, copy.deepcopy(ours)):
        assert layer.slow_path_reason == reason
    torch.testing.assert_close(ours(X, EDGES), expected)
    converted, _ = convert(torch.nn.ModuleList([theirs, pyg.GATConv(6, 4)]))
    torch.testing.assert_close(converted(X, EDGES), expected)


def test_a_class_that_gets_its_equation_back_is_fused_again():
    layer = _given_later(nn.GATConv)
    assert not layer.fused
    del type(layer).message
    assert layer.fused


def test_an_attention_of_its_own_is_run():
    def flat(self, edge_index_i, x_i, x_j, num_nodes, return_logits=False):
        return torch.ones_like(x_j[..., 0])

    theirs, ours = (
        type("Flat", (base,), {"get_attention": flat})(6, 4, 2).eval()
        for base in (pyg.SuperGATConv, nn.SuperGATConv)
    )
    ours.load_state_dict(theirs.state_dict())
    assert ours.slow_path_reason == "Flat overrides get_attention"
    torch.testing.assert_close(ours(X, EDGES), theirs(X, EDGES))


@pytest.mark.parametrize("package", [pyg, nn])
def test_methods_that_pyg_binds_by_itself_are_its_own(package):
    layer = package.GATConv(6, 4)
    expected = layer(X, EDGES)
    layer.explain = True
    layer.explain = False
    assert "propagate" in vars(layer)
    ours = convert(layer)
    assert ours.slow_path_reason == ""
    torch.testing.assert_close(ours(X, EDGES), expected)
    decomposed = package.AGNNConv(decomposed_layers=2)
    assert "propagate" in vars(decomposed)
    assert convert(decomposed).slow_path_reason == ""


def test_an_equation_replaced_in_a_class_of_pyg_is_not_lost(monkeypatch):
    layer = pyg.GATConv(6, 4)
    monkeypatch.setattr(pyg.GATConv, "message", Doubled.message)
    model = convert(torch.nn.ModuleList([layer, pyg.GATv2Conv(6, 4)]))
    assert conversion_report(model).left == {"0": "GATConv overrides message"}


# Precision, quantization, tracing, tensors without data


def test_autocast_leaves_the_dtype_of_layers_that_project_nothing():
    for layer, args in ((nn.AGNNConv(), (X, EDGES)), (nn.FAConv(6), (X, X, EDGES))):
        theirs = getattr(pyg, type(layer).__name__)(*([6] if args[1] is X else []))
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(*args).dtype == theirs(*args).dtype == torch.float32


BATCH = torch.tensor([0, 0, 0, 1, 1])
QUANTIZED = {
    "AttentiveFP": (lambda: models.AttentiveFP(6, 8, 2, 3, 2, 2), (X, EDGES, WIDE, BATCH)),
    "GATEConv": (lambda: nn.GATEConv(6, 6, 3), (X, EDGES, WIDE)),
    "SetTransformerReadout": (lambda: nn.SetTransformerReadout(6, 2, heads=2), (X, BATCH)),
    "LearnedQueryReadout": (lambda: nn.LearnedQueryReadout(6, 6, 2, heads=2), (X, BATCH)),
    "GraphAttention": (lambda: nn.GraphAttention(6, heads=2), (X, X, X, EDGES)),
    "TransformerBlock": (lambda: nn.TransformerBlock(6, 2), (X, graphs.causal([3, 2]))),
    "GraphTransformerLayer": (lambda: nn.GraphTransformerLayer(6, 2), (X, EDGES, BATCH)),
    "GPSConv": (lambda: nn.GPSConv(6, nn.GATConv(6, 6), 2), (X, EDGES, BATCH)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_linear_maps(name):
    make, args = QUANTIZED[name]
    torch.manual_seed(0)
    model = make().eval()
    quantized = torch.ao.quantization.quantize_dynamic(model)
    with torch.no_grad():
        torch.testing.assert_close(quantized(*args), model(*args), rtol=0.1, atol=0.1)


def test_features_without_data_are_checked_and_projected():
    lin = torch.nn.Linear(6, 4, device="meta")
    assert project(lin, torch.empty(5, 6, device="meta")).shape == (5, 4)
    with pytest.raises(ValueError, match="x must have 6 features"):
        project(lin, torch.empty(5, 7, device="meta"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "model",
    [nn.GATConv(6, 4), nn.TransformerConv(6, 4), nn.TransformerBlock(6)],
    ids=lambda model: type(model).__name__,
)
def test_a_trace_is_refused_in_one_sentence(model):
    message = "does not run under torch.jit.trace.*: use torch.compile, torch.export.export or"
    with pytest.raises(RuntimeError, match=message):
        torch.jit.trace(model, (X, EDGES))


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_complex_numbers_are_refused():
    for kind in (nn.GATConv, nn.GATv2Conv, nn.TransformerConv, nn.SuperGATConv):
        layer = kind(6, 4).to(torch.complex64)
        with pytest.raises(TypeError, match=r"must be float32, float64, .*; got torch\.complex64"):
            layer(X.to(torch.complex64), EDGES)
