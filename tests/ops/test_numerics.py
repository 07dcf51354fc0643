"""Numerical properties of the operators: empty rows, -inf, NaN, very large scores, unusual
shapes.
"""

import pytest
import torch

from gattn import Graph
from gattn.functional import dot_product_attention, edge_softmax, gat_attention
from tests.families import ATTENTION, FAMILIES

DROPS = {name: FAMILIES[operator.family].drops for name, operator in ATTENTION.items()}
drops_edges = pytest.mark.parametrize(
    ("name", "term"), [(n, term) for n in DROPS for term in DROPS[n] if term in ATTENTION[n].shapes]
)
"""Arguments of operators in which the value -inf drops an edge."""


def test_attention_of_nodes_without_edges_has_zero_outputs_and_gradients(attention):
    graph = Graph(torch.tensor([[0, 1, 4], [3, 3, 3]]), (6, 5))
    results = attention.gradients(attention.inputs(graph, 2, 4), graph)
    for name, letters in attention.shapes.items() | {("out", "n")}:
        empty = {"n": [0, 1, 2, 4], "m": [2, 3, 5]}.get(letters[0], [])
        assert results[name][empty].eq(0).all(), name
        assert results[name].isfinite().all(), name


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@drops_edges
def test_score_of_minus_infinity_removes_its_edge(name, term, backend, operators, random_graph):
    operator = operators[name]
    inputs = operator.inputs(random_graph, 2, 4)
    dropped = torch.arange(random_graph.num_edges) % 3 == 0
    with torch.no_grad():
        inputs[term][dropped] = -torch.inf
    remaining = Graph(random_graph.edge_index[:, ~dropped], random_graph.size)
    fewer = {
        k: t.detach()[~dropped].requires_grad_() if operator.shapes[k][0] == "e" else t
        for k, t in inputs.items()
    }
    actual = operator.gradients(inputs, random_graph, backend=backend)
    expected = operator.gradients(fewer, remaining, backend=backend)
    for key, value in expected.items():
        if key != "out" and operator.shapes[key][0] == "e":
            assert actual[key][dropped].eq(0).all(), key
            actual[key] = actual[key][~dropped]
        torch.testing.assert_close(actual[key], value, msg=key)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@drops_edges
def test_attention_of_minus_infinity_scores_is_zero(name, term, backend, operators, random_graph):
    inputs = operators[name].inputs(random_graph, 2, 4, dtype=torch.float32)
    row = random_graph.edge_index[1] == 7
    assert row.any()
    with torch.no_grad():
        inputs[term][row, 0] = -torch.inf
    results = operators[name].gradients(inputs, random_graph, backend=backend)
    assert results["out"][7, 0].eq(0).all()
    assert results["out"][7, 1].ne(0).all()
    assert all(t.isfinite().all() for t in results.values())
    score = torch.full((random_graph.num_edges, 1), -torch.inf, requires_grad=True)
    alpha = edge_softmax(score, random_graph, backend=backend)
    assert alpha.eq(0).all()
    assert torch.autograd.grad(alpha.sum(), score)[0].eq(0).all()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_nan_in_an_input_reaches_only_dependent_outputs(operator, backend, random_graph, hub_graph):
    """A NaN in any input reaches every output that reads it, and no other row."""
    for graph in (random_graph, hub_graph):
        for name, letters in operator.shapes.items():
            inputs = operator.inputs(graph, 2, 4, dtype=torch.float32, grad=False)
            clean = operator(inputs, graph, backend=backend)
            inputs[name][0] = torch.nan
            out = operator(inputs, graph, backend=backend)
            source, destination = graph.edge_index
            edges = torch.arange(graph.num_edges)
            touched = {"n": destination == 0, "m": source == 0, "e": edges == 0}.get(letters[0])
            per_edge = out.shape[0] == graph.num_edges
            rows = torch.ones(len(out), dtype=torch.bool)
            if touched is not None:
                rows = torch.zeros(len(out), dtype=torch.bool)
                where = torch.isin(destination, destination[touched])
                if not per_edge:
                    rows[destination[touched]] = True
                elif operator.function is edge_softmax:
                    rows = where
                else:
                    rows = touched
            elif not per_edge:
                rows = graph.in_degree() > 0
            hit = out.isnan().flatten(1).any(1)
            if name == "edge_proj":
                # W contains NaN, so W times the zeros of a row without edges is NaN.
                hit = hit & rows
            assert torch.equal(hit, rows), name
            if name != "edge_proj":
                assert torch.equal(out[~rows], clean[~rows]), name


