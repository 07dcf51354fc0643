"""Combination of the components of a model into one prediction with a standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.apps.molecules.forest import OutOfBag
from gattn.compat.torch import uncompiled_optimizers

PRIOR_ROWS = 8.0
"""Strength of the prior on the weight of a component, as a number of additional observations."""
STEPS = 60
SHRINKAGES = 101
"""Number of factors of :func:`fit_shrinkage` that are tried."""


def fit_mixture(
    first: Tensor, second: Tensor, prior: float, factors: Tensor, groups: Tensor, excess: Tensor
) -> float:
    r"""Fit the weight of the second of two components to their errors. The errors are for molecules
    that were not used for training.

    .. math::
        \min_{0 \le w \le 1} \sum_i \bigl((1 - w)\, e_i + w\, f_i\bigr)^2 - w^2 x_i
        + \lambda s^2 (w - w_0)^2, \qquad s^2 = \frac{1}{n} \sum_i (e_i - f_i)^2 - x_i

    e and f are the errors of the components, and :math:`\lambda` is the strength of the prior
    weight :math:`w_0` as a number of additional observations. The difference from the prior weight
    is then multiplied by

    .. math::
        \max\Bigl(0, 1 - \frac{\sigma^2}{(\hat w - w_0)^2 n s^2}\Bigr)

    where :math:`\hat w` is the minimum without the prior, and :math:`\sigma^2` is the mean squared
    error there: a difference within one standard error of :math:`\hat w` is no evidence.

    The errors for molecules of one group, such as a scaffold, are correlated. The number of
    observations is then :math:`n = (\sum_g n_g)^2 / \sum_g n_g^2`, where :math:`n_g` is the number
    of errors of group g, and the variances above are multiplied by their design effect: the
    variance of a sum if only errors of different groups are independent, divided by its variance
    if all errors are independent.

    Args:
        first: [n] errors e; NaN where one is unknown.
        second: [n] errors f.
        prior: the prior weight.
        factors: [n] weights of the squared errors, with a mean of about 1.
        groups: [n] int64, the group of each error.
        excess: [n] squared errors x that the second component has in this sample only.

    Returns:
        The weight; the prior weight without observations, or if the components are equal.

    Reference: Breiman, "Stacked regressions" (Machine Learning 1996); James and Stein, "Estimation
    with quadratic loss" (1961), for the factor; Kish, "Survey sampling" (1965), for the design
    effect.

    Example:
        >>> error, ones = torch.linspace(-1, 1, 400), torch.ones(400)
        >>> fit_mixture(3 * error, error, 0.5, ones, torch.arange(400), 0 * ones)
        1.0
    """
    measured = first.isfinite() & second.isfinite()
    e, f = first[measured].double(), second[measured].double()
    x, weight = excess[measured].double().nan_to_num(0.0), factors[measured].double()
    apart = ((e - f).square() - x) * weight
    if not len(e) or not apart.sum() > 0:
        return prior
    group = groups[measured].unique(return_inverse=True)[1]
    count = len(e) ** 2 / float(group.bincount().square().sum())
    total, product = float(apart.sum()), float((weight * e * (e - f)).sum())
    added = PRIOR_ROWS * total / count

    free = product / total
    mixed = (1 - free) * e + free * f
    slopes = weight * (mixed * (e - f) + free * x)
    loss = float((weight * (mixed.square() - free**2 * x)).mean())
    noise = max(loss, 0.0) * _design_effect(slopes, group)
    signal = (free - prior) ** 2 * total
    trust = max(0.0, 1 - noise / signal) if signal > 0 else 0.0
    ridge = (product + added * prior) / (total + added)
    return min(max(prior + trust * (ridge - prior), 0.0), 1.0)


def _design_effect(values: Tensor, group: Tensor) -> float:
    """Return the variance of the sum of values [n] if only values of different groups [n] are
    independent, divided by its variance if all are independent; at least 1.
    """
    independent = values.square().sum()
    if not independent > 0:
        return 1.0
    sums = torch.zeros(int(group.max()) + 1, dtype=values.dtype).index_add_(0, group, values)
    return max(1.0, float(sums.square().sum() / independent))


def varied(y: Tensor) -> Tensor:
    """Return True for each target that has at least two different labels: [t] bool."""
    labelled = y.isfinite()
    return y.where(labelled, torch.inf).amin(0) < y.where(labelled, -torch.inf).amax(0)


def combine(components: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum, [k, t] float64, of the components' predictions [P, k, t].

    ``weights`` are [P, t], or [P] if they are equal for all targets.
    """
    return (components.double() * weights.view(len(weights), 1, -1)).sum(0)


