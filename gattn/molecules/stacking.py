"""Combination of the components of a model into one prediction with a standard deviation."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.compat.torch import uncompiled_optimizers

__all__ = ["combine", "fit_spread", "fit_weights", "predicted_std", "varied"]

EQUAL_ROWS = 20.0
"""Strength of the penalty for unequal weights, as a number of additional observations."""
STEPS = 60


def fit_weights(components: Tensor, y: Tensor, label_weights: Tensor | None = None) -> Tensor:
    r"""Fit the weights of the components to predictions for molecules that were not used for
    training.

    .. math::
        \min_{w \ge 0,\, \sum w = 1} \sum_i \frac{(y_i - \sum_p w_p m_{pi})^2}{s^2}
        + \lambda \lVert w - \tfrac{1}{P} \rVert^2

    s is the standard deviation of the differences between components, so that :math:`\lambda`
    counts molecules: with few of them the weights stay nearly equal. A target whose labels are
    all equal cannot rank the components and is left out.

    Args:
        components: [P, k, t] predictions.
        y: [k, t] measured values; NaN for a missing value.
        label_weights: [k, t] factors of the squared errors, with a mean of about 1; None for ones.

    Returns:
        [P] float64; equal weights if no target has two different values.

    Reference: Breiman, "Stacked regressions" (Machine Learning 1996).

    Example:
        >>> y = torch.tensor([[1.0], [2.0], [3.0]]).repeat(40, 1)
        >>> fit_weights(torch.stack([y, -y]), y).round(decimals=2)
        tensor([0.9600, 0.0400], dtype=torch.float64)
    """
    labelled = y.isfinite() & varied(y)
    predicted, measured = components[:, labelled].double().t(), y[labelled].double()
    count = components.shape[0]
    equal = torch.full((count,), 1 / count, dtype=torch.float64)
    centered = predicted - predicted.mean(1, keepdim=True)
    variance = centered.square().mean() if labelled.any() else measured.sum()
    if not variance > 0:
        return equal
    left = predicted if label_weights is None else predicted * label_weights[labelled][:, None]
    gram = left.t() @ predicted / variance + EQUAL_ROWS * torch.eye(count).double()
    right = left.t() @ measured / variance + EQUAL_ROWS * equal
    return _least_squares_on_simplex(gram, right)


def varied(y: Tensor) -> Tensor:
    """Return True for each target that has at least two different labels: [t] bool."""
    labelled = y.isfinite()
    return y.where(labelled, torch.inf).amin(0) < y.where(labelled, -torch.inf).amax(0)


def _least_squares_on_simplex(gram: Tensor, right: Tensor) -> Tensor:
    """Minimise w G w / 2 - b w over w >= 0 with sum 1. All subsets of the components are tried."""
    best, lowest = right, float("inf")
    for chosen in _subsets(len(right)):
        # The error is minimised over the components in ``chosen``. A Lagrange multiplier makes
        # their weights sum to 1.
        size = len(chosen)
        system = torch.ones(size + 1, size + 1, dtype=torch.float64)
        system[:size, :size], system[size, size] = gram[chosen][:, chosen], 0
        solution = torch.linalg.solve(system, torch.cat([right[chosen], right.new_ones(1)]))[:size]
        weights = torch.zeros_like(right).index_copy(0, chosen, solution)
        value = float(0.5 * weights @ gram @ weights - right @ weights)
        if solution.min() >= 0 and value < lowest:
            best, lowest = weights, value
    return best


def _subsets(count: int) -> list[Tensor]:
    """Return all non-empty subsets of the numbers 0 to count - 1, as tensors."""
    numbers = torch.arange(count)
    return [numbers[(code >> numbers) & 1 == 1] for code in range(1, 2**count)]


def combine(components: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum, [k, t] float64, of the components' predictions [P, k, t]."""
    return torch.einsum("pkt,p->kt", components.double(), weights)


def fit_spread(sources: Tensor, error: Tensor, row_weights: Tensor | None = None) -> Tensor:
    r"""Fit the coefficients of the error variance by maximum likelihood.

    .. math::
        \max_{c > 0} \sum_i \log \mathcal{N}(e_i; 0, \sigma_i^2), \qquad
        \sigma_i^2 = \sum_s c_s v_{si}

    with a normal prior on :math:`\log c_s`, around equal shares of the mean squared error.

    Args:
        sources: [s, k, t], not negative: variances, squared differences, a constant.
        error: [k, t] errors for molecules that were not trained on; NaN where not measured.
        row_weights: [k] factors of the log likelihoods, with a mean of about 1; None for ones.

    Returns:
        [s, t] float64 coefficients, above 0; ones where nothing was measured.

    Example:
        >>> size = torch.arange(1.0, 401.0)[:, None] / 400
        >>> error = size * torch.tensor([1.0, -1.0]).repeat(200)[:, None]
        >>> coefficients = fit_spread(torch.stack([torch.ones(400, 1), size.square()]), error)
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


def predicted_std(sources: Tensor, coefficients: Tensor) -> Tensor:
    """Return the standard deviation of the error, [k, t], computed from its s inputs [s, k, t]."""
    return torch.einsum("skt,st->kt", sources.double(), coefficients).sqrt()


def _fit_one(sources: Tensor, error: Tensor, row_weights: Tensor | None) -> Tensor:
    measured = error.isfinite()
    factors = None if row_weights is None else row_weights[measured]
    sources, squares = sources[:, measured], error[measured].square()
    if not measured.any() or not squares.sum() > 0:
        return torch.ones(len(sources), dtype=torch.float64)
    # The errors are divided by their mean square, so that the optimizer stops at the same
    # coefficients in any unit of the target.
    unit = squares.mean()
    sources, squares = sources / unit, squares / unit
    share = sources.mean(1).clamp(min=1e-12)
    start = (1 / len(sources) / share).log()
    logs = start.clone().requires_grad_()
    with uncompiled_optimizers():
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        logs.grad = None
        variance = logs.exp() @ sources
        losses = variance.log() + squares / variance
        value = 0.5 * (losses if factors is None else factors * losses).sum()
        value = value + 0.5 * (logs - start).square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return logs.detach().exp()
