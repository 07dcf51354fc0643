import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE

from gattn.structure import return_probabilities

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 2, 4, 4, 4], [1, 0, 2, 1, 3, 2, 4, 2, 4, 0]])
WEIGHT = torch.rand(10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MATRIX = torch.zeros(6, 6, dtype=torch.float64).index_put(tuple(EDGES), WEIGHT)
WALK = MATRIX / MATRIX.sum(1, keepdim=True).clamp(min=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_return_probabilities_are_diagonals_of_powers_of_the_transition_matrix(steps):
    powers = [torch.linalg.matrix_power(WALK, step).diagonal() for step in range(1, steps + 1)]
    actual = return_probabilities(EDGES, 6, steps=steps, edge_weight=WEIGHT)
    torch.testing.assert_close(actual.double(), torch.stack(powers, dim=1), rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")  # PyG creates a sparse CSR matrix
def test_return_probabilities_equal_those_of_pyg():
    expected = AddRandomWalkPE(7)(Data(edge_index=EDGES, num_nodes=5)).random_walk_pe
    torch.testing.assert_close(return_probabilities(EDGES, 5, steps=7), expected)


def test_return_probabilities_of_20000_nodes_need_no_dense_matrix():
    """A chain of 20,000 nodes would take 3 GB as a dense matrix."""
    nodes = 20_000
    ahead = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    edges = torch.cat([ahead, ahead.flip(0)], dim=1)
    actual = return_probabilities(edges, nodes, steps=4)
    torch.testing.assert_close(actual[nodes // 2], torch.tensor([0, 0.5, 0, 0.375]))


def test_invalid_steps_nodes_or_weights_of_return_probabilities_raise_error():
    with pytest.raises(ValueError, match="steps must be >= 1; got 0"):
        return_probabilities(EDGES, 5, steps=0)
    with pytest.raises(ValueError, match="edges must have the same nodes"):
        return_probabilities(EDGES, (5, 6), steps=2)
    with pytest.raises(ValueError, match=r"edge_weight must be \(10,\) values >= 0"):
        return_probabilities(EDGES, 5, steps=2, edge_weight=torch.ones(4))
