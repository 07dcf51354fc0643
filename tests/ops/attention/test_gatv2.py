"""gatv2_attention: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn.functional import gatv2_attention

each_variant = pytest.mark.parametrize(
    "variant", ["gatv2", "gatv2, wide", "gatv2, edges", "gatv2, tanh"]
)


@pytest.mark.parametrize("features", [1, 2, 7, 8, 16, 32, 33])
@pytest.mark.parametrize("activation", ["leaky_relu", "tanh"])
def test_edge_features_of_every_width(
    features, activation, operators, compare, random_graph, hub_graph
):
    operator = operators["gatv2, edges"]
    for dtype in (torch.float64, torch.float32):
        dims = {"d": features}
        for graph in (random_graph, hub_graph):
            compare(operator, graph, 3, 8, dtype=dtype, dims=dims, activation=activation)


@each_variant
@pytest.mark.parametrize("slope", [0.0, 1.0, -0.5, 2.0])
def test_negative_slopes_match_reference(variant, slope, operators, compare, random_graph):
    compare(operators[variant], random_graph, 3, 8, negative_slope=slope)


@pytest.mark.parametrize("frozen", ["query", "weight", "edge_attr", "attn_bias", "edge_weight"])
def test_inputs_that_need_no_gradient(frozen, operators, compare, random_graph):
    operator = operators["gatv2, edges"]
    assert frozen not in compare(operator, random_graph, 3, 4, frozen=[frozen])
    others = operator.shapes.keys() - {frozen}
    assert set(compare(operator, random_graph, 3, 4, frozen=others)) == {"out", frozen}


def test_value_that_is_key_and_value_that_equals_it(operators, random_graph):
    """If one tensor is both key and value, the output has the same bits as for two equal tensors,
    and the gradient of the tensor is the sum of the two gradients.
    """
    inputs = operators["gatv2, wide"].inputs(random_graph, 2, 4)
    inputs["value"] = inputs["key"].detach().clone().requires_grad_()
    apart = operators["gatv2, wide"].gradients(inputs, random_graph)
    value = inputs.pop("value")
    shared = operators["gatv2"].gradients(inputs, random_graph)
    assert value is not None
    assert torch.equal(shared["out"], apart["out"])
    torch.testing.assert_close(shared["key"], apart["key"] + apart["value"])


def test_one_tensor_for_query_key_and_value(random_graph):
    results = []
    for backend in ("cpu", "reference"):
        x = torch.randn(25, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        x.requires_grad_()
        w = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4)
        out = gatv2_attention(x, x, x, w, random_graph, activation="tanh", backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((out.detach(), first.detach(), second))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-4, 1e-12])
@pytest.mark.parametrize("dtype_", [torch.float32, torch.float64])
def test_tanh_keeps_its_digits_near_zero(size, dtype_, operators, random_graph):
    """The gradient dw = sum ds tanh(z) is as small as z. Its relative error must not exceed the
    rounding error of the dtype.
    """
    inputs = operators["gatv2, wide"].inputs(random_graph, 2, 8, dtype=dtype_)
    scaled = {
        name: (t.detach() * (size if name in ("query", "key") else 1)).requires_grad_()
        for name, t in inputs.items()
    }
    wide = {name: t.detach().double().requires_grad_() for name, t in scaled.items()}
    options = {"activation": "tanh", "backend": "reference"}
    expected = operators["gatv2, wide"].gradients(wide, random_graph, **options)["weight"]
    actual = operators["gatv2, wide"].gradients(scaled, random_graph, activation="tanh")["weight"]
    error = (actual.double() - expected).abs().max() / expected.abs().max()
    assert error < 40 * torch.finfo(dtype_).eps
