"""Small data set and small network for the training tests and their scripts."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn


class Points:
    """Data set of points with two targets that are linear functions of the points; every third
    value of the second target is missing.
    """

    def __init__(self, items: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(items, 4, generator=generator)
        self.y = (self.x @ torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 1.0]])).double()
        self.y[::3, 1] = float("nan")

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, positions: Tensor) -> tuple[Tensor, Tensor, None]:
        return self.x[positions], self.y[positions], None


def network(dropout: float = 0.1) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


def squared(output: Tensor, target: Tensor) -> Tensor:
    return (output - target) ** 2


def same(one: nn.Module, other: nn.Module) -> bool:
    """Return True if two networks have the same weights, bit for bit."""
    pairs = zip(one.state_dict().values(), other.state_dict().values())
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.fixture
def toy() -> SimpleNamespace:
    parts = {"train": Points(150, 0), "val": Points(40, 1)}
    return SimpleNamespace(points=Points, network=network, squared=squared, same=same, **parts)
