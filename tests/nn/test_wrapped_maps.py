"""A layer calls its maps where they do more than multiply: hooks, wrappers, replaced forwards."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp

import gattn.nn as ours
from gattn import Graph, convert
from gattn.graph import as_graph

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
def test_maps_are_called(layer, part, how):
    options = {"beta": True} if layer == "TransformerConv" else {}
    theirs = getattr(pyg, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine = getattr(ours, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine.load_state_dict(theirs.state_dict())
    torch.manual_seed(0)
    x, attr = torch.randn(20, 8, requires_grad=True), torch.randn(80, 3, requires_grad=True)
    found = []
    for conv in (theirs, mine):
        module = getattr(conv, part)
        if how == "forward hook":
            module.register_forward_hook(thrice)
        elif how == "backward hook":
            module.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
        else:
            module.forward = lambda x, plain=module.forward: plain(x) * 3
        out = conv(x, EDGES, attr)
        found.append([out, *torch.autograd.grad(out.sin().sum(), [x, attr])])
    for expected, got in zip(*found):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def _biased(like):
    """A map of the same widths, with a bias that nobody can miss."""
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
def test_a_bias_where_the_layer_makes_none_is_added(name):
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
    (wanted,) = torch.autograd.grad(expected.sin().sum(), [biased.bias])
    torch.testing.assert_close(bias, wanted, rtol=1e-3, atol=1e-3)
    assert mine.why_not_fused == ""
    assert not torch.allclose(out, plain)


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_bias_of_the_edges_map_of_graph_attention_is_added(score):
    layer = ours.GraphAttention(8, heads=2, edge_dim=3, score=score)
    layer.lin_edge = _biased(layer.lin_edge)
    graph = Graph(EDGES, 20)
    found = layer(X, X, X, graph, edge_attr=ATTR)
    layer.lin_edge.register_forward_hook(lambda module, inputs, out: None)
    torch.testing.assert_close(found, layer(X, X, X, graph, edge_attr=ATTR))


@pytest.mark.parametrize("part", ["lin_key", "lin_value"])
def test_a_bias_of_the_maps_of_a_readout_is_added(part):
    readout = ours.LearnedQueryReadout(8, 8, num_queries=2, heads=2)
    setattr(readout, part, _biased(getattr(readout, part)))
    index = torch.arange(20) // 4
    found = readout(X, index)
    getattr(readout, part).register_forward_hook(lambda module, inputs, out: None)
    torch.testing.assert_close(found, readout(X, index))


@pytest.mark.parametrize("part", ["k_rel", "v_rel"])
def test_a_bias_of_typed_maps_is_added(part):
    to, back = ("a", "to", "b"), ("b", "back", "a")
    theirs, mine = (nn.HGTConv(8, 8, (["a", "b"], [to, back]), heads=2) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    biased = pyg.HeteroLinear(4, 4, 4)
    torch.nn.init.normal_(biased.bias, std=3)
    for layer in (theirs, mine):
        setattr(layer, part, biased)
    x, edges = {"a": X, "b": X.sin()}, {to: EDGES, back: EDGES.flip(0)}
    expected, found = theirs(x, edges), mine(x, edges)
    for key in x:
        torch.testing.assert_close(found[key], expected[key])


@pytest.mark.parametrize("part", ["lin_key", "lin_value"])
def test_readout_calls_its_maps(part):
    readout = ours.LearnedQueryReadout(8, 8, num_queries=2, heads=2)
    x, index = torch.randn(10, 8), torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2, 4])
    plain = readout(x, index, dim_size=5)
    handle = getattr(readout, part).register_forward_hook(lambda m, i, out: out)
    torch.testing.assert_close(readout(x, index, dim_size=5), plain)
    handle.remove()
    getattr(readout, part).register_forward_hook(thrice)
    assert not torch.allclose(readout(x, index, dim_size=5), plain)


def test_evaluation_in_inference_mode_comes_before_training():
    x, attr = torch.randn(20, 8), torch.randn(80, 3)
    edges = EDGES.clone()
    for layer in (ours.GATConv(8, 4, 2, edge_dim=3), ours.GATv2Conv(8, 4, 2, edge_dim=3)):
        with torch.inference_mode():
            layer(x, edges, attr)
        layer(x, edges, attr).sum().backward()


def test_a_tensor_given_other_memory_is_laid_out_anew():
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
def test_the_first_layer_of_attentive_fp_calls_its_map(how):
    theirs, mine = attentive_fp.GATEConv(8, 8, 3), ours.GATEConv(8, 8, 3)
    mine.load_state_dict(theirs.state_dict())
    x, attr = torch.randn(20, 8), torch.randn(80, 3)
    plain = mine(x, EDGES, attr)
    for conv in (theirs, mine):
        _wrap(conv.lin1, how)
    torch.testing.assert_close(mine(x, EDGES, attr), theirs(x, EDGES, attr))
    assert not torch.allclose(mine(x, EDGES, attr), plain)


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
    for given in (edges, dict(reversed(edges.items()))):
        found = mine(x, given)
        for key in x:
            torch.testing.assert_close(found[key], expected[key])
    assert not torch.allclose(mine(x, edges)["a"], plain)


def test_typed_maps_do_not_depend_on_the_order_of_the_edge_types():
    to, back = ("a", "to", "b"), ("b", "back", "a")
    theirs, mine = (nn.HGTConv(8, 8, (["a", "b"], [to, back]), heads=2) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    x = {"a": torch.randn(20, 8), "b": torch.randn(30, 8)}
    edges = {to: EDGES, back: EDGES.flip(0)}
    expected = theirs(x, edges)
    for given in (edges, dict(reversed(edges.items()))):
        torch.testing.assert_close(mine(x, given)["a"], expected["a"])


@HOOKS
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_the_edges_map_of_graph_attention_is_called(how, score, batch):
    layer = ours.GraphAttention(8, heads=2, edge_dim=3, score=score)
    x, attr, graph = torch.randn(*batch, 20, 8), torch.randn(80, 3), Graph(EDGES, 20)
    expected = layer(x, x, x, graph, edge_attr=attr * 3)
    weights = layer.attention_weights(x, x, graph, edge_attr=attr * 3)
    _wrap(layer.lin_edge, how)
    torch.testing.assert_close(layer(x, x, x, graph, edge_attr=attr), expected)
    torch.testing.assert_close(layer.attention_weights(x, x, graph, edge_attr=attr), weights)


@pytest.mark.parametrize("how", ["forward hook", "parametrisation", "replaced forward"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_attention_of_gps_is_called(how, shuffled):
    theirs, mine = (nn.GPSConv(8, None, heads=2, norm=None) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    x, batch = torch.randn(6, 8), torch.tensor([0, 0, 0, 2, 2, 3])  # graph 1 is empty
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
    found = mine(x[order], EDGES, batch[order])
    torch.testing.assert_close(found, expected[order])
    assert not torch.allclose(found, plain[order])
    found.sum().backward()
    assert all(p.grad.isfinite().all() for p in mine.attn.parameters() if p.grad is not None)
