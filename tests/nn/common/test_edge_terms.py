"""edge_weight and attn_bias of every layer, compared with patched layers of PyG."""

import sys
import threading

import networkx
import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp
from torch_geometric.utils import softmax

from gattn import nn
from gattn.nn import record_attention

PAIRS = torch.tensor([[1, 3, 0, 1, 2, 0, 4, 3], [0, 0, 1, 1, 2, 4, 0, 1]])
KINDS = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
LOOPS = PAIRS[0] == PAIRS[1]
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
TYPES = (["author", "paper"], [WRITES, CITES])

MULTIPLICATIVE = {"dim": 2, "attention_mode": "multiplicative-self-attention"}
LAYERS = {
    "GATConv": ((6, 4, 2), {"edge_dim": 3}, ("edge_attr",)),
    "GATConv, no loops": ((6, 4, 2), {"add_self_loops": False}, ()),
    "GATv2Conv": ((6, 4, 2), {"edge_dim": 3, "concat": False}, ("edge_attr",)),
    "TransformerConv": ((6, 4, 2), {}, ()),
    "TransformerConv, edges": ((6, 4, 2), {"edge_dim": 3, "beta": True}, ("edge_attr",)),
    "AGNNConv": ((), {}, ()),
    "SuperGATConv": ((6, 4, 2), {}, ()),
    "SuperGATConv, SD": ((6, 4, 2), {"attention_type": "SD"}, ()),
    "RGATConv": ((6, 4, 2), {"heads": 2, "edge_dim": 3}, ("edge_type", "edge_attr")),
    "RGATConv, additive": ((6, 4, 2), {"mod": "additive"}, ("edge_type",)),
    "RGATConv, f-scaled": ((6, 4, 2), {"mod": "f-scaled"}, ("edge_type",)),
    "RGATConv, multiplicative": ((6, 4, 2), {"heads": 2, **MULTIPLICATIVE}, ("edge_type",)),
    "GATEConv": ((6, 6, 3), {}, ("edge_attr",)),
}
"""Arguments of each layer, and its additional inputs."""


def _draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _taught(theirs, weight, bias, loops, monkeypatch):
    """Patch PyG's layer so that it adds the bias in its softmax and multiplies its messages by
    the weight.
    """
    if loops:
        # PyG removes the caller's self-loops and appends one self-loop per node after the edges.
        weight = torch.cat([weight[~LOOPS], weight.new_ones(5)])
        bias = torch.cat([bias[~LOOPS], bias.new_zeros(5, *bias.shape[1:])])

    def biased(score, *args, **options):
        term = bias if score.dim() == bias.dim() else bias.view(-1, *(1,) * (score.dim() - 1))
        return softmax(score + term, *args, **options)

    def weighted(layer, inputs, message):
        return message * weight.view(-1, *(1,) * (message.dim() - 1))

    monkeypatch.setattr(sys.modules[type(theirs).__module__], "softmax", biased)
    theirs.register_message_forward_hook(weighted)


def _pair(beside_pyg, name, args, options):
    theirs = {"GATEConv": attentive_fp.GATEConv}.get(name)
    pair = beside_pyg.pair(name, *args, theirs=theirs, **options)
    return [layer.eval() for layer in pair]


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("case", LAYERS)
def test_outputs_and_gradients_with_edge_weight_and_attn_bias_match_pyg(
    beside_pyg, monkeypatch, case, per_head, path
):
    args, options, takes = LAYERS[case]
    theirs, ours = _pair(beside_pyg, case.split(",")[0], args, options)
    if path != "fused":
        ours.register_message_forward_hook(lambda layer, inputs, out: None)
    assert ours.fused == (path == "fused")
    heads = vars(ours).get("heads", 1) * vars(ours).get("dim", 1)
    shape = (8, heads) if per_head and heads > 1 else (8,)
    weight, bias = _draw(8).abs().requires_grad_(), _draw(*shape, seed=1).requires_grad_()
    twins = [t.detach().clone().requires_grad_() for t in (weight, bias)]
    inputs = {"edge_type": KINDS, "edge_attr": _draw(8, 3)}
    options = {name: inputs[name] for name in takes}
    x = _draw(5, 6)
    _taught(theirs, *twins, ours.add_self_loops, monkeypatch)
    expected = theirs(x, PAIRS, **options)
    out = ours(x, PAIRS, **options, edge_weight=weight, attn_bias=bias)
    torch.testing.assert_close(out, expected)
    upstream = _draw(*out.shape, seed=2)
    expected_grads = torch.autograd.grad(
        (expected * upstream).sum(), [*twins, *theirs.parameters()], allow_unused=True
    )
    grads = torch.autograd.grad(
        (out * upstream).sum(), [weight, bias, *ours.parameters()], allow_unused=True
    )
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad)


