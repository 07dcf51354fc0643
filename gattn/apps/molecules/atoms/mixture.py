"""Weights of the two components of a model of atoms and bonds."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["mixture_weights"]

EQUAL_ROWS = 20.0
"""Strength of the penalty on unequal weights, as a number of additional labels."""


def mixture_weights(first: Tensor, second: Tensor, y: Tensor) -> Tensor:
    r"""Fit the weights of two predictions to labels that were not used for training.

    .. math::
        \min_{0 \le w \le 1} \sum_i \bigl(y_i - (1 - w)\, a_i - w\, b_i\bigr)^2
        + \lambda s^2 \bigl(w - \tfrac{1}{2}\bigr)^2, \qquad
        s^2 = \frac{1}{n} \sum_i (a_i - b_i)^2

    :math:`\lambda` is the strength of the penalty as a number of labels. With few labels, the
    weights stay nearly equal.

    Args:
        first: [r, d] predictions a.
        second: [r, d] predictions b.
        y: [r, d] labels, NaN where one is missing.

    Returns:
        [2] float64, the weights 1 - w and w; equal ones without labels, or if the predictions are
        equal.

    Reference: Breiman, "Stacked regressions" (Machine Learning 1996).

    Example:
        >>> y = torch.linspace(-1, 1, 400)[:, None]
        >>> mixture_weights(y + 0.1, y, y).round(decimals=2)
        tensor([0.0200, 0.9800], dtype=torch.float64)
    """
    labelled = y.isfinite()
    a, b, label = (each[labelled].double() for each in (first, second, y))
    apart = (a - b).square()
    weight = 0.5
    if len(label) and apart.sum() > 0:
        penalty = EQUAL_ROWS * apart.mean()
        best = (((a - label) * (a - b)).sum() + 0.5 * penalty) / (apart.sum() + penalty)
        weight = float(best.clamp(0, 1))
    return torch.tensor([1 - weight, weight], dtype=torch.float64)
