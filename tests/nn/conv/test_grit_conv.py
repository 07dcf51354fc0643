"""Compare GRITConv with its paper's equations, edge by edge."""

import pytest
import torch
import torch.nn.functional as F

from gattn.nn import GRITConv
from gattn.nn.conv.grit_conv import signed_root

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 0, 0], [1, 2, 3, 1, 1, 2, 1, 1]])


@pytest.fixture
def features():
    """Node and edge features; node 5 has no edges."""
    torch.manual_seed(0)
    x, e = (torch.randn(rows, 4, dtype=torch.float64) for rows in (6, 8))
    return x.requires_grad_(), e.requires_grad_()


def by_the_equations(layer, x, e, degree):
    """Compute the equations of the paper with layer norms, one edge after the other."""
    heads, width = layer.num_heads, layer.channels // layer.num_heads
    q, k, v = (
        f(x).view(-1, heads, width) for f in (layer.lin_query, layer.lin_key, layer.lin_value)
    )
    scale = layer.stream.lin_weight(e).view(-1, heads, width)
    shift = layer.stream.lin_bias(e).view(-1, heads, width)
    rows = []
    for edge, (j, i) in enumerate(EDGES.t().tolist()):
        z = (q[i] + k[j]) * scale[edge]
        # z is never 0 here, so the derivative of its root is finite.
        root = z.relu().sqrt() - (-z).relu().sqrt()
        rows.append((root + shift[edge]).relu())
    sums = []
    for i in range(len(x)):
        into = [edge for edge in range(len(rows)) if EDGES[1, edge] == i]
        f = [(rows[edge] * layer.att).sum(-1).exp() for edge in into]
        values = [
            v[EDGES[0, edge]] + torch.stack([layer.lin_edge_value[h] @ rows[edge][h]
                                             for h in range(heads)])
            for edge in into
        ]  # fmt: skip
        weighted = [(w / sum(f))[:, None] * b for w, b in zip(f, values)]
        sums.append(sum(weighted, torch.zeros_like(v[0])).flatten())
    y = layer.lin_out(torch.stack(sums))
    y = y * layer.degree_scale[0] + (1 + degree).log()[:, None] * y * layer.degree_scale[1]
    z = F.layer_norm(x + y, (4,))
    nodes = F.layer_norm(z + layer.mlp[3](layer.mlp[0](z).relu()), (4,))
    stream = torch.stack(rows).flatten(1)
    return nodes, F.layer_norm(e + layer.lin_edge_out(stream), (4,))


@pytest.mark.parametrize("has_degree", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_grit_conv_matches_its_equations_for_any_degree(heads, has_degree, features):
    layer = GRITConv(4, heads, layer_norm=True, batch_norm=False).double()
    degree = torch.tensor([3.0, 1, 2, 2, 1, 0]).double() if has_degree else None
    x, e = features
    in_degree = torch.tensor([0.0, 5, 2, 1, 0, 0]).double()
    actual = torch.cat(layer(x, EDGES, e, degree))
    expected = torch.cat(by_the_equations(layer, x, e, degree if has_degree else in_degree))
    torch.testing.assert_close(actual, expected)
    inputs = [x, e, *(p for name, p in layer.named_parameters() if "norm" not in name)]
    grad = torch.randn_like(expected)
    gradients = [torch.autograd.grad(out, inputs, grad) for out in (actual, expected)]
    torch.testing.assert_close(*gradients)


def test_derivative_of_the_signed_root_is_zero_at_zero():
    z = torch.tensor([-4.0, 0.0, 9.0], requires_grad=True)
    root = signed_root(z)
    assert root.tolist() == [-2, 0, 3]
    root.sum().backward()
    torch.testing.assert_close(z.grad, torch.tensor([1 / 4, 0, 1 / 6]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.ones(6, 4), EDGES, None), TypeError, "edge_attr must be a tensor .*; got None"),
        ((torch.ones(6, 4), EDGES, torch.ones(8, 2)), ValueError, "edge_attr must have 4 features"),
        ((torch.ones(6, 5), EDGES, torch.ones(8, 4)), ValueError, "x must have 4 features"),
        ((torch.ones(6, 4), EDGES, torch.ones(8, 4), torch.ones(5)), ValueError, "degree must"),
    ],
)
def test_invalid_features_or_degree_of_grit_conv_raise_error(arguments, error, message):
    with pytest.raises(error, match=message):
        GRITConv(4, 2)(*arguments)
