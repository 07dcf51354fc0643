"""Losses per element, compared with their definitions."""

import torch

from gattn.apps.fitting.losses import cross_entropy, squared_error


def test_cross_entropy_is_that_of_the_probabilities() -> None:
    logits = torch.linspace(-4, 4, 12, dtype=torch.float64).reshape(6, 2)
    label = torch.tensor([[0.0, 1.0]] * 6, dtype=torch.float64)
    p = torch.sigmoid(logits)
    expected = -(label * p.log() + (1 - label) * (1 - p).log())
    torch.testing.assert_close(cross_entropy(logits, label), expected)


def test_squared_error() -> None:
    one, other = torch.randn(5, 2), torch.randn(5, 2)
    torch.testing.assert_close(squared_error(one, other), (one - other) ** 2)
