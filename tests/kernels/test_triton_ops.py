"""Every operator on backend triton against the reference: outputs, gradients and the contract.

Without a CUDA device these run in Triton's interpreter: see test_triton_interpreter.py. Tests that
need a card are in test_triton_card.py.
"""

import pytest
import torch

import gattn
from gattn import Graph
from gattn.kernels import philox
from gattn.layout import stats
from tests.families import ATTENTION, FAMILIES, OPERATORS, TERMS
from tests.kernels.triton_cases import (
    DEVICE,
    GRAPHS,
    check,
    each_case,
    graph,
    launch,
    primitives,
    run,
    tiles,
    tl,
    triton,
)

pytestmark = pytest.mark.usefixtures("small_tiles")


@pytest.mark.parametrize("name", GRAPHS)
@each_case
def test_triton_operators_on_unusual_graphs_equal_the_reference(case, name):
    check(case.operator, graph(name), 4, 5, dims=case.dims, **case.options)


@pytest.mark.parametrize(("heads", "channels"), [(1, 1), (3, 5), (2, 33)])
@each_case
def test_triton_operators_of_odd_widths_in_fp32_equal_the_reference(case, heads, channels):
    check(case.operator, graph("plain"), heads, channels, torch.float32, **case.options)


@pytest.mark.parametrize("name", [f"{family}, edges" for family in FAMILIES])
def test_edge_weight_and_attn_bias_without_gradient_do_not_change_other_triton_gradients(name):
    g, operator = graph("plain"), OPERATORS[name]
    tensors, actual = operator.inputs(g, 2, 5), {}
    for term in TERMS:
        tensors[term].requires_grad_(False)
    for backend in ("reference", "triton"):
        actual[backend] = operator.gradients(tensors, g, backend=backend)
    torch.testing.assert_close(actual["triton"], actual["reference"])


def test_triton_results_with_a_nan_in_one_of_two_complete_graphs_equal_the_reference():
    g = gattn.graphs.complete([9, 8], device=DEVICE)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 17, 2, 4, device=DEVICE)
    v[3, 0, 1] = torch.nan
    leaves = [x.requires_grad_() for x in (q, k, v)]
    results = []
    for backend in ("reference", "triton"):
        out = gattn.functional.dot_product_attention(*leaves, g, backend=backend)
        results.append((out, *torch.autograd.grad(out.sum(), leaves)))
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("split", [8, 256])
def test_triton_softmax_gradients_are_near_zero_if_all_weights_have_equal_gradients(split):
    score = torch.randn(33, 2, generator=torch.Generator().manual_seed(0)).half().to(DEVICE)
    node = torch.arange(33, device=DEVICE)
    g = Graph(torch.stack([node, torch.zeros_like(node)]), (33, 1))
    score.requires_grad_()
    with tiles.override(split=split):
        gattn.functional.edge_softmax(score, g, backend="triton").sum().backward()
    assert score.grad.abs().max() < 1e-6


@pytest.mark.parametrize("name", [*FAMILIES, "edge_softmax"])
def test_triton_results_merged_from_many_split_rows_equal_the_reference(name):
    """The graph has more splits than one program of the merge kernel examines, and a row with more
    splits than one tile of this kernel contains.
    """
    generator = torch.Generator().manual_seed(3)
    degree = torch.tensor([0, 7, 300, 1, 90, 8, 9, 0, 41, 2])
    target = torch.arange(10).repeat_interleave(degree)
    edges = torch.stack([torch.randint(10, target.shape, generator=generator), target])
    assert edges.shape[1] // 2 > 2 * launch.MERGE_SPAN
    assert degree.max() // 2 > launch.MERGE_SPLITS
    with tiles.override(split=2, rows=16):
        check(OPERATORS[name], Graph(edges.to(DEVICE), 10), 3, 5)


def note_degree(graph, degree):
    for position in (stats.MAX_IN_DEGREE, stats.MAX_OUT_DEGREE):
        stats.set_stat(graph.layout.stats, position, degree)


@pytest.mark.parametrize("name", [*FAMILIES, "edge_softmax"])
def test_too_large_bound_of_the_largest_degree_does_not_change_triton_results(name):
    """An upper bound of the largest degree that is too high does not change a bit of the result,
    with and without splits of rows.
    """
    g, operator = graph("plain"), OPERATORS[name]
    assert g.in_degree().max() <= 5
    assert g.out_degree().max() <= 5
    for max_degree in (5, 10**6, 8):
        note_degree(g, max_degree)
        plan = launch.LaunchPlan(g.layout, 2, 4, torch.float32, unroll=1)
        assert plan.num_splits == 4
        assert plan.has_splits == (max_degree >= 8)
    check(operator, g, 2, 4)
    with tiles.override(split=16):
        check(operator, g, 2, 4)
    other = graph("plain")
    note_degree(other, 5)
    tensors = operator.inputs(g, 2, 4)
    actual = [run(operator, x, tensors, {}, torch.float32, "triton") for x in (g, other)]
    for here, there in zip(*actual, strict=True):
        assert torch.equal(here, there)


