"""NaN and infinity in the inputs reach the same outputs as in PyG's layers."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp

from gattn import nn
from tests.layers import every, layers

NODES, WIDTH = 9, 6
VALUES = (torch.nan, torch.inf, -torch.inf)


def _inputs(entry, seed):
    """Features and edges; node 3 has no incoming edge and node 4 has one."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, WIDTH, generator=generator)
    edges = torch.randint(NODES, (2, 30), generator=generator)
    edges = edges[:, (edges[1] != 3) & (edges[1] != 4)]
    edges = torch.cat([edges, torch.tensor([[0], [4]])], dim=1)
    inputs = {"x": x, "edge_index": edges}
    if entry.edge_attr:
        inputs["edge_attr"] = torch.randn(edges.shape[1], 3, generator=generator)
    return inputs


def _spots(inputs):
    """Rows of nodes and edges that get a value that is not finite."""
    for name in ("x", "edge_attr"):
        if name in inputs:
            for row in (0, 4, inputs[name].shape[0] - 1):
                yield name, row, slice(None)
                yield name, row, 1


def _run(layer, inputs):
    """Return the rows of the output, and the gradients, that contain values that are not finite."""
    leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in inputs.values()]
    out = layer(*leaves)
    out.square().sum().backward()
    rows = [leaf.grad for leaf in leaves if leaf.is_floating_point() and leaf.grad is not None]
    return ~out.isfinite().all(1), any(not grad.isfinite().all() for grad in rows)


def _check(layer, beside, entry):
    """Compare the layers for every value and position; each value has a separate random graph."""
    for seed, value in enumerate(VALUES):
        for name, row, column in _spots(_inputs(entry, seed)):
            inputs = _inputs(entry, seed)
            inputs[name][row, column] = value
            expected, in_gradient = _run(beside, inputs)
            rows, in_own_gradient = _run(layer, inputs)
            where = f"{value} in {name}[{row}, {column}]"
            assert rows[expected].all(), where
            assert in_own_gradient or not in_gradient, where


LAYERS = layers(conv=True)
BESIDE_PYG = {name: entry for name, entry in LAYERS.items() if entry.made_by is None}


@every(BESIDE_PYG)
@pytest.mark.parametrize("backend", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
def test_nan_and_infinity_reach_the_same_outputs_as_in_pyg(layer, backend, monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", backend)
    theirs = pyg if hasattr(pyg, layer.kind) else attentive_fp
    ours = layer.make(WIDTH, 3).eval()
    beside = layer.make(WIDTH, 3, package=theirs).eval()
    beside.load_state_dict(ours.state_dict())
    _check(ours, beside, layer)


@every({name: entry for name, entry in LAYERS.items() if entry.made_by is not None})
def test_nan_and_infinity_reach_the_same_outputs_with_and_without_a_message_hook(layer):
    ours = layer.make(WIDTH, 3).eval()
    slow = copy.deepcopy(ours)
    slow.register_message_forward_hook(lambda module, inputs, out: None)
    assert ours.fused
    _check(ours, slow, layer)


@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("value", VALUES)
def test_infinite_input_reaches_the_output_with_one_channel_per_head(heads, value):
    """If a head has one channel, each score is one product. An infinite product must not become
    -inf, which would remove the edge without an error.
    """
    theirs, ours = (p.GATConv(6, 1, heads, add_self_loops=False, edge_dim=3) for p in (pyg, nn))
    ours.load_state_dict(theirs.state_dict())
    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 1, 0, 0, 2]])
    for row in range(5):
        for column in range(6):
            x, attr = torch.randn(5, 6), torch.randn(5, 3)
            x[row, column] = value
            expected = ~theirs(x, edges, attr).isfinite()
            assert (~ours(x, edges, attr).isfinite())[expected].all()
    for row in range(5):
        x, attr = torch.randn(5, 6), torch.randn(5, 3)
        attr[row, 0] = value
        assert not ours(x, edges, attr)[edges[1, row]].isfinite().any()


def test_bias_of_minus_infinity_removes_its_edge_in_gat_conv():
    conv, x = nn.GATConv(6, 4, 2, add_self_loops=False), torch.randn(4, 6)
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])
    bias = torch.tensor([0.0, -torch.inf, 0.0])
    dropped = conv(x, edges, attn_bias=bias)
    torch.testing.assert_close(dropped, conv(x, edges[:, [0, 2]]))
    assert conv(x, edges, attn_bias=torch.full((3,), -torch.inf))[3].equal(conv.bias)


@pytest.mark.parametrize("name", ["edge_weight", "attn_bias"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_nan_or_infinite_edge_weight_or_attn_bias_reaches_only_its_destination(name, value, dtype):
    edges = torch.tensor([[0, 1, 2], [3, 3, 2]])
    x, term = torch.randn(4, 6, dtype=dtype), torch.ones(3, dtype=dtype)
    term[1] = value
    for kind in (nn.GATConv, nn.GATv2Conv, nn.TransformerConv):
        conv = kind(6, 4, 2).to(dtype)
        out = conv(x, edges, **{name: term})
        assert not out[3].isfinite().any()
        assert out[:3].isfinite().all()
