"""Coverage of intervals and label sets, compared with hand counts."""

import math

import pytest
import torch

from gattn.apps.run.measure import interval_metrics, set_metrics

NAN = math.nan


def test_interval_metrics_ignore_rows_without_labels():
    y = torch.tensor([[0.0, 5.0], [2.0, NAN], [9.0, NAN]])
    lower, upper = torch.zeros(3, 2), torch.tensor([[1.0, 4.0], [3.0, 100.0], [5.0, 100.0]])
    metrics = interval_metrics(y, lower, upper, 0.8)
    assert metrics == {"coverage": 0.8, "held": 0.5, "mean_width": (9 / 3 + 4) / 2, "rows": 3}


def test_set_metrics_ignore_rows_without_labels():
    y = torch.tensor([[0.0], [1.0], [NAN], [2.0]])
    sets = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0]]).bool()[:, None]
    metrics = set_metrics(y, sets, 0.9, ["b"])
    assert metrics == {
        "coverage": 0.9, "held": pytest.approx(2 / 3), "mean_size": pytest.approx(5 / 3),
        "classes_in_every_set": ["b"], "rows": 3,
    }  # fmt: skip