def fit_spread(sources: Tensor, error: Tensor, row_weights: Tensor) -> Tensor:
    r"""Fit the coefficients of the error variance by maximum likelihood.

    .. math::
        \max_{c > 0} \sum_i \log \mathcal{N}(e_i; 0, \sigma_i^2), \qquad
        \sigma_i^2 = \sum_s c_s v_{si}

    with a normal prior on :math:`\log c_s`, around equal shares of the mean squared error. A share
    is computed from all rows with a positive v, so that it needs no measured error.

    Args:
        sources: [s, k, t], not negative: variances, squared differences, a constant. An input that
            a row does not have is 0, or NaN if its error is NaN.
        error: [k, t] errors for molecules that were not trained on; NaN where not measured.
        row_weights: [k] factors of the log likelihoods, with a mean of about 1.

    Returns:
        [s, t] float64 coefficients, above 0; ones where nothing was measured.

    Example:
        >>> size = torch.arange(1.0, 401.0)[:, None] / 400
        >>> error = size * torch.tensor([1.0, -1.0]).repeat(200)[:, None]
        >>> sources, equal = torch.stack([torch.ones(400, 1), size.square()]), torch.ones(400)
        >>> coefficients = fit_spread(sources, error, equal)
        >>> bool(coefficients[1] > 5 * coefficients[0])
        True
    """
    return torch.stack(
        [
            _fit_one(sources[..., t].double(), error[:, t].double(), row_weights)
            for t in range(error.shape[1])
        ],
        1,
    )


def fit_shrinkage(
    probability: Tensor, y: Tensor, row_weights: Tensor, classes: Sequence[int]
) -> tuple[float, Tensor]:
    r"""Calibrate probabilities by a mixture with the frequencies of the classes.

    .. math::
        \min_{s} -\sum_i \log\bigl(s\, p_i(y_i) + (1 - s)\, f(y_i)\bigr), \qquad
        \frac{1}{n + 1} \le s \le \frac{n}{n + 1}

    The frequencies f have one additional observation of each class, so no calibrated probability is
    0 or 1.

    Args:
        probability: [n, t] probabilities of class 1, or [n, O] of all classes of each target, by a
            model that was not trained on these rows.
        y: [n, t] or [n, O], 0 or 1; NaN where not measured.
        row_weights: [n] weights of the rows.
        classes: number of classes of each target; () for two classes.

    Returns:
        The factor s, and the number that is added to s times each probability, (1 - s) f: [t] or
        [O] float64. Without labels, s is 1 and the number is 0.

    Example:
        >>> certain, y = torch.tensor([[1.0], [1.0], [0.0]]), torch.tensor([[1.0], [0.0], [0.0]])
        >>> factor, offset = fit_shrinkage(certain, y, torch.ones(3), ())
        >>> bool(0 < offset < factor + offset < 1)
        True
    """
    measured = y.isfinite()
    label, row = y.double().nan_to_num(0.0), measured.double() * row_weights[:, None]
    kinds = label.new_full((y.shape[1],), 2.0)
    if classes:
        counts = torch.tensor(classes)
        kinds = counts.double().repeat_interleave(counts)
    frequency = ((row * label).sum(0) + 1) / (row.sum(0) + kinds)
    count = int(measured.any(1).sum())
    factors = torch.linspace(1, max(count, 1), SHRINKAGES).double() / (count + 1)
    mixed = factors[:, None, None] * probability.double() + (1 - factors)[:, None, None] * frequency
    loss = label * mixed.log()
    if not classes:
        loss = loss + (1 - label) * (1 - mixed).log()
    # A tie, as without measured rows, leaves the probabilities as they are.
    total = -(row * loss).sum((1, 2)).flip(0)
    best = len(factors) - 1 - int(total.argmin())
    return float(factors[best]), (1 - factors[best]) * frequency


def predicted_std(sources: Tensor, coefficients: Tensor) -> Tensor:
    """Return the standard deviation of the error, [k, t] float64, computed from s inputs [s, k, t]
    of the error model and their coefficients [s, t].
    """
    return torch.einsum("skt,st->kt", sources.double(), coefficients).sqrt()


