"""Correction of probabilities for the frequencies of the classes."""

import numpy as np

from gattn.apps.nodes.stack.priors import class_factors, scale_classes

EQUAL = np.repeat(np.arange(3), 20)
"""Classes of a training part with 20 nodes of each class."""


def _draw(shares, count, seed, strength=1.5):
    """Return classes with exactly the given frequencies, and their posterior probabilities for
    equal frequencies.
    """
    draw = np.random.default_rng(seed)
    y = np.searchsorted(np.cumsum(shares)[:-1], (np.arange(count) + 0.5) / max(count, 1))
    scores = draw.normal(size=(count, len(shares))) + strength * np.eye(len(shares))[y]
    odds = np.exp(strength * scores)
    return y, odds / odds.sum(1, keepdims=True)


def test_class_factors_improve_predictions_if_class_frequencies_differ():
    shares = np.array([0.6, 0.3, 0.1])
    y, validation = _draw(np.full(3, 1 / 3), 300, 0)
    truth, others = _draw(shares, 2000, 1)
    factors, corrected = class_factors(validation, y, others, EQUAL, 0)
    np.testing.assert_allclose(factors / factors.sum(), shares, atol=0.1)
    before = (others.argmax(1) == truth).mean()
    assert (scale_classes(others, factors).argmax(1) == truth).mean() > before + 0.02
    assert corrected.shape == validation.shape


def test_class_factors_are_one_if_class_frequencies_are_equal():
    """Four classes of about 25 % in every part, also with weak predictions of few nodes."""
    shares = np.array([0.27, 0.25, 0.25, 0.23])
    changed = 0
    for seed in range(40):
        y, validation = _draw(shares, 60, seed, strength=0.7)
        _, others = _draw(shares, 60, 1000 + seed, strength=0.7)
        train = np.repeat(np.arange(4), [54, 50, 50, 46])
        factors, _ = class_factors(validation, y, others, train, 0)
        changed += factors.tolist() != [1] * 4
    assert changed <= 1


def test_class_factors_are_one_if_class_frequencies_explain_too_little():
    draw = np.random.default_rng(0)
    y = draw.choice(3, size=300, p=[0.5, 0.3, 0.2])
    constant = np.array([0.5, 0.4, 0.1]) * np.exp(0.1 * draw.normal(size=(900, 3)))
    constant[300:] *= [0.8, 1, 1.2]
    constant /= constant.sum(1, keepdims=True)
    assert (constant[300:].argmax(1) == 1).mean() > (constant[:300].argmax(1) == 1).mean() + 0.2
    factors, corrected = class_factors(constant[:300], y, constant[300:], y, 0)
    assert factors.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(corrected, constant[:300])
