"""Features in a sparse matrix: their product and their dropout."""

import pytest
import torch
from torch.nn import Linear

from gattn.graph import as_graph
from gattn.nn import SparseDropout
from gattn.nn.common.features import project
from gattn.ops import sparse_features
from gattn.ops.registration.backend import why_not

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.skipif(bool(why_not("cpu", "cpu")), reason="the C++ kernels are not built"),
]


def sparse(n, d, dtype=torch.float64, layout=torch.sparse_csr):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    x[torch.rand(n, d, generator=generator) < 0.7] = 0
    return x.to(dtype).to_sparse(layout=layout)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(40, 30), (1, 30), (40, 1), (0, 30)])
def test_linear_projection_of_sparse_features_equals_that_of_dense_features(layout, bias, shape):
    x, linear = sparse(*shape, layout=layout), Linear(shape[1], 5, bias=bias, dtype=torch.float64)
    assert sparse_features.is_sum_over_edges(x, linear.weight)
    got, expected = project(linear, x), linear(x.to_dense())
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    weights = list(linear.parameters())
    grads = (torch.autograd.grad(out.square().sum(), weights) for out in (got, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_sparse_features_share_one_graph_with_and_without_dropout():
    for layout in (torch.sparse_csr, torch.sparse_coo):
        x = sparse(40, 30, layout=layout)
        dropped = SparseDropout(0.5)(x)
        assert as_graph(dropped) is as_graph(x)
        torch.testing.assert_close(as_graph(x).edge_index.flip(0), x.to_sparse_coo().indices())


def test_sparse_features_with_requires_grad_get_the_gradient_of_the_closed_form():
    x = sparse(10, 8, layout=torch.sparse_coo).requires_grad_()
    linear = Linear(8, 3, dtype=torch.float64)
    assert not sparse_features.is_sum_over_edges(x, linear.weight)
    project(linear, x).sum().backward()
    expected = linear.weight.sum(0).expand(10, 8)
    torch.testing.assert_close(x.grad.to_dense()[x.to_dense() != 0], expected[x.to_dense() != 0])


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_sparse_features_of_wrong_width_or_dtype_raise_error(layout):
    linear = Linear(8, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"x must have 8 features; got shape \(10, 9\)"):
        project(linear, sparse(10, 9, layout=layout))
    with pytest.raises(TypeError, match=r"x must be .*float64, like the layer; got .*float32"):
        project(linear, sparse(10, 8, torch.float32, layout))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_compiled_projection_of_sparse_features_equals_that_of_dense_features(layout):
    x, linear = sparse(20, 8, torch.float32, layout), Linear(8, 3)
    drop = SparseDropout(0.5)

    def forward(x):
        return project(linear, drop(x)), project(linear, x)

    dropped, whole = torch.compile(forward, backend="aot_eager")(x)
    torch.testing.assert_close(whole, linear(x.to_dense()))
    assert dropped.shape == whole.shape
    assert not torch.equal(dropped, whole)
