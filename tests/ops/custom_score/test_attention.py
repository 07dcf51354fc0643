"""Attention with a custom score: compare with the definition on all edges at once."""

import pytest
import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils.checkpoint import checkpoint

import gattn
from gattn.functional import aggregate, attention, edge_softmax
from gattn.kernels import cpu
from gattn.ops.custom_score import chunks
from tests.ops.custom_score.scores import (
    HEADS,
    NODES,
    NORMALIZE,
    WIDTH,
    Perceptron,
    check_definition,
    gaussian,
    plain,
)

# Tracing a score takes a second, so there are not all combinations, but all pairs of values.
PAIRS = [
    (normalize, has_message, (7, 8192)[(has_message + number) % 2])
    for number, normalize in enumerate(NORMALIZE)
    for has_message in (False, True)
]


@pytest.mark.parametrize(("normalize", "has_message", "size"), PAIRS)
def test_attention_with_a_callable_score_equals_its_definition(
    normalize, has_message, size, hub, tensors, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score = Perceptron().double()
    message = score.gated if has_message else None
    check_definition(hub, tensors, score, message, normalize)


@pytest.mark.parametrize("normalize", ["softmax", "mean"])
def test_derivatives_with_a_module_as_score_pass_gradcheck(normalize, hub, tensors) -> None:
    score = Perceptron().double()
    weight = score.weight.detach().clone().requires_grad_()

    def function(query, key, value, edge_attr, weight):
        score.__dict__["_parameters"]["weight"] = weight
        return attention(
            score, query, key, value, hub,
            edge_attr=edge_attr, message=score.gated, normalize=normalize,
        )  # fmt: skip

    del score.weight
    score.register_parameter("weight", None)
    inputs = (*tensors.values(), weight)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.bits
@pytest.mark.parametrize("size", [7, 8192])
def test_gradients_of_a_custom_score_have_the_same_bits_if_repeated_or_checkpointed(
    size, hub, tensors, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score, inputs = Perceptron().double(), tuple(tensors.values())

    def model(query, key, value, edge_attr):
        return attention(score, query, key, value, hub, edge_attr=edge_attr).tanh()

    out = model(*inputs).square().sum()
    expected = torch.autograd.grad(out, inputs, retain_graph=True)
    again = torch.autograd.grad(out, inputs)
    out = checkpoint(model, *inputs, use_reentrant=False).square().sum()
    for grads in (again, torch.autograd.grad(out, inputs)):
        assert all(torch.equal(a, b) for a, b in zip(grads, expected))


def test_score_accepts_tuples_and_dicts_as_query_key_and_edge_attr(hub, tensors) -> None:
    query, value = tensors["query"].detach(), tensors["value"].detach()
    position = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)

    def score(query, key, edge_attr):
        (q, x_i), (k, x_j) = query, (key["key"], key["position"])
        return (q * k).sum(-1) - (x_i - x_j).square().sum(-1, keepdim=True) * edge_attr["width"]

    width = {"width": torch.rand(hub.num_edges, 1, dtype=torch.float64)}
    key = {"key": tensors["key"].detach(), "position": position}
    actual = attention(score, (query, position), key, value, hub, edge_attr=width)
    source, destination = hub.edge_index
    keys = {name: tensor[source] for name, tensor in key.items()}
    scores = score((query[destination], position[destination]), keys, width)
    expected = aggregate(edge_softmax(scores, hub), value, hub)
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(out.square().sum(), position)[0] for out in (actual, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_custom_score_has_the_same_dropout_mask_on_a_subgraph_as_on_the_whole_graph(
    normalize, backend, monkeypatch, random_graph
) -> None:
    monkeypatch.setenv("GATTN_BACKEND", backend)
    graph, x = random_graph, torch.rand(random_graph.num_src, HEADS, WIDTH)
    rows = x[: graph.num_dst]
    half = graph.num_dst // 2
    torch.manual_seed(0)
    whole = attention(gaussian, rows, x, x, graph, normalize=normalize, dropout=0.5)
    source, destination = graph.edge_index
    for first, last in ((0, half), (half, graph.num_dst)):
        mask = (destination >= first) & (destination < last)
        pairs = torch.stack([source[mask], destination[mask] - first])
        layout = gattn.Graph(pairs, (graph.num_src, last - first)).layout
        part = gattn.Graph.from_layout(layout, edge_offset=int(graph.layout.rowptr[first]))
        torch.manual_seed(0)
        out = attention(gaussian, rows[first:last], x, x, part, normalize=normalize, dropout=0.5)
        torch.testing.assert_close(out, whole[first:last])


def test_custom_score_under_autocast_is_computed_once_in_bfloat16() -> None:
    graph, x = gattn.graphs.complete([4]), torch.randn(4, 1, 8, requires_grad=True)
    dtypes = []

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        projected = torch.nn.functional.linear(query, torch.eye(8))
        dtypes.append(projected.dtype)
        return (projected * key).sum(-1)

    with torch.autocast("cpu", torch.bfloat16):
        out = attention(score, x, x, x, graph)
    out.float().sum().backward()
    assert set(dtypes) == {torch.bfloat16}
    # For few edges, backward uses the operations that autograd recorded and does not call the score
    # again.
    assert len(dtypes) == 1
    assert x.grad is not None


def test_attention_with_a_callable_score_is_zero_for_a_graph_without_edges(tensors) -> None:
    empty = gattn.Graph(torch.empty(2, 0, dtype=torch.long), NODES)
    ends = [tensors[name] for name in ("query", "key", "value")]
    for normalize in NORMALIZE:
        out = attention(gaussian, *ends, empty, normalize=normalize)
        assert torch.equal(out, torch.zeros(NODES, HEADS, WIDTH, dtype=torch.float64))
        out.sum().backward()


class Scaled(Module):
    """Score that is the edge feature times a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Parameter(torch.ones(1))

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return edge_attr * self.scale


@pytest.mark.parametrize("size", [7, 10_000])
def test_unused_inputs_and_parameters_have_no_gradient(size, hub, tensors, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score = Perceptron().double()
    score.unused = Parameter(torch.ones(3, dtype=torch.float64))
    ends = [tensors[name] for name in ("query", "key", "value", "edge_attr")]

    def of_keys(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return key.sum(-1)

    attention(score, *ends[:3], hub, edge_attr=ends[3]).sum().backward()
    assert score.unused.grad is None
    assert all(p.grad is not None for p in (score.weight, *score.edge.parameters(), *ends))
    inputs = ends[0], ends[1], ends[3]
    out = attention(of_keys, *ends[:3], hub, edge_attr=ends[3]).sum()
    grads = torch.autograd.grad(out, inputs, allow_unused=True)
    assert [grad is None for grad in grads] == [True, False, True]


@pytest.mark.parametrize(
    "dtype", [pytest.param(torch.bfloat16, marks=pytest.mark.slow), torch.float16], ids=str
)
def test_sums_over_6000_edges_in_16_bits_are_accumulated_in_fp32(dtype, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 4)
    # If 4 is added repeatedly, a bfloat16 sum stops growing at 1024 and a float16 sum at 4096.
    edges = 6000
    graph = gattn.Graph(torch.stack([torch.arange(edges), torch.zeros(edges).long()]), (edges, 1))
    one = torch.ones(1, 1, 1, dtype=dtype)
    score, query = Scaled().to(dtype), one.clone().requires_grad_()
    key_and_value = one.expand(edges, 1, 1), one.expand(edges, 1, 1)
    features = torch.ones(edges, 1, dtype=dtype)
    options = {"edge_attr": features, "normalize": "none"}
    out = attention(score, one, *key_and_value, graph, **options)
    out.sum().backward()
    torch.testing.assert_close(score.scale.grad.float(), torch.tensor([6000.0]), rtol=4e-3, atol=0)
    product = lambda query, key, edge_attr: (query * key).sum(-1)  # noqa: E731
    attention(product, query, *key_and_value, graph, normalize="none").sum().backward()
    assert query.grad.item() == pytest.approx(6000, rel=4e-3)
    out = attention(score, one, *key_and_value, graph, message=lambda v, e: v, **options)
    assert out.item() == pytest.approx(6000, rel=4e-3)


def test_output_of_a_custom_score_is_not_finite_if_nonzero_weights_cancel():
    graph = gattn.Graph(torch.tensor([[0, 1, 0, 1], [2, 2, 3, 3]]), 4)
    features = torch.tensor([[1.0], [-1.0], [0.0], [0.0]])
    ends = torch.randn(3, 4, 1, 2)
    out = attention(lambda q, k, e: e, *ends, graph, edge_attr=features, normalize="sum")
    assert not out[2].isfinite().any()
    assert (out[[0, 1, 3]] == 0).all()


@pytest.mark.slow
@pytest.mark.skipif(bool(cpu.unavailable_reason()), reason="the C++ kernels are not built")
def test_gradients_of_a_custom_score_in_smaller_chunks_equal_those_without_chunks(monkeypatch):
    """Chunks have 16 edges in the forward pass and 8 in the backward pass, and the graph has
    sources and destinations of high degree.
    """
    monkeypatch.setattr(chunks, "CHUNK", 16)
    monkeypatch.setattr(chunks, "MIN_CHUNK", 4)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * 64)
    monkeypatch.setattr(chunks, "HUB_DEGREE", 10)
    torch.manual_seed(0)
    edges = torch.randint(0, 30, (2, 300))
    edges[0, :60], edges[1, 40:100] = 3, 7
    graph = gattn.Graph(edges, 30)
    ends = [torch.randn(30, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    lengths: list[int] = []

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        lengths.append(len(query))
        return (query * key).sum(-1)

    grads = torch.autograd.grad(attention(score, *ends, graph).square().sum(), ends)
    expected = plain(score, *ends, graph, None, None, "softmax").square().sum()
    torch.testing.assert_close(grads, torch.autograd.grad(expected, ends))
    assert {8, 16} <= set(lengths)


@pytest.mark.slow
def test_custom_score_of_non_contiguous_inputs_equals_its_definition(
    hub, tensors, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 7)
    for name in ("query", "key", "value"):
        turned = tensors[name].detach().transpose(0, 1).contiguous().transpose(0, 1)
        tensors[name] = turned.requires_grad_()
    check_definition(hub, tensors, Perceptron().double(), None, "softmax")
