"""Element-wise losses for :func:`gattn.apps.fitting.loop.fit_network`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.apps.fitting.types import Loss, TrainingError


def check_finite(loss: float, part: str, epoch: int, learning_rate: float) -> None:
    """Raise a TrainingError if a loss is not finite; the message names the part, the epoch and the
    learning rate.
    """
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss of the {part} part is not finite in epoch {epoch}: lower the learning "
            f"rate ({learning_rate}) or check the data"
        )


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Compute the squared error (output - target)², for regression.

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


def absolute_error(output: Tensor, target: Tensor) -> Tensor:
    """Compute |output - target|, for regression: [g, t]."""
    return F.l1_loss(output, target, reduction="none")


def regression_loss(error: str = "mse", *, is_bounded: bool = False) -> Loss:
    """Return the loss of an error, ``"mae"`` or ``"mse"``.

    With ``is_bounded``, a label has a lower and an upper end, and the loss is that of
    :func:`bounded`. Raises KeyError for another error.
    """
    loss = {"mae": absolute_error, "mse": squared_error}[error]
    return bounded(loss) if is_bounded else loss


def bounded(loss: Loss) -> Loss:
    r"""Return a loss that is 0 for every output between the lower and the upper end of its label.

    .. math:: L = \mathrm{loss}(z, \min(\max(z, l), u))

    Args:
        loss: element-wise loss of outputs and targets [g, t].

    Returns:
        A function of outputs z [g, t] and ends [g, t, 2], the lower l and the upper u, with
        element-wise results [g, t]. If both ends are equal, the label is a measured value.

    Reference:
        Tobin, "Estimation of relationships for limited dependent variables" (Econometrica 1958),
        for labels of this kind.

    Example:
        >>> ends = torch.tensor([[[10.0, torch.inf], [3.0, 3.0]]])
        >>> bounded(squared_error)(torch.tensor([[12.0, 5.0]]), ends)
        tensor([[0., 4.]])
    """

    def of_ends(output: Tensor, ends: Tensor) -> Tensor:
        lower, upper = ends.unbind(-1)
        return loss(output, output.detach().maximum(lower).minimum(upper))

    return of_ends


def cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Compute the binary cross entropy of logits [g, t] and labels [g, t], element-wise.

    L = -y log σ(z) - (1 - y) log(1 - σ(z))
    """
    return F.binary_cross_entropy_with_logits(logits, label, reduction="none")


def class_loss(logits: Tensor, label: Tensor) -> Tensor:
    """Compute the cross entropy [g, 1] of logits [g, classes] and labels [g, 1], the number of each
    row's class from 0, none of which may be NaN.

    The classes can also be candidates, of which one is true.
    """
    return F.cross_entropy(logits, label[:, 0].long(), reduction="none")[:, None]


def multiclass_cross_entropy(counts: Sequence[int]) -> Loss:
    r"""Return a function that computes the cross entropy of several exclusive classes.

    .. math:: L_{ic} = -c_i\, y_{ic} \log \mathrm{softmax}(z_i)_c

    The mean over the c_i classes of target i is therefore its cross entropy.

    Args:
        counts: the number of classes of each target, which sum to O.

    Returns:
        A function of logits [g, O] and of 1 for the true class and 0 for the others, [g, O], with
        element-wise results [g, O].

    Example:
        >>> loss = multiclass_cross_entropy([3])
        >>> loss(torch.zeros(1, 3), torch.tensor([[0.0, 1.0, 0.0]])).mean()
        tensor(1.0986)
    """
    sizes = list(counts)
    factors = torch.tensor([float(count) for count in sizes for _ in range(count)])

    def of_classes(logits: Tensor, label: Tensor) -> Tensor:
        logs = torch.cat([part.log_softmax(-1) for part in logits.split(sizes, -1)], -1)
        return -factors.to(logits) * label * logs

    return of_classes
