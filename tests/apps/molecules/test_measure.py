"""Metrics of the parts of a table, and the metric of a search for settings."""

from math import nan

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.runs.measure import measure_intervals, tuning_metric


def classifier(classes):
    model = MoleculeClassifier()
    model.targets_ = ["toxic", "soluble"]
    model.classes_, model.single_target_ = [np.arange(count) for count in classes], False
    return model


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        ([[0.0, 1.0], [1.0, 1.0]], ""),
        ([[0.0, nan], [1.0, nan]], ""),
        ([[0.0, 1.0], [0.0, 1.0]], "undefined for all 2 targets: 'toxic' (all 2 labels are of"),
    ],
)
def test_a_search_needs_one_target_with_both_classes(y, reason):
    metric, text = tuning_metric(classifier((2, 2)), torch.tensor(y))
    assert metric == "roc_auc"
    assert text.startswith(reason)
    assert bool(text) == bool(reason)


def test_a_search_of_numbers_or_several_classes_needs_a_label():
    model = MoleculeRegressor()
    model.targets_ = ["logS"]
    assert tuning_metric(model, torch.tensor([[2.0], [nan]])) == ("rmse", "")
    absent = torch.full((2, 1), nan)
    assert tuning_metric(model, absent) == ("rmse", "undefined: there is no label")
    several = classifier((3, 2))
    assert tuning_metric(several, torch.tensor([[2.0, nan]])) == ("log_loss", "")
    assert tuning_metric(several, absent) == ("log_loss", "undefined: there is no label")


def test_several_targets_have_a_coverage_each():
    smiles = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]
    y = np.stack([np.arange(30.0), np.arange(30.0) % 7], axis=1)
    model = MoleculeRegressor(model="gp").fit(smiles, y)
    predicted = model.predictor_.predict(model.featurise(smiles).inputs)
    labels = torch.tensor(y)
    labels[:, 1] += 1e6
    intervals = measure_intervals(model, labels, predicted, 0.5)
    first, second = intervals["by_target"].values()
    assert (first > 0.4, second) == (True, 0)
    assert intervals["held"] == pytest.approx(first / 2)
