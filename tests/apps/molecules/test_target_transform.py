"""Transforms of targets: exact inverses, intervals, domains, and models that use them."""

import math

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.loading import load_model
from gattn.apps.molecules.target_transform import (
    TargetTransform,
    TransformedIntervals,
    check_domain,
    choose,
    restore_intervals,
)

SMILES = [f"{'C' * n}{end}" for n in range(1, 31) for end in ("O", "N", "C(=O)O")]
LOGS = np.array([0.2 * n - 2 + 0.3 * i for n in range(1, 31) for i in range(3)])


def test_transforms_and_slopes_are_those_of_autograd():
    transform = TargetTransform(("none", "log10", "logit"))
    y = torch.tensor([[-3.0, 0.02, 0.3], [5.0, 4e5, 0.999]], dtype=torch.float64)
    z = transform(y)
    a, b, c = y.numpy().T
    expected = np.stack([a, np.log10(b), np.log(c / (1 - c))], 1)
    np.testing.assert_allclose(z, expected, rtol=1e-12)
    np.testing.assert_allclose(transform.inverse(z), y, rtol=1e-12)
    leaf = y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(transform(leaf).sum(), leaf)
    np.testing.assert_allclose(transform.slope(y), slope, rtol=1e-12)
    assert TargetTransform.from_codes(transform.codes).names == transform.names


def test_limits_at_the_ends_of_the_domain_are_infinite():
    transform = TargetTransform(("log10", "logit"))
    bounds = torch.tensor([[[-math.inf, 10.0], [0.5, math.inf]], [[0.0, 1.0], [0.0, 1.0]]])
    limits = transform.limits(bounds.double())
    assert limits[0].tolist() == [[-math.inf, 1.0], [0.0, math.inf]]
    assert limits[1].tolist() == [[-math.inf, 0.0], [-math.inf, math.inf]]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ([10.0**n for n in range(-3, 4)], "log10"),
        ([0.1, 0.4, 0.6, 0.9], "logit"),
        ([5.1, 6.2, 7.5, 8.0], "none"),
        ([-1.0, 100.0, 1000.0], "none"),
        ([0.0, 0.5, 0.7], "none"),
        ([1.0, 50.0, 70.0, 99.0, 100.0, 101.0], "none"),
    ],
)
def test_auto_chooses_by_the_labels(labels, name):
    assert choose("auto", torch.tensor(labels).double()[:, None]).names == (name,)


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("log10", [1.0, 0.0, -2.0], "2 labels are not, the first 0.0 in row 1"),
        ("logit", [0.5, 1.0], "1 label is not, the first 1.0 in row 1"),
        ("logit", [0.5, 45.0], "divide percentages by 100"),
    ],
)
def test_labels_outside_the_domain_are_one_error(name, labels, message):
    with pytest.raises(ValueError, match=message):
        check_domain(name, np.array(labels), "y", "in row {}".format)


def test_intervals_are_transformed_back_exactly():
    generator = torch.Generator().manual_seed(0)
    transform = TargetTransform(("log10", "logit"))
    z = torch.randn(200, 2, generator=generator).double()
    error = torch.randn(200, 2, generator=generator).double()
    mean = transform.inverse(z)
    std = 0.5 / transform.slope(mean)  # The value is 0.5 on the transformed scale.
    y = transform.inverse(z + 0.5 * error)
    calibrator = TransformedIntervals.of(transform, y, mean, std)
    low, high = calibrator.interval(mean, std, coverage=0.8)
    q = [sorted(error[:, i].abs().tolist())[math.ceil(201 * 0.8) - 1] for i in range(2)]
    for i in range(2):
        np.testing.assert_allclose(transform(low)[:, i], z[:, i] - 0.5 * q[i], rtol=1e-9)
        np.testing.assert_allclose(transform(high)[:, i], z[:, i] + 0.5 * q[i], rtol=1e-9)
    again = restore_intervals(calibrator.state())
    assert torch.equal(again.interval(mean, std, coverage=0.8)[0], low)
    infinite = TransformedIntervals(((1.0,), (1.0,)), transform).interval(mean, std)
    assert (infinite[0] == 0).all()
    assert infinite[1][:, 0].isinf().all()
    assert (infinite[1][:, 1] == 1).all()


def test_a_log_model_is_the_model_of_the_logarithms(tmp_path):
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
    loaded, _ = load_model(tmp_path)
    assert loaded.scale_of(0) == "log10(y)"
    (piece,) = loaded.predictions(new)
    np.testing.assert_array_equal(piece.result.mean[:, 0], again)
    explanation = model.explain(new[:1], method="masking")[0]
    assert explanation is not None
    assert explanation.prediction == pytest.approx(again[0], rel=1e-4)
    assert explanation.std == pytest.approx(error[0], rel=1e-4)
    assert explanation.value == pytest.approx(mean[0], abs=1e-5)
    without = plain.explain(new[:1], method="masking")[0]
    assert without is not None
    np.testing.assert_allclose(explanation.weights, without.weights, atol=1e-5)
    assert (without.transform, without.value) == ("none", without.prediction)


def test_a_network_with_a_transform_predicts_inside_the_domain():
    shares = 1 / (1 + np.exp(-3 * LOGS))
    model = MoleculeRegressor(
        epochs=2, width=16, heads=2, layers=1, target_transform="logit", ensemble=2
    )
    y = np.stack([shares, np.roll(shares, 1)], 1)
    model.fit(SMILES, y)
    mean = model.predict(["C" * 200, "CCO", "c1ccccc1"])
    low, high = model.predict_interval(["C" * 200, "CCO", "c1ccccc1"])
    assert ((mean > 0) & (mean < 1)).all()
    assert ((low >= 0) & (high <= 1) & (low <= mean) & (mean <= high)).all()


def test_censored_labels_are_transformed():
    labels = [f">{10**1.5:.6f}" if value > 1.5 else f"{10**value:.6f}" for value in LOGS]
    limits = [">1.5" if value > 1.5 else f"{value:.9f}" for value in LOGS]
    kind = {"model": "gp", "loss_function": "bounded-mse"}
    model = MoleculeRegressor(target_transform="log10", **kind).fit(SMILES, labels)
    plain = MoleculeRegressor(**kind).fit(SMILES, limits)
    new = ["CCCCCO", "C" * 28 + "N"]
    np.testing.assert_allclose(np.log10(model.predict(new)), plain.predict(new), atol=1e-3)


def test_a_label_outside_the_domain_is_an_error_of_fit():
    with pytest.raises(ValueError, match="target_transform log10 needs a number above 0"):
        MoleculeRegressor(target_transform="log10").fit(SMILES, LOGS)