def extrapolated_std(std: Tensor, similarity: Tensor, least: Tensor, scale: Tensor) -> Tensor:
    r"""Increase standard deviations beyond the similarities for which errors were measured.

    .. math:: \sigma_i^2 + s^2 \max(0, 1 - t_i / t_0)^2

    Where nothing is near, the standard deviation is at least that of the labels.

    Args:
        std: [k, t] standard deviations.
        similarity: [k] similarity t of each molecule to the most similar training molecule.
        least: the lowest similarity :math:`t_0` of a validation molecule.
        scale: [t] standard deviations s of the labels.

    Returns:
        [k, t] standard deviations.

    Example:
        >>> std, scale = torch.full((3, 1), 5.0), torch.tensor([12.0])
        >>> similarity, least = torch.tensor([0.8, 0.4, 0.0]), torch.tensor(0.4)
        >>> extrapolated_std(std, similarity, least, scale).flatten().tolist()
        [5.0, 5.0, 13.0]
    """
    beyond = (1 - similarity / least.clamp(min=1e-12)).clamp(min=0) * (least > 0)
    return torch.hypot(std, beyond[:, None] * scale)


def _fit_one(sources: Tensor, error: Tensor, row_weights: Tensor) -> Tensor:
    """Return the coefficients [s] float64 of s variance sources [s, n] that minimise the negative
    log-likelihood of the squared errors [n] of one target, with a Gaussian prior on their
    logarithms. Without an error above zero, all coefficients are one.
    """
    measured = error.isfinite()
    factors = row_weights[measured]
    present = sources > 0
    typical = sources.where(present, 0.0).sum(1) / present.sum(1).clamp(min=1)
    sources, squares = sources[:, measured], error[measured].square()
    if not measured.any() or not squares.sum() > 0:
        return torch.ones(len(sources), dtype=torch.float64)
    # The errors are divided by their mean square, so that the optimizer stops at the same
    # coefficients in any unit of the target.
    unit = squares.mean()
    sources, squares = sources / unit, squares / unit
    start = (1 / len(sources) / (typical / unit).clamp(min=1e-12)).log()
    logs = start.clone().requires_grad_()
    with uncompiled_optimizers():
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        """Return the negative log-posterior and set the gradient of the logarithms."""
        logs.grad = None
        variance = logs.exp() @ sources
        losses = variance.log() + squares / variance
        value = 0.5 * (factors * losses).sum()
        value = value + 0.5 * (logs - start).square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return logs.detach().exp()


FOREST = 0.4
"""Prior weight of the forest relative to the Gaussian process."""
SLOPE, SIMILAR, MOST, ENOUGH = 6.0, 0.62, 0.4, 300
"""Constants of :func:`network_prior`."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Predictions for n training molecules by models that were not trained on them, and for m
    validation molecules by models of the training part.

    Attributes:
        kernel: [n, t], predictions of training molecules by the Gaussian process; NaN for molecules
            that it did not predict.
        kernel_variance: [n, t], variances of these predictions.
        kernel_val: [m, t].
        forest: [n, t], predictions by the trees that read the training part alone; None if there is
            no forest.
        forest_val: [m, t], of the same trees.
        forest_all: [m, t], predictions by all trees that were not trained on the group of the
            molecule; empty if there is no forest.
        y: [n, t] labels, NaN for missing values.
        groups: [n] int64, the group of each training molecule.
        groups_val: [m] int64, the group of each validation molecule.
    """

    kernel: Tensor
    kernel_variance: Tensor
    kernel_val: Tensor
    forest: OutOfBag | None
    forest_val: OutOfBag | None
    forest_all: Tensor
    y: Tensor
    groups: Tensor
    groups_val: Tensor


def network_prior(similarities: Tensor, count: int) -> float:
    r"""Return the prior weight of the network, relative to the Gaussian process and the forest.

    .. math:: w_0 = \min(0.4, \max(0, 6\, (0.62 - \bar s))) \min(1, n / 300)

    n is the number of training molecules: with few of them, a network predicts worse than the
    other components. :math:`\bar s` is the mean similarity of the validation molecules to the
    nearest training molecule. In a set of similar molecules, the nearest molecules predict a
    molecule better than a network does. In a set of different molecules, a network describes
    properties that fingerprints do not contain.

    Args:
        similarities: [m] Tanimoto similarities in 0..1.
        count: number n of training molecules.

    Example:
        >>> similarities = torch.tensor([0.5, 0.7])
        >>> round(network_prior(similarities, 500), 2), round(network_prior(similarities, 30), 3)
        (0.12, 0.012)
    """
    mean = float(similarities.double().mean())
    return min(MOST, max(0.0, SLOPE * (SIMILAR - mean))) * min(1.0, count / ENOUGH)


