"""Metrics compared with scikit-learn's, per target, with missing labels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from gattn.apps.fitting.metrics import (
    classification_metrics,
    multiclass_metrics,
    regression_metrics,
    undefined_metrics,
)
from gattn.apps.fitting.tasks import CLASSIFICATION, TASKS

SCALES = 1e-12, 1.0, 1e12
ONE_CLASS = dict.fromkeys(("roc_auc", "pr_auc"), "undefined: all 2 labels are of class 1")


def draw(seed: int, targets: int = 3, rows: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(rows, targets, generator=generator, dtype=torch.float64)
    p = y + torch.randn(rows, targets, generator=generator, dtype=torch.float64)
    y[torch.rand(rows, targets, generator=generator) < 0.3] = math.nan
    return y, p


@pytest.mark.parametrize("targets", [None, 1, 3])
@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("scale", SCALES)
def test_regression_metrics_equal_those_of_scikit_learn_for_each_scale_and_offset(
    scale, offset, targets
) -> None:
    """Labels have standard deviation ``scale`` and mean ``offset * scale``."""
    y, p = draw(5, targets or 1)
    y, p = (scale * (values + offset) for values in (y, p))
    if targets is None:
        y, p = y[:, 0], p[:, 0]
    columns = zip(y.reshape(len(y), -1).T, p.reshape(len(p), -1).T)
    each = [(a[~a.isnan()].numpy(), b[~a.isnan()].numpy()) for a, b in columns]
    scores = regression_metrics(y, p)
    assert scores["r2"] == pytest.approx(
        np.mean([metrics.r2_score(a, b) for a, b in each]), rel=1e-9
    )
    # The labels are not equal: an R² of equal labels would be outside these bounds.
    assert -3 < scores["r2"] < 0.9
    assert scores["rmse"] == pytest.approx(
        np.mean([metrics.root_mean_squared_error(a, b) for a, b in each]), rel=1e-9, abs=0
    )
    assert scores["mae"] == pytest.approx(
        np.mean([metrics.mean_absolute_error(a, b) for a, b in each]), rel=1e-9, abs=0
    )


@pytest.mark.parametrize("power", [-1000, -40, 0, 40, 1000])
def test_r2_has_the_same_bits_if_labels_and_predictions_are_scaled_by_a_power_of_two(power) -> None:
    """Scaling by a power of two changes only the exponents of floating-point numbers, even if their
    squares overflow float64.
    """
    y, p = draw(6, 2)
    one, other = regression_metrics(y, p), regression_metrics(y * 2.0**power, p * 2.0**power)
    assert other["r2"] == one["r2"]
    assert (other["rmse"] / 2.0**power, other["mae"] / 2.0**power) == (one["rmse"], one["mae"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 6))
def test_metrics_of_several_classes_equal_those_of_scikit_learn(seed, classes) -> None:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (50,), generator=generator)
    p = torch.randn(50, classes, generator=generator, dtype=torch.float64)
    p[:, -1] -= 3  # the last class is predicted rarely or never
    y[:classes] = torch.arange(classes)
    p = p.softmax(1)
    # Of two classes, scikit-learn scores the second one.
    first = 1 if classes == 2 else 0
    truth = torch.nn.functional.one_hot(y, classes).numpy()[:, first:]
    assert multiclass_metrics(y, p) == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(y, p.argmax(1)),
            "f1": metrics.f1_score(y, p.argmax(1), average="macro"),
            "roc_auc": metrics.roc_auc_score(truth, p.numpy()[:, first:], average="macro"),
            "pr_auc": metrics.average_precision_score(truth, p.numpy()[:, first:], average="macro"),
        },
        rel=1e-12,
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.sampled_from([2, 10, 1000]))
def test_classification_metrics_equal_those_of_scikit_learn(seed, targets, levels) -> None:
    y, p = draw(seed, targets)
    y = torch.where(y.isnan(), y, (y > 0.3).double())
    p = (torch.sigmoid(p) * levels).round() / levels  # rounding makes several probabilities equal
    result = classification_metrics(y, p)
    columns = [(a[~a.isnan()], b[~a.isnan()]) for a, b in zip(y.T, p.T)]
    both = [(a, b) for a, b in columns if len(a.unique()) == 2]
    expected = {
        "roc_auc": np.mean([metrics.roc_auc_score(a, b) for a, b in both]) if both else math.nan,
        "pr_auc": np.mean([metrics.average_precision_score(a, b) for a, b in both])
        if both
        else math.nan,
        "accuracy": np.mean([metrics.accuracy_score(a, b > 0.5) for a, b in columns]),
    }
    assert result == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_undefined_metrics_are_nan_and_left_out_of_means() -> None:
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


def test_each_metric_that_is_nan_has_a_reason_that_describes_the_labels() -> None:
    for y, task, reasons in (
        ([], "regression", dict.fromkeys(("rmse", "mae", "r2"), "undefined: there is no label")),
        ([1e-9], "regression", {"r2": "undefined: there is one label"}),
        ([1e-9] * 3, "regression", {"r2": "undefined: all 3 labels are 1e-09"}),
        ([1e-9, 2e-9], "regression", {}),
        ([1.0, 1.0, math.nan], "classification", ONE_CLASS),
        ([1.0, 0.0], "classification", {}),
    ):
        y = torch.tensor(y, dtype=torch.float64)
        measure = regression_metrics if task == "regression" else classification_metrics
        undefined = TASKS[task].undefined(y, ["y"], [(0, 1)] * (task == "classification"))
        assert undefined == reasons
        scores = measure(y, torch.full_like(y, 0.25))
        assert {name for name, value in scores.items() if math.isnan(value)} == set(reasons)


def test_reason_for_a_mean_over_some_targets_names_the_targets_without_the_metric() -> None:
    nan = math.nan
    y = torch.tensor([[0.1, 2.0, nan], [0.2, 2.0, nan]])
    undefined = undefined_metrics(y, ["rmse", "mae", "r2"], ["a", "b", "c"])
    assert undefined == {
        "rmse": "a mean over 2 of 3 targets, undefined for 'c' (there is no label)",
        "mae": "a mean over 2 of 3 targets, undefined for 'c' (there is no label)",
        "r2": "a mean over 1 of 3 targets, undefined for 'b' (all 2 labels are 2), "
        "'c' (there is no label)",
    }
    one_class = torch.zeros(2, 5)
    undefined = CLASSIFICATION.undefined(one_class, "abcde", [(0, 1)] * 5)
    assert list(undefined) == ["roc_auc", "pr_auc"]
    reason = undefined["pr_auc"]
    assert reason.startswith("undefined for all 5 targets: 'a' (all 2 labels are of class")
    assert reason.endswith(", 2 more")


def test_invalid_labels_or_predictions_of_a_metric_raise_error() -> None:
    with pytest.raises(ValueError, match="a measured value is infinite"):
        regression_metrics(torch.tensor([math.inf, 1.0]), torch.ones(2))
    with pytest.raises(ValueError, match=r"classes from 0 to 1; got \[0, 2\]"):
        multiclass_metrics(torch.tensor([0, 2]), torch.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"same shape, \[k\] or \[k, t\]; got \(3,\) and \(3, 1\)"):
        regression_metrics(torch.ones(3), torch.ones(3, 1))
    with pytest.raises(ValueError, match="not finite"):
        regression_metrics(torch.ones(1), torch.tensor([math.nan]))
    with pytest.raises(ValueError, match=r"labels must be 0, 1 or NaN; got \[2"):
        classification_metrics(torch.tensor([2.0]), torch.tensor([0.5]))
    with pytest.raises(ValueError, match=r"not in \[0, 1\]"):
        classification_metrics(torch.tensor([1.0]), torch.tensor([1.5]))
