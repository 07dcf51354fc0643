"""How similar a molecule is to those that a model was trained on."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.molecules.kernel import count_tanimoto

__all__ = ["nearest_similarity"]

ASKED, ROWS = 1024, 4096
"""Molecules and training molecules compared at a time, which bounds the memory."""


def nearest_similarity(train: Tensor, counts: Tensor) -> Tensor:
    """Find each molecule's Tanimoto similarity to the most similar training molecule.

    Args:
        train: [n, bits] bool, the training molecules' Morgan bits.
        counts: [k, bits] uint8; a bit is set where a count is above 0.

    Returns:
        [k] float32 in 0..1; zeros where there is no training molecule.

    Example:
        >>> bits = torch.tensor([[True, True, False]])
        >>> nearest_similarity(bits, torch.tensor([[3, 1, 0], [0, 0, 1]], dtype=torch.uint8))
        tensor([1., 0.])
    """
    best = torch.zeros(len(counts))
    for asked, found in zip(counts.split(ASKED), best.split(ASKED)):
        bits = (asked > 0).to(torch.uint8)
        for some in train.split(ROWS):
            similarity = count_tanimoto(bits, some.to(torch.uint8)).amax(1)
            torch.maximum(found, similarity, out=found)
    return best
