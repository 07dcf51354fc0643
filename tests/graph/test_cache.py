"""Tests of the cache of graphs: the cached objects, their keys, and their lifetime."""

import gc
import sys
import threading
import weakref

import pytest
import torch

import gattn.graph.graph
import gattn.graphs
from gattn import Graph
from gattn.graph import as_graph, cache
from tests.graph.checks import SPARSE, ignore_beta


def test_as_graph_reuses_the_graph_with_self_loops_for_repeated_calls_with_an_edge_index(sorts):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    looped = {as_graph(edge_index, 3, self_loops=True) for _ in range(10)}
    assert len(looped) == 1
    assert len(sorts) == 2
    assert as_graph(edge_index, 3).num_edges == 3
    assert len(sorts) == 2


def test_cache_does_not_keep_edge_index_or_graph_alive():
    gc.collect()  # free the tensors in reference cycles of earlier tests before counting
    before = cache.size()
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = weakref.ref(as_graph(edge_index, 2))
    assert cache.size() == before + 1
    assert graph() is not None
    tensor = weakref.ref(edge_index)
    del edge_index
    gc.collect()
    assert tensor() is None
    assert graph() is None
    assert cache.size() == before


def test_new_tensor_at_a_reused_address_gets_its_own_graph():
    for number in range(200):
        edge_index = torch.tensor([[number % 5], [number % 3]])
        assert as_graph(edge_index, 5).edge_index.tolist() == edge_index.tolist()


def test_graphs_of_edges_from_inference_mode_are_cached_by_content(sorts):
    with torch.inference_mode():
        edge_index = torch.tensor([[0, 1], [1, 0]])
        assert as_graph(edge_index, 2) is as_graph(edge_index, 2)
        edge_index[0, 0] = 1
        assert as_graph(edge_index, 2).edge_index.tolist() == [[1, 1], [1, 0]]
    assert len(sorts) == 2
    normal = torch.tensor([[0, 1], [1, 0]])
    with torch.inference_mode():
        made_inside = as_graph(normal, 2)
        assert as_graph(normal, 2) is made_inside


@pytest.mark.parametrize("self_loops", [False, True])
def test_graph_from_inference_mode_can_be_used_in_training(self_loops):
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 1]])
    with torch.inference_mode():
        remembered = as_graph(edge_index, 2, self_loops=self_loops)
        inside = torch.tensor([[0, 1], [1, 0]])
        graphs = [
            remembered, remembered.transpose(), Graph(inside, 2), Graph(inside.int(), 2),
            gattn.graphs.causal([2]), gattn.graphs.band([2], 1),
        ]  # fmt: skip
        assert all(graph.layout for graph in graphs)
    assert as_graph(edge_index, 2, self_loops=self_loops) is remembered
    assert remembered.kept_edges is None or not remembered.kept_edges.is_inference()
    for graph in graphs:
        assert not any(tensor.is_inference() for tensor in graph.layout)
        x = torch.randn(2, 1, 4, requires_grad=True)
        gattn.functional.dot_product_attention(x, x, x, graph).sum().backward()
        assert x.grad is not None


@SPARSE
@ignore_beta
def test_graph_of_a_sparse_matrix_is_reused_until_its_indices_change(sorts, make, indices):
    adj_t = make(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    for _ in range(3):
        graph = as_graph(adj_t)
        assert as_graph(adj_t, (2, 2), self_loops=True).num_edges == 2
    # Edges are sorted three times: without a size, with a size, and with self-loops.
    assert len(sorts) == 3
    assert graph.edge_index.tolist() == [[1], [1]]
    indices(adj_t).numpy()[:] = 0  # torch does not count this write
    assert as_graph(adj_t).edge_index.sum() == 1
    assert as_graph(adj_t) is not graph
    assert as_graph(adj_t) is as_graph(adj_t)


@SPARSE
@ignore_beta
def test_cache_does_not_keep_a_sparse_matrix_alive(make, indices):
    gc.collect()  # free the tensors in reference cycles of earlier tests before counting
    before = cache.size()
    adj_t = make(torch.eye(3))
    graph = weakref.ref(as_graph(adj_t))
    assert cache.size() == before + 1
    del adj_t
    gc.collect()
    assert graph() is None
    assert cache.size() == before


def test_cache_evicts_old_values_that_belong_to_no_tensor():
    built = []

    def build(number):
        return cache.cached(None, ("a number", number), lambda: built.append(number) or number)

    for _ in range(3):
        assert [build(number) for number in range(4)] == list(range(4))
    assert built == list(range(4))
    for number in range(100):
        build(number)
    assert build(0) == 0
    assert built[-1] == 0  # The entry of the key 0 was evicted from the cache and then built again.


def test_concurrent_threads_read_the_values_of_their_keys_from_the_cache():
    errors, before = [], sys.getswitchinterval()

    def work(seed):
        try:
            for step in range(3000):
                number = (seed * 7 + step) % 20
                assert cache.cached(None, ("threads", number), lambda n=number: n) == number
        except Exception as error:
            errors.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors


def test_cached_last_stores_one_result_and_does_not_keep_its_key_alive():
    graph, other = (Graph(torch.tensor([[0], [1]]), 2) for _ in range(2))
    kinds, built = [torch.tensor([k]) for k in range(2)], []

    def build(kind, number=1):
        return cache.cached_last(graph, "test", (kind, other, number), lambda: built.append(1))

    for _ in range(2):
        build(kinds[0])
    assert len(built) == 1
    build(kinds[1])
    build(kinds[0])
    build(kinds[0], 2)
    assert len(built) == 4
    gone = weakref.ref(kinds[0])
    del kinds
    gc.collect()
    assert gone() is None
