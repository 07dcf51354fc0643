"""Bad input raises one clear error with the expected and the actual value."""

from inspect import signature

import pytest
import torch

from gattn import functional as F
from gattn.ops.registration import backend
from gattn.ops.registration.backend import backend_info
from gattn.ops.registration.operator import OPERATORS
from tests.families import ATTENTION, FAMILIES, declared, distinct_settings, numbers


def test_operator_argument_of_wrong_shape_raises_error_with_its_name(operator, random_graph):
    for name, letters in operator.shapes.items():
        for axis in range(len(letters)):
            inputs = operator.inputs(random_graph, 2, 4, grad=False)
            inputs[name] = torch.cat([inputs[name], inputs[name]], axis).narrow(
                axis, 0, inputs[name].shape[axis] + 1
            )
            if axis and letters[axis] in "uw" and operator.function is not F.edge_dot:
                if letters[axis] == "w":
                    continue  # Edge features may have any width.
                with pytest.raises(ValueError, match=rf"{name} must have a number of heads that"):
                    operator(inputs, random_graph)
                continue
            try:
                out = operator(inputs, random_graph)
            except ValueError as error:
                assert "must have" in str(error)  # noqa: PT017
                assert "; got" in str(error)  # noqa: PT017
            else:  # no other tensor depends on this size, so any size is valid
                others = {other for other, s in operator.shapes.items() if letters[axis] in s}
                assert others == {name} or (name, axis) == ("value", 2), (name, axis)
                assert letters[axis] not in "nme"
                assert out.isfinite().all()


def test_operator_argument_of_wrong_rank_raises_error_with_its_shape(operator, random_graph):
    for name in operator.shapes:
        for change in (lambda t: t[None], lambda t: t.flatten()):
            inputs = operator.inputs(random_graph, 2, 4, grad=False)
            inputs[name] = change(inputs[name])
            if inputs[name].shape == operator.inputs(random_graph, 2, 4)[name].shape:
                continue  # Flattening a vector does not change its shape.
            with pytest.raises(ValueError, match=r"must have shape \(.*\); got \("):
                operator(inputs, random_graph)


@pytest.mark.parametrize("wrong", [torch.int64, torch.complex64, torch.bool])
def test_operator_argument_of_unsupported_dtype_raises_error(operator, wrong, random_graph):
    for name in operator.shapes:
        inputs = operator.inputs(random_graph, 2, 4, grad=False)
        if name == "attn_bias" and wrong is torch.bool:
            continue  # a Boolean bias is valid: it is a mask
        inputs[name] = inputs[name].to(wrong)
        message = rf"{name} must be float32, float64, bfloat16 or float16; got {wrong}"
        with pytest.raises(TypeError, match=message):
            operator(inputs, random_graph)


def test_operator_arguments_of_different_dtypes_raise_error(operator, random_graph):
    for name in list(operator.shapes)[1:]:
        inputs = operator.inputs(random_graph, 2, 4, grad=False)
        inputs[name] = inputs[name].float()
        with pytest.raises(TypeError, match=rf"{name} must be torch.float64 like .*; got torch.fl"):
            operator(inputs, random_graph)


def test_operator_argument_on_another_device_raises_error(operator, random_graph):
    for name in operator.shapes:
        inputs = operator.inputs(random_graph, 2, 4, grad=False)
        inputs[name] = inputs[name].to("meta")
        with pytest.raises(ValueError, match=rf"{name} must be on cpu, like the graph; got meta"):
            operator(inputs, random_graph)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_sparse_tensor_list_or_none_as_operator_argument_raises_error(
    operator, backend, random_graph
):
    for name, letters in operator.shapes.items():
        inputs = operator.inputs(random_graph, 2, 4, grad=False)
        optional = signature(operator.function).parameters[name].default is None
        with pytest.raises(TypeError, match=rf"{name} must be a tensor; got list"):
            operator({**inputs, name: inputs[name].tolist()}, random_graph, backend=backend)
        with pytest.raises(TypeError, match=rf"{name} must be a dense tensor; got a torch.spa"):
            operator({**inputs, name: inputs[name].to_sparse()}, random_graph, backend=backend)
        if not optional and operator.shared.get("value") != name:
            with pytest.raises(TypeError, match=rf"{name} must be a tensor; got NoneType"):
                operator({**inputs, name: None}, random_graph, backend=backend)
        assert letters


@pytest.mark.parametrize("edges", [None, torch.tensor([[0], [1]]), "edges"])
def test_graph_argument_of_another_type_raises_error(operator, edges, random_graph):
    with pytest.raises(TypeError, match=r"graph must be a gattn.Graph .*; got "):
        operator(operator.inputs(random_graph), edges)


