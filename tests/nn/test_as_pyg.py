"""Hooks, subclasses and unusual inputs behave as in PyG, or raise one clear error."""

import copy
import warnings

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models.attentive_fp import GATEConv

from gattn import graphs, models, nn
from tests.nn.as_pyg import EDGES, X

KINDS = torch.tensor([0, 1, 1, 0, 1, 0])
WIDE = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
THIN = torch.arange(6.0)
"""Edge features with one number for each edge, [e]."""
TO_ITSELF = ("paper", "to", "paper")
TYPES = (["paper"], [TO_ITSELF])


def _gate(package):
    return (GATEConv if package is pyg else package.GATEConv)(6, 6, 3)


MULTIPLICATIVE = {"dim": 2, "attention_mode": "multiplicative-self-attention"}
LAYERS = {
    "GATConv": (lambda p: p.GATConv(6, 4, 2, edge_dim=3), (X, EDGES, WIDE)),
    "GATConv, thin": (lambda p: p.GATConv(6, 4, 2, edge_dim=1), (X, EDGES, THIN)),
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
    "RGATConv": (lambda p: p.RGATConv(6, 4, 2, heads=2, edge_dim=3), (X, EDGES, KINDS, WIDE)),
    "RGATConv, thin": (lambda p: p.RGATConv(6, 4, 2, edge_dim=1), (X, EDGES, KINDS, THIN)),
    "RGATConv, multiplicative": (
        lambda p: p.RGATConv(6, 4, 2, heads=2, **MULTIPLICATIVE),
        (X, EDGES, KINDS),
    ),
    "ResGatedGraphConv": (lambda p: p.ResGatedGraphConv(6, 4), (X, EDGES)),
    "ResGatedGraphConv, edges": (lambda p: p.ResGatedGraphConv(6, 4, edge_dim=3), (X, EDGES, WIDE)),
    "GeneralConv": (lambda p: p.GeneralConv(6, 4, 3, heads=2, attention=True), (X, EDGES, WIDE)),
    "HEATConv": (
        lambda p: p.HEATConv(6, 4, 2, 2, 3, 3, 2, heads=2),
        (X, EDGES, KINDS[:5], KINDS, WIDE),
    ),
    "HypergraphConv": (lambda p: p.HypergraphConv(6, 4, True, heads=2), (X, EDGES, None, X.sin())),
    "PointTransformerConv": (lambda p: p.PointTransformerConv(6, 4), (X, WIDE[:5], EDGES)),
    "HANConv": (lambda p: p.HANConv(6, 4, TYPES, 2), ({"paper": X}, {TO_ITSELF: EDGES})),
    "HGTConv": (lambda p: p.HGTConv(6, 4, TYPES, 2), ({"paper": X}, {TO_ITSELF: EDGES})),
}


def _shape(value):
    """Replace the tensors of a value by their shapes."""
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
def test_hooks_of_layers_receive_the_same_arguments_as_in_pyg(name):
    """Hooks receive the same arguments, with the same shapes and in the same order, as in PyG. Edge
    features of shape [e] keep this shape.
    """
    make, args = LAYERS[name]
    results = []
    for package in (pyg, nn):
        torch.manual_seed(0)
        results.append(_what_hooks_see(make(package), args))
    (expected, theirs), (seen, ours) = results
    assert seen == expected
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("loops", [False, True])
def test_overridden_edge_update_receives_edge_features_of_one_dimension_as_in_pyg(loops):
    """This test follows PyG's example of an attack, which differentiates the output with respect to
    weights [e] that it passes to the layer.
    """

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
"""Layers that return attention weights, each with its inputs in addition to x."""


