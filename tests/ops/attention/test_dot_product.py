"""dot_product_attention: the C++ kernels against the reference and float64."""

import pytest
import torch


@pytest.mark.parametrize("scale", [0.0, 1.0, -2.0])
def test_dot_product_with_zero_or_negative_scale_equals_the_reference(
    scale, operators, compare, random_graph
):
    compare(operators["dot_product, edges"], random_graph, 3, 8, scale=scale)


@pytest.mark.parametrize("dtype_", [torch.bfloat16, torch.float32, torch.float64])
def test_dot_product_under_autocast_keeps_the_dtype_of_its_inputs(dtype_, operators, random_graph):
    """The projections before and after the kernel must not change the dtype of the inputs."""
    operator = operators["dot_product, edges"]
    inputs = operator.inputs(random_graph, 2, 8, dtype=dtype_)
    expected = operator(inputs, random_graph)
    with torch.autocast("cpu", torch.bfloat16):
        out = operator(inputs, random_graph)
    assert torch.equal(out, expected)
    grads = [torch.autograd.grad(o.sum(), list(inputs.values())) for o in (out, expected)]
    assert all(map(torch.equal, *grads))