@pytest.mark.parametrize("dropout", [-0.1, 1.1, float("nan"), float("inf")])
def test_attention_dropout_out_of_range_raises_error(attention, dropout, random_graph):
    with pytest.raises(ValueError, match=r"dropout must be a probability in \[0, 1\]; got"):
        attention(attention.inputs(random_graph), random_graph, dropout=dropout)


@pytest.mark.parametrize("value", ["0.2", torch.tensor(0.2, requires_grad=True), [0.2]], ids=type)
def test_attention_setting_that_is_not_a_number_raises_error(attention, value, random_graph):
    """A setting must be a number: a tensor is an error, because it would get no gradient."""
    inputs = attention.inputs(random_graph)
    for name in numbers(attention.family):
        with pytest.raises(
            TypeError, match=rf"{name} must be a number; got {type(value).__name__}"
        ):
            attention(inputs, random_graph, **{name: value})


@pytest.mark.parametrize("name", [name for name, x in ATTENTION.items() if "edge_attr" in x.shapes])
def test_edge_features_without_their_projection_raise_error(name, operators, random_graph):
    for left in ("edge_attr", "edge_proj"):
        inputs = operators[name].inputs(random_graph)
        del inputs[left]
        with pytest.raises(ValueError, match="edge_attr and edge_proj must be passed together"):
            operators[name](inputs, random_graph)


def test_unknown_value_of_an_attention_option_raises_error(attention, random_graph):
    inputs = attention.inputs(random_graph)
    for name, kind in declared(attention.family).items():
        if isinstance(kind, tuple):
            with pytest.raises(ValueError, match=rf"{name} must be one of .*; got 'softplus'"):
                attention(inputs, random_graph, **{name: "softplus"})


def test_unknown_or_unavailable_backend_raises_error(operator, random_graph, monkeypatch):
    inputs = operator.inputs(random_graph)
    message = "backend must be one of reference, cpu, triton"
    with pytest.raises(ValueError, match=f"{message}; got 'cud"):
        operator(inputs, random_graph, backend="cuda")
    monkeypatch.setenv("GATTN_BACKEND", "fast")
    with pytest.raises(
        ValueError, match=f"{message}; got 'fast' from the environment variable GATTN_BACKEND"
    ):
        operator(inputs, random_graph)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("GATTN_BACKEND", "triton")
    with pytest.raises(RuntimeError, match="backend 'triton' cannot run here: "):
        operator(inputs, random_graph)
    monkeypatch.setenv("GATTN_BACKEND", "reference")
    assert backend_info()["forced"] == "reference"
    by_environment = operator(inputs, random_graph)
    monkeypatch.delenv("GATTN_BACKEND")
    assert torch.equal(by_environment, operator(inputs, random_graph, backend="reference"))


@pytest.mark.parametrize("family", FAMILIES)
def test_kernel_launcher_raises_error_for_a_tensor_of_another_dtype(family, random_graph):
    """A launcher checks the dtypes before it passes raw pointers to a kernel."""
    plain, operator = FAMILIES[family].variants[""], OPERATORS[f"{family}_forward"]
    values = plain.inputs(random_graph, dtype=torch.float32, grad=False)
    values |= {"layout": list(random_graph.layout), "dropout": 0.0, "backend": "cpu"}
    values |= distinct_settings(family)[0]
    missing = [name for name in operator.parameters if name not in values]
    values |= {name: None if name in (*operator.inputs, "seed") else False for name in missing}
    for name in list(plain.shapes)[1:]:
        args = {**values, name: values[name].bfloat16()}
        with pytest.raises(TypeError, match=rf"{name} must be torch.float32; got torch.bfloat16"):
            operator.overload(*map(args.__getitem__, operator.parameters))


def test_device_without_kernels_gives_one_warning(monkeypatch):
    monkeypatch.setattr(backend, "_defaults", dict(backend._defaults))
    message = "gattn runs on its plain PyTorch reference: it has no kernels for tensors on mps"
    with pytest.warns(UserWarning, match=message):
        assert backend.select(None, torch.device("mps")) == "reference"
    assert backend.select(None, torch.device("mps")) == "reference"
    # Tensors on "meta" need no kernels, so there is no warning.
    assert backend.select(None, torch.device("meta")) == "reference"


def test_backend_info_states_why_triton_is_unavailable(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert backend_info()["triton"].startswith("torch sees no CUDA device")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert backend_info()["triton"] == "available"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert backend_info()["triton"] == "available"
