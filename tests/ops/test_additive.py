"""additive_attention: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn import Graph

VARIANTS = ["additive", "additive, edges"]
each_variant = pytest.mark.parametrize("variant", VARIANTS)


@each_variant
@pytest.mark.parametrize("slope", [0.0, 1.0, -0.5, 2.0])
def test_slopes(variant, slope, operators, compare, random_graph):
    for dtype in (torch.float64, torch.float32):
        compare(operators[variant], random_graph, 3, 8, dtype=dtype, negative_slope=slope)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_grouped_value_heads(groups, precision, operators, compare, hub_graph):
    operator = operators["additive, edges"]
    compare(operator, hub_graph, 8, 16, dtype=precision, dims={"u": groups})


def test_a_row_of_one_edge_copies_its_value(operators):
    graph = Graph(torch.tensor([[2, 0], [1, 0]]), 3)
    for dtype in (torch.float32, torch.bfloat16):
        inputs = operators["additive"].inputs(graph, 2, 16, dtype=dtype)
        found = operators["additive"].gradients(inputs, graph)
        assert torch.equal(found["out"][1], inputs["value"][2])
        assert found["key_score"][1].eq(0).all()


@pytest.mark.parametrize(
    "frozen", ["query_score", "key_score", "value", "edge_score", "bias", "edge_weight"]
)
def test_inputs_that_need_no_gradient(frozen, operators, compare, random_graph):
    operator = operators["additive, edges"]
    assert frozen not in compare(operator, random_graph, 3, 4, frozen=[frozen])
    others = operator.shapes.keys() - {frozen}
    assert set(compare(operator, random_graph, 3, 4, frozen=others)) == {"out", frozen}


def test_query_and_key_score_may_be_one_tensor(operators, random_graph):
    found = []
    for impl in ("cpu", "reference"):
        inputs = operators["additive"].inputs(random_graph)
        score = inputs.pop("query_score")
        inputs.pop("key_score")
        out = operators["additive"](
            {"query_score": score, "key_score": score, **inputs}, random_graph, impl=impl
        )
        found.append(torch.autograd.grad(out.square().sum(), score)[0])
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1e3, 1e10, 1e30])
def test_backward_sees_the_scores_of_forward(size, operators, random_graph):
    """Scores of several terms far beyond 1 / eps: the softmax is one-hot in backward, too."""
    inputs = operators["additive, edges"].inputs(random_graph, 8, 4, dtype=torch.float32)
    big = {
        name: (t.detach() * (1 if name in ("value", "edge_weight") else size)).requires_grad_()
        for name, t in inputs.items()
    }
    wanted = operators["additive, edges"].gradients(big, random_graph, impl="reference")
    found = operators["additive, edges"].gradients(big, random_graph, impl="cpu")
    torch.testing.assert_close(found["value"], wanted["value"], rtol=1e-3, atol=1e-3)
    for name in ("query_score", "key_score", "edge_score", "bias"):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-2, atol=1e-3)
