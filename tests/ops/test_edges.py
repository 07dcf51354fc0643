"""edge_softmax, aggregate, edge_dot: the C++ kernels against the reference and float64."""

import pytest
import torch

from gattn import Graph
from gattn.functional import aggregate, edge_dot, edge_softmax


def test_aggregate_and_edge_dot_equal_dense_matrix_products():
    """Without repeated edges, ``aggregate`` is the product of the weighted adjacency matrix and v,
    and the results of ``edge_dot`` are entries of q k^T.
    """
    generator = torch.Generator().manual_seed(0)
    pairs = torch.cartesian_prod(torch.arange(4), torch.arange(6))[torch.randperm(24)[:15]].t()
    graph = Graph(pairs, (4, 6))
    weight, value, query = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((15, 2), (4, 2, 3), (6, 2, 3))
    )
    dense = torch.zeros(6, 4, 2, dtype=torch.float64)
    dense[pairs[1], pairs[0]] = weight
    expected = torch.einsum("nmh,mhc->nhc", dense, value)
    torch.testing.assert_close(aggregate(weight, value, graph), expected)
    scores = torch.einsum("nhc,mhc->nmh", query, value)[pairs[1], pairs[0]]
    torch.testing.assert_close(edge_dot(query, value, graph), scores)


@pytest.mark.parametrize("heads", [0, 2])
def test_aggregate_has_as_many_heads_as_the_weights_including_zero(heads):
    graph = Graph(torch.tensor([[0, 1], [1, 1]]), 2)
    weight = torch.ones(2, heads, requires_grad=True)
    value = torch.ones(2, 2, 3, requires_grad=True)
    out = aggregate(weight, value, graph)
    assert out.shape == (2, heads, 3)
    out.sum().backward()
    assert value.grad is not None
    assert value.grad.sum() == 6 * heads


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_softmax_gradients_are_near_zero_if_all_weights_have_equal_gradients(dtype):
    score = torch.randn(33, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    graph = Graph(torch.stack([torch.arange(33), torch.zeros(33, dtype=torch.long)]), (33, 1))
    score.requires_grad_()
    edge_softmax(score, graph).sum().backward()
    assert score.grad.abs().max() < 1e-6