def _hetero():
    x = {"author": _draw(3, 6), "paper": _draw(5, 6, seed=1)}
    edges = {WRITES: PAIRS.clamp(max=2), CITES: PAIRS.flip(1)}
    weight = {CITES: _draw(8, seed=2).abs()}
    bias = {WRITES: _draw(8, 2, seed=3), CITES: _draw(8, seed=4)}
    return x, edges, weight, bias


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
@pytest.mark.parametrize("name", ["HGTConv", "HANConv"])
def test_hetero_convs_with_edge_weight_and_attn_bias_by_edge_type_match_pyg(
    beside_pyg, monkeypatch, name, path
):
    theirs, ours = _pair(beside_pyg, name, (6, 4, TYPES, 2), {})
    if path != "fused":
        ours.register_message_forward_hook(lambda layer, inputs, out: None)
    x, edges, weight, bias = _hetero()
    per_type = [bias[WRITES], bias[CITES].unsqueeze(1).expand(-1, 2)]
    weights = [torch.ones(8).double(), weight[CITES]]
    if name == "HGTConv":  # HGTConv computes one softmax over the edges of all types
        weights, per_type = [torch.cat(weights)], [torch.cat(per_type)]
    turn = {"bias": iter(per_type), "weight": iter(weights)}
    module = sys.modules[type(theirs).__module__]
    monkeypatch.setattr(module, "softmax", lambda s, *args: softmax(s + next(turn["bias"]), *args))
    theirs.register_message_forward_hook(
        lambda layer, inputs, message: message * next(turn["weight"]).unsqueeze(1)
    )
    expected, got = theirs(x, edges), ours(x, edges, edge_weight=weight, attn_bias=bias)
    for kind in got:
        torch.testing.assert_close(got[kind], expected[kind])
    with pytest.raises(ValueError, match=r"edge_weight must contain edge types of .* got \('a'"):
        ours(x, edges, edge_weight={("a", "to", "b"): weight[CITES]})
    with pytest.raises(TypeError, match="attn_bias must be a dictionary by edge type; got Tensor"):
        ours(x, edges, attn_bias=bias[CITES])


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
@pytest.mark.parametrize("normalize", [False, True])
def test_fa_conv_adds_attn_bias_before_tanh(normalize, path):
    class Biased(pyg.FAConv):
        def message(self, x_j, alpha_j, alpha_i, edge_weight):
            alpha = (alpha_j + alpha_i).squeeze(-1) + full_bias
            return x_j * (alpha.tanh() * edge_weight).view(-1, 1)

    bias, weight = _draw(8), None if normalize else _draw(8, seed=1)
    full_bias = torch.cat([bias[~LOOPS], bias.new_zeros(5)]) if normalize else bias
    theirs, ours = Biased(6, normalize=normalize).double(), nn.FAConv(6, normalize=normalize)
    ours.double().load_state_dict(theirs.state_dict())
    if path != "fused":
        ours.register_message_forward_hook(lambda layer, inputs, out: None)
    x, x_0 = _draw(5, 6), _draw(5, 6, seed=1)
    torch.testing.assert_close(
        ours(x, x_0, PAIRS, weight, attn_bias=bias), theirs(x, x_0, PAIRS, weight)
    )


