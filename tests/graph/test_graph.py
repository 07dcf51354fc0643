"""Graph as an object: immutability, repr, pickle, copies, self-loops."""

import copy
import pickle

import pytest
import torch

import gattn.graph.graph
import gattn.graphs
from gattn import Graph
from tests.graph.checks import CASES, assert_same_graph


def test_change_of_a_graph_attribute_raises_error():
    graph = Graph(torch.tensor([[0], [1]]), 2)
    for name in ("num_src", "layout", "mine"):
        with pytest.raises(AttributeError, match="a Graph is immutable"):
            setattr(graph, name, 3)
    with pytest.raises(AttributeError, match="a Graph is immutable"):
        del graph.num_src
    assert graph.size == (2, 2)


def test_graph_does_not_share_memory_with_the_callers_tensor():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = Graph(edge_index, 2)
    edge_index.zero_()
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


@CASES
def test_copies_pickles_and_moved_graphs_have_the_same_edges_as_the_original(case, tmp_path):
    graph = case.graph().with_self_loops()
    torch.save(graph, tmp_path / "graph.pt")
    loaded = torch.load(tmp_path / "graph.pt", weights_only=True)
    for again in (
        pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph), loaded,
        graph.to("cpu"), graph.to("meta"),
    ):  # fmt: skip
        assert again.size == graph.size
        assert (again.kept_edges is None) == (graph.kept_edges is None)
        if again.device.type != "meta":
            assert_same_graph(again, graph)
            assert graph.kept_edges is None or torch.equal(again.kept_edges, graph.kept_edges)
    assert graph.to("cpu") is graph
    assert graph.to("meta").device.type == "meta"


@pytest.mark.parametrize("build", [gattn.graphs.complete, gattn.graphs.causal])
def test_complete_and_causal_graphs_are_loaded_with_weights_only(build, tmp_path):
    torch.save(build([2, 3]), tmp_path / "graph.pt")
    loaded = torch.load(tmp_path / "graph.pt", weights_only=True)
    assert loaded.blocks == build([2, 3]).blocks
    assert_same_graph(loaded, build([2, 3]))


def test_pickle_with_invalid_indices_or_sizes_raises_error():
    """The indices that are read from a pickle are checked, so that no kernel reads out of
    bounds.
    """
    restore_edges = gattn.graph.graph._restore_edges
    restore_blocks = gattn.graph.graph._restore_blocks
    for restore, state, error in [
        (restore_edges, (torch.tensor([[9], [0]]), (2, 2), None, 0), r"in \[0, 2\)"),
        (restore_edges, (torch.tensor([[0], [0]]), (2, -2), None, 0), "size must be"),
        (restore_edges, (torch.tensor([[0], [0]]), (2, 2), None, -1), "offset from 0; got -1"),
        (
            restore_edges,
            (torch.tensor([[0, 0, 1], [1, 0, 1]]), (2, 2), torch.tensor([0, 99]), 0),
            "must contain 1 ascending positions",
        ),
        (restore_blocks, (((2,), (-3,), False), torch.empty(0)), "sizes of blocks"),
        (restore_blocks, (((2,), (3,), True), torch.empty(0)), "sizes of blocks"),
        (restore_blocks, (((2, 1), (3,), False), torch.empty(0)), "sizes of blocks"),
    ]:
        with pytest.raises(ValueError, match=error):
            restore(*state)


@CASES
def test_with_self_loops_gives_each_node_exactly_one_self_loop(case):
    graph = case.graph()
    looped = graph.with_self_loops()
    source, destination = case.edge_index
    nodes = torch.arange(min(case.size))
    rest = case.edge_index[:, source != destination]
    assert torch.equal(looped.edge_index, torch.cat([rest, nodes.expand(2, -1)], dim=1))
    assert looped.size == graph.size
    kept_rows = torch.arange(graph.num_edges) if looped.kept_edges is None else looped.kept_edges
    assert torch.equal(case.edge_index[:, kept_rows], rest)
    again = looped.with_self_loops()
    assert torch.equal(again.edge_index, looped.edge_index)
