"""State of a score: parameters, captured variables, in-place writes, compilation, threads."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.nn import Linear, Module

import gattn
from gattn.functional import attention
from gattn.ops.custom_score import chunks, edge_function
from tests.ops.custom_score.scores import HEADS, NODES, WIDTH, Perceptron, check_definition, plain


def test_score_that_is_a_view_is_not_changed_by_a_later_write() -> None:
    """For few edges, the score is not copied, so it may be a view of a captured tensor that is
    modified later.
    """
    graph, x = gattn.graphs.complete([4]), torch.randn(4, HEADS, WIDTH, requires_grad=True)
    captured = torch.randn(1, HEADS)
    before = captured.clone()
    out = attention(lambda q, k, e: captured.expand(len(q), -1), x, x, x, graph, normalize="none")
    captured.zero_()
    (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(grad, 4 * before.unsqueeze(-1).expand_as(grad))


@pytest.mark.slow
def test_model_with_a_custom_score_compiles_as_one_graph(hub, tensors) -> None:
    score = Perceptron().double()

    def model(query, key, value, edge_attr):
        return attention(score, query, key, value, hub, edge_attr=edge_attr).tanh()

    inputs = tuple(tensors.values())
    actual = torch.compile(model, fullgraph=True)(*inputs)
    expected = model(*inputs)
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(out.sum(), inputs) for out in (actual, expected)]
    torch.testing.assert_close(*gradients)


def test_in_place_score_does_not_change_the_edge_features(hub, tensors):
    features = torch.ones(hub.num_edges, 2).double()
    ends = [tensors[name] for name in ("query", "key", "value")]

    def score(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (query * key).sum(-1) * edge_attr.mul_(2).sum(-1, keepdim=True)

    with torch.no_grad():
        attention(score, *ends, hub, edge_attr=features)
    assert (features == 1).all()


@pytest.mark.parametrize("size", [7, 10_000])
def test_backward_uses_captured_values_of_its_forward_pass(size, hub, tensors, monkeypatch) -> None:
    """A loop over temperatures changes the captured variable before backward runs."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    ends = [tensors[name] for name in ("query", "key", "value")]
    out, expected = torch.zeros(2, NODES, HEADS, WIDTH, dtype=torch.float64)
    for scale in (1.0, 2.0, 8.0):

        def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
            return (query * key).sum(-1) / scale  # noqa: B023

        out = out + attention(score, *ends, hub)
        expected = expected + plain(score, *ends, hub, None, None, "softmax")
    grad = torch.randn_like(out)
    expected_grads = torch.autograd.grad(expected, ends, grad)
    torch.testing.assert_close(torch.autograd.grad(out, ends, grad), expected_grads)


def test_score_that_cannot_be_compiled_runs_with_one_warning(hub, tensors, monkeypatch) -> None:
    tried: list[object] = []

    def broken(*arguments: object) -> Tensor:
        tried.append(arguments)
        raise AssertionError("guard failed\nand more")

    monkeypatch.setattr(chunks, "CHUNK", 10)
    monkeypatch.setattr(edge_function, "_compiled", lambda *key: broken)
    monkeypatch.setattr(edge_function, "_uncompilable", {})
    score = Perceptron().double()
    with pytest.warns(
        UserWarning, match=r"Perceptron.*uncompiled.*\(AssertionError: guard failed\)"
    ):
        check_definition(hub, tensors, score, None, "softmax")
    check_definition(hub, tensors, score, None, "softmax")
    assert len(tried) == 1
    message = "scores of nothing"

    def wrong(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        raise LookupError(message)

    with pytest.raises(LookupError, match=message):
        # The error that the score raises reaches the caller.
        attention(wrong, tensors["query"], tensors["key"], tensors["value"], hub)


def test_threads_that_share_a_module_do_not_change_its_parameters(hub, tensors):
    score = Perceptron().double()
    parameters = list(score.parameters())
    ends = [tensors[name] for name in ("query", "key", "value")]

    def run(_: int) -> Tensor:
        return attention(score, *ends, hub, edge_attr=tensors["edge_attr"])

    expected, interval = run(0), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            outputs = list(threads.map(run, range(100)))
    finally:
        sys.setswitchinterval(interval)
    # Other threads may have another number of threads inside a product of PyTorch.
    for one in outputs:
        torch.testing.assert_close(one, expected)
    assert all(now is before for now, before in zip(score.parameters(), parameters, strict=True))


@pytest.mark.parametrize("size", [7, 8192])
def test_graph_is_freed_without_the_garbage_collector(size, tensors, monkeypatch):
    """The cache of a graph has no reference cycle, so that it is freed at once."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    graph = gattn.Graph(torch.randint(0, NODES, (2, 40)), NODES)
    ends = [tensors[name] for name in ("query", "key", "value")]
    attention(lambda q, k, e: (q * k).sum(-1), *ends, graph).sum().backward()
    layout = weakref.ref(graph.layout.col)
    gc.collect()
    gc.disable()
    try:
        del graph
        assert layout() is None
    finally:
        gc.enable()


class Tied(Module):
    """Score with one submodule under two names, and a weight shared by two submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Linear(WIDTH, WIDTH)
        self.again = self.first
        self.second = Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.edge = Linear(2, HEADS)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (self.again(query) * self.second(self.first(key))).sum(-1) + self.edge(edge_attr)

    def gated(self, value: Tensor, edge_attr: Tensor) -> Tensor:
        return self.again(value)


@pytest.mark.parametrize("chunk", [10, 1000])
def test_gradients_of_shared_parameters_equal_those_of_autograd(chunk, hub, tensors, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    score = Tied().double()
    parameters = list(score.parameters())
    check_definition(hub, tensors, score, score.gated, "softmax")
    assert all(now is before for now, before in zip(score.parameters(), parameters, strict=True))
