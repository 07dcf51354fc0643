"""gat_attention: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn import Graph
from gattn.functional import aggregate, edge_softmax
from gattn.ops.attention.gat import attend_by_score


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gat_attention_with_grouped_heads_of_the_values_equals_the_reference(
    groups, precision, operators, compare, hub_graph
):
    operator = operators["gat, edges"]
    compare(operator, hub_graph, 8, 16, dtype=precision, dims={"u": groups})


def test_gat_attention_of_a_node_with_a_single_edge_is_the_value_of_its_source(operators):
    graph = Graph(torch.tensor([[2, 0], [1, 0]]), 3)
    for dtype in (torch.float32, torch.bfloat16):
        inputs = operators["gat"].inputs(graph, 2, 16, dtype=dtype)
        results = operators["gat"].gradients(inputs, graph)
        assert torch.equal(results["out"][1], inputs["value"][2])
        assert results["key_score"][1].eq(0).all()


def rows_of(*degrees):
    """Return a graph whose node i has degrees[i] incoming edges, with repeated sources."""
    destination = torch.arange(len(degrees)).repeat_interleave(torch.tensor(degrees))
    source = torch.arange(len(destination)) * 7 % len(degrees)
    return Graph(torch.stack([source, destination]), len(degrees))


@pytest.mark.parametrize("frozen", [(), ("query_score",)], ids=["all", "no query"])
@pytest.mark.parametrize("channels", [16, 5])
@pytest.mark.parametrize("heads", [8, 3])
@pytest.mark.parametrize("names", [("edge_score",), ()], ids=["edges", "nodes"])
def test_gat_attention_of_nodes_of_low_and_high_degree_equals_the_reference(
    names, heads, channels, frozen, precision, operators, compare
):
    """The backward pass reads the values again for short rows, and uses saved sums for long
    rows.
    """
    operator = operators["gat, edges"]
    shapes = {n: s for n, s in operator.shapes.items() if n not in ("attn_bias", "edge_weight")}
    shapes = {n: s for n, s in shapes.items() if n != "edge_score" or n in names}
    graph = rows_of(0, 1, 2, 3, 4, 5, 6, 7, 8, 40, 1, 0, 6, 7)
    for slope in (0.2, 1.0, -0.5):
        compare(operator.but(shapes=shapes), graph, heads, channels, dtype=precision,
                frozen=frozen, negative_slope=slope)  # fmt: skip


@pytest.mark.parametrize("size", [1e3, 1e10, 1e30])
def test_gat_gradients_for_very_large_scores_equal_the_reference(size, operators, random_graph):
    """The terms of the scores are much larger than 1 / eps, so that the softmax is one-hot, also in
    the backward pass.
    """
    inputs = operators["gat, edges"].inputs(random_graph, 8, 4, dtype=torch.float32)
    big = {
        name: (t.detach() * (1 if name in ("value", "edge_weight") else size)).requires_grad_()
        for name, t in inputs.items()
    }
    expected = operators["gat, edges"].gradients(big, random_graph, backend="reference")
    results = operators["gat, edges"].gradients(big, random_graph, backend="cpu")
    torch.testing.assert_close(results["value"], expected["value"], rtol=1e-3, atol=1e-3)
    for name in ("query_score", "key_score", "edge_score", "attn_bias"):
        torch.testing.assert_close(results[name], expected[name], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("sorts", [False, True])
def test_attend_by_score_equals_edge_softmax_followed_by_aggregate(sorts, hub_graph):
    """Edges with the score -inf are dropped. A row that contains only such edges has zero output
    and zero gradients.
    """
    graph = hub_graph.by_destination() if sorts else hub_graph
    generator = torch.Generator().manual_seed(0)
    score = torch.randn(graph.num_edges, 4, generator=generator, dtype=torch.float64)
    score[::5] = -torch.inf
    destination = graph.edge_index[1]
    score[destination == destination[0]] = -torch.inf
    value = torch.randn(graph.num_src, 2, 3, generator=generator, dtype=torch.float64)
    weight = torch.rand(graph.num_edges, generator=generator, dtype=torch.float64)
    inputs = [tensor.requires_grad_() for tensor in (score, value, weight)]
    out = attend_by_score(score, value, graph, edge_weight=weight)
    expected = aggregate(edge_softmax(score, graph) * weight.unsqueeze(1), value, graph)
    torch.testing.assert_close(out, expected)
    assert out[destination[0]].eq(0).all()
    grad = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        torch.autograd.grad(out, inputs, grad), torch.autograd.grad(expected, inputs, grad)
    )


def test_fp32_score_is_not_rounded_to_the_bfloat16_of_the_values(random_graph):
    generator = torch.Generator().manual_seed(0)
    score = torch.randn(random_graph.num_edges, 2, generator=generator)
    value = torch.randn(random_graph.num_src, 2, 8, generator=generator)
    exact = attend_by_score(score, value.bfloat16().float(), random_graph)
    out = attend_by_score(score, value.bfloat16(), random_graph)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, exact.bfloat16(), rtol=2e-2, atol=2e-2)
    dropped = attend_by_score(score, torch.ones_like(value).bfloat16(), random_graph, dropout=0.5)
    assert dropped.min() == 0
    assert dropped.max() > 1
