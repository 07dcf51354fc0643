"""Weights for combining the predictions of several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.scratch import fold_masks, pieces, sample
from gattn.apps.nodes.stack.priors import class_factors, scale_classes

if TYPE_CHECKING:
    from gattn.apps.nodes.stack.linear import Targets

PRIOR_ROWS = 4.0
"""Strength of the penalty on deviations from the prior weights, and from a calibration by the
exponent 1, as a number of additional nodes.
"""
TINY = 1e-6
"""Number that is added to probabilities before their logarithms are computed."""
ROWS = 50_000
"""Maximum number of nodes to which weights are fitted."""
FOLDS = 10
MANY = 5000
"""Maximum number of validation nodes for which weights are cross-fitted. With more nodes, the
weights do not overfit.
"""
EXPONENTS = 2.0 ** np.arange(-2, 3.5, 0.5)
"""Candidate exponents with which the probabilities of a model are calibrated."""


def pool(
    predictions: Sequence[NDArray], weights: NDArray, *, is_class: bool
) -> NDArray[np.float64]:
    r"""Combine predictions: probabilities by a weighted product, numbers by a weighted sum.

    .. math:: p \propto \prod_k p_k^{w_k} \quad\text{or}\quad \sum_k w_k y_k

    Args:
        predictions: K arrays [n, c].
        weights: [K].
        is_class: True for probabilities.

    Returns:
        [n, c] float64. If all weights are 0, all classes have equal probabilities. Numbers need a
        weight other than 0.

    Reference:
        Genest and Zidek, "Combining probability distributions" (Statistical Science 1986).

    Example:
        >>> even, sure = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])
        >>> pool([even, sure], np.array([0.5, 1.0]), is_class=True).round(3)
        array([[0.9, 0.1]])
    """
    used = [(w, p) for w, p in zip(weights.tolist(), predictions) if w]
    if not is_class:
        return np.asarray(sum(w * p for w, p in used), np.float64)
    shape = predictions[0].shape
    logs = sum((w * np.log(p + TINY) for w, p in used), np.zeros(shape))
    odds = np.exp(logs - logs.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def pool_by_name(
    parts: Mapping[str, NDArray], weights: Mapping[str, float], *, is_class: bool
) -> NDArray[np.float64]:
    """Combine the predictions of the components that have a weight; see :func:`pool`.

    Args:
        parts: predictions [n, c] by name.
        weights: weight of each component by name.
        is_class: True for probabilities.
    """
    values = np.array(list(weights.values()))
    return pool([parts[name] for name in weights], values, is_class=is_class)


def fit_weights(
    predictions: Sequence[NDArray], y: NDArray, *, is_class: bool
) -> NDArray[np.float64]:
    r"""Fit the weights of several models on nodes that were not used to train them.

    For classes, nonnegative weights minimise the cross entropy of :func:`pool`, after each model
    was calibrated by an exponent :math:`t_k`. For numbers, nonnegative weights with sum 1 minimise
    the squared error. In both cases, deviations from prior weights are penalised. For classes, a
    sum of the weights other than 1 is penalised, too: weights that are fitted to few nodes would
    otherwise often be too large, and the probabilities too certain. The prior weight of a model
    decreases with the difference between its mean loss and the lowest mean loss, in standard errors
    of the paired difference. With few nodes, a model that is clearly the best therefore keeps a
    high weight, and models that cannot be distinguished have equal weights.

    .. math::
        \min_{w \ge 0} \; \sum_i L_i(w) + \frac{\lambda}{2} \lVert w - \pi \rVert^2
        + \frac{\lambda}{2} \Bigl(\sum_k w_k - 1\Bigr)^2, \qquad
        \pi_k \propto \exp\Bigl(-\frac{(\bar L_k - \bar L_*)^2}{2 s_k^2}\Bigr)

    Args:
        predictions: K arrays [m, c]. Of more than 50,000 nodes, a random sample with the seed 0 is
            used.
        y: [m] classes from 0, or numbers.
        is_class: True for probabilities.

    Returns:
        The weights [K]; equal weights 1 / K without nodes, or for a single model.

    Reference:
        Breiman, "Stacked regressions" (Machine Learning 1996).

    Example:
        >>> y = np.arange(400.0)
        >>> fit_weights([y[:, None], -y[:, None]], y, is_class=False).round(2).tolist()
        [1.0, 0.0]
    """
    count = len(predictions)
    if count == 1 or not len(y):
        return np.full(count, 1 / count)
    if len(y) > ROWS:
        rows = sample(np.arange(len(y)), ROWS, 0)
        predictions, y = [p[rows] for p in predictions], y[rows]
    if not is_class:
        numbers = np.stack([p[:, 0] for p in predictions], 1)
        return _regression_weights(numbers, y, prior_weights(np.square(numbers - y[:, None])))
    logs = np.log(np.stack(predictions, 1) + TINY)  # [m, K, c]: m nodes, K components, c classes
    exponents = np.array([temperature(logs[:, k], y) for k in range(count)])
    logs *= exponents[:, None]
    logs -= logs.max(2, keepdims=True)
    logs -= np.log(np.exp(logs).sum(2, keepdims=True))
    truth = logs[np.arange(len(y)), :, y.astype(int)]
    apart = np.moveaxis(logs - truth[..., None], 1, 2)
    return listwise_weights(apart, prior_weights(-truth), PRIOR_ROWS) * exponents


def listwise_weights(
    scores: NDArray, prior: NDArray, rows_of_sum: float = 0.0
) -> NDArray[np.float64]:
    r"""Fit nonnegative weights of several scores, so that the true candidate of each row gets the
    highest weighted sum.

    .. math:: \min_{w \ge 0} \; \sum_i \log \sum_j e^{s_{ij} \cdot w}
        + \frac{\lambda}{2} \lVert w - \pi \rVert^2
        + \frac{\mu}{2} \Bigl(\sum_k w_k - \pi_k\Bigr)^2

    Args:
        scores: [m, c, K] differences of the K scores of each candidate from those of the true one.
        prior: [K] prior weights.
        rows_of_sum: strength :math:`\mu` of the penalty on another sum than that of the prior
            weights, as a number of additional rows.

    Returns:
        [K] weights; those below 0.001 are set to 0.
    """
    from scipy.optimize import minimize

    def loss(weights: NDArray) -> tuple[float, NDArray]:
        """Return the negative log-posterior of the weights of k components, and its gradient."""
        total = scores @ weights
        top = total.max(1, keepdims=True)
        odds = np.exp(total - top)
        norm = odds.sum(1, keepdims=True)
        slope = np.einsum("mck,mc->k", scores, odds / norm)
        change = weights - prior
        apart = PRIOR_ROWS * change + rows_of_sum * change.sum()
        value = (np.log(norm) + top).sum() + 0.5 * apart @ change
        return float(value), slope + apart

    bounds = [(0, None)] * len(prior)
    result = minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.where(result.x < 1e-3, 0.0, result.x)


def prior_weights(losses: NDArray) -> NDArray[np.float64]:
    """Compute prior weights [K] with sum 1 of K models from their losses [m, K]; see
    :func:`fit_weights`.
    """
    if len(losses) == 1:
        # The standard error of a single difference is unknown.
        return np.full(losses.shape[1], 1 / losses.shape[1])
    apart = losses - losses[:, [losses.mean(0).argmin()]]
    mean = apart.mean(0)
    error = apart.std(0) / len(losses) ** 0.5
    distance = np.where(mean > 0, mean / np.where(error > 0, error, 1e-12), 0)
    weights = np.exp(-0.5 * np.square(distance))
    return weights / weights.sum()


def _regression_weights(predicted: NDArray, y: NDArray, prior: NDArray) -> NDArray[np.float64]:
    """Return nonnegative weights [K] with sum 1, fitted to numbers y [m] by least squares.

    Args:
        predicted: [m, K] the predictions of K models.
        y: [m] numbers. They and the predictions are standardised by the mean and the standard
            deviation of y.
        prior: [K] prior weights; deviations from them are penalised.
    """
    from scipy.optimize import nnls

    center = y.mean()
    unit = float(np.square(y - center).mean()) ** 0.5 or 1.0
    count, root = len(prior), PRIOR_ROWS**0.5
    # A row with large entries makes the weights sum to 1.
    large = 1e4 * (len(y) + PRIOR_ROWS) ** 0.5
    rows = [(predicted - center) / unit, root * np.eye(count), np.full((1, count), large)]
    right = [(y - center) / unit, root * prior, [large]]
    weights = nnls(np.concatenate(rows), np.concatenate(right))[0]
    return weights / weights.sum()


def cross_fit(
    predictions: Sequence[NDArray],
    y: NDArray,
    seed: int,
    *,
    is_class: bool,
    predicted: Sequence[NDArray] | None = None,
) -> NDArray[np.float64]:
    """Combine the predictions for each node with weights that were fitted to the other nodes.

    Args:
        predictions: K arrays [m, c].
        y: [m] classes from 0, or numbers.
        seed: seed of the folds.
        is_class: True for probabilities.
        predicted: K other predictions [m, c] of the same models, to which the weights are applied;
            None to apply the weights to ``predictions``.

    Returns:
        [m, c]. With more than 5,000 nodes, or fewer than two, the weights are fitted to all nodes.
    """
    count, predicted = len(y), predictions if predicted is None else predicted
    if count > MANY or count < 2:
        weights = fit_weights(predictions, y, is_class=is_class)
        return pool(predicted, weights, is_class=is_class)
    combined = np.empty(predicted[0].shape)
    for inside in fold_masks(count, FOLDS, seed):
        others = [p[~inside] for p in predictions]
        weights = fit_weights(others, y[~inside], is_class=is_class)
        combined[inside] = pool([p[inside] for p in predicted], weights, is_class=is_class)
    return combined


def temperature(scores: NDArray, y: NDArray) -> float:
    """Return the factor of the scores [m, c], one of :data:`EXPONENTS`, with which their softmax
    predicts the classes [m] best. Deviations of its logarithm from 0 are penalised: on few nodes,
    the loss alone would often be lowest for the largest factor.
    """
    from scipy.special import logsumexp

    truth, losses = scores[np.arange(len(y)), y.astype(int)], []
    for factor in EXPONENTS:
        # Twice the penalty on a weight, because each model has an exponent of its own.
        penalty = PRIOR_ROWS * np.log(factor) ** 2
        losses.append((logsumexp(factor * scores, axis=1) - factor * truth).sum() + penalty)
    return float(EXPONENTS[int(np.argmin(losses))])


def mean_loss(predicted: NDArray, y: NDArray, *, is_class: bool) -> float:
    """Return the mean cross entropy, or the mean squared error, of predictions [m, outputs]."""
    if not is_class:
        return float(np.square(predicted[:, 0] - y).mean())
    return float(-np.log(predicted[np.arange(len(y)), y.astype(int)] + 1e-12).mean())


OTHERS = 5000
"""Maximum number of nodes in neither part by which the frequencies of the classes are estimated."""
READS_LABELS = "labels"
"""Component that is left out for a network other than that of the training."""


@dataclass(frozen=True, eq=False)
class Combination:
    """Weights of a stack, and the predictions for the validation part that result from them.

    Attributes:
        weights: weight of each component, by name.
        other: weight of each component that does not read labels, by name, for other graphs.
        factors: factor of the probability of each class; empty for numbers.
        validation: [m, outputs] predictions whose weights do not depend on the node's label; no
            rows if the object was not fitted.
    """

    weights: dict[str, float]
    other: dict[str, float]
    factors: list[float]
    validation: NDArray[np.float64]

    @classmethod
    def fit(
        cls, outputs: Mapping[str, NDArray], to: Targets, *, timed: bool, label_free: Sequence[str]
    ) -> Combination:
        """Fit the weights of the components, and the factors of the classes.

        Args:
            outputs: predictions [n, outputs] of the components, by name.
            to: the labels and the parts.
            timed: True if a prediction must not depend on newer nodes.
            label_free: names of the components that do not read labels.

        Returns:
            The weights and factors, with the predictions of the validation part that
                :func:`cross_fit` combines; for classes, they are corrected by the factors.
        """
        y, is_class = to.y, to.is_class
        parts, truth = _rows(outputs, to.val), y[to.val]
        values = fit_weights([*parts.values()], truth, is_class=is_class)
        validation = cross_fit([*parts.values()], truth, to.seed, is_class=is_class)
        weights = dict(zip(outputs, values.tolist()))
        names = [name for name in label_free if name in outputs]
        values = fit_weights([parts[name] for name in names], truth, is_class=is_class)
        other = dict(zip(names, values.tolist()))
        if not is_class:
            return cls(weights, other, [], validation)
        nodes = np.arange(0 if timed else len(y))
        rest = sample(np.setdiff1d(nodes, np.concatenate([to.train, to.val])), OTHERS, to.seed)
        others = pool_by_name(_rows(outputs, rest), weights, is_class=True)
        factors, validation = class_factors(validation, truth, others, y[to.train], to.seed)
        return cls(weights, other, factors.tolist(), validation)

    def fit_again(
        self, first: Mapping[str, NDArray], again: Mapping[str, NDArray], to: Targets
    ) -> Combination:
        """Return the combination with the validation predictions of models that were fitted again.

        Args:
            first: predictions [m, outputs] of the validation nodes by the models of :meth:`fit`.
            again: the same by models that were fitted again without the node.
            to: the labels and the parts.
        """
        some, truth = [again[name] for name in first], to.y[to.val]
        validation = cross_fit(
            [*first.values()], truth, to.seed, is_class=to.is_class, predicted=some
        )
        if self.factors:
            validation = scale_classes(validation, np.array(self.factors))
        return replace(self, validation=validation)

    def predict(self, parts: Mapping[str, NDArray]) -> NDArray[np.float64]:
        """Combine predictions [n, outputs] of the components, by name.

        Without the component ``labels``, the weights ``other`` are used, and the probabilities of
        classes are not corrected by the factors.
        """
        is_class, has_labels = bool(self.factors), READS_LABELS in parts
        weights = self.weights if has_labels else self.other
        first = next(iter(parts.values()))
        combined = np.empty(first.shape)
        for rows in pieces(len(first)):
            some = pool_by_name(_rows(parts, rows), weights, is_class=is_class)
            if is_class and has_labels:
                some = scale_classes(some, np.array(self.factors))
            combined[rows] = some
        return combined

    @property
    def used(self) -> set[str]:
        """Names of the components that have a weight."""
        return {
            name for part in (self.weights, self.other) for name, weight in part.items() if weight
        }


def _rows(parts: Mapping[str, NDArray], rows: NDArray | slice) -> dict[str, NDArray[np.float64]]:
    """Return some rows of the predictions of each component."""
    return {name: part[rows].astype(np.float64) for name, part in parts.items()}
