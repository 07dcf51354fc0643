"""How the parts of a model become one prediction with a standard deviation."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["combine", "fit_spread", "fit_weights", "spread", "varied"]

EQUAL_ROWS = 20.0
"""As if so many more molecules had been measured for which equal weights are best."""
STEPS = 60


def fit_weights(parts: Tensor, y: Tensor) -> Tensor:
    r"""Weigh parts by how well their sum predicts what none of them was trained on.

    .. math::
        \min_{w \ge 0,\, \sum w = 1} \sum_i \frac{(y_i - \sum_p w_p m_{pi})^2}{s^2}
        + \lambda \lVert w - \tfrac{1}{P} \rVert^2

    s is the standard deviation of the differences between parts, so that :math:`\lambda` counts
    molecules: with few of them the weights stay near equal ones. A target of which all values are
    one, as of a single class, cannot tell which part orders molecules better, and is left out.

    Args:
        parts: [P, k, t] predictions.
        y: [k, t] measured values; NaN where there is none.

    Returns:
        [P] float64; equal weights where no target has two different values.

    Reference: Breiman, "Stacked regressions" (Machine Learning 1996).

    Example:
        >>> y = torch.tensor([[1.0], [2.0], [3.0]]).repeat(40, 1)
        >>> fit_weights(torch.stack([y, -y]), y).round(decimals=2)
        tensor([0.9600, 0.0400], dtype=torch.float64)
    """
    known = y.isfinite() & varied(y)
    made, wanted = parts[:, known].double().t(), y[known].double()
    count = parts.shape[0]
    equal = torch.full((count,), 1 / count, dtype=torch.float64)
    apart = (made - made.mean(1, keepdim=True)).square().mean() if known.any() else wanted.sum()
    if not apart > 0:
        return equal
    gram = made.t() @ made / apart + EQUAL_ROWS * torch.eye(count).double()
    right = made.t() @ wanted / apart + EQUAL_ROWS * equal
    return _least_squares_on_simplex(gram, right)


def varied(y: Tensor) -> Tensor:
    """Whether each target of [k, t] has two different known values: [t] bool."""
    known = y.isfinite()
    return y.where(known, torch.inf).amin(0) < y.where(known, -torch.inf).amax(0)


def _least_squares_on_simplex(gram: Tensor, right: Tensor) -> Tensor:
    """The w >= 0 with sum 1 that minimises w G w / 2 - b w: the best over all sets of parts."""
    best, lowest = right, float("inf")
    for chosen in _subsets(len(right)):
        # The stationary point within the set, by a Lagrange multiplier for the sum.
        size = len(chosen)
        system = torch.ones(size + 1, size + 1, dtype=torch.float64)
        system[:size, :size], system[size, size] = gram[chosen][:, chosen], 0
        found = torch.linalg.solve(system, torch.cat([right[chosen], right.new_ones(1)]))[:size]
        weights = torch.zeros_like(right).index_copy(0, chosen, found)
        value = float(0.5 * weights @ gram @ weights - right @ weights)
        if found.min() >= 0 and value < lowest:
            best, lowest = weights, value
    return best


def _subsets(count: int) -> list[Tensor]:
    """Every non-empty set of a few numbers."""
    numbers = torch.arange(count)
    return [numbers[(code >> numbers) & 1 == 1] for code in range(1, 2**count)]


def combine(parts: Tensor, weights: Tensor) -> Tensor:
    """Sum predictions [P, k, t] with weights [P]: [k, t] float64."""
    return torch.einsum("pkt,p->kt", parts.double(), weights)


def fit_spread(sources: Tensor, error: Tensor) -> Tensor:
    r"""Learn how large errors are from what may tell.

    .. math::
        \max_{c > 0} \sum_i \log \mathcal{N}(e_i; 0, \sigma_i^2), \qquad
        \sigma_i^2 = \sum_s c_s v_{si}

    with a normal prior on :math:`\log c_s`, around equal shares of the mean squared error.

    Args:
        sources: [s, k, t], not negative: variances, squared differences, a constant.
        error: [k, t] of molecules that were not trained on; NaN where nothing was measured.

    Returns:
        [s, t] float64 coefficients, above 0; ones where nothing was measured.

    Example:
        >>> size = torch.arange(1.0, 401.0)[:, None] / 400
        >>> error = size * torch.tensor([1.0, -1.0]).repeat(200)[:, None]
        >>> found = fit_spread(torch.stack([torch.ones(400, 1), size.square()]), error)
        >>> bool(found[1] > 5 * found[0])
        True
    """
    return torch.stack(
        [_fit_one(sources[..., t].double(), error[:, t].double()) for t in range(error.shape[1])], 1
    )


def spread(sources: Tensor, coefficients: Tensor) -> Tensor:
    """The standard deviation of the error: [k, t] from sources [s, k, t]."""
    return torch.einsum("skt,st->kt", sources.double(), coefficients).sqrt()


def _fit_one(sources: Tensor, error: Tensor) -> Tensor:
    known = error.isfinite()
    sources, squares = sources[:, known], error[known].square()
    if not known.any() or not squares.sum() > 0:
        return torch.ones(len(sources), dtype=torch.float64)
    # In units of the mean squared error, so that the optimizer stops at the same coefficients
    # whatever the unit of the target is.
    unit = squares.mean()
    sources, squares = sources / unit, squares / unit
    share = sources.mean(1).clamp(min=1e-12)
    start = (1 / len(sources) / share).log()
    logs = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        variance = logs.exp() @ sources
        value = 0.5 * (variance.log() + squares / variance).sum()
        value = value + 0.5 * (logs - start).square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return logs.detach().exp()
