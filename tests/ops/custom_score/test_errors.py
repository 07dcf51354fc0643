"""Errors of attention with a custom score."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.nn import Linear

from gattn.functional import attention
from gattn.ops.custom_score import chunks
from tests.ops.custom_score.scores import HEADS, NODES, WIDTH, Perceptron, gaussian

PARAMETER = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("score", "options", "error", "message"),
    [
        (lambda q, k, e: (PARAMETER * q).sum(-1), {}, ValueError, "must not capture a tensor"),
        (lambda q, k, e: torch.rand(q.shape[:2]), {}, ValueError, "must not draw random numbers"),
        (lambda q, k, e: q, {}, ValueError, r"score must return \[b, h\] for b edges; got 3 dim"),
        (lambda q, k, e: q.sum(), {}, ValueError, r"one row for each of 43 edges; got \(\)"),
        (lambda q, k, e: 1.0, {}, ValueError, "one row for each of 43 edges; got float"),
        (gaussian, {"normalize": "max"}, ValueError, "normalize must be one of .*; got 'max'"),
        (gaussian, {"dropout": 2.0}, ValueError, "dropout must be a probability"),
        (gaussian, {"query": torch.ones(5, 2)}, ValueError, "query must have 12 rows, one for"),
        (gaussian, {"edge_attr": torch.ones(5)}, ValueError, "edge_attr must have 43 rows"),
        (gaussian, {"key": [1.0]}, TypeError, "key must be a tensor; got float"),
        (gaussian, {"value": ()}, TypeError, "value must be a tensor if there is no message"),
        (gaussian, {"graph": "edges"}, TypeError, "graph must be a gattn.Graph"),
        (gaussian, {"message": lambda v, e: v[:, 0]}, ValueError, r"must return \(b, 2, c\), a"),
        (
            lambda q, k, e: (q * k).sum(-1)[:, :1] - torch.ones(len(q)), {}, ValueError,
            r"score must return \[b, 2\] for b edges, .* for 43 edges it returned \(43, 43\)",
        ),
        (gaussian, {"value": torch.ones(12, 2)}, ValueError, r"value must have shape \(12, h, c\)"),
    ],
)  # fmt: skip
def test_invalid_custom_score_or_input_raises_error(score, options, error, message, hub, tensors):
    arguments = {**tensors, "graph": hub, **options}
    positional = [arguments.pop(name) for name in ("query", "key", "value", "graph")]
    if "edge_attr" not in options:
        del arguments["edge_attr"]
    with pytest.raises(error, match=message):
        attention(score, *positional, **arguments)


def test_score_whose_shape_depends_on_the_chunk_raises_error(hub, tensors, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 20)
    ends = [tensors[name] for name in ("query", "key", "value")]
    with pytest.raises(
        ValueError, match=r"rows of the same shape.*returned \(3, 3\) after rows of \(20,\)"
    ):
        attention(lambda q, k, e: q[:, :1, 0] - k[:, 0, 0], *ends, hub)


def test_parameters_captured_by_a_score_raise_error_only_if_gradients_are_enabled(hub, tensors):
    linear = Linear(WIDTH, 1).double()
    ends = (tensors["query"].detach(), tensors["key"].detach(), tensors["value"].detach(), hub)

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        return linear(query * key).squeeze(-1)

    with torch.no_grad():
        assert attention(score, *ends).shape == (NODES, HEADS, WIDTH)
    with pytest.raises(ValueError, match="must not capture a tensor that requires a gradient"):
        attention(score, *ends)


def test_buffer_of_a_score_modified_before_backward_raises_error(hub, tensors, in_chunks) -> None:
    class Annealed(Perceptron):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones((), dtype=torch.float64))

        def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
            return self.scale * super().forward(query, key, edge_attr)

    ends = [tensors[name] for name in ("query", "key", "value")]
    score = Annealed().double()
    out = attention(score, *ends, hub, edge_attr=tensors["edge_attr"])
    torch.autograd.grad(out.sum(), ends, retain_graph=True)
    score.scale.mul_(0.5)
    with pytest.raises(RuntimeError, match=r"a buffer of the module .* was written to after"):
        out.sum().backward()


@pytest.mark.parametrize("size", [7, 10_000])
def test_random_score_raises_error_if_backward_recomputes_the_score(
    size, hub, tensors, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    generator = torch.Generator().manual_seed(0)
    ends = [tensors[name] for name in ("query", "key", "value")]

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        return (query * key).sum(-1) * torch.rand(len(query), HEADS, generator=generator)

    out = attention(score, *ends, hub).sum()
    if size > hub.num_edges:
        # Backward uses the operations that autograd recorded and does not call the score again.
        first, second = (torch.autograd.grad(out, ends, retain_graph=True) for _ in range(2))
        assert all(map(torch.equal, first, second))
        return
    with pytest.raises(ValueError, match="must not draw random numbers"):
        out.backward()


def test_random_numbers_of_another_thread_raise_no_error_in_a_custom_score(hub, tensors):
    ends, stop = [tensors[name] for name in ("query", "key", "value")], threading.Event()

    def draw() -> None:
        while not stop.is_set():
            torch.rand(1)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(draw)
        try:
            for _ in range(200):
                attention(gaussian, *ends, hub)
            with pytest.raises(ValueError, match="must not draw random numbers"):
                attention(lambda q, k, e: (q * k * torch.rand_like(q)).sum(-1), *ends, hub)
        finally:
            stop.set()
