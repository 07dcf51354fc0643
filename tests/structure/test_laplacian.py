import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

from gattn import Graph, graphs
from gattn.structure import laplacian, laplacian_eigenvectors


@pytest.fixture(autouse=True)
def _fp64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _both_ways(pairs):
    edges = torch.tensor(pairs).t()
    return torch.cat([edges, edges.flip(0)], dim=1)


def _ring(n):
    return torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])


def _matrix(graph):
    """Return the normalised Laplacian as a dense matrix."""
    nodes = graph.num_src
    adjacency = torch.zeros(nodes, nodes)
    source, destination = graph.edge_index
    adjacency[destination, source] = adjacency[source, destination] = 1
    adjacency.fill_diagonal_(0)
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
    return torch.diag((degree > 0).double()) - scale[:, None] * adjacency * scale


TREE = _both_ways([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (5, 6), (2, 7)])


def test_they_are_eigenvectors_in_ascending_order():
    graph = Graph(TREE, 8)
    vectors = laplacian_eigenvectors(graph, k=5)
    matrix = _matrix(graph)
    value = (vectors * (matrix @ vectors)).sum(0)
    torch.testing.assert_close(matrix @ vectors, vectors * value)
    torch.testing.assert_close(vectors.t() @ vectors, torch.eye(5))
    torch.testing.assert_close(value, torch.linalg.eigvalsh(matrix)[1:6])


def test_pyg_agrees_up_to_signs():
    theirs = AddLaplacianEigenvectorPE(3, is_undirected=True)
    expected = theirs(Data(edge_index=TREE, num_nodes=8)).laplacian_eigenvector_pe
    actual = laplacian_eigenvectors(TREE, 8, k=3)
    torch.testing.assert_close(actual.abs(), expected.abs().double(), atol=1e-5, rtol=0)


def test_batch_gives_what_each_graph_gives_alone():
    parts = [(TREE, 8), (_ring(5), 5), (torch.empty(2, 0).long(), 1), (_ring(5), 5)]
    batch, start = [], 0
    for edges, nodes in parts:
        batch.append(edges + start)
        start += nodes
    together = laplacian_eigenvectors(torch.cat(batch, dim=1), start, k=4)
    alone = torch.cat([laplacian_eigenvectors(edges, nodes, k=4) for edges, nodes in parts])
    assert torch.equal(together, alone)


def test_small_graphs_are_padded():
    vectors = laplacian_eigenvectors(_ring(3), 5, k=6)
    assert vectors.shape == (5, 6)
    assert vectors[:3, :2].abs().sum() > 0
    assert torch.equal(vectors[:3, 2:], torch.zeros(3, 4))
    assert torch.equal(vectors[3:], torch.zeros(2, 6))  # Nodes 3 and 4 have no edges.
    assert laplacian_eigenvectors(torch.empty(2, 0).long(), 0, k=2).shape == (0, 2)


@pytest.mark.parametrize("graph", [Graph(_ring(12), 12), graphs.grid((4, 5), 1)])
def test_both_solvers_choose_the_same_vectors(graph, monkeypatch):
    """Both solvers choose the same eigenvectors even if eigenvalues are equal, as most eigenvalues
    of a ring are.
    """
    expected = laplacian_eigenvectors(graph, k=4)
    monkeypatch.setattr(laplacian, "DENSE_LIMIT", 5)
    actual = laplacian_eigenvectors(graph, k=4)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)
    assert torch.equal(laplacian_eigenvectors(graph, k=4), actual)


def test_weights():
    weight = torch.rand(TREE.shape[1] // 2, generator=torch.Generator().manual_seed(0)).repeat(2)
    vectors = laplacian_eigenvectors(TREE, 8, k=3, edge_weight=weight)
    dense = torch.zeros(8, 8)
    dense[TREE[0], TREE[1]] = weight
    scale = dense.sum(1).rsqrt()
    matrix = torch.eye(8) - scale[:, None] * dense * scale
    torch.testing.assert_close(matrix @ vectors, vectors * (vectors * (matrix @ vectors)).sum(0))
    assert not torch.allclose(vectors, laplacian_eigenvectors(TREE, 8, k=3))


def test_bad_input_gets_one_clear_error(monkeypatch):
    with pytest.raises(ValueError, match="k must be >= 1; got 0"):
        laplacian_eigenvectors(TREE, 8, k=0)
    with pytest.raises(ValueError, match="edges must have the same nodes"):
        laplacian_eigenvectors(TREE, (8, 9), k=2)
    with pytest.raises(ValueError, match=r"edge_weight must have shape \(14,\); got \(3,\)"):
        laplacian_eigenvectors(TREE, 8, k=2, edge_weight=torch.ones(3))
    with pytest.raises(ValueError, match="edge_weight must be >= 0; got -1"):
        laplacian_eigenvectors(TREE, 8, k=2, edge_weight=-torch.ones(14))


def test_eigenvector_basis_is_the_same_for_any_basis_of_the_eigenspace():
    _, vector = torch.linalg.eigh(_matrix(Graph(_ring(12), 12)))
    turned = vector[:, 1:3] @ torch.linalg.qr(torch.tensor([[1.0, 2.0], [3.0, -1.0]])).Q
    expected = torch.stack(laplacian._basis(vector[:, 1:3]), dim=1)
    torch.testing.assert_close(torch.stack(laplacian._basis(turned), dim=1), expected)
