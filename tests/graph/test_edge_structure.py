"""Tests of the interface that a whole graph and a part of a distributed graph share."""

import torch

from gattn.distributed import Partition
from gattn.graph import EdgeStructure, Graph
from tests.distributed.emulation import parts_of

EDGES = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 2, 0, 0]])


def use_every_member(graph: EdgeStructure) -> tuple[int, int, int]:
    """Use every member of the interface and check that the results agree with each other."""
    assert isinstance(graph, EdgeStructure)
    assert graph.size == (graph.num_src, graph.num_dst)
    assert graph.device.type == "cpu"
    assert graph.kept_edges is None
    assert graph.in_degree().shape == (graph.num_dst,)
    assert int(graph.in_degree().sum()) == graph.num_edges
    assert graph.incidence().size == (graph.num_edges, graph.num_dst)
    local, (rows,) = graph.fetch_source_rows(torch.ones(graph.num_src, 1))
    assert local.size == (rows.shape[0], graph.num_dst)
    looped = graph.with_self_loops()
    return graph.num_dst, graph.num_edges, looped.num_edges


def test_graph_and_distributed_graph_have_the_interface():
    whole = use_every_member(Graph(EDGES, 4))
    assert whole == (4, 5, 8)
    parts = parts_of(EDGES, Partition.contiguous(4, 2), use_every_member)
    assert len(parts) == 2
    assert tuple(map(sum, zip(*parts, strict=True))) == whole
