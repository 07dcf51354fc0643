import pytest
import torch

from gattn import Graph
from gattn.nn import (
    LaplacianEncoding,
    RandomWalkEncoding,
    SinusoidalEncoding,
)
from gattn.structure import laplacian_eigenvectors, return_probabilities

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_sinusoidal_is_its_equation():
    encoded = SinusoidalEncoding(6, max_period=100.0)(torch.tensor([0.0, 3.0, 7.5]))
    for row, x in enumerate((0.0, 3.0, 7.5)):
        for t in range(3):
            angle = torch.tensor(x * 100.0 ** (-2 * t / 6))
            torch.testing.assert_close(encoded[row, 2 * t], angle.sin())
            torch.testing.assert_close(encoded[row, 2 * t + 1], angle.cos())


def test_sinusoidal_on_several_axes():
    position = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    encoded = SinusoidalEncoding(8, axes=2)(position)
    single = SinusoidalEncoding(4)
    assert torch.equal(encoded, torch.cat([single(position[:, 0]), single(position[:, 1])], dim=1))
    assert SinusoidalEncoding(8)(position[:, 0].double()).dtype == torch.float64
    with pytest.raises(ValueError, match="channels must be a multiple of 4; got 6"):
        SinusoidalEncoding(6, axes=2)
    with pytest.raises(ValueError, match=r"position must have shape \(n, 2\); got \(12,\)"):
        SinusoidalEncoding(8, axes=2)(position[:, 0])


def test_laplacian_flips_signs_in_training_only():
    torch.manual_seed(0)
    encoding = LaplacianEncoding(2, 3)
    vectors = laplacian_eigenvectors(EDGES, 3, k=2)
    seen = {tuple(encoding(EDGES, 3).detach().flatten().tolist()) for _ in range(30)}
    assert len(seen) == 4
    encoding.eval()
    expected = encoding.lin(vectors)
    assert torch.equal(encoding(EDGES, 3), expected)
    assert torch.equal(encoding.encode(vectors), expected)


def test_random_walk():
    encoding = RandomWalkEncoding(4, 3)
    probabilities = return_probabilities(EDGES, 3, steps=4)
    assert torch.equal(encoding(EDGES, 3), encoding.lin(probabilities))
    assert torch.equal(encoding.encode(probabilities), encoding.lin(probabilities))


@pytest.mark.parametrize(
    ("encoding", "function"),
    [
        (LaplacianEncoding(2, 3), "laplacian_eigenvectors"),
        (RandomWalkEncoding(2, 3), "return_probabilities"),
    ],
)
def test_structure_is_computed_once_per_graph(encoding, function, monkeypatch):
    graph = Graph(EDGES, 3)
    expected = encoding.eval()(graph)
    monkeypatch.setattr(f"gattn.nn.encoding.positional.{function}", None)
    assert torch.equal(encoding(graph), expected)
