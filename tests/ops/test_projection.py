"""Products and sums placed in huge pages give torch's numbers, and their derivatives."""

import pytest
import torch
import torch.nn.functional as F

from gattn.kernels import cpu
from gattn.ops import projection

pytestmark = pytest.mark.skipif(
    not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built"
)


@pytest.fixture(autouse=True, params=["MKL", "oneDNN"])
def place_everything(monkeypatch, request):
    """Use huge pages for small results, too, and multiply as on AMD and Intel processors."""
    monkeypatch.setattr(projection, "LARGE", 1)
    monkeypatch.setattr(projection, "_mkl_is_slow", lambda: request.param == "oneDNN")


def leaves(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = (7, 5), (3, 5), (3,)
    return [torch.randn(s, dtype=dtype, generator=generator).requires_grad_() for s in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_linear_projection_and_bias_sum_equal_those_of_torch(dtype):
    x, weight, bias = leaves(dtype)
    torch.testing.assert_close(projection.linear(x, weight), F.linear(x, weight))
    torch.testing.assert_close(projection.linear(x, weight, bias), F.linear(x, weight, bias))
    y = F.linear(x, weight)
    assert torch.equal(projection.add(y, bias), y + bias)
    assert projection.linear(x, weight).grad_fn.name().startswith("_Linear")


def test_derivatives_of_projection_and_sum_pass_gradcheck():
    def composed(x, weight, bias):
        y = projection.linear(x, weight, bias)
        return projection.add(y * y.sin(), bias)

    assert torch.autograd.gradcheck(composed, leaves())
    assert torch.autograd.gradgradcheck(composed, leaves())


@pytest.mark.parametrize(
    "bias",
    [torch.arange(128.0)[::2], torch.ones(1), torch.ones(()), torch.ones(1, 64)],
    ids=["strided", "one", "scalar", "row"],
)
def test_projection_accepts_a_scalar_broadcast_or_non_contiguous_bias(bias):
    """oneDNN needs a contiguous bias and does not broadcast it."""
    x, weight = torch.randn(projection.BLOCK // 64 * 2 + 9, 33), torch.randn(64, 33)
    torch.testing.assert_close(
        projection.linear(x, weight, bias), torch.addmm(bias, x, weight.t()), rtol=1e-4, atol=1e-4
    )


def test_onednn_multiplies_only_on_amd_processors(monkeypatch):
    """oneDNN multiplies only on AMD processors, and only if torch provides it."""
    monkeypatch.undo()
    x = torch.randn(2, 2)
    for text, takes in [("vendor_id: AuthenticAMD", True), ("vendor_id: GenuineIntel", False)]:
        monkeypatch.setattr(projection, "_processor", lambda text=text: text)
        projection._mkl_is_slow.cache_clear()
        has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
        assert (projection._onednn(x) is not None) == (takes and has_both)
        assert projection._onednn(x.double()) is None
    monkeypatch.undo()
    projection._mkl_is_slow.cache_clear()


def test_projection_in_blocks_of_rows_equals_the_product_of_all_rows():
    """The product is computed for full blocks and for the remaining rows, in the forward and
    backward pass.
    """
    rows = projection.BLOCK // 64 * 2 + 17
    x = torch.randn(rows, 40, requires_grad=True)
    weight = torch.randn(64, 40, requires_grad=True)
    grad = torch.randn(rows, 64)
    out = projection.linear(x, weight)
    out.backward(grad)
    exact = x.detach().double() @ weight.detach().double().t()
    assert (out.double() - exact).abs().max() < 1e-4
    assert (x.grad.double() - grad.double() @ weight.detach().double()).abs().max() < 1e-4
