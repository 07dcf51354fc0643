"""Inputs of Graph: edge indices, sparse matrices, NetworkX, SparseTensor, sizes."""

import networkx
import pytest
import scipy.sparse
import torch
from torch_geometric import EdgeIndex

import gattn.graphs
from gattn import Graph
from gattn import functional as F
from gattn.graph import as_graph
from tests.graph.checks import CASES, assert_same_graph


@CASES
def test_edge_tensors_edge_index_objects_and_sparse_matrices_give_equal_graphs(case):
    expected = case.graph()
    source, destination = case.edge_index
    num_src, num_dst = case.size
    ones = torch.ones(source.numel())
    assert_same_graph(Graph(case.edge_index.int(), case.size), expected)
    assert_same_graph(Graph(case.edge_index.t().contiguous().t(), case.size), expected)
    assert_same_graph(Graph(expected), expected)
    assert_same_graph(Graph(EdgeIndex(case.edge_index, sparse_size=case.size)), expected)
    coo = torch.sparse_coo_tensor(
        torch.stack([destination, source]), ones, (num_dst, num_src), check_invariants=True
    )
    assert_same_graph(Graph(coo), expected)
    scipy_coo = scipy.sparse.coo_array(
        (ones.numpy(), (source.numpy(), destination.numpy())), (num_src, num_dst)
    )
    assert_same_graph(Graph(scipy_coo), expected)
    unique = Graph(torch.unique(case.edge_index, dim=1), case.size)
    for matrix in (
        coo.coalesce(), scipy_coo.tocsr(), scipy_coo.tocsc(), scipy.sparse.csr_matrix(scipy_coo)
    ):  # fmt: skip
        got = Graph(matrix)
        assert got.size == case.size
        assert torch.equal(got.layout.col, unique.layout.col)
        assert torch.equal(got.layout.rowptr, unique.layout.rowptr)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:Sparse CSC:UserWarning")
@CASES
def test_csr_and_csc_matrices_give_the_graph_of_their_entries(case):
    source, destination = case.edge_index
    dense = torch.zeros(case.size[::-1])
    dense[destination, source] = 1
    unique = Graph(torch.unique(case.edge_index, dim=1), case.size)
    for matrix in (dense.to_sparse_csr(), dense.to_sparse_csc()):
        got = Graph(matrix)
        assert got.size == case.size
        assert torch.equal(got.layout.col, unique.layout.col)
        assert torch.equal(got.layout.rowptr, unique.layout.rowptr)


def test_sparse_matrix_has_edges_for_stored_zeros_and_rows_as_destinations():
    adj_t = torch.sparse_coo_tensor([[0, 0], [1, 2]], [0.0, 5.0], (1, 3), check_invariants=True)
    graph = Graph(adj_t)
    assert graph.size == (3, 1)
    assert graph.edge_index.tolist() == [[1, 2], [0, 0]]


def test_nodes_of_a_networkx_graph_are_numbered_in_the_order_of_the_graph():
    graph = Graph(networkx.DiGraph([("a", "b"), ("c", "a")]))
    assert graph.edge_index.tolist() == [[0, 2], [1, 0]]
    assert graph.size == (3, 3)
    assert Graph(networkx.empty_graph(4)).size == (4, 4)


class SparseTensor:
    """The methods of torch_sparse's SparseTensor that gattn calls."""

    def __init__(self, row, col, sizes):
        self.row, self.col, self.sizes = row, col, sizes

    def coo(self):
        return self.row, self.col, None

    def sparse_sizes(self):
        return self.sizes


def test_sparse_tensors_are_read_as_transposed_adjacencies():
    adj_t = SparseTensor(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), (2, 3))
    graph = Graph(adj_t)
    assert graph.size == (3, 2)
    assert graph.edge_index.tolist() == [[2, 0, 1], [0, 1, 1]]
    with pytest.raises(ValueError, match=r"size must be \(3, 2\)"):
        Graph(adj_t, 4)


def test_graph_size_is_by_default_the_largest_index_plus_one():
    assert Graph(torch.tensor([[0, 6], [1, 2]])).size == (7, 7)
    assert Graph(torch.empty(2, 0, dtype=torch.int64)).size == (0, 0)
    assert Graph(torch.tensor([[0], [1]]), (3, 5)).size == (3, 5)
    assert Graph(torch.tensor([[0], [1]]), [3, 5]).size == (3, 5)
    assert Graph(EdgeIndex([[0, 1], [1, 0]])).size == (2, 2)


def test_graph_under_torch_jit_trace_raises_error():
    """A trace would contain uninitialised memory in place of the layout."""
    edges, score = torch.tensor([[0, 1], [1, 1]]), torch.randn(2, 1)
    with pytest.raises(RuntimeError, match=r"gattn does not run under torch\.jit\.trace"):
        torch.jit.trace(lambda a, e: F.edge_softmax(a, Graph(e, 2)), (score, edges))


@pytest.mark.parametrize(
    "size", [-1, True, (3,), (3, 3, 3), (3, -1), "ab", 2.0, (2.0, 3), ((3, 3), 3)]
)
def test_invalid_size_of_a_graph_raises_error(size):
    with pytest.raises(ValueError, match=r"size must be num_nodes or \(num_src, num_dst\)"):
        Graph(torch.tensor([[0], [1]]), size)


def test_graph_size_other_than_that_of_the_edges_raises_error():
    with pytest.raises(ValueError, match=r"size must be \(3, 2\), the size of the edges; got"):
        Graph(torch.zeros(2, 3).to_sparse(), 3)
    graph = Graph(torch.tensor([[0], [1]]), 3)
    for make in (Graph, as_graph):
        assert_same_graph(make(graph, (3, 3)), graph)
        with pytest.raises(ValueError, match=r"size must be \(3, 3\), the size of Graph"):
            make(graph, 4)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_default_device_of_torch_does_not_change_graphs(device):
    edges = torch.tensor([[0, 1], [1, 1]])
    with torch.device(device):
        graph = Graph(edges, 2)
        blocks = gattn.graphs.causal([2, 1], device="cpu").edge_index
    assert_same_graph(graph, Graph(edges, 2))
    assert blocks.tolist() == [[0, 0, 1, 2], [0, 1, 1, 2]]
