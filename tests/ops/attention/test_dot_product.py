"""dot_product_attention: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn.functional import dot_product_attention


@pytest.mark.parametrize("features", [1, 2, 7, 8, 16, 32, 33])
@pytest.mark.parametrize(("heads", "channels"), [(3, 8), (9, 16)])
def test_edge_features_of_every_width(
    features, heads, channels, operators, compare, random_graph, hub_graph
):
    operator = operators["dot_product, edges"]
    for dtype in (torch.float64, torch.float32):
        for graph in (random_graph, hub_graph):
            compare(operator, graph, heads, channels, dtype=dtype, dims={"d": features})


@pytest.mark.parametrize("scale", [0.0, 1.0, -2.0])
def test_scale_of_dot_product_is_applied(scale, operators, compare, random_graph):
    compare(operators["dot_product, edges"], random_graph, 3, 8, scale=scale)


@pytest.mark.parametrize("frozen", ["query", "value", "attn_bias", "edge_attr", "edge_weight"])
def test_inputs_that_need_no_gradient(frozen, operators, compare, random_graph):
    operator = operators["dot_product, edges"]
    assert frozen not in compare(operator, random_graph, 3, 4, frozen=[frozen])
    others = operator.shapes.keys() - {frozen}
    assert set(compare(operator, random_graph, 3, 4, frozen=others)) == {"out", frozen}


def test_one_tensor_for_query_key_and_value(random_graph):
    results = []
    for backend in ("cpu", "reference"):
        x = torch.randn(25, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        x.requires_grad_()
        out = dot_product_attention(x, x, x, random_graph, backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((out.detach(), first.detach(), second))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype_", [torch.bfloat16, torch.float32, torch.float64])
def test_autocast_leaves_the_dtype_of_the_inputs(dtype_, operators, random_graph):
    """The projections before and after the kernel must not change the dtype of the inputs."""
    operator = operators["dot_product, edges"]
    inputs = operator.inputs(random_graph, 2, 8, dtype=dtype_)
    expected = operator(inputs, random_graph)
    with torch.autocast("cpu", torch.bfloat16):
        out = operator(inputs, random_graph)
    assert torch.equal(out, expected)
    grads = [torch.autograd.grad(o.sum(), list(inputs.values())) for o in (out, expected)]
    assert all(map(torch.equal, *grads))
