"""Changed layers run edge by edge, name the reason, and compute what PyG computes."""

import copy
import re
from pathlib import Path

import pytest
import torch
import torch_geometric.nn as pyg

from gattn import conversion_report, convert, nn
from tests.nn.as_pyg import EDGES, X

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "slow.md"
SECTION = GUIDE.read_text().split("## Edge by edge")[1].split("```")[0]
REASONS = set(re.findall(r"^\| `(.+?)` +\|", SECTION, re.M)) - {"slow_path_reason"}
"""Reasons for edge-by-edge execution that the guide lists."""


def test_slow_path_reason_names_the_hook_override_or_option_that_prevents_fused_operators():
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
    assert layer.slow_path_reason == "a hook on message needs its edges"
    handle.remove()
    layer.message = lambda x_j, alpha: x_j
    assert layer.slow_path_reason == "message was replaced on the instance"
    assert {
        "explain mode is on",
        "Mine overrides message",
        "message was replaced on the instance",
        "a hook on message needs its edges",
        "this version of torch_geometric has no _message_forward_hooks: hooks cannot be seen",
        "flow is 'target_to_source'",
        "it aggregates by MaxAggregation(), not by the plain sum",
        "lin_edge does more than multiply and add its bias",
    } == REASONS
    assert not layer.fused
    del layer.message
    assert layer.fused


class Doubled:
    """A mixin whose message method overrides that of the layer."""

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
    "mean": (_aggregating(pyg.MeanAggregation), "it aggregates by MeanAggregation(), not by"),
    "hooked sum": (_aggregating(_hooked_sum), "it aggregates by SumAggregation(), not by the"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_overrides_and_hooks_change_the_output_of_a_layer_as_in_pyg(name):
    make, reason = CHANGED[name]
    theirs, ours = make(pyg.GATConv), make(nn.GATConv)
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(X, EDGES)
    for layer in (ours, copy.deepcopy(ours)):
        assert layer.slow_path_reason.startswith(reason)
    torch.testing.assert_close(ours(X, EDGES), expected)
    converted, _ = convert(torch.nn.ModuleList([theirs, pyg.GATConv(6, 4)]))
    torch.testing.assert_close(converted(X, EDGES), expected)


def test_layer_calls_fused_kernels_again_after_a_patch_is_removed():
    layer = _given_later(nn.GATConv)
    assert not layer.fused
    del type(layer).message
    assert layer.fused


def test_overridden_get_attention_of_supergat_changes_output_as_in_pyg():
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
def test_methods_that_pyg_binds_to_a_layer_do_not_count_as_overrides(package):
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


def test_convert_does_not_replace_layers_of_a_patched_pyg_class(monkeypatch):
    layer = pyg.GATConv(6, 4)
    monkeypatch.setattr(pyg.GATConv, "message", Doubled.message)
    model = convert(torch.nn.ModuleList([layer, pyg.GATv2Conv(6, 4)]))
    assert conversion_report(model).left == {"0": "GATConv overrides message"}
