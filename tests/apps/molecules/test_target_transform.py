"""Transforms of targets: exact inverses, intervals, domains, and models that use them."""

import math

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.loading import load_model
from gattn.apps.molecules.target_transform import TargetTransform, check_domain

SMILES = [f"{'C' * n}{end}" for n in range(1, 31) for end in ("O", "N", "C(=O)O")]
LOGS = np.array([0.2 * n - 2 + 0.3 * i for n in range(1, 31) for i in range(3)])


def test_target_transforms_equal_numpy_and_their_slopes_equal_autograd():
    y = torch.tensor([0.3, 0.02, 0.999], dtype=torch.float64)
    values = y.numpy()
    logits = np.log(values / (1 - values))
    for name, expected in (("none", values), ("log10", np.log10(values)), ("logit", logits)):
        transform = TargetTransform(name)
        z = transform(y)
        np.testing.assert_allclose(z, expected, rtol=1e-12)
        np.testing.assert_allclose(transform.inverse(z), y, rtol=1e-12)
        leaf = y.clone().requires_grad_()
        (slope,) = torch.autograd.grad(transform(leaf).sum(), leaf)
        np.testing.assert_allclose(transform.slope(y), slope, rtol=1e-12)


def test_labels_outside_the_domain_of_a_target_transform_raise_error():
    for name, labels, message in (
        ("log10", [1.0, 0.0, -2.0], "2 labels are not, the first 0.0 in row 1"),
        ("logit", [0.5, 1.0], "1 label is not, the first 1.0 in row 1"),
        ("logit", [0.5, 45.0], "divide percentages by 100"),
    ):
        with pytest.raises(ValueError, match=message):
            check_domain(name, np.array(labels), "y", "in row {}".format)


def test_model_with_transform_log10_equals_a_model_of_the_logarithms(tmp_path):
    kind = {"model": "gp", "seed": 3}
    plain = MoleculeRegressor(**kind).fit(SMILES, LOGS)
    model = MoleculeRegressor(target_transform="log10", **kind).fit(SMILES, 10**LOGS)
    new = ["CCCCCO", "CCCCCCCCN", "C" * 300 + "O", "c1ccccc1"]
    mean, std = plain.predict(new, return_std=True)
    again, error = model.predict(new, return_std=True)
    np.testing.assert_allclose(again, 10**mean, rtol=1e-6)
    np.testing.assert_allclose(error, std * 10**mean * math.log(10), rtol=1e-5)
    low, high = plain.predict_interval(new)
    log_low, log_high = model.predict_interval(new)
    np.testing.assert_allclose(log_low, 10**low, rtol=1e-5)
    np.testing.assert_allclose(log_high, 10**high, rtol=1e-5)
    assert (log_low > 0).all()
    model.save(tmp_path)
    assert load_model(tmp_path)[0].scale_of(0) == "log10(y)"
    explanation = model.explain(new[:1])[0]
    assert explanation is not None
    assert explanation.prediction == pytest.approx(again[0], rel=1e-4)
    assert explanation.std == pytest.approx(error[0], rel=1e-4)
    assert explanation.value == pytest.approx(mean[0], abs=1e-5)


def test_target_transform_applies_to_censored_labels():
    labels = [f">{10**1.5:.6f}" if value > 1.5 else f"{10**value:.6f}" for value in LOGS]
    limits = [">1.5" if value > 1.5 else f"{value:.9f}" for value in LOGS]
    kind = {"model": "gp", "loss_function": "bounded-mse"}
    model = MoleculeRegressor(target_transform="log10", **kind).fit(SMILES, labels)
    plain = MoleculeRegressor(**kind).fit(SMILES, limits)
    new = ["CCCCCO", "C" * 28 + "N"]
    np.testing.assert_allclose(np.log10(model.predict(new)), plain.predict(new), atol=1e-3)
