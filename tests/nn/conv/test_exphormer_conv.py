"""Compare ExphormerConv with its paper's equations, edge by edge."""

import math
from functools import partial

import pytest
import torch

from gattn.nn import ExphormerConv
from gattn.ops.custom_score import chunks

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 0, 0], [1, 2, 3, 1, 1, 2, 1, 1]])


@pytest.fixture
def features():
    """Node and edge features so large that some scores are clamped; node 5 has no edges."""
    torch.manual_seed(0)
    x = 3 * torch.randn(6, 4, dtype=torch.float64)
    return x.requires_grad_(), (3 * torch.randn(8, 3, dtype=torch.float64)).requires_grad_()


def attended(layer, x, edge_attr):
    """Compute the attention of Dwivedi and Bresson: weighted sums of values [n, d], and scores
    [e, h] before they are clamped.
    """
    heads, width = layer.num_heads, layer.out_dim // layer.num_heads
    q, k, v = (
        f(x).view(-1, heads, width) for f in (layer.lin_query, layer.lin_key, layer.lin_value)
    )
    edges = layer.score.lin(edge_attr).view(-1, heads, width) / math.sqrt(width)
    source, destination = EDGES
    scores = (q[destination] * k[source] * edges).sum(-1)
    out = []
    for i in range(len(x)):
        into = (destination == i).nonzero().flatten()
        weight = scores[into].clamp(-5, 5).softmax(0)
        out.append((weight[:, :, None] * v[source[into]]).sum(0).flatten())
    return torch.stack(out), scores


def compare(actual, expected, inputs):
    """Compare the values, and the gradients of all inputs."""
    torch.testing.assert_close(actual, expected)
    grad = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad(out, inputs, grad, retain_graph=True) for out in (actual, expected)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 8192])
def test_exphormer_conv_matches_its_equation(chunk, use_bias, features, monkeypatch):
    """The chunks are compiled without C++ code; the tests in tests/ops/custom_score generate this
    code.
    """
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    x, edge_attr = features
    layer = ExphormerConv(4, 6, 2, use_bias, edge_dim=3).double()
    expected, scores = attended(layer, x, edge_attr)
    assert (scores.abs() > 5).any()
    assert (scores.abs() < 5).any()
    compare(layer(x, EDGES, edge_attr), expected, [x, edge_attr, *layer.parameters()])


def test_exphormer_conv_without_edges_or_nodes_returns_rows_of_zeros():
    layer = ExphormerConv(4, 4, 2, edge_dim=3).eval()
    for nodes in (0, 5):
        out = layer(torch.ones(nodes, 4), EDGES[:, :0], torch.ones(0, 3))
        assert torch.equal(out, torch.zeros(nodes, 4))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.ones(6, 4), EDGES, None), TypeError, "edge_attr must be a tensor .*; got None"),
        ((torch.ones(6, 4), EDGES, torch.ones(8, 2)), ValueError, "edge_attr must have 3 features"),
        ((torch.ones(6, 4), EDGES, torch.ones(7, 3)), ValueError, r"edge_attr .*\(8, d\)"),
        ((torch.ones(6, 5), EDGES, torch.ones(8, 3)), ValueError, "x must have 4 features"),
        ((torch.ones(2, 6, 4), EDGES, torch.ones(8, 3)), ValueError, r"x must have shape \(n, d\)"),
    ],
)
def test_exphormer_conv_raises_error_for_features_of_wrong_shape_or_type(arguments, error, message):
    with pytest.raises(error, match=message):
        ExphormerConv(4, 4, 2, edge_dim=3)(*arguments)
