"""Families of scores: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn.functional import dot_product_attention, gatv2_attention
from tests.families import ATTENTION, FAMILIES, declared

WITH_SLOPE = [
    name for name, one in ATTENTION.items() if "negative_slope" in declared(one.family)
]  # fmt: skip
WITH_FEATURES = [("dot_product, edges", 3, 8), ("dot_product, edges", 9, 16)]
WITH_FEATURES += [("gatv2, edges", 3, 8), ("gatv2, tanh", 3, 8)]


@pytest.mark.parametrize("features", [1, 2, 7, 8, 16, 32, 33])
@pytest.mark.parametrize(("name", "heads", "channels"), WITH_FEATURES)
def test_attention_with_edge_features_of_each_width_equals_the_reference(
    features, name, heads, channels, operators, compare, random_graph, hub_graph
):
    for dtype in (torch.float64, torch.float32):
        for graph in (random_graph, hub_graph):
            compare(operators[name], graph, heads, channels, dtype=dtype, dims={"d": features})


@pytest.mark.parametrize("name", WITH_SLOPE)
@pytest.mark.parametrize("slope", [0.0, 1.0, -0.5, 2.0])
def test_attention_with_each_value_of_negative_slope_equals_the_reference(
    name, slope, operators, compare, random_graph
):
    for dtype in (torch.float64, torch.float32):
        compare(operators[name], random_graph, 3, 8, dtype=dtype, negative_slope=slope)


@pytest.mark.parametrize(
    ("name", "frozen"),
    [(f"{name}, edges", one) for name in FAMILIES for one in ATTENTION[f"{name}, edges"].shapes],
)
def test_attention_inputs_without_requires_grad_have_no_gradient(
    name, frozen, operators, compare, random_graph
):
    operator = operators[name]
    assert frozen not in compare(operator, random_graph, 3, 4, frozen=[frozen])
    others = operator.shapes.keys() - {frozen}
    assert set(compare(operator, random_graph, 3, 4, frozen=others)) == {"out", frozen}


@pytest.mark.parametrize("name", ["dot_product", "gatv2"])
def test_derivatives_equal_the_reference_if_query_key_and_value_are_one_tensor(name, random_graph):
    weight = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4)
    results = []
    for backend in ("cpu", "reference"):
        x = torch.randn(25, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        x.requires_grad_()
        if name == "gatv2":
            options = {"activation": "tanh", "backend": backend}
            out = gatv2_attention(x, x, x, weight, random_graph, **options)
        else:
            out = dot_product_attention(x, x, x, random_graph, backend=backend)
        (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        results.append((out.detach(), first.detach(), second))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)