@pytest.mark.parametrize("name", RETURN_WEIGHTS)
@pytest.mark.parametrize("training", [False, True])
def test_attention_weights_equal_those_of_pyg_and_exclude_dropout(name, training):
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


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "GATEConv"])
def test_integer_edge_features_give_the_same_output_as_in_pyg(name, dtype):
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


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_edge_features_of_another_dtype_raise_error_with_the_argument_name(name):
    layer = getattr(nn, name)(6, 4, edge_dim=3)
    for dtype in (torch.float64, torch.bool):
        with pytest.raises(TypeError, match=rf"edge_attr must be torch\.float32.*; got {dtype}"):
            layer(X, EDGES, WIDE.to(dtype))


def test_layer_without_edge_dim_warns_once_about_ignored_edge_features():
    theirs, ours = pyg.GATConv(6, 4), nn.GATConv(6, 4)
    ours.load_state_dict(theirs.state_dict())
    with pytest.warns(UserWarning, match=r"GATConv\(6, 4, heads=1\) was created without edge_dim "
                      "and ignores edge_attr.*: pass edge_dim=3 to") as warned:  # fmt: skip
        out = ours(X, EDGES, WIDE)
    assert warned[0].filename == __file__
    torch.testing.assert_close(out, theirs(X, EDGES, WIDE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(ours(X, EDGES, WIDE), out)
        nn.GATConv(6, 4)(X, EDGES)
    with pytest.raises(ValueError, match="was created without edge_dim and takes no edge_attr"):
        # PyG's GATv2Conv also raises an error for these edge features.
        nn.GATv2Conv(6, 4)(X, EDGES, WIDE)


def test_layers_without_projection_keep_their_dtype_under_autocast():
    for layer, args in ((nn.AGNNConv(), (X, EDGES)), (nn.FAConv(6), (X, X, EDGES))):
        theirs = getattr(pyg, type(layer).__name__)(*([6] if args[1] is X else []))
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(*args).dtype == theirs(*args).dtype == torch.float32


BATCH = torch.tensor([0, 0, 0, 1, 1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [nn.GATConv, nn.TransformerConv, nn.TransformerBlock])
def test_layer_under_torch_jit_trace_raises_error_with_alternatives(kind):
    message = "does not run under torch.jit.trace.*: use torch.compile, torch.export.export or"
    with pytest.raises(RuntimeError, match=message):
        torch.jit.trace(kind(6, 2), (X, EDGES))


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
def test_layers_of_complex_dtype_raise_error():
    for kind in (nn.GATConv, nn.GATv2Conv, nn.TransformerConv, nn.SuperGATConv):
        layer = kind(6, 4).to(torch.complex64)
        with pytest.raises(TypeError, match=r"must be float32, float64, .*; got torch\.complex64"):
            layer(X.to(torch.complex64), EDGES)


QUANTIZED = {
    "AttentiveFP": (lambda: models.AttentiveFP(6, 8, 2, 3, 2, 2), (X, EDGES, WIDE, BATCH)),
    "GATEConv": (lambda: nn.GATEConv(6, 6, 3), (X, EDGES, WIDE)),
    "SetTransformerAggregation": (lambda: nn.SetTransformerAggregation(6, 2, heads=2), (X, BATCH)),
    "LearnedQueryReadout": (lambda: nn.LearnedQueryReadout(6, 6, 2, heads=2), (X, BATCH)),
    "GraphAttention": (lambda: nn.GraphAttention(6, heads=2), (X, X, X, EDGES)),
    "TransformerBlock": (lambda: nn.TransformerBlock(6, 2), (X, graphs.causal([3, 2]))),
    "GPSConv": (lambda: nn.GPSConv(6, nn.GATConv(6, 6), 2), (X, EDGES, BATCH)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize("name", QUANTIZED)
def test_outputs_of_quantized_models_are_near_those_of_float_models(name):
    make, args = QUANTIZED[name]
    torch.manual_seed(0)
    model = make().eval()
    quantized = torch.ao.quantization.quantize_dynamic(model)
    with torch.no_grad():
        torch.testing.assert_close(quantized(*args), model(*args), rtol=0.1, atol=0.1)
