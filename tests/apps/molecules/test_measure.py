"""Coverage of prediction intervals of several targets."""

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs.measure import measure_intervals


def test_coverage_of_intervals_is_measured_for_each_target():
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
