"""Graphs of NetworkX and SciPy."""

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_scipy_sparse_matrix, to_networkx

import gattn
from gattn import graphs
from gattn.testing import awkward_graphs
from tests.graphs.checks import pairs


def test_graph_from_to_networkx_has_the_same_edges_as_the_edge_index():
    for case in awkward_graphs():
        if case.bipartite:
            continue
        data = Data(edge_index=case.edge_index, num_nodes=case.size[0])
        graph = gattn.Graph(to_networkx(data, to_multi=True))
        assert graph.size == case.size
        assert sorted(pairs(graph)) == sorted(pairs(case.graph()))


WEIGHTED = [(0, 1, {"weight": 2.0, "kind": 7}), (1, 1, {"weight": 3.0}), (2, 1, {"weight": 4.0})]


@pytest.mark.parametrize("make", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph])
def test_edge_features_follow_the_order_of_edges_in_the_networkx_graph(make):
    stored = make(WEIGHTED)
    graph, weight = gattn.Graph(stored), graphs.edge_features(stored)
    assert weight.shape == (graph.num_edges, 1)
    order = list(stored.nodes)
    for (source, destination), actual in zip(pairs(graph), weight.flatten().tolist(), strict=True):
        ends = order[source], order[destination]
        assert actual == next(iter(w["weight"] for *e, w in WEIGHTED if set(e) == set(ends)))
    both = graphs.edge_features(stored, ["weight", "kind"], default=-1, dtype=torch.float64)
    assert both[:, 0].tolist() == weight.flatten().tolist()
    assert set(both[:, 1].tolist()) == {7.0, -1.0}
    with pytest.raises(ValueError, match=r"every edge must have 'kind' .*at edge \[1, 1\]"):
        graphs.edge_features(stored, "kind")
    stored.add_edge(2, 2, weight="heavy")
    with pytest.raises(TypeError, match=r"'weight' must be a number; got 'heavy' at edge \[2, 2\]"):
        graphs.edge_features(stored)
    assert graphs.edge_features(make()).shape == (0, 1)


def test_edge_features_of_a_scipy_matrix_are_its_values():
    stored = scipy.sparse.csr_array(np.array([[0.0, 5.0], [6.0, 7.0]]))
    graph, weight = gattn.Graph(stored), graphs.edge_features(stored)
    dense = torch.tensor(stored.toarray())
    source, destination = graph.edge_index
    assert weight.flatten().tolist() == dense[source, destination].tolist()
    with pytest.raises(TypeError, match="networkx graph or a SciPy matrix; got Tensor"):
        graphs.edge_features(torch.eye(2))


SCIPY = [
    scipy.sparse.coo_array, scipy.sparse.csr_array, scipy.sparse.csc_array,
    scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix,
]  # fmt: skip


@pytest.mark.parametrize("kind", SCIPY)
def test_scipy_matrix_has_the_same_edge_direction_as_in_networkx_and_pyg(kind):
    stored = networkx.DiGraph()
    stored.add_nodes_from(range(4))
    stored.add_weighted_edges_from([(2, 0, 5.0), (0, 1, 2.0), (0, 3, 3.0), (1, 2, 7.0), (3, 3, 1)])
    matrix = kind(networkx.to_scipy_sparse_array(stored))
    pairs, expected = from_scipy_sparse_matrix(matrix)
    graph, weight = gattn.Graph(matrix), graphs.edge_features(matrix)
    assert graph.edge_index.tolist() == pairs.tolist()
    assert weight.flatten().tolist() == expected.tolist()
    of_networkx = dict(zip(stored.edges, graphs.edge_features(stored).flatten().tolist()))
    of_matrix = dict(zip(zip(*graph.edge_index.tolist()), weight.flatten().tolist()))
    assert of_matrix == of_networkx


@pytest.mark.parametrize("kind", SCIPY)
def test_rectangular_scipy_matrix_has_a_row_for_each_source(kind):
    graph = gattn.Graph(kind(([1.0, 1.0], ([0, 2], [1, 0])), shape=(3, 2)))
    assert graph.size == (3, 2)
    assert sorted(zip(*graph.edge_index.tolist())) == [(0, 1), (2, 0)]
