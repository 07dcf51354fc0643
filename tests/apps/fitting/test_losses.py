"""Losses per element and class weights, compared with scikit-learn's and torch's."""

import math

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from gattn.apps.fitting.losses import class_weights, cross_entropy, squared_error


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_classes_are_those_of_scikit_learn(classes) -> None:
    y = torch.randint(classes, (50, 2), generator=torch.Generator().manual_seed(0)).double()
    y[::7, 0] = math.nan
    result = class_weights(y, classes=classes)
    for column, weights in zip(y.T, result.T, strict=True):
        labels = column[~column.isnan()].numpy()
        expected = compute_class_weight("balanced", classes=np.arange(classes), y=labels)
        np.testing.assert_allclose(weights, expected)
    assert class_weights(torch.zeros(4, 1)).tolist() == [[0.5], [2.0]]
    assert class_weights(torch.full((4, 1), math.nan)).tolist() == [[0.0], [0.0]]


def test_cross_entropy_is_that_of_the_probabilities() -> None:
    logits = torch.linspace(-4, 4, 12, dtype=torch.float64).reshape(6, 2)
    label = torch.tensor([[0.0, 1.0]] * 6, dtype=torch.float64)
    weights = torch.tensor([[0.5, 2.0], [3.0, 0.25]])
    p = torch.sigmoid(logits)
    expected = -(label * p.log() + (1 - label) * (1 - p).log())
    torch.testing.assert_close(cross_entropy()(logits, label), expected)
    weighted = expected * torch.tensor([0.5, 0.25])
    torch.testing.assert_close(cross_entropy(weights)(logits, label), weighted)


def test_squared_error() -> None:
    one, other = torch.randn(5, 2), torch.randn(5, 2)
    torch.testing.assert_close(squared_error(one, other), (one - other) ** 2)