@pytest.mark.parametrize(
    ("dtype_", "largest"), [(torch.float32, 3e38), (torch.float64, 1e308), (torch.bfloat16, 3e38)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_softmax_of_the_largest_numbers_does_not_overflow(dtype_, largest, sign, random_graph):
    score = torch.randn(random_graph.num_edges, 3, dtype=torch.float64)
    score = (sign * score.abs() / score.abs().max() * largest).to(dtype_).requires_grad_()
    alpha = edge_softmax(score, random_graph)
    (grad,) = torch.autograd.grad((alpha * torch.randn_like(alpha)).sum(), score)
    assert grad.isfinite().all()
    total = torch.zeros(25, 3, dtype=dtype_).index_add(0, random_graph.edge_index[1], alpha)
    expected = (random_graph.in_degree() > 0).to(dtype_)[:, None].expand(-1, 3)
    torch.testing.assert_close(total, expected, rtol=0, atol=float(8 * torch.finfo(dtype_).eps))

    a, v = torch.zeros(25, 3, dtype=dtype_), torch.randn(25, 3, 4).to(dtype_)
    bound = {"query_score": a, "key_score": a, "value": v, "edge_score": score}
    out = gat_attention(**bound, graph=random_graph, negative_slope=1.0)
    assert out.isfinite().all()
    assert torch.autograd.grad(out.sum(), score)[0].isfinite().all()
    q, bias = torch.zeros(25, 3, 4, dtype=dtype_), score
    out = dot_product_attention(q, q, v, random_graph, attn_bias=bias)
    assert torch.autograd.grad(out.sum(), score)[0].isfinite().all()


def test_softmax_of_scores_far_apart_selects_the_largest():
    graph = Graph(torch.stack([torch.arange(5000), torch.zeros(5000, dtype=torch.long)]), (5000, 1))
    score = torch.linspace(-1e6, 1e6, 5000)[:, None]
    for order in (slice(None), torch.arange(4999, -1, -1)):
        alpha = edge_softmax(score[order], graph)
        assert alpha.argmax() == score[order].argmax()
        assert alpha.sum() == 1
        value = torch.arange(5000.0)[:, None, None]
        out = gat_attention(torch.zeros(1, 1), score[order], value, graph)
        assert out.item() == score[order].argmax()


def test_operators_give_the_same_bits_for_non_contiguous_inputs(operator, restride, random_graph):
    inputs = operator.inputs(random_graph, 4, 8, dtype=torch.float32, grad=False)
    moved = {name: restride(t).requires_grad_() for name, t in inputs.items()}
    inputs = {name: t.requires_grad_() for name, t in inputs.items()}
    grad = torch.randn(operator(inputs, random_graph).shape)
    expected = operator.gradients(inputs, random_graph, grad)
    actual = operator.gradients(moved, random_graph, restride(grad))
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_operators_give_equal_results_for_expanded_and_copied_inputs(operator, random_graph):
    """The rows of an expanded input share their memory: the stride is 0."""
    inputs = operator.inputs(random_graph, 2, 4, grad=False)
    single = {name: t[:1].requires_grad_() for name, t in inputs.items()}
    expanded = {name: t[:1].expand(inputs[name].shape) for name, t in single.items()}
    copied = {name: t.detach().contiguous() for name, t in expanded.items()}
    out = operator(expanded, random_graph)
    assert torch.equal(out, operator(copied, random_graph))
    grads = torch.autograd.grad(out.sum(), list(single.values()))
    full = {name: t.requires_grad_() for name, t in copied.items()}
    expected = operator.gradients(full, random_graph, torch.ones_like(out))
    for name, grad in zip(single, grads, strict=True):
        torch.testing.assert_close(grad, expected[name].sum(0, keepdim=True), msg=name)


@pytest.mark.parametrize("dims", [{"h": 0, "u": 0, "b": 0}, {"c": 0}, {"d": 0}, {"w": 0}], ids=str)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_operators_on_inputs_of_width_0_give_finite_results(operator, dims, backend, random_graph):
    inputs = operator.inputs(random_graph, **dims)
    results = operator.gradients(inputs, random_graph, backend=backend)
    assert results["out"].isfinite().all()
    for name, t in inputs.items():
        assert results[name].shape == t.shape, name
        assert results[name].isfinite().all(), name


@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (4, 3)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_without_nodes_or_edges_gives_zeros(attention, size, dropout):
    graph = Graph(torch.empty(2, 0, dtype=torch.long), size)
    results = attention.gradients(attention.inputs(graph), graph, dropout=dropout)
    assert all(t.eq(0).all() for t in results.values())
