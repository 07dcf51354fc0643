"""Losses element by element, as :func:`gattn.training.loop.fit_network` takes them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.training.types import Loss, TrainingError

__all__ = ["check_finite", "class_weights", "cross_entropy", "squared_error"]


def check_finite(loss: float, part: str, epoch: int, learning_rate: float) -> None:
    """Raise a TrainingError, which names the part and the epoch, if a loss is not finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss of the {part} part is not finite in epoch {epoch}: lower the learning "
            f"rate ({learning_rate}) or look at the data"
        )


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Compute (output - target)², for regression.

    Args:
        output: [g, t].
        target: [g, t].

    Returns:
        [g, t].

    Example:
        >>> squared_error(torch.tensor([[3.0]]), torch.tensor([[1.0]]))
        tensor([[4.]])
    """
    return F.mse_loss(output, target, reduction="none")


def cross_entropy(weights: Tensor | None = None) -> Loss:
    """Make the cross entropy of logits of class 1, for labels 0 and 1.

        L = -w_1 y log σ(z) - w_0 (1 - y) log(1 - σ(z))

    Args:
        weights: [2, t] for classes 0 and 1 of each target; ones by default.

    Returns:
        A loss of logits [g, t] and labels [g, t].

    Example:
        >>> loss = cross_entropy(torch.tensor([[0.5], [5.0]]))
        >>> loss(torch.zeros(2, 1), torch.tensor([[0.0], [1.0]]))
        tensor([[0.3466],
                [3.4657]])
    """

    def weighted(logits: Tensor, label: Tensor) -> Tensor:
        weight = None
        if weights is not None:
            low, high = weights.to(logits)
            weight = torch.where(label > 0.5, high, low)
        return F.binary_cross_entropy_with_logits(logits, label, weight, reduction="none")

    return weighted


def class_weights(y: Tensor, *, classes: int = 2) -> Tensor:
    """Weigh each class of each target by the inverse of its frequency.

        w_c = n / (classes · n_c)      of n known labels, n_c of class c

    So every class has the same total weight, and the mean over the known labels is 1.

    Args:
        y: [k, t] classes from 0; NaN where a label is missing.
        classes: number of classes.

    Returns:
        [classes, t] float64; a class without labels is weighted like one with one label.

    References:
        King and Zeng, "Logistic Regression in Rare Events Data" (Political Analysis 2001).

    Example:
        >>> class_weights(torch.tensor([[0.0], [0.0], [0.0], [1.0], [float("nan")]]))
        tensor([[0.6667],
                [2.0000]], dtype=torch.float64)
    """
    counts = torch.stack([(y == label).sum(0) for label in range(classes)])
    return counts.sum(0).double() / (classes * counts.clamp(min=1))