def test_gps_conv_passes_edge_weight_and_attn_bias_to_its_local_layer():
    layer = nn.GPSConv(6, nn.GATConv(6, 3, 2), heads=2, norm="layer_norm").double()
    x, weight, bias = _draw(5, 6), _draw(8), _draw(8, 2)
    layer.conv.register_forward_hook(
        lambda conv, args, kwargs, out: seen.append(kwargs), with_kwargs=True
    )
    seen = []
    layer(x, PAIRS, edge_weight=weight, attn_bias=bias)
    assert seen[0]["edge_weight"] is weight
    assert seen[0]["attn_bias"] is bias


@pytest.mark.parametrize("make", [nn.GATConv, nn.GATv2Conv, nn.TransformerConv])
def test_attn_bias_of_minus_infinity_removes_an_edge_and_log_2_doubles_its_weight(make):
    torch.manual_seed(0)
    layer, x = make(6, 4, 2).double(), _draw(5, 6)
    keep = torch.tensor([1.0, 1, 0, 1, 0, 1, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(layer(x, PAIRS, attn_bias=keep.log()), layer(x, PAIRS[:, keep > 0]))
    # Repeating every edge equals a bias of log 2, unless self-loops are merged.
    twice = torch.cat([PAIRS, PAIRS], dim=1)
    layer.add_self_loops = False
    torch.testing.assert_close(layer(x, PAIRS, attn_bias=torch.full((8,), 2.0).double().log()),
                               layer(x, twice))  # fmt: skip
    assert layer(x, PAIRS[:, :0], edge_weight=keep[:0], attn_bias=keep[:0]).shape == (5, 8)


def test_returned_attention_weights_do_not_contain_edge_weight():
    torch.manual_seed(0)
    layer, x, weight, bias = nn.GATConv(6, 4, 2).double(), _draw(5, 6), _draw(8), _draw(8)
    with record_attention(layer) as recorded:
        _, (_, alpha) = layer(x, PAIRS, edge_weight=weight, attn_bias=bias,
                              return_attention_weights=True)  # fmt: skip
    _, (_, plain) = layer(x, PAIRS, attn_bias=bias, return_attention_weights=True)
    torch.testing.assert_close(alpha, plain)
    torch.testing.assert_close(recorded[0].weights, plain)


def test_edge_weight_and_attn_bias_give_the_same_output_for_each_format_of_edges(beside_pyg):
    torch.manual_seed(0)
    layer, x = nn.GATConv(6, 4, 2).double(), _draw(5, 6)
    pairs = (
        torch.unique(PAIRS.flip(0), dim=1).flip(0).contiguous()
    )  # edges sorted by destination, then by source
    weight, bias = _draw(8), _draw(8, 2)
    expected = layer(x, pairs, edge_weight=weight, attn_bias=bias)
    for kind, make in beside_pyg.kinds.items():
        got = layer(x, make(pairs, (5, 5)), edge_weight=weight, attn_bias=bias)
        torch.testing.assert_close(got, expected, msg=lambda m, kind=kind: f"{kind}: {m}")
    # The graph has three undirected edges, which become six directed edges.
    network = networkx.Graph([(0, 1), (1, 2), (3, 4)])
    one, other = torch.tensor([[0, 1, 3], [1, 2, 4]]), _draw(3)
    both = torch.cat([one, one.flip(0)], dim=1)
    torch.testing.assert_close(layer(x, network, edge_weight=other, attn_bias=other),
                               layer(x, both, edge_weight=other.repeat(2),
                                     attn_bias=other.repeat(2)))  # fmt: skip


def test_attn_bias_raises_error_if_an_overridden_method_ignores_it():
    class Mine(nn.GATConv):
        def edge_update(self, alpha_j, alpha_i, index, ptr, dim_size):
            return softmax(alpha_j + alpha_i, index, ptr, dim_size)

    layer, x = Mine(6, 4, 2).double(), _draw(5, 6)
    layer(x, PAIRS, edge_weight=_draw(8))
    with pytest.raises(ValueError, match="overrides methods that ignore attn_bias"):
        layer(x, PAIRS, edge_weight=_draw(8), attn_bias=_draw(8))
    assert layer(x, PAIRS).shape == (5, 8)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"edge_weight": torch.ones(7)}, ValueError, r"edge_weight must have shape \(8"),
        ({"edge_weight": torch.ones(8, 2)}, ValueError, r"edge_weight must have shape \(8,\)"),
        ({"edge_weight": torch.tensor(1.0)}, ValueError, r"have shape \(8,\); got \(\)"),
        ({"attn_bias": torch.ones(8, device="meta")}, ValueError, "must be on cpu, as x; got meta"),
        ({"edge_weight": torch.ones(8).cfloat()}, TypeError, "must contain real numbers; got"),
        ({"attn_bias": torch.ones(8).cfloat()}, TypeError, "must contain real numbers; got"),
        ({"attn_bias": torch.ones(8, 3)}, ValueError, r"shape \(8,\) or \(8, 2\); got \(8, 3\)"),
        ({"attn_bias": torch.ones(8).double()}, TypeError, "must be torch.float32, as x"),
        ({"edge_weight": [1.0] * 8}, TypeError, "edge_weight must be a tensor"),
    ],
    ids=str,
)
def test_edge_weight_or_attn_bias_of_wrong_shape_device_or_dtype_raises_error(
    options, error, message
):
    with pytest.raises(error, match=message):
        nn.GATConv(6, 4, 2)(torch.randn(5, 6), PAIRS, **options)