def part_weights(
    evidence: Evidence, network: Tensor, y_val: Tensor, rows: Tensor, scale: Tensor,
    prior: float, factors: tuple[Tensor, Tensor], clipped: Callable[[Tensor], Tensor],
    *, by_target: bool = True,
) -> Tensor:  # fmt: skip
    """Fit the weights of the network, the Gaussian process and the forest for each target.

    The weight of the forest against the Gaussian process is fitted to all molecules, because both
    components predict each training molecule without its own label. The weight of the network is
    fitted to the validation molecules, against the combination of the two. Each weight is first
    fitted to all targets together. This common weight is the prior weight of each target, so that a
    target with few labels has a weight near it (:func:`gattn.apps.molecules.stacking.fit_mixture`).

    Args:
        evidence: predictions of the Gaussian process and the forest.
        network: [m, t] predictions of the validation molecules by the networks.
        y_val: [m, t] labels of the validation molecules; NaN for missing values.
        rows: [m] bool, the validation molecules to use.
        scale: [t] scale of each target, by which its errors are divided.
        prior: prior weight of the network.
        factors: weights [n] and [m] of the training and of the validation molecules.
        clipped: converts predictions of the Gaussian process and the forest to probabilities, if
            the targets are classes.
        by_target: whether to fit weights to each target; otherwise all have the common weights.

    Returns:
        [P, t] float64: the weights of the network and the Gaussian process, then of the forest if
        there is one; they sum to one for each target.
    """
    y_val, network = y_val[rows], network[rows]
    combined, share = clipped(evidence.kernel_val)[rows], scale.new_zeros(len(scale))
    has_forest = evidence.forest is not None
    if evidence.forest is not None and evidence.forest_val is not None:
        y = torch.cat([evidence.y, y_val])
        kernel = torch.cat([evidence.kernel, evidence.kernel_val[rows]])
        forest = torch.cat([evidence.forest.mean, evidence.forest_val.mean[rows]])
        excess = torch.cat([evidence.forest.excess, evidence.forest_val.excess[rows]])
        first, second = (_errors(clipped(each), y, scale) for each in (kernel, forest))
        every = torch.cat([factors[0], factors[1][rows]])
        group = torch.cat([evidence.groups, evidence.groups_val[rows]])
        excess = excess / scale.square()
        share = _fit_mixtures(first, second, FOREST, every, group, excess, by_target)
        combined = torch.lerp(combined, clipped(evidence.forest_val.mean)[rows], share)
    first, second = (_errors(each, y_val, scale) for each in (combined, network))
    group, none = evidence.groups_val[rows], torch.zeros_like(first)
    weight = _fit_mixtures(first, second, prior, factors[1][rows], group, none, by_target)
    rest = 1 - weight
    return torch.stack([weight, rest * (1 - share), *([rest * share] if has_forest else [])])


def _fit_mixtures(
    first: Tensor, second: Tensor, prior: float, factors: Tensor, groups: Tensor, excess: Tensor,
    by_target: bool,
) -> Tensor:  # fmt: skip
    """Fit the weight of the second of two components for each target, [t] float64. The arguments
    are those of :func:`fit_mixture`; errors and excess have a column for each target. All targets
    have the same weight unless ``by_target`` is set.
    """
    targets = first.shape[1]
    # An error belongs to a group and a target.
    group = (groups[:, None] * targets + torch.arange(targets)).flatten()
    common = fit_mixture(
        first.flatten(), second.flatten(), prior, factors.repeat_interleave(targets), group,
        excess.flatten(),
    )  # fmt: skip
    weights = [common] * targets
    if by_target and targets > 1:
        weights = [
            fit_mixture(first[:, t], second[:, t], common, factors, groups, excess[:, t])
            for t in range(targets)
        ]
    return torch.tensor(weights, dtype=torch.float64)


def _errors(predicted: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """Return the errors of the predictions [k, t] divided by the scale of each target, [k, t].

    They are NaN for missing labels. They are also NaN for a target whose labels are all equal,
    because it does not show which component is better.
    """
    errors = (predicted - y) / scale
    return errors.masked_fill(~varied(y), torch.nan) if len(y) else errors
