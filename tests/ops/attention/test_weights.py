"""Returned attention weights: order, sums of one, gradients, and use in the output."""

import pytest
import torch

from gattn import Graph
from gattn.functional import aggregate
from tests.families import FAMILIES

each_impl = pytest.mark.parametrize("backend", ["cpu", "reference"])


@pytest.fixture
def split():
    """Return the function that computes an attention's weights, and the values to sum."""

    def of(attention, inputs):
        inputs = {name: t for name, t in inputs.items() if name != "edge_weight"}
        value = inputs.pop("value", inputs.get("key"))
        return attention.but(function=FAMILIES[attention.family].weights, shared={}), inputs, value

    return of


@each_impl
def test_attention_weights_times_values_sum_to_the_output(attention, backend, split, random_graph):
    inputs = attention.inputs(random_graph, 4, 5)
    if "edge_attr" in inputs and FAMILIES[attention.family].edges_in_value:
        inputs["edge_attr"] = torch.zeros_like(inputs["edge_attr"])
    twin, rest, value = split(attention, inputs)
    weights = twin(rest, random_graph, backend=backend)
    assert weights.shape == (random_graph.num_edges, 4)
    applied = weights * inputs.get("edge_weight", torch.ones(random_graph.num_edges))[:, None]
    torch.testing.assert_close(
        aggregate(applied, value, random_graph), attention(inputs, random_graph)
    )
    sums = torch.zeros(25, 4, dtype=weights.dtype)
    sums = sums.index_add(0, random_graph.edge_index[1], weights)
    torch.testing.assert_close(sums, (random_graph.in_degree() > 0).double()[:, None].expand(25, 4))


def test_attention_weights_are_in_the_callers_order_of_edges(attention, split, random_graph):
    order = torch.randperm(random_graph.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = Graph(random_graph.edge_index[:, order], random_graph.size)
    inputs = attention.inputs(random_graph, 2, 4, grad=False)
    twin, rest, _ = split(attention, inputs)
    moved = {k: t[order] if twin.shapes[k][0] == "e" else t for k, t in rest.items()}
    torch.testing.assert_close(twin(moved, shuffled), twin(rest, random_graph)[order])


def test_attention_weights_have_the_dtype_and_precision_of_the_inputs(
    attention, precision, split, random_graph
):
    """With 16-bit inputs, scores are rounded before the softmax, so that the relative error of the
    weights is about eps |score|.
    """
    inputs = attention.inputs(random_graph, 2, 4, dtype=precision, grad=False)
    inputs = {name: t / 2 for name, t in inputs.items()}
    twin, rest, _ = split(attention, inputs)
    exact = twin({k: t.double() for k, t in rest.items()}, random_graph, backend="reference")
    weights = twin(rest, random_graph)
    assert weights.dtype == precision
    assert (weights.double() - exact).abs().max() <= 8 * torch.finfo(precision).eps


@each_impl
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_attention_weights_are_rounded_once(attention, backend, split, random_graph, dtype):
    twin, rest, _ = split(attention, attention.inputs(random_graph, 4, 16, grad=False))
    narrow = {name: t.to(dtype) for name, t in rest.items()}
    exact = twin(
        {name: t.double() for name, t in narrow.items()}, random_graph, backend="reference"
    )
    error = (twin(narrow, random_graph, backend=backend).double() - exact).abs()
    assert (error <= 0.51 * torch.finfo(dtype).eps * exact + 1e-6).all()
