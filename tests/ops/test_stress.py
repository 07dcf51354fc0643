"""Tests with many threads at the same time, rows of up to a million edges, and heads with many
channels.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gattn import Graph
from gattn.functional import gat_attention


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_concurrent_calls_in_python_threads_give_the_same_bits_as_single_calls(
    operators, hub_graph
):
    """Kernels release the GIL, so several calls can run at the same time. They share no data."""

    def work(job):
        operator, seed = job
        inputs = operator.inputs(hub_graph, 3, 8, dtype=torch.float32, seed=seed)
        grad = torch.ones(operator(inputs, hub_graph).shape)
        return operator.gradients(inputs, hub_graph, grad)

    jobs = [(operator, seed) for seed in range(2) for operator in operators.values()]
    results = [work(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        for actual, expected in zip(pool.map(work, jobs), results, strict=True):
            assert all(torch.equal(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize("direction", ["in", "out"])
def test_sums_at_a_node_of_60000_edges_are_near_those_in_float64(attention, direction):
    """The row of the hub is divided into thirty segments in both directions of the
    layout, and the sums agree with float64.

    The layers are tested with a hub of a million edges in tests/nn/test_every_conv.py.
    """
    edges = 60_000
    pairs = torch.stack([torch.arange(edges) % 1000, torch.zeros(edges, dtype=torch.long)])
    size = (1000, 1)
    if direction == "out":
        pairs, size = pairs.flip(0), (1, 1000)
    graph = Graph(pairs, size)
    inputs = attention.inputs(graph, 1, 2, dtype=torch.float32, d=1)
    actual = attention.gradients(inputs, graph, backend="cpu")
    double = {name: t.detach().double().requires_grad_() for name, t in inputs.items()}
    expected = attention.gradients(double, graph, backend="cpu")
    for name, value in expected.items():
        # If a gradient is exactly zero, the computed value is a sum of the rounding errors of a
        # thousand rows.
        scale = max(float(value.abs().max()), graph.num_dst**0.5)
        error = (actual[name].double() - value).abs().max()
        assert error <= 3e-5 * scale, name
    if direction == "in" and "edge_attr" not in inputs:
        alike = {name: torch.zeros_like(t) for name, t in inputs.items()}
        for name in {"value", "edge_weight"} & alike.keys():
            alike[name] += 1
        if "value" in alike:  # With equal scores, attention computes the mean of the values.
            out = attention(alike, graph)
            torch.testing.assert_close(out, torch.ones_like(out), rtol=1e-4, atol=1e-4)


def test_kernels_in_a_worker_thread_give_the_same_bits_as_in_the_main_thread(one_thread):
    """Run the kernels in a worker thread for which torch's number of threads is one, as in data
    loaders.
    """
    graph = Graph(torch.randint(0, 500, (2, 40_000)), 500)
    a, v = torch.randn(500, 4), torch.randn(500, 4, 16)
    expected = gat_attention(a, a, v, graph)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(gat_attention, a, a, v, graph).result(), expected)
