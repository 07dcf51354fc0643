"""Outputs of a model for targets with several exclusive classes; each class has its own output
column.

The classes of all targets are beside one another: a model of t targets with c_1, ..., c_t classes
has O = c_1 + ... + c_t outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

MOST_CLASSES = 100
"""Maximum number of classes of a target. A column with more different values contains names or
numbers.
"""


def split_classes(outputs: Tensor, counts: Sequence[int]) -> tuple[Tensor, ...]:
    """Split outputs [..., O] into one tensor [..., c] per target, where c is the target's number of
    classes.

    >>> [part.shape[1] for part in split_classes(torch.zeros(4, 5), [3, 2])]
    [3, 2]
    """
    return outputs.split(list(counts), dim=-1)


def one_hot(y: Tensor, counts: Sequence[int]) -> Tensor:
    """Return the one-hot encoding of labels: 1 in the column of each label's class, and 0 in the
    target's other columns.

    Args:
        y: [k, t] classes, numbered from 0; NaN for missing labels.
        counts: the number of classes of each target.

    Returns:
        [k, O] float64; NaN in all columns of a target without a label.

    >>> one_hot(torch.tensor([[1.0], [float("nan")]]), [3])
    tensor([[0., 1., 0.],
            [nan, nan, nan]], dtype=torch.float64)
    """
    columns = []
    for label, count in zip(y.double().unbind(1), counts, strict=True):
        column = (label[:, None] == torch.arange(count)).double()
        columns.append(column.masked_fill(label.isnan()[:, None], torch.nan))
    return torch.cat(columns, 1)


def class_softmax(logits: Tensor, counts: Sequence[int]) -> Tensor:
    """Convert logits [..., O] to probabilities [..., O]; the classes of each target sum to 1."""
    return torch.cat([part.softmax(-1) for part in split_classes(logits, counts)], -1)


def normalised(scores: Tensor, counts: Sequence[int]) -> Tensor:
    """Clip scores [..., O] to 0..1, and normalise them so that the classes of each target sum to 1.

    If all scores of a target are 0 or less, its classes have equal probabilities.

    >>> normalised(torch.tensor([[0.5, 1.5, -1.0], [-1.0, 0.0, 0.0]]), [3])
    tensor([[0.3333, 0.6667, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    columns = []
    for part in split_classes(scores.clamp(0, 1), counts):
        total = part.sum(-1, keepdim=True)
        columns.append(torch.where(total > 0, part / total.clamp(min=1e-12), 1 / part.shape[-1]))
    return torch.cat(columns, -1)
