"""A layer calls its linear maps if they do more than multiply: hooks, wrappers, replaced
forwards.
"""

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp

import gattn.nn as ours
from gattn import convert
from tests.layers import BY_NAME, Call

EDGES = torch.randint(0, 20, (2, 80), generator=torch.Generator().manual_seed(1))


def _biased(like):
    """Create a linear map of the same widths with an additional large bias."""
    linear = torch.nn.Linear(like.weight.shape[1], like.weight.shape[0])
    torch.nn.init.normal_(linear.bias, std=3)
    return linear


X, ATTR = (
    torch.randn(n, d, generator=torch.Generator().manual_seed(d)) for n, d in [(20, 8), (80, 3)]
)
KIND = torch.arange(80) % 2
BIASED = {
    "GATConv, mean": (lambda p: p.GATConv(8, 4, 2, edge_dim=3), "lin_edge", (ATTR,)),
    "GATConv, sum": (
        lambda p: p.GATConv(8, 4, 2, edge_dim=3, fill_value="add"), "lin_edge", (ATTR,)
    ),
    "GATv2Conv": (lambda p: p.GATv2Conv(8, 4, 2, edge_dim=3), "lin_edge", (ATTR,)),
    "TransformerConv": (lambda p: p.TransformerConv(8, 4, 2, edge_dim=3), "lin_edge", (ATTR,)),
    "TransformerConv, gated": (lambda p: p.TransformerConv(8, 4, 2, beta=True), "lin_beta", ()),
    "RGATConv": (lambda p: p.RGATConv(8, 4, 2, heads=2, edge_dim=3), "lin_edge", (KIND, ATTR)),
    "GATEConv": (
        lambda p: (attentive_fp if p is pyg else p).GATEConv(8, 8, 3), "lin1", (ATTR,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASED)
def test_layer_adds_the_bias_of_a_replaced_linear_module_as_pyg_does(name):
    make, part, args = BIASED[name]
    theirs, mine = make(pyg), make(ours)
    mine.load_state_dict(theirs.state_dict())
    plain = mine(X, EDGES, *args)
    biased = _biased(getattr(mine, part))
    for layer in (theirs, mine):
        setattr(layer, part, biased)
    expected = theirs(X, EDGES, *args)
    for layer in (mine, convert(theirs)):
        out = layer(X, EDGES, *args)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
        (bias,) = torch.autograd.grad(out.sin().sum(), [biased.bias])
    (expected_grad,) = torch.autograd.grad(expected.sin().sum(), [biased.bias])
    torch.testing.assert_close(bias, expected_grad, rtol=1e-3, atol=1e-3)
    assert mine.slow_path_reason == ""
    assert not torch.allclose(out, plain)


class Thrice(torch.nn.Module):
    def forward(self, weight):
        return weight * 3


@pytest.mark.parametrize("how", ["forward hook", "parametrisation", "replaced forward"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_gps_conv_with_a_modified_attention_module_gives_the_same_output_as_pyg(how, shuffled):
    theirs, mine = (nn.GPSConv(8, None, heads=2, norm=None) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    x, batch = torch.randn(6, 8), torch.tensor([0, 0, 0, 2, 2, 3])  # Graph 1 has no nodes.
    order = torch.randperm(6) if shuffled else torch.arange(6)
    plain = mine(x, EDGES, batch)
    for conv in (theirs, mine):
        if how == "forward hook":
            conv.attn.register_forward_hook(lambda module, inputs, out: (out[0] * 3, out[1]))
        elif how == "parametrisation":
            parametrize = torch.nn.utils.parametrize.register_parametrization
            parametrize(conv.attn, "in_proj_weight", Thrice())
        else:
            forward = conv.attn.forward
            conv.attn.forward = lambda *x, plain=forward, **o: (plain(*x, **o)[0] * 3, None)
    expected = theirs(x, EDGES, batch)
    result = mine(x[order], EDGES, batch[order])
    torch.testing.assert_close(result, expected[order])
    assert not torch.allclose(result, plain[order])
    result.sum().backward()
    assert all(p.grad.isfinite().all() for p in mine.attn.parameters() if p.grad is not None)


NOT_CALLED = {"GPSConv": ("attn.out_proj",), "GPSConv, layer norm": ("attn.out_proj",)}
"""Linear maps whose weights are read by a module of torch, which does not call them."""
NOT_READ = {("Polynormer", "lin_in"), ("Polynormer", "pred_local")}
"""Linear maps that a forward pass does not use: PyG's layer does not use the first one, and the
second one belongs to another stage.
"""
CALLS = {
    ("HypergraphConv", "lin"): 2,  # The module maps the nodes and the hyperedges.
    # GeneralConv maps the edge features for each direction of a message.
    ("GeneralConv, edges", "lin_edge"): 2,
    ("HANConv, two types", "k_lin"): 2,  # The module is called for each of two node types.
    # AttentiveFP maps the atoms and the molecules, in each of two timesteps.
    ("AttentiveFP", "mol_conv.lin"): 4,
}
"""Linear maps that a forward pass of PyG's layer calls several times."""


def _is_map(module):
    return type(module) in (torch.nn.Linear, pyg.Linear, pyg.HeteroLinear)


def _maps_of(entry):
    """Return the names of all linear maps of a layer."""
    layer = entry.make(6, 3)
    return [
        name
        for name, module in layer.named_modules()
        if _is_map(module) and name not in NOT_CALLED.get(entry.name, ())
    ]


DAILY = (
    *("AttentiveFP", "GATConv, edges", "GeneralConv, edges", "GPSConv", "GraphAttention, edges"),
    *("HANConv, two types", "HGTConv, two types", "LearnedQueryReadout"),
    *("TransformerConv, edges and beta", "RGATConv, edges", "SetTransformerAggregation"),
)
"""Layers with all ways to call a linear map; the slow run tests the maps of all layers."""
each_layer = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in DAILY else pytest.mark.slow) for name in BY_NAME],
)


class Adapter(torch.nn.Module):
    """Module around a linear map, without attributes for its weight and widths."""

    def __init__(self, base):
        super().__init__()
        self.base, self.calls = base, 0

    def forward(self, *args):
        self.calls += 1
        return 1.5 * self.base(*args)


def _exchange(layer, name, make):
    holder, _, last = name.rpartition(".")
    holder = layer.get_submodule(holder)
    base = holder.get_submodule(last)
    module = make(base)
    holder._modules[last] = module
    return module


def _module_of(layer):
    return layer.module if isinstance(layer, Call) else layer


@pytest.mark.parametrize("name", BIASED)
def test_converted_pyg_layer_with_an_adapter_gives_the_same_output_as_pyg(name):
    make, part, args = BIASED[name]
    theirs = make(pyg).eval()
    _exchange(theirs, part, Adapter)
    expected = theirs(X, EDGES, *args)
    torch.testing.assert_close(convert(theirs)(X, EDGES, *args), expected, rtol=1e-4, atol=1e-4)


class Counted(torch.nn.Module):
    """Parametrisation that counts how often it is evaluated."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def forward(self, weight):
        self.times += 1
        return 2 * weight


@each_layer
def test_parametrised_weight_is_evaluated_once_per_call_of_its_linear_module(name):
    entry = BY_NAME[name]
    args, options = entry.inputs()
    for part in _maps_of(entry):
        layer, equivalent, adapted = (entry.called(6, 3).eval() for _ in range(3))
        linear, counted = _module_of(layer).get_submodule(part), Counted()
        if isinstance(linear, pyg.HeteroLinear):
            continue  # PyG's map by type reads its weight several times itself
        adapter = _exchange(_module_of(adapted), part, Adapter)
        adapted(*args, **options)
        torch.nn.utils.parametrize.register_parametrization(linear, "weight", counted)
        counted.times = 0
        with torch.no_grad():
            _module_of(equivalent).get_submodule(part).weight.mul_(2)
        actual = layer(*args, **options)
        assert counted.times == adapter.calls, part
        expected = CALLS.get((name, part), 0 if (name, part) in NOT_READ else 1)
        assert adapter.calls == expected, part
        torch.testing.assert_close(
            actual, equivalent(*args, **options), rtol=1e-4, atol=1e-5, msg=part
        )


def _plain_linear(base):
    """Return torch's linear layer that computes 1.5 times the map."""
    linear = torch.nn.Linear(base.weight.shape[1], base.weight.shape[0], base.bias is not None)
    linear.load_state_dict({name: 1.5 * value for name, value in base.state_dict().items()})
    return linear


def _replace_forward(layer, part):
    module = layer.get_submodule(part)
    module.forward = lambda *args, plain=module.forward: 1.5 * plain(*args)


CHANGES = {
    "adapter": lambda layer, part: _exchange(layer, part, Adapter),
    "forward hook": lambda layer, part: layer.get_submodule(part).register_forward_hook(
        lambda module, args, out: 1.5 * out
    ),
    "replaced forward": _replace_forward,
    "linear of torch": lambda layer, part: _exchange(layer, part, _plain_linear),
}
"""Changes of a linear map after which it computes 1.5 times as much."""


@each_layer
@pytest.mark.parametrize("how", CHANGES)
def test_layer_calls_a_linear_module_that_is_hooked_or_replaced(name, how):
    entry = BY_NAME[name]
    args, options = entry.inputs()
    for part in _maps_of(entry):
        changed, equivalent = entry.called(6, 3).eval(), entry.called(6, 3).eval()
        linear = _module_of(equivalent).get_submodule(part)
        if how == "linear of torch" and isinstance(linear, pyg.HeteroLinear):
            continue  # a map by type is none of torch.nn.Linear's
        CHANGES[how](_module_of(changed), part)
        for parameter in linear.parameters():
            parameter.data.mul_(1.5)
        actual, expected = (layer(*args, **options) for layer in (changed, equivalent))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, msg=part)


@pytest.mark.parametrize(
    ("name", "part"),
    [("GATConv", "lin"), ("GATv2Conv", "lin_edge"), ("TransformerConv", "lin_beta")],
)
def test_backward_hook_of_a_linear_module_changes_gradients_as_in_pyg(name, part):
    options = {"beta": True} if name == "TransformerConv" else {}
    theirs, mine = (getattr(p, name)(8, 4, heads=2, edge_dim=3, **options) for p in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    x, attr = X.clone().requires_grad_(), ATTR.clone().requires_grad_()
    grads = []
    for conv in (theirs, mine):
        module = getattr(conv, part)
        module.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
        grads.append(torch.autograd.grad(conv(x, EDGES, attr).sin().sum(), [x, attr]))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
