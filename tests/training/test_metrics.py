"""Metrics beside scikit-learn's, target by target, with gaps."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from gattn.training.metrics import classification_metrics, regression_metrics


def draw(seed: int, targets: int = 3, rows: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(rows, targets, generator=generator, dtype=torch.float64)
    p = y + torch.randn(rows, targets, generator=generator, dtype=torch.float64)
    y[torch.rand(rows, targets, generator=generator) < 0.3] = math.nan
    return y, p


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_regression_is_that_of_scikit_learn(seed, targets) -> None:
    y, p = draw(seed, targets)
    found = regression_metrics(y, p)
    columns = [(a[~a.isnan()], b[~a.isnan()]) for a, b in zip(y.T, p.T)]
    wanted = {
        "rmse": np.mean([metrics.root_mean_squared_error(a, b) for a, b in columns]),
        "mae": np.mean([metrics.mean_absolute_error(a, b) for a, b in columns]),
        "r2": np.mean([metrics.r2_score(a, b) for a, b in columns]),
    }
    assert found == pytest.approx(wanted, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.sampled_from([2, 10, 1000]))
def test_classification_is_that_of_scikit_learn(seed, targets, levels) -> None:
    y, p = draw(seed, targets)
    y = torch.where(y.isnan(), y, (y > 0.3).double())
    p = (torch.sigmoid(p) * levels).round() / levels  # with ties
    found = classification_metrics(y, p)
    columns = [(a[~a.isnan()], b[~a.isnan()]) for a, b in zip(y.T, p.T)]
    both = [(a, b) for a, b in columns if len(a.unique()) == 2]
    wanted = {
        "roc_auc": np.mean([metrics.roc_auc_score(a, b) for a, b in both]) if both else math.nan,
        "pr_auc": np.mean([metrics.average_precision_score(a, b) for a, b in both])
        if both
        else math.nan,
        "accuracy": np.mean([metrics.accuracy_score(a, b > 0.5) for a, b in columns]),
    }
    assert found == pytest.approx(wanted, abs=1e-6, nan_ok=True)


def test_a_row_of_one_target_may_be_flat() -> None:
    y, p = draw(0, 1)
    assert regression_metrics(y[:, 0], p[:, 0]) == regression_metrics(y, p)


def test_what_is_not_defined_is_nan_and_left_out() -> None:
    nan = math.nan
    none = regression_metrics(torch.empty(0, 2), torch.empty(0, 2))
    assert all(map(math.isnan, none.values()))
    constant = regression_metrics(torch.ones(3), torch.tensor([1.0, 2.0, 3.0]))
    assert math.isnan(constant["r2"])
    assert constant["mae"] == 1.0
    y = torch.tensor([[0.0, nan], [1.0, nan]])
    p = torch.tensor([[0.0, nan], [2.0, nan]])
    assert regression_metrics(y, p) == regression_metrics(y[:, :1], p[:, :1])
    one_class = classification_metrics(torch.zeros(3), torch.tensor([0.1, 0.2, 0.7]))
    assert math.isnan(one_class["roc_auc"])
    assert math.isnan(one_class["pr_auc"])
    assert one_class["accuracy"] == pytest.approx(2 / 3)


def test_what_cannot_be_measured() -> None:
    with pytest.raises(ValueError, match=r"alike; got \(3,\) and \(3, 1\)"):
        regression_metrics(torch.ones(3), torch.ones(3, 1))
    with pytest.raises(ValueError, match="not finite"):
        regression_metrics(torch.ones(1), torch.tensor([math.nan]))
    with pytest.raises(ValueError, match=r"labels must be 0, 1 or NaN; got \[2"):
        classification_metrics(torch.tensor([2.0]), torch.tensor([0.5]))
    with pytest.raises(ValueError, match=r"not in \[0, 1\]"):
        classification_metrics(torch.tensor([1.0]), torch.tensor([1.5]))
