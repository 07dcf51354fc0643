"""The operators with torch's dispatcher: schemas, derivatives, tracing, transforms."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gattn import Graph
from gattn.ops.dropout import dropout as drop_numbers
from gattn.ops.nodes import node_scores
from gattn.ops.registration.backend import why_not
from gattn.ops.registration.operator import OPERATORS
from tests.families import FAMILIES

torch_warns = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(scope="module")
def tiny():
    return Graph(torch.tensor([[0, 1, 2, 2, 0, 0], [2, 2, 0, 1, 1, 2]]), (3, 4))


@pytest.fixture
def calls(monkeypatch):
    """Record the arguments of every operator that runs, by name."""
    seen = {}

    def recorder(name, overload):
        def call(*args):
            seen.setdefault(name, []).append(args)
            return overload(*args)

        return call

    for name, operator in OPERATORS.items():
        monkeypatch.setattr(operator, "overload", recorder(name, operator.overload))
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_every_operator_passes_opcheck(operators, calls, tiny, dropout):
    """Check schema, autograd, fake tensors and AOT dispatch with the arguments of real calls."""
    for operator in operators.values():
        inputs = operator.inputs(tiny, 2, 4)
        operator.gradients(inputs, tiny, **({"dropout": dropout} if operator.family else {}))
        if operator.family:
            of_values = "value", "edge_weight"
            of_scores = {name: t for name, t in inputs.items() if name not in of_values}
            operator.but(function=FAMILIES[operator.family].weights, shared={})(of_scores, tiny)
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    (node_scores(x, x[:1].detach()).sum() + drop_numbers(x, 0.5).sum()).backward()
    assert calls.keys() == OPERATORS.keys()
    # The dictionary is copied, because opcheck adds calls to it.
    latest = {name: every[-2:] for name, every in calls.items()}
    for name, every in latest.items():
        if dropout and "seed" not in OPERATORS[name].parameters:
            continue  # without a seed, the operator has no dropout and was tested in the other case
        for args in every:
            overload = getattr(torch.ops.gattn, name).default
            torch.library.opcheck(overload, tuple(_leaf(a, name) for a in args))


def _leaf(arg, name):
    if isinstance(arg, tuple):
        return list(arg)
    if not isinstance(arg, torch.Tensor):
        return arg
    return arg.detach().requires_grad_(arg.requires_grad and "backward" not in name)


def test_derivatives_of_every_operator_pass_gradcheck(operator, tiny):
    inputs = operator.inputs(tiny, 2, 2, d=2, w=1)
    function = lambda *tensors: operator(dict(zip(inputs, tensors)), tiny)  # noqa: E731
    assert torch.autograd.gradcheck(function, tuple(inputs.values()), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tuple(inputs.values()), fast_mode=True)


@pytest.mark.slow
@torch_warns
def test_every_operator_compiles_in_one_graph(operator, tiny):
    torch._dynamo.reset()
    inputs = operator.inputs(tiny, 2, 4, dtype=torch.float32)
    expected = operator.gradients(inputs, tiny)
    compiled = torch.compile(
        lambda tensors: operator(tensors, tiny), fullgraph=True, backend="aot_eager"
    )
    grad = torch.randn(expected["out"].shape, generator=torch.Generator().manual_seed(1))
    expected = operator.gradients(inputs, tiny, grad)
    actual = operator.but(
        function=lambda graph, **tensors: compiled(tensors), options={}, shared={}
    ).gradients(inputs, tiny, grad)
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, msg=name)


def test_operators_give_the_same_bits_in_inference_mode_as_with_gradients(operator, tiny):
    inputs = operator.inputs(tiny, 2, 4, dtype=torch.float32)
    expected = operator(inputs, tiny)
    with torch.inference_mode():
        out = operator(inputs, tiny)
    assert out.is_inference()
    assert torch.equal(out, expected)
    with torch.no_grad():
        assert not operator(inputs, tiny).requires_grad


def test_checkpointed_attention_with_dropout_has_the_same_bits_as_without_checkpointing(
    attention, tiny
):
    inputs = attention.inputs(tiny, 2, 4)
    names = list(inputs)

    def function(*tensors):
        return attention(dict(zip(names, tensors)), tiny, dropout=0.5)

    runs = []
    for run in (function, lambda *x: checkpoint(function, *x, use_reentrant=False)):
        torch.manual_seed(4)
        out = run(*inputs.values())
        runs.append((out, *torch.autograd.grad(out.square().sum(), list(inputs.values()))))
    assert all(map(torch.equal, *runs))


def test_forward_mode_derivative_equals_finite_difference_or_raises_error_for_a_named_backend(
    operator, tiny
):
    inputs = operator.inputs(tiny, 2, 2, grad=False)
    ones = {name: torch.ones_like(t) for name, t in inputs.items()}
    with pytest.raises(RuntimeError, match=r"does not run under torch\.func"):
        torch.func.jvp(lambda t: operator(t, tiny, backend="cpu"), (inputs,), (ones,))
    _, derivative = torch.func.jvp(lambda t: operator(t, tiny), (inputs,), (ones,))
    small = {name: (t + 1e-6, t - 1e-6) for name, t in inputs.items()}
    ends = [operator({name: t[i] for name, t in small.items()}, tiny) for i in (0, 1)]
    torch.testing.assert_close(derivative, (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-6)


def test_operators_under_vmap_equal_single_calls_or_raise_error_for_a_named_backend(operator, tiny):
    inputs = operator.inputs(tiny, 2, 2, grad=False)
    stacked = {name: torch.stack([t, 2 * t]) for name, t in inputs.items()}
    gradients = [("grad", torch.func.grad, inputs), ("grad", torch.func.jacrev, inputs)]
    for name, transform, arguments in [("vmap", torch.func.vmap, stacked), *gradients]:
        with pytest.raises(RuntimeError, match=f"under torch.func.{name}: .*without backend="):
            transform(lambda t: operator(t, tiny, backend="cpu").sum())(arguments)
    mapped = torch.func.vmap(lambda t: operator(t, tiny))(stacked)
    torch.testing.assert_close(mapped[0], operator(inputs, tiny))


def test_backward_accepts_a_gradient_of_another_dtype_or_stride(attention, tiny):
    inputs = attention.inputs(tiny, 2, 4, dtype=torch.float32)
    wide = torch.ones(4, 2, 1, dtype=torch.float32)
    for grad in (wide.expand(attention(inputs, tiny).shape),):
        actual = attention.gradients(inputs, tiny, grad)
        expected = attention.gradients(inputs, tiny, grad.contiguous())
        assert all(torch.equal(actual[name], expected[name]) for name in expected)
    out = attention(inputs, tiny)
    out.backward(torch.ones(out.shape, dtype=torch.float64))
    for name, t in inputs.items():
        assert torch.equal(t.grad, expected[name]), name


@pytest.mark.skipif(bool(why_not("cpu", "cpu")), reason="the C++ kernels are not built")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_elementwise_dropout_compiles_and_passes_opcheck():
    seed = torch.tensor([5, 0])
    x = torch.randn(30, requires_grad=True)
    with pytest.raises(ValueError, match=r"seed must be \[2\].*, not \[1\]"):
        torch.ops.gattn.dropout(x, seed[:1], 0.5, "cpu")
    torch.library.opcheck(torch.ops.gattn.dropout, (x.flatten(), seed, 0.5, "cpu"))
    compiled = torch.compile(lambda x: drop_numbers(x, 0.5), fullgraph=True, backend="aot_eager")
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    (grad,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(grad != 0, first != 0)
