"""gatv2_attention: the C++ kernels against the reference and float64."""

import pytest
import torch


def test_shared_key_and_value_give_the_same_bits_as_two_equal_tensors(operators, random_graph):
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


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-4, 1e-12])
@pytest.mark.parametrize("dtype_", [torch.float32, torch.float64])
def test_relative_error_of_tanh_gradient_is_small_near_zero(size, dtype_, operators, random_graph):
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