def test_gatv2_attention_in_triton_gives_the_same_bits_in_two_calls():
    g, operator = graph("hub"), OPERATORS["gatv2, edges"]
    tensors = operator.inputs(g, 2, 3)
    first, second = (run(operator, g, tensors, {}, torch.float32, "triton") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ATTENTION)
def test_triton_attention_weights_equal_the_reference(name):
    g, operator = graph("hub"), ATTENTION[name]
    twin = operator.but(function=FAMILIES[operator.family].weights, shared={})
    tensors = operator.inputs(g, 3, 5, grad=False)
    for other in ("value", "edge_weight"):
        # The attention weights do not depend on these two inputs.
        tensors.pop(other, None)
    want, got = (twin(tensors, g, backend=backend) for backend in ("reference", "triton"))
    torch.testing.assert_close(got, want)


def test_bias_of_minus_infinity_removes_an_edge_in_triton_kernels():
    g = graph("plain")
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 6, 2, 4, dtype=torch.float64, device=DEVICE)
    bias = torch.randn(17, 2, dtype=torch.float64, device=DEVICE)
    dropped = torch.rand(17, device=DEVICE) < 0.5
    dropped |= g.edge_index[1] == g.edge_index[1, 0]  # All edges of one row are dropped.
    bias[dropped] = -torch.inf
    leaves = [x.requires_grad_() for x in (q, k, v, bias)]
    results = []
    for backend in ("reference", "triton"):
        out = gattn.functional.dot_product_attention(
            *leaves[:3], g, attn_bias=bias, backend=backend
        )
        results.append((out, *torch.autograd.grad(out.square().sum(), leaves)))
    assert not results[1][0][g.edge_index[1, 0]].any()
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want)
    score = bias.detach().requires_grad_()
    results = []
    for backend in ("reference", "triton"):
        alpha = gattn.functional.edge_softmax(score, g, backend=backend)
        results.append((alpha, *torch.autograd.grad(alpha.square().sum(), score)))
    assert not results[1][0][dropped].any()
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


# Triton's interpreter computes a maximum with numpy.nanmax.
@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("name", ["plain", "hub"])
def test_nan_reaches_the_triton_outputs_that_are_nan_in_the_reference(name):
    g = graph(name)
    n = g.num_src
    torch.manual_seed(0)
    b = torch.randn(n, 2, device=DEVICE)
    b[1, 0] = torch.nan
    a, v = torch.randn(n, 2, device=DEVICE), torch.randn(n, 2, 3, device=DEVICE)
    leaves = [x.requires_grad_() for x in (a, b, v)]
    results = []
    for backend in ("reference", "triton"):
        out = gattn.functional.gat_attention(*leaves, g, dropout=0.5, backend=backend)
        results.append((out, *torch.autograd.grad(out.sum(), leaves)))
    assert results[1][0].isnan().any()
    for want, got in zip(*results, strict=True):
        assert torch.equal(got.isnan(), want.isnan())


def test_triton_dropout_mask_equals_that_of_the_philox_generator():
    position = torch.tensor([0, 1, 5, 2**31, 2**32 + 7, 2**40], device=DEVICE)
    heads, threshold = 3, philox.threshold(0.3)
    for key, edge_offset in ((7, 0), (-(2**62) - 12345, 0), (7, 2**33 + 5)):
        seed = torch.tensor([key, edge_offset], device=DEVICE)
        mask = torch.empty(8, 4, dtype=torch.bool, device=DEVICE)
        padded = torch.nn.functional.pad(position, (0, 2))
        write_mask[(1,)](mask, seed, padded, threshold, heads)
        edge = position[:, None] + edge_offset
        counter = edge * heads + torch.arange(heads, device=DEVICE)
        assert torch.equal(mask[:6, :3], philox.philox(seed[:1], counter) >= threshold)


@triton.jit
def write_mask(mask, seed, position, threshold, HEADS: tl.constexpr):
    edge, head = tl.arange(0, 8), tl.arange(0, 4)
    at = tl.load(position + edge)[:, None]
    keep = primitives.dropout_keep(seed, at, head, threshold, HEADS)
    tl.store(mask + edge[:, None, None] * 4 + head, keep)
