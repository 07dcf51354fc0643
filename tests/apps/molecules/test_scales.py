"""Another unit of the labels scales predictions by a factor and leaves scores unchanged."""

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

from gattn.apps.fitting.metrics import regression_metrics
from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs.measure import measure_baselines, measure_intervals

SMILES = [f"{'C' * n}{end}" for n in range(1, 21) for end in ("O", "N", "Cl")]
TRAIN, VAL, TEST = (torch.arange(start, len(SMILES), 3) for start in range(3))
LABELS = np.random.default_rng(0).normal(0.1 * np.arange(len(SMILES)), 0.5)
GP = {"model": "gp", "workers": 1}


def fitted(labels, **settings):
    """Fit a model; return its predictions for the test part, and the numbers that the report of a
    run contains.
    """
    model = MoleculeRegressor(**{"workers": 1, **settings})
    labelled = model.read(SMILES, labels)
    model.fit_labelled(labelled[TRAIN], labelled[VAL])
    prediction, test = model.predictor_.predict(labelled[TEST].inputs), labelled[TEST]
    return (
        prediction,
        regression_metrics(test.y, prediction.mean),
        measure_baselines(model, labelled[TRAIN], test, prediction, 0),
        measure_intervals(model, test.y, prediction, 0.8),
        test.y,
    )


@pytest.fixture(scope="module")
def of_one():
    return fitted(LABELS, **GP)


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-3, 1e6, 1e12])
def test_predictions_and_metrics_scale_with_the_unit_of_the_labels(of_one, scale) -> None:
    prediction, scores, baselines, intervals, _ = of_one
    other, other_scores, other_baselines, other_intervals, y = fitted(scale * LABELS, **GP)
    torch.testing.assert_close(other.mean / scale, prediction.mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(other.std / scale, prediction.std, rtol=1e-6, atol=0)
    assert other_scores["r2"] == pytest.approx(scores["r2"], rel=1e-6)
    assert other_scores["r2"] == pytest.approx(r2_score(y, other.mean), rel=1e-9)
    assert other_scores["rmse"] / scale == pytest.approx(scores["rmse"], rel=1e-6)
    assert other_baselines["mean"]["r2"] == pytest.approx(baselines["mean"]["r2"], rel=1e-6)
    assert baselines["mean"]["r2"] < 0.1 < baselines["kernel_ridge"]["r2"] < 0.99
    assert other_intervals["held"] == intervals["held"]
    assert other_intervals["mean_width"] / scale == pytest.approx(intervals["mean_width"], rel=1e-6)


def test_scale_of_labels_is_one_only_if_all_values_are_equal_or_missing() -> None:
    nan = float("nan")
    values = torch.tensor(
        [[0.1, 1e6, 1e-200, nan], [0.1, 1e6 + 1e-3, 3e-200, nan], [0.1, nan, nan, nan]],
        dtype=torch.float64,
    )
    mean, scale = moments(values)
    assert mean[0] == 0.1
    assert scale[[0, 3]].tolist() == [1.0, 1.0]
    assert scale[1].item() == pytest.approx(5e-4, rel=1e-6)
    assert scale[2].item() == pytest.approx(1e-200, rel=1e-12)
    assert mean[3].isnan()
