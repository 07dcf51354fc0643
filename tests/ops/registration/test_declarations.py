"""Backends and the reference agree with the declarations of the operators."""

import functools
import importlib
import inspect

import pytest
import torch

import gattn.functional  # noqa: F401  # declares the operators
from gattn.kernels import cpu, reference
from gattn.ops.registration.operator import OPERATORS

built = pytest.mark.skipif(
    not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built"
)
EVERY = pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda o: o.name)


@EVERY
def test_triton_launcher_takes_the_same_arguments_as_the_declaration_of_its_operator(operator):
    pytest.importorskip("triton")
    module = importlib.import_module("gattn.kernels.triton")
    if operator.name not in module.__all__:
        assert operator.name in ("node_scores", "node_scores_backward", "dropout")
        return
    takes = tuple(inspect.signature(getattr(module, operator.name)).parameters)
    assert takes == operator.parameters[:-1]


@built
@EVERY
def test_cpp_kernel_has_a_field_for_each_value_of_its_operator_declaration(operator):
    """The launcher raises an error if the kernel and the declaration have different names."""
    assert isinstance(operator._launch, cpu.Launcher)


@built
def test_launcher_with_a_value_without_a_field_raises_error():
    with pytest.raises(TypeError, match="the C\\+\\+ kernel edge_dot has no field bias, gate"):
        cpu.Launcher("edge_dot", {"query": 0, "gate": 1, "bias": 2})


@built
@pytest.mark.parametrize("p", [0.3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_elementwise_dropout_kernel_equals_the_reference(p, dtype):
    x = torch.randn(2500, generator=torch.Generator().manual_seed(1)).to(dtype)
    seed = torch.tensor([-(2**62) + 5, 0])
    out = OPERATORS["dropout"](x, seed, p, backend="cpu")
    expected = reference.dropout(x, seed, p)
    assert torch.equal(out == 0, expected == 0)
    torch.testing.assert_close(out, expected)
    assert out.dtype == dtype


@built
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_node_scores_equal_the_reference(dtype):
    generator = torch.Generator().manual_seed(1)
    value = torch.randn(50, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
    vectors = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
    scores = OPERATORS["node_scores"](value, vectors, backend="cpu")
    expected = reference.node_scores(value.double(), vectors.double())
    eps = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 0.05)
    torch.testing.assert_close(scores.double(), expected, rtol=eps, atol=eps)


@built
@pytest.mark.parametrize("channels", [4, 16, 32, 128])
def test_node_score_has_the_same_bits_with_one_or_nine_heads(channels):
    """The kernel sums eight heads at once and the remaining heads one by one. A score must have the
    same bits in both cases.
    """
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(33, 9, channels, generator=generator)
    vectors = torch.randn(2, 9, channels, generator=generator)
    node_scores = functools.partial(OPERATORS["node_scores"], backend="cpu")
    together = node_scores(value, vectors)
    for x in range(9):
        alone = node_scores(value[:, x : x + 1].contiguous(), vectors[:, x : x + 1].contiguous())
        assert torch.equal(alone[..., 0], together[..., x])
