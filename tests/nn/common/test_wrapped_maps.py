"""A layer calls its linear maps if they do more than multiply: hooks, wrappers, replaced
forwards.
"""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp

import gattn.nn as ours
from gattn import convert
from gattn.graph import as_graph
from tests.layers import BY_NAME, Call

EDGES = torch.randint(0, 20, (2, 80), generator=torch.Generator().manual_seed(1))


def thrice(module, inputs, out):
    return out * 3


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        ("GATConv", "lin"),
        ("GATConv", "lin_edge"),
        ("GATv2Conv", "lin_l"),
        ("GATv2Conv", "lin_edge"),
        ("TransformerConv", "lin_key"),
        ("TransformerConv", "lin_edge"),
        ("TransformerConv", "lin_beta"),
    ],
)
@pytest.mark.parametrize("how", ["forward hook", "backward hook", "replaced forward"])
def test_linear_maps_with_hooks_or_replaced_forward_are_called(layer, part, how):
    options = {"beta": True} if layer == "TransformerConv" else {}
    theirs = getattr(pyg, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine = getattr(ours, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine.load_state_dict(theirs.state_dict())
    torch.manual_seed(0)
    x, attr = torch.randn(20, 8, requires_grad=True), torch.randn(80, 3, requires_grad=True)
    results = []
    for conv in (theirs, mine):
        module = getattr(conv, part)
        if how == "forward hook":
            module.register_forward_hook(thrice)
        elif how == "backward hook":
            module.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
        else:
            module.forward = lambda x, plain=module.forward: plain(x) * 3
        out = conv(x, EDGES, attr)
        results.append([out, *torch.autograd.grad(out.sin().sum(), [x, attr])])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


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
def test_bias_of_replaced_linear_map_is_added(name):
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


@pytest.mark.parametrize("part", ["k_rel", "v_rel"])
def test_bias_of_replaced_typed_map_is_added(part):
    to, back = ("a", "to", "b"), ("b", "back", "a")
    theirs, mine = (nn.HGTConv(8, 8, (["a", "b"], [to, back]), heads=2) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    biased = pyg.HeteroLinear(4, 4, 4)
    torch.nn.init.normal_(biased.bias, std=3)
    for layer in (theirs, mine):
        setattr(layer, part, biased)
    x, edges = {"a": X, "b": X.sin()}, {to: EDGES, back: EDGES.flip(0)}
    expected, out = theirs(x, edges), mine(x, edges)
    for key in x:
        torch.testing.assert_close(out[key], expected[key])


def test_evaluation_in_inference_mode_does_not_break_training():
    x, attr = torch.randn(20, 8), torch.randn(80, 3)
    edges = EDGES.clone()
    for layer in (ours.GATConv(8, 4, 2, edge_dim=3), ours.GATv2Conv(8, 4, 2, edge_dim=3)):
        with torch.inference_mode():
            expected = layer(x, edges, attr)
        out = layer(x, edges, attr)
        assert torch.equal(out, expected)
        out.sum().backward()
        assert all(p.grad is not None for p in layer.parameters())


def test_edges_with_replaced_memory_are_sorted_again():
    edges = EDGES.clone()
    before = as_graph(edges, 20)
    edges.data = EDGES.flip(0).clone()
    assert as_graph(edges, 20) is not before


HOOKS = pytest.mark.parametrize("how", ["forward hook", "parametrisation", "replaced forward"])


class Thrice(torch.nn.Module):
    def forward(self, weight):
        return weight * 3


def _wrap(module, how):
    if how == "forward hook":
        module.register_forward_hook(thrice)
    elif how == "parametrisation":
        torch.nn.utils.parametrize.register_parametrization(module, "weight", Thrice())
    else:
        module.forward = lambda *x, plain=module.forward: plain(*x) * 3


@HOOKS
@pytest.mark.parametrize("part", ["k_rel", "v_rel"])
def test_typed_maps_are_called(part, how):
    to, back = ("a", "to", "b"), ("b", "back", "a")
    metadata = ["a", "b"], [to, back]
    theirs, mine = (nn.HGTConv(8, 8, metadata, heads=2) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    for parameter in (*theirs.p_rel.values(), *mine.p_rel.values()):
        parameter.data.fill_(1.5)
    x = {"a": torch.randn(20, 8), "b": torch.randn(20, 8)}
    edges = {to: EDGES, back: EDGES.flip(0)}
    plain = mine(x, edges)["a"]
    for conv in (theirs, mine):
        _wrap(getattr(conv, part), how)
    expected = theirs(x, edges)
    for edge_types in (edges, dict(reversed(edges.items()))):
        out = mine(x, edge_types)
        for key in x:
            torch.testing.assert_close(out[key], expected[key])
    assert not torch.allclose(mine(x, edges)["a"], plain)


@pytest.mark.parametrize("how", ["forward hook", "parametrisation", "replaced forward"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_modified_attention_module_of_gps_is_called(how, shuffled):
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


NOT_CALLED = {
    "GPSConv": ("attn.out_proj",),
    "GPSConv, layer norm": ("attn.out_proj",),
}
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


EVERY_MAP = [(name, part) for name, entry in BY_NAME.items() for part in _maps_of(entry)]


class Adapter(torch.nn.Module):
    """Module around a linear map, without attributes for its weight and widths."""

    def __init__(self, base):
        super().__init__()
        self.base, self.calls = base, 0

    def forward(self, *args):
        self.calls += 1
        return 1.5 * self.base(*args)


class LowRank(torch.nn.Module):
    """Low-rank adapter that computes W x + b + B A x, as in LoRA."""

    def __init__(self, base):
        super().__init__()
        self.base, self.calls = base, 0
        rows, columns = base.weight.shape
        self.down = torch.nn.Linear(columns, 2, bias=False)
        self.up = torch.nn.Linear(2, rows, bias=False)

    def forward(self, x):
        self.calls += 1
        return self.base(x) + self.up(self.down(x))


def _equivalent(base, how):
    """Return the linear map that computes the same as an adapter."""
    equivalent = copy.deepcopy(base)
    with torch.no_grad():
        if isinstance(how, Adapter):
            for parameter in equivalent.parameters():
                parameter.mul_(1.5)
        elif isinstance(how, LowRank):
            equivalent.weight.add_(how.up.weight @ how.down.weight)
    return equivalent


def _exchange(layer, name, make):
    holder, _, last = name.rpartition(".")
    holder = layer.get_submodule(holder)
    base = holder.get_submodule(last)
    module = make(base)
    holder._modules[last] = module
    return module


def _inputs(entry, nodes=12, edges=40):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(nodes, 6, generator=generator)
    batch = torch.arange(nodes) // 5
    if entry.readout:
        return (x, batch), {"dim_size": 4}
    pairs = torch.randint(nodes - 1, (2, edges), generator=generator)
    sources = torch.randn(nodes, 3, generator=generator)
    options = {"batch": batch} if entry.batch else {}
    if entry.edge_attr:
        options["edge_attr"] = torch.randn(edges, 3, generator=generator)
    return ((sources, x) if entry.bipartite else x, pairs), options


def _module_of(layer):
    return layer.module if isinstance(layer, Call) else layer


@pytest.mark.parametrize(("name", "part"), EVERY_MAP)
def test_every_map_may_be_exchanged_for_an_adapter(name, part):
    entry = BY_NAME[name]
    args, options = _inputs(entry)
    base = _module_of(entry.called(6, 3)).get_submodule(part)
    kinds = [Adapter] if isinstance(base, pyg.HeteroLinear) else [Adapter, LowRank]
    for kind in kinds:
        adapted, equivalent = entry.called(6, 3).eval(), entry.called(6, 3).eval()
        torch.manual_seed(3)
        adapter = _exchange(_module_of(adapted), part, kind)
        _exchange(_module_of(equivalent), part, lambda base, a=adapter: _equivalent(base, a))
        actual, expected = (layer(*args, **options) for layer in (adapted, equivalent))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        if (name, part) not in NOT_READ:
            assert adapter.calls > 0


CONVERTED = {
    "GATConv": (lambda p: p.GATConv(8, 4, 2, edge_dim=3), (ATTR,)),
    "TransformerConv": (lambda p: p.TransformerConv(8, 4, 2, edge_dim=3), (ATTR,)),
    "GeneralConv": (lambda p: p.GeneralConv(8, 4, 3, attention=True), (ATTR,)),
    "ResGatedGraphConv": (lambda p: p.ResGatedGraphConv(8, 4, edge_dim=3), (ATTR,)),
    "HEATConv": (
        lambda p: p.HEATConv(8, 4, 2, 2, 5, 3, 6), (torch.arange(20) % 2, KIND, ATTR)
    ),
    "GATEConv": (lambda p: (attentive_fp if p is pyg else p).GATEConv(8, 8, 3), (ATTR,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERTED)
def test_layer_of_pyg_with_an_adapter_is_converted(name):
    make, args = CONVERTED[name]
    parts = [part for part, module in make(pyg).named_modules() if _is_map(module)]
    assert parts
    for part in parts:
        theirs = make(pyg).eval()
        _exchange(theirs, part, Adapter)
        expected = theirs(X, EDGES, *args)
        actual = convert(theirs)(X, EDGES, *args)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, msg=part)


class Counted(torch.nn.Module):
    """Parametrisation that counts how often it is evaluated."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def forward(self, weight):
        self.times += 1
        return 2 * weight


@pytest.mark.parametrize(("name", "part"), EVERY_MAP)
def test_parametrised_weight_is_evaluated_once_for_each_call_of_its_map(name, part):
    entry = BY_NAME[name]
    args, options = _inputs(entry)
    layer, equivalent, adapted = (entry.called(6, 3).eval() for _ in range(3))
    linear, counted = _module_of(layer).get_submodule(part), Counted()
    if isinstance(linear, pyg.HeteroLinear):
        pytest.skip("PyG's map by type reads its weight several times itself")
    adapter = _exchange(_module_of(adapted), part, Adapter)
    adapted(*args, **options)
    torch.nn.utils.parametrize.register_parametrization(linear, "weight", counted)
    counted.times = 0
    with torch.no_grad():
        _module_of(equivalent).get_submodule(part).weight.mul_(2)
    actual = layer(*args, **options)
    assert counted.times == adapter.calls
    assert adapter.calls == CALLS.get((name, part), 0 if (name, part) in NOT_READ else 1)
    torch.testing.assert_close(actual, equivalent(*args, **options), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["GATConv, edges", "GATv2Conv, edges", "TransformerConv, edges"])
def test_spectral_norm_iterates_once_per_forward(name):
    entry = BY_NAME[name]
    args, options = _inputs(entry)
    parts = _maps_of(entry)
    assert parts
    for part in parts:
        layer = entry.called(6, 3)
        linear = layer.get_submodule(part)
        torch.manual_seed(0)
        torch.nn.utils.parametrizations.spectral_norm(linear)
        alone = copy.deepcopy(linear)
        layer(*args, **options)
        alone.weight  # noqa: B018 - one evaluation in training is one step
        vectors = [m.parametrizations.weight[0]._u for m in (linear, alone)]
        assert torch.equal(*vectors), part


def _plain_linear(base):
    """Return torch's linear layer with the same parameters."""
    linear = torch.nn.Linear(base.weight.shape[1], base.weight.shape[0], base.bias is not None)
    linear.load_state_dict(base.state_dict())
    return linear


@pytest.mark.parametrize(("name", "part"), EVERY_MAP)
def test_every_map_may_be_a_linear_of_torch(name, part):
    entry = BY_NAME[name]
    args, options = _inputs(entry)
    layer = entry.called(6, 3).eval()
    if isinstance(_module_of(layer).get_submodule(part), pyg.HeteroLinear):
        pytest.skip("a map by type is none of torch.nn.Linear's")
    expected = layer(*args, **options)
    _exchange(_module_of(layer), part, _plain_linear)
    torch.testing.assert_close(layer(*args, **options), expected, rtol=1e-4, atol=1e-5)
