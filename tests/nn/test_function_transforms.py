"""Layers inside transforms of torch.func, where they run in plain PyTorch."""

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap

from gattn import Graph
from gattn.nn import GATConv, GATv2Conv, TransformerConv
from tests.layers import BY_NAME, every

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 3, 2]])
LAYERS = pytest.mark.parametrize("layer", [GATConv, GATv2Conv, TransformerConv])


def _parameters(conv):
    return {name: parameter.detach() for name, parameter in conv.named_parameters()}


@LAYERS
@pytest.mark.parametrize("edges", ["pairs", "Graph"])
def test_layers_under_torch_func_give_the_same_derivatives_as_autograd(layer, edges):
    torch.manual_seed(0)
    conv, x = layer(5, 3, 2).double(), torch.randn(3, 4, 5, dtype=torch.float64)
    edges = EDGES.clone() if edges == "pairs" else Graph(EDGES, 4)
    parameters = _parameters(conv)
    inner = grad(lambda p, x: functional_call(conv, p, (x, edges)).square().sum())
    per_sample = vmap(inner, (None, 0))(parameters, x)
    for name, parameter in conv.named_parameters():
        (expected,) = torch.autograd.grad(conv(x[1], edges).square().sum(), parameter)
        torch.testing.assert_close(per_sample[name][1], expected)
    out, tangent = jvp(lambda x: conv(x, edges), (x[0],), (x[1],))
    torch.testing.assert_close(out, conv(x[0], edges))
    ahead, behind = (conv(x[0] + step * x[1], edges) for step in (1e-6, -1e-6))
    torch.testing.assert_close(tangent, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-7)
    jacobian = torch.autograd.functional.jacobian(lambda x: conv(x, edges), x[0])
    torch.testing.assert_close(jacrev(lambda x: conv(x, edges))(x[0]), jacobian)
    second = torch.autograd.functional.hessian(lambda x: conv(x, edges).square().sum(), x[0])
    torch.testing.assert_close(hessian(lambda x: conv(x, edges).square().sum())(x[0]), second)


@LAYERS
def test_vmap_over_stacked_layers_gives_the_same_outputs_as_each_layer(layer):
    members, x = [layer(5, 3, 2) for _ in range(3)], torch.randn(4, 5)
    stacked = stack_module_state(members)
    out = vmap(lambda *state: functional_call(members[0], state, (x, EDGES)))(*stacked)
    torch.testing.assert_close(out, torch.stack([member(x, EDGES) for member in members]))


def test_layer_under_torch_func_raises_error_if_a_backend_is_selected(monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", "cpu")
    conv, x = GATConv(5, 3, 2), torch.randn(4, 5)
    for call in (
        lambda: grad(lambda p: functional_call(conv, p, (x, EDGES)).sum())(_parameters(conv)),
        lambda: vmap(lambda x: conv(x, EDGES))(x.expand(3, 4, 5)),
        lambda: jvp(lambda x: conv(x, EDGES), (x,), (x,)),
    ):
        with pytest.raises(RuntimeError, match=r"under torch\.func\..*without backend="):
            call()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every({n: e for n, e in BY_NAME.items() if e.conv or e.batch})
def test_vectorised_jacobian_of_layers_equals_that_of_single_backward_passes(layer):
    """Compare the batched gradients of jacobian(vectorize=True) and grad(is_grads_batched=True)."""
    module = layer.called(6, 3).eval()
    (x, edges), options = layer.inputs(6, 20)
    jacobian = torch.autograd.functional.jacobian
    expected = jacobian(lambda x: module(x, edges, **options), x)
    actual = jacobian(lambda x: module(x, edges, **options), x, vectorize=True)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@every({name: BY_NAME[name] for name in ("GATConv", "GraphAttention", "Set2Set", "AttentiveFP")})
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_layer_under_torch_jit_script_raises_error_with_a_remedy(layer):
    module = layer.make(6, 3)
    for model in (module, torch.nn.Sequential(torch.nn.Linear(6, 6), module)):
        with pytest.raises(RuntimeError, match=r"not run under torch\.jit\.script: use torch\.com"):
            torch.jit.script(model)


def test_layout_created_inside_a_transform_gives_gradients_after_the_transform():
    conv, x, edges = GATConv(5, 3), torch.randn(4, 5), EDGES.clone()
    grad(lambda x: conv(x, edges).sum())(x)
    out = conv(x, edges)
    torch.testing.assert_close(out, conv(x, edges.clone()))
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in conv.parameters())


def test_layer_raises_error_for_edges_created_inside_a_transform():
    conv, x = GATConv(5, 3), torch.randn(4, 5)
    for call in (
        lambda: grad(lambda x: conv(x, torch.tensor([[0, 1], [1, 2]])).sum())(x),
        lambda: vmap(lambda edges: conv(x, edges))(EDGES.expand(2, 2, 4)),
    ):
        with pytest.raises(ValueError, match=r"created outside of the transforms of torch\.func"):
            call()
