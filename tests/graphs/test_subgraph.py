"""Subgraphs of the edges into a range of nodes contain the edges of the graph, renumbered."""

import pytest
import torch

from gattn import Graph
from gattn.graphs import band, in_subgraph
from gattn.testing import awkward_graphs


def test_subgraphs_of_successive_ranges_contain_every_edge_once():
    cases = [case for case in awkward_graphs() if case.size[0] == case.size[1]]
    assert len(cases) > 5
    for case in cases:
        n = case.size[1]
        graph = Graph(case.edge_index, case.size)
        bounds = sorted({0, n // 3, n // 2, n})
        parts = [(s, in_subgraph(graph, s, t)) for s, t in zip(bounds, [*bounds[1:], n])]
        seen = torch.cat([positions for _, (_, _, positions) in parts])
        assert seen.sort().values.tolist() == list(range(graph.num_edges)), case.name
        for start, (block, sources, positions) in parts:
            range_ = torch.arange(start, start + block.num_dst)
            assert torch.equal(sources[: block.num_dst], range_)
            assert len(sources) == block.num_src == len(sources.unique())
            used = torch.zeros(block.num_src, dtype=torch.bool)
            used[block.edge_index[0]] = True
            assert used[block.num_dst :].all()
            there = torch.stack([sources[block.edge_index[0]], block.edge_index[1] + start])
            assert torch.equal(there, graph.edge_index[:, positions]), case.name


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.tensor([[0], [1]]), 0, 1), TypeError, "graph must be a gattn.Graph"),
        ((band([4], 1), -1, 2), ValueError, "start must be >= 0; got -1"),
        ((band([4], 1), 0, 2.0), TypeError, "stop must be an int; got 2.0"),
        ((band([4], 1), 3, 2), ValueError, "start <= stop <= 4 must hold; got 3, 2"),
        ((band([4], 1), 3, 5), ValueError, "start <= stop <= 4 must hold; got 3, 5"),
        ((Graph(torch.tensor([[0], [1]]), (4, 3)), 0, 1), ValueError, "same nodes at both ends"),
    ],
)
def test_invalid_graph_or_range_of_in_subgraph_raises_error(arguments, error, message):
    with pytest.raises(error, match=message):
        in_subgraph(*arguments)
