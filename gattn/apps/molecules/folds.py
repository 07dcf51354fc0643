"""Assignment of validation molecules to folds for cross-fitting."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["FOLDS", "assign_folds"]

FOLDS = 10
"""Number of folds. With ten folds, each choice uses nine tenths of the validation part, so it
differs little from a choice on the whole part.
"""


def assign_folds(groups: Tensor, seed: int) -> Tensor:
    """Assign each row to a random fold; all rows of a group are in the same fold.

    Args:
        groups: [n] int64, the group of each row, numbered from 0.
        seed: seed of the draw.

    Returns:
        [n] int64 in 0..FOLDS - 1; folds differ by at most one group in size.

    Example:
        >>> assign_folds(torch.tensor([0, 1, 0]), seed=0).tolist()
        [0, 1, 0]
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    generator = torch.Generator().manual_seed(seed)
    return (torch.randperm(count, generator=generator) % FOLDS)[groups]
