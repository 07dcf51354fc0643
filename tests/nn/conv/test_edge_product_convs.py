"""Compare ExphormerConv and GTConv with their papers' equations, edge by edge."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from gattn.nn import ExphormerConv, GTConv
from gattn.ops.custom_score import chunks

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 0, 0], [1, 2, 3, 1, 1, 2, 1, 1]])
MAKERS = {"ExphormerConv": ExphormerConv, "GTConv": GTConv}


@pytest.fixture
def features():
    """Node and edge features so large that some scores are clamped; node 5 has no edges."""
    torch.manual_seed(0)
    x = 3 * torch.randn(6, 4, dtype=torch.float64)
    return x.requires_grad_(), (3 * torch.randn(8, 3, dtype=torch.float64)).requires_grad_()


def attended(layer, edge_map, x, edge_attr):
    """Compute the attention of Dwivedi and Bresson: weighted sums of values [n, d], and products
    [e, d].
    """
    heads, width = layer.num_heads, layer.out_dim // layer.num_heads
    q, k, v = (
        f(x).view(-1, heads, width) for f in (layer.lin_query, layer.lin_key, layer.lin_value)
    )
    product = edge_map(edge_attr).view(-1, heads, width) / math.sqrt(width)
    out, rows = [], []
    for i in range(len(x)):
        into = [e for e in range(EDGES.shape[1]) if EDGES[1, e] == i]
        f = [(q[i] * k[EDGES[0, e]] * product[e]).sum(-1).clamp(-5, 5).exp() for e in into]
        total = sum(f)
        sums = [w[:, None] / total[:, None] * v[EDGES[0, e]] for w, e in zip(f, into)]
        out.append(sum(sums, torch.zeros_like(v[0])).flatten())
    for e, (source, destination) in enumerate(EDGES.t().tolist()):
        rows.append((q[destination] * k[source] * product[e]).flatten())
    return torch.stack(out), torch.stack(rows)


def updated(update, old, new, residual):
    """Compute the residual, the norms and the MLP after the attention, with layer norms only."""
    width = new.shape[1]
    norm = [F.layer_norm] * 2
    y = update.lin_out(new)
    y = norm[0](old + y if residual and old.shape == y.shape else y, (width,))
    z = update.mlp[3](update.mlp[0](y).relu())
    return norm[1](y + z if residual else z, (width,))


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
    expected, products = attended(layer, layer.score.lin, x, edge_attr)
    scores = products.view(-1, 2, 3).sum(-1).abs()
    assert (scores > 5).any()
    assert (scores < 5).any()
    compare(layer(x, EDGES, edge_attr), expected, [x, edge_attr, *layer.parameters()])


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("out_dim", "edge_dim"), [(4, 3), (6, 3)])
def test_gt_conv_matches_its_equations(out_dim, edge_dim, residual, features):
    x, edge_attr = features
    layer = GTConv(4, out_dim, 2, layer_norm=True, batch_norm=False, residual=residual, edge_dim=3)
    layer = layer.double()
    sums, products = attended(layer, layer.product.lin, x, edge_attr)
    nodes = updated(layer.node_update, x, sums, residual)
    edges = updated(layer.edge_update, edge_attr, products, residual)
    actual = layer(x, EDGES, edge_attr)
    together = [torch.cat(pair) for pair in (actual, (nodes, edges))]
    compare(*together, [x, edge_attr, *(p for n, p in layer.named_parameters() if "norm" not in n)])


def test_gt_conv_accepts_edge_features_of_another_width(features):
    x, _ = features
    edge_attr = torch.randn(8, 4, dtype=torch.float64)
    layer = GTConv(4, 4, 2, batch_norm=False, dropout=0.5).double().eval()
    for update in (layer.node_update, layer.edge_update):
        for linear in (update.lin_out, update.mlp[3]):
            torch.nn.init.zeros_(linear.weight)
            torch.nn.init.zeros_(linear.bias)
    nodes, edges = layer(x, EDGES, edge_attr)
    assert torch.equal(nodes, x)
    assert torch.equal(edges, edge_attr)


@pytest.mark.parametrize("name", MAKERS)
def test_layers_without_edges_or_nodes_return_rows_of_zeros(name):
    layer = MAKERS[name](4, 4, 2, edge_dim=3).eval()
    for nodes in (0, 5):
        out = layer(torch.ones(nodes, 4), EDGES[:, :0], torch.ones(0, 3))
        rows, edges = out if isinstance(out, tuple) else (out, torch.ones(0, 4))
        assert rows.shape == (nodes, 4)
        assert edges.shape == (0, 4)
        assert isinstance(out, tuple) or not rows.any()


@pytest.mark.parametrize("name", MAKERS)
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
def test_features_of_wrong_shape_or_type_raise_error(name, arguments, error, message):
    with pytest.raises(error, match=message):
        MAKERS[name](4, 4, 2, edge_dim=3)(*arguments)
