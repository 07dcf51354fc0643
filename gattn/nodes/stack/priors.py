"""Correction of predicted probabilities by the frequencies of the classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["class_factors", "scale_classes"]

PRIOR_ROWS = 4.0
"""Strength of the penalty on factors other than 1, as a number of additional nodes."""
PRIOR_SHARE = 0.1
"""Weight of the frequencies in the validation part, as a fraction of the number of other nodes."""
STEPS, ROWS = 100, 5000
"""Number of steps of expectation maximisation, and maximum number of nodes whose predictions it
reads.
"""
CLEARLY, LIKELY = 2.0, 1.0
"""Number of standard errors by which the first correction, and the second one, must reduce the
loss of the validation part. The second correction is estimated from the other nodes.
"""
EXPLAINED = 0.5
"""Maximum distance between the mean prediction of the other nodes and the one that is expected
from their class frequencies, as a share of its distance to the mean of the validation part.
"""
FOLDS = 10
TINY = 1e-9
"""Number that is added to probabilities before their logarithms are computed."""


def scale_classes(predicted: NDArray, factors: NDArray) -> NDArray[np.float64]:
    r"""Multiply probabilities [n, c] by a factor for each class, [c], and normalise them.

    .. math:: p'_{ic} = \frac{f_c p_{ic}}{\sum_k f_k p_{ik}}

    Example:
        >>> scale_classes(np.array([[0.5, 0.5]]), np.array([3.0, 1.0])).tolist()
        [[0.75, 0.25]]
    """
    scaled = predicted * factors
    return scaled / scaled.sum(1, keepdims=True)


def class_factors(
    validation: NDArray, y: NDArray, others: NDArray, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Estimate a factor for each class, for nodes whose classes have other frequencies than in
    training.

    If the training part contains equally many nodes of each class, the probabilities of frequent
    classes are too low. There are two corrections:

    1. Factors b that minimise the cross entropy of the validation part, with a penalty on their
       logarithms.
    2. Factors π / q for the other nodes, if the frequencies of their classes differ from those of
       the validation part, for example because the training and validation parts contain equally
       many nodes of each class. Here q is the mean prediction of the validation part, and the
       frequencies π are estimated from the predictions of the other nodes without their labels, by
       expectation maximisation.

    .. math::
        \pi_c \leftarrow \frac{1}{n (1 + a)} \Bigl( \sum_i
        \frac{p_{ic} \pi_c / q_c}{\sum_k p_{ik} \pi_k / q_k} + a n q_c \Bigr)

    The first correction is used only if it reduces the loss of the validation part by more than two
    standard errors, and the second one only if it reduces the loss by more than one. For the second
    correction, the loss of a validation node is weighted by the ratio of the frequencies of its
    class. Moreover, the frequencies π must explain at least half of the difference between the mean
    predictions of the other nodes and of the validation part: with C_kj the mean prediction of
    class k for the validation nodes of class j, |C π - p| is at most half of |q - p|. Otherwise the
    other nodes differ from the validation part in more than the frequencies of their classes, for
    example because their columns are empty.

    Args:
        validation: [m, c] predictions of the validation part.
        y: [m] their classes from 0.
        others: [n, c] predictions of nodes in neither part; without any, the second correction is
            left out.
        seed: seed of the folds, and of the draw of nodes if there are many.

    Returns:
        The factors [c], and corrected predictions [m, c] of the validation part. The first
        correction of a node does not depend on its own class.

    Reference:
        Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori
        probabilities" (Neural Computation 2002).
    """
    classes, truth = validation.shape[1], y.astype(int)
    factors = np.ones(classes)
    if len(y) < 2:
        return factors, validation
    draw = np.random.default_rng(seed)
    corrected = _cross_fit(validation, truth, draw)
    if _is_clear(_losses(validation, truth) - _losses(corrected, truth), CLEARLY):
        factors = _fit(validation, truth)
    else:
        corrected = validation
    if not len(others):
        return factors, corrected
    some = draw.choice(len(others), ROWS, replace=False) if len(others) > ROWS else slice(None)
    q = np.maximum(corrected.mean(0), TINY)
    unlabelled = scale_classes(others[some], factors)
    frequencies = _frequencies(unlabelled, q)
    ratios = frequencies / q
    shares = np.bincount(truth, minlength=classes) / len(truth)
    weights = (ratios * q)[truth] / shares[truth]
    shifted = scale_classes(corrected, ratios)
    gain = weights * (_losses(corrected, truth) - _losses(shifted, truth))
    if _is_clear(gain, LIKELY) and _explains(frequencies, unlabelled.mean(0), corrected, truth, q):
        return factors * ratios, shifted
    return factors, corrected


def _cross_fit(
    predicted: NDArray, truth: NDArray, draw: np.random.Generator
) -> NDArray[np.float64]:
    """Scale the predictions [m, c] of each fold by factors that were fitted to the other folds."""
    folds = min(FOLDS, len(truth))
    fold = draw.permutation(len(truth)) % folds
    result = np.array(predicted, np.float64)
    for number in range(folds):
        inside = fold == number
        result[inside] = scale_classes(predicted[inside], _fit(predicted[~inside], truth[~inside]))
    return result


def _fit(predicted: NDArray, truth: NDArray) -> NDArray[np.float64]:
    """Fit the factors [c] for which the sum of cross entropy and penalty is lowest."""
    from scipy.optimize import minimize

    logs = np.log(predicted + TINY)
    counts = np.bincount(truth, minlength=predicted.shape[1])

    def loss(bias: NDArray) -> tuple[float, NDArray]:
        scores = logs + bias
        top = scores.max(1, keepdims=True)
        odds = np.exp(scores - top)
        norm = odds.sum(1, keepdims=True)
        right = scores[np.arange(len(truth)), truth]
        value = (np.log(norm) + top)[:, 0].sum() - right.sum() + 0.5 * PRIOR_ROWS * bias @ bias
        return float(value), (odds / norm).sum(0) - counts + PRIOR_ROWS * bias

    return np.exp(minimize(loss, np.zeros(len(counts)), jac=True, method="L-BFGS-B").x)


def _frequencies(predicted: NDArray, q: NDArray) -> NDArray[np.float64]:
    """Estimate the class frequencies [c] of nodes from their predictions [n, c]."""
    frequencies = q
    for _ in range(STEPS):
        expected = scale_classes(predicted, frequencies / q).mean(0)
        frequencies = (expected + PRIOR_SHARE * q) / (1 + PRIOR_SHARE)
    return frequencies


def _explains(
    frequencies: NDArray, mean: NDArray, validation: NDArray, truth: NDArray, q: NDArray
) -> bool:
    """Return whether the class frequencies [c] explain most of the difference between the mean
    prediction [c] of other nodes and the mean q, [c], of the predictions [m, c] of the validation
    part.
    """
    expected = np.tile(q, (len(q), 1))
    for kind in np.unique(truth):
        expected[kind] = validation[truth == kind].mean(0)
    rest = np.linalg.norm(frequencies @ expected - mean)
    return bool(rest <= EXPLAINED * np.linalg.norm(q - mean))


def _losses(predicted: NDArray, truth: NDArray) -> NDArray[np.float64]:
    return -np.log(predicted[np.arange(len(truth)), truth] + TINY)


def _is_clear(gain: NDArray, errors: float) -> bool:
    return bool(gain.mean() > errors * gain.std() / len(gain) ** 0.5)
