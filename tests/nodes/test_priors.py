"""Correction of probabilities for the frequencies of the classes."""

import warnings

import numpy as np
import pytest

from gattn.nodes.stack import priors
from gattn.nodes.stack.priors import class_factors, scale_classes


def _draw(shares, count, seed, strength=1.5):
    """Return classes with exactly the given frequencies, and their posterior probabilities for
    equal frequencies.
    """
    draw = np.random.default_rng(seed)
    y = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(count) + 0.5) / max(count, 1))
    scores = draw.normal(size=(count, len(shares))) + strength * np.eye(len(shares))[y]
    odds = np.exp(strength * scores)
    return y, odds / odds.sum(1, keepdims=True)


def test_factors_of_a_shift_without_labels_improve_the_predictions():
    shares = np.array([0.6, 0.3, 0.1])
    y, validation = _draw(np.full(3, 1 / 3), 300, 0)
    truth, others = _draw(shares, 2000, 1)
    factors, corrected = class_factors(validation, y, others, 0)
    np.testing.assert_allclose(factors / factors.sum(), shares, atol=0.1)
    before = (others.argmax(1) == truth).mean()
    assert (scale_classes(others, factors).argmax(1) == truth).mean() > before + 0.02
    assert corrected.shape == validation.shape


def test_factors_of_the_validation_part_improve_the_predictions():
    shares = np.array([0.7, 0.2, 0.1])
    y, validation = _draw(shares, 400, 0)
    factors, corrected = class_factors(validation, y, np.zeros((0, 3)), 0)
    np.testing.assert_allclose(factors / factors.sum(), shares, atol=0.12)
    assert (corrected.argmax(1) == y).mean() > (validation.argmax(1) == y).mean()


def test_equal_frequencies_are_hardly_changed():
    y, validation = _draw(np.full(3, 1 / 3), 400, 0)
    _, others = _draw(np.full(3, 1 / 3), 2000, 1)
    factors, _ = class_factors(validation, y, others, 0)
    np.testing.assert_allclose(factors / factors.mean(), 1, atol=0.25)


def test_predictions_without_information_keep_the_frequencies_of_the_validation_part():
    draw = np.random.default_rng(0)
    y = draw.choice(3, size=300, p=[0.5, 0.3, 0.2])
    constant = np.array([0.5, 0.3, 0.2]) * np.exp(0.02 * draw.normal(size=(1300, 3)))
    constant /= constant.sum(1, keepdims=True)
    factors, _ = class_factors(constant[:300], y, constant[300:], 0)
    np.testing.assert_allclose(factors / factors.mean(), 1, atol=0.15)


def test_other_nodes_that_differ_in_more_than_frequencies_are_not_corrected():
    draw = np.random.default_rng(0)
    y = draw.choice(3, size=300, p=[0.5, 0.3, 0.2])
    constant = np.array([0.5, 0.3, 0.2]) * np.exp(0.02 * draw.normal(size=(900, 3)))
    constant[300:] *= [0.8, 1, 1.2]
    constant /= constant.sum(1, keepdims=True)
    factors, corrected = class_factors(constant[:300], y, constant[300:], 0)
    assert factors.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(corrected, constant[:300])


def test_a_correction_of_a_node_does_not_depend_on_its_class(monkeypatch):
    monkeypatch.setattr(priors, "CLEARLY", -np.inf)
    y, validation = _draw(np.array([0.7, 0.2, 0.1]), 60, 0)
    _, before = class_factors(validation, y, np.zeros((0, 3)), 0)
    changed = y.copy()
    changed[7] = (y[7] + 1) % 3
    _, after = class_factors(validation, changed, np.zeros((0, 3)), 0)
    np.testing.assert_allclose(after[7], before[7])


@pytest.mark.parametrize("count", [0, 1])
def test_without_validation_nodes_the_factors_are_one(count):
    y, validation = _draw(np.full(3, 1 / 3), count, 0)
    factors, corrected = class_factors(validation, y, np.full((4, 3), 1 / 3), 0)
    assert factors.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(corrected, validation)


def test_an_absent_class_gives_finite_factors():
    y, validation = _draw(np.array([0.5, 0.5, 0.0]), 200, 0)
    _, others = _draw(np.full(3, 1 / 3), 500, 1)
    factors, corrected = class_factors(validation, y, others, 0)
    assert np.isfinite(factors).all()
    assert np.isfinite(corrected).all()


def test_a_class_without_predicted_mass_raises_no_warning():
    draw = np.random.default_rng(0)
    certain = np.eye(3)[draw.integers(2, size=130)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factors, _ = class_factors(certain[:40], draw.integers(2, size=40), certain[40:], 0)
    assert np.isfinite(factors).all()