EDGE_BY_EDGE = dict.fromkeys(["GATConv", "GATv2Conv", "TransformerConv", "SuperGATConv"], (6, 4, 2))
EDGE_BY_EDGE["AGNNConv"] = ()


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
@pytest.mark.parametrize("name", EDGE_BY_EDGE)
def test_node_whose_edges_are_all_masked_by_attn_bias_equals_a_node_without_edges(name, path):
    torch.manual_seed(0)
    layer = getattr(nn, name)(*EDGE_BY_EDGE[name]).double().eval()
    layer.add_self_loops = False
    if path != "fused":
        layer.register_message_forward_hook(lambda layer, inputs, out: None)
    x, bias = _draw(5, 6).requires_grad_(), torch.zeros(8).double()
    bias[PAIRS[1] == 1] = -torch.inf
    bias.requires_grad_()
    mask = PAIRS[1] != 1
    inputs = [x, bias, *layer.parameters()]
    outputs = [layer(x, PAIRS, attn_bias=bias), layer(x, PAIRS[:, mask], attn_bias=bias[mask])]
    torch.testing.assert_close(outputs[0], outputs[1])
    grads = [torch.autograd.grad(out.square().sum(), inputs, allow_unused=True) for out in outputs]
    for actual, expected in zip(*grads, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
def test_boolean_attn_bias_removes_the_edges_that_are_false(path):
    torch.manual_seed(0)
    layer, x, mask = nn.GATConv(6, 4, 2).double(), _draw(5, 6), PAIRS[0] > 0
    if path != "fused":
        layer.register_message_forward_hook(lambda layer, inputs, out: None)
    torch.testing.assert_close(layer(x, PAIRS, attn_bias=mask), layer(x, PAIRS[:, mask]))
    per_head = torch.stack([mask, ~mask], dim=1)
    torch.testing.assert_close(layer(x, PAIRS, attn_bias=per_head),
                               layer(x, PAIRS, attn_bias=per_head.double().log()))  # fmt: skip


def test_concurrent_forward_passes_do_not_share_edge_weight_and_attn_bias():
    pending, inner = [], []

    class Threaded(nn.GATConv):
        def message(self, x_j, alpha):
            while pending:  # during this forward, run another forward in another thread
                thread = threading.Thread(target=pending.pop())
                thread.start()
                thread.join()
            return alpha.unsqueeze(-1) * x_j

    torch.manual_seed(0)
    layer, x = Threaded(6, 4, 2).double(), _draw(5, 6)
    terms = [
        {"attn_bias": _draw(8, seed=seed), "edge_weight": _draw(8, seed=seed)} for seed in (1, 2)
    ]
    expected = [layer(x, PAIRS, **options) for options in ({}, *terms)]
    pending += [
        lambda options=options: inner.append(layer(x, PAIRS, **options))
        for options in (terms[1], {})
    ]
    outer = layer(x, PAIRS, **terms[0])
    torch.testing.assert_close([inner[1], outer, inner[0]], expected)
