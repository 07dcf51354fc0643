"""How similar a molecule is to those that a model was trained on."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

__all__ = ["NearestMolecules"]

FEW = 8192
"""Of so many training molecules all bits are gathered before they are summed, which is one call."""


class NearestMolecules:
    """Finds each molecule's Tanimoto similarity to the most similar training molecule.

    The bits that two molecules share are summed bit by bit over all training molecules at once, in
    bytes: of the 2048 bits a molecule has some forty.

    Args:
        train: [n, bits] bool, the training molecules' Morgan bits.

    Example:
        >>> found = NearestMolecules(torch.tensor([[True, True, False]]))
        >>> found.similarity(torch.tensor([[3, 1, 0], [0, 0, 1]], dtype=torch.uint8))
        tensor([1., 0.])
    """

    def __init__(self, train: Tensor) -> None:
        self._train = train

    def similarity(self, counts: Tensor) -> Tensor:
        """Compare molecules with every training molecule.

        Args:
            counts: [k, bits] uint8; a bit is set where a count is above 0.

        Returns:
            [k] float32 in 0..1; zeros where there is no training molecule.
        """
        found = torch.zeros(len(counts))
        if len(self._train):
            for i, bits in enumerate((counts > 0).numpy()):
                found[i] = self._largest(np.flatnonzero(bits))
        return found

    def _largest(self, bits: np.ndarray) -> float:
        """The largest similarity of a molecule that has these bits."""
        columns, sizes = self._columns
        dtype = np.uint8 if len(bits) < 256 else np.uint16
        if len(sizes) < FEW:
            shared = np.add.reduce(columns[bits], axis=0, dtype=dtype)
        else:
            shared = np.zeros(len(sizes), dtype)
            for column in bits.tolist():
                np.add(shared, columns[column], out=shared)
        least = shared.astype(np.float32)
        most = np.maximum(sizes + np.float32(len(bits)) - least, np.float32(1))
        return float((least / most).max())

    @functools.cached_property
    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """The bits, [bits, n] uint8, and how many each training molecule has, [n] float32."""
        sizes = self._train.sum(1, dtype=torch.float32)
        return self._train.t().contiguous().view(torch.uint8).numpy(), sizes.numpy()
