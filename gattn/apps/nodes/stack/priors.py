"""Correction of predicted probabilities by the frequencies of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.scratch import fold_masks

PRIOR_ROWS = 4.0
"""Strength of the penalty on factors other than 1, as a number of additional nodes."""
PRIOR_SHARE = 0.1
"""Weight of the frequencies in the validation part, as a fraction of the number of other nodes."""
STEPS = 100
"""Number of steps of expectation maximisation."""
CHANCE = 0.01
"""Maximum probability of a difference by chance at which class frequencies are corrected."""
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
    validation: NDArray, y: NDArray, others: NDArray, train: NDArray, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Estimate a factor for each class, for nodes whose classes have other frequencies than in
    training.

    If the training part contains equally many nodes of each class, the probabilities of frequent
    classes are too low. There are two corrections, each only if a chi-square test shows that the
    frequencies differ (p < 0.01). In a stratified or random split they do not.

    1. Factors b that minimise the cross entropy of the validation part, with a penalty on their
       logarithms, if its classes have other frequencies than those of the training part.
    2. Factors π / q for the other nodes, if their predicted classes have other frequencies than
       those of the validation part, for example because the training and validation parts contain
       equally many nodes of each class. Here q is the mean prediction of the validation part, and
       the frequencies π are estimated from the predictions of the other nodes without their labels,
       by expectation maximisation.

    .. math::
        \pi_c \leftarrow \frac{1}{n (1 + a)} \Bigl( \sum_i
        \frac{p_{ic} \pi_c / q_c}{\sum_k p_{ik} \pi_k / q_k} + a n q_c \Bigr)

    The frequencies π must explain at least half of the difference between the mean predictions of
    the other nodes and of the validation part: with C_kj the mean prediction of class k for the
    validation nodes of class j, |C π - p| is at most half of |q - p|. Otherwise the other nodes
    differ from the validation part in more than the frequencies of their classes, for example
    because their columns are empty.

    Args:
        validation: [m, c] predictions of the validation part.
        y: [m] their classes from 0.
        others: [n, c] predictions of nodes in neither part; without any, the second correction is
            left out.
        train: [k] classes of the training part.
        seed: seed of the folds.

    Returns:
        The factors [c], and corrected predictions [m, c] of the validation part. The first
        correction of a node does not depend on its own class.

    Reference:
        Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a priori
        probabilities" (Neural Computation 2002).
    """
    classes, truth = validation.shape[1], y.astype(int)
    factors = np.ones(classes)
    if _differ(truth, train.astype(int), classes):
        factors, corrected = _fit(validation, truth), np.array(validation, np.float64)
        for inside in fold_masks(len(truth), FOLDS, seed):
            without = _fit(validation[~inside], truth[~inside])
            corrected[inside] = scale_classes(validation[inside], without)
        validation = corrected
    unlabelled = scale_classes(others, factors)
    if not _differ(validation.argmax(1), unlabelled.argmax(1), classes):
        return factors, validation
    q = np.maximum(validation.mean(0), TINY)
    frequencies = _frequencies(unlabelled, q)
    if not _explains(frequencies, unlabelled.mean(0), validation, truth, q):
        return factors, validation
    return factors * frequencies / q, scale_classes(validation, frequencies / q)


def _differ(one: NDArray, other: NDArray, classes: int) -> bool:
    """Return whether the classes [m] and [n] of two groups of nodes have different frequencies,
    with a probability below :data:`CHANCE` that this is by chance. The result is False if a group
    is empty, or if both have the same single class.
    """
    from scipy.stats import chi2_contingency

    counts = np.stack([np.bincount(some, minlength=classes) for some in (one, other)])
    counts = counts[:, counts.any(0)]
    if counts.shape[1] < 2 or not counts.any(1).all():
        return False
    # Type checkers do not know the type of the result.
    result: Any = chi2_contingency(counts, correction=False)
    return bool(result.pvalue < CHANCE)


def _fit(predicted: NDArray, truth: NDArray) -> NDArray[np.float64]:
    """Return the factors [c] of predictions [m, c] for which the sum of their cross entropy with
    the classes [m] and of the penalty is lowest.
    """
    from scipy.optimize import minimize

    logs = np.log(predicted + TINY)
    counts = np.bincount(truth, minlength=predicted.shape[1])

    def loss(bias: NDArray) -> tuple[float, NDArray]:
        """Return the negative log-posterior of the biases of the classes, and its gradient."""
        scores = logs + bias
        top = scores.max(1, keepdims=True)
        odds = np.exp(scores - top)
        norm = odds.sum(1, keepdims=True)
        right = scores[np.arange(len(truth)), truth]
        value = (np.log(norm) + top)[:, 0].sum() - right.sum() + 0.5 * PRIOR_ROWS * bias @ bias
        return float(value), (odds / norm).sum(0) - counts + PRIOR_ROWS * bias

    return np.exp(minimize(loss, np.zeros(len(counts)), jac=True, method="L-BFGS-B").x)


def _frequencies(predicted: NDArray, q: NDArray) -> NDArray[np.float64]:
    """Estimate the class frequencies [c] of nodes from their predictions [n, c], given the mean
    predictions q [c] of the validation part.
    """
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
    part, whose classes are ``truth`` [m].
    """
    expected = np.tile(q, (len(q), 1))
    for kind in np.unique(truth):
        expected[kind] = validation[truth == kind].mean(0)
    rest = np.linalg.norm(frequencies @ expected - mean)
    return bool(rest <= EXPLAINED * np.linalg.norm(q - mean))
