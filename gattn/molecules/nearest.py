"""Tanimoto similarity of molecules to the training molecules of a model."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

__all__ = ["NearestMolecules", "pack_bits"]

BLOCK = 8192
"""Number of training molecules that are compared at once, so that their bits fit into the cache."""


def pack_bits(counts: Iterable[Tensor]) -> Tensor:
    """Pack Morgan bits into bytes for :class:`NearestMolecules`; a molecule takes 256 bytes.

    Args:
        counts: one or more of [k, bits] uint8; a bit is set where a count is above 0.

    Returns:
        [bits, sum of ceil(k / 8)] uint8: each byte contains one bit of eight molecules. If k is not
        a multiple of 8, the last byte is padded with molecules without bits, whose similarity is 0.

    Example:
        >>> pack_bits([torch.tensor([[3, 1], [0, 2]], dtype=torch.uint8)])
        tensor([[128],
                [192]], dtype=torch.uint8)
    """
    set_ = (np.ascontiguousarray((some > 0).numpy().T) for some in counts)
    return torch.from_numpy(np.concatenate([np.packbits(bits, axis=1) for bits in set_], 1))


class NearestMolecules:
    """Search for the training molecule that is most similar to a molecule, by Tanimoto similarity.

    A molecule has about forty of the 2048 bits. The rows of these bits are summed to count the bits
    that the molecule shares with thousands of training molecules at once.

    Args:
        train: [bits, m] uint8, Morgan bits of the training molecules, as returned by
            :func:`pack_bits`.

    Raises:
        ValueError: ``train`` has another type or number of dimensions.

    Example:
        >>> nearest = NearestMolecules(pack_bits([torch.tensor([[1, 2, 0]], dtype=torch.uint8)]))
        >>> nearest.similarity(torch.tensor([[3, 1, 0], [0, 0, 1]], dtype=torch.uint8))
        tensor([1., 0.])
    """

    def __init__(self, train: Tensor) -> None:
        if train.dim() != 2 or train.dtype != torch.uint8:
            raise ValueError(
                "train must be the packed bits of m molecules, [bits, m] uint8; got "
                f"{(*train.shape,)} {train.dtype}"
            )
        self._train = train.numpy()

    def similarity(self, counts: Tensor) -> Tensor:
        """Return the similarity of each molecule to the most similar training molecule.

        Args:
            counts: [k, bits] uint8; a bit is set where a count is above 0.

        Returns:
            [k] float32 in 0..1; zeros if there are no training molecules.
        """
        bit_indices = _bit_indices(counts)
        largest = np.zeros(len(bit_indices), np.float32)
        for place, columns, sizes in self._blocks(_union(bit_indices)):
            for i, bits in enumerate(bit_indices):
                similarities = _similarities(columns[place[bits]], sizes)
                largest[i] = max(largest[i], similarities.max())
        return torch.from_numpy(largest)

    def similarities(self, counts: Tensor) -> Tensor:
        """Return the similarity of each molecule to every training molecule.

        Args:
            counts: [k, bits] uint8; a bit is set where a count is above 0.

        Returns:
            [k, m] float32 in 0..1, in the order of the columns of ``train``: eight for each byte,
            with zeros for the molecules that pad a byte.

        Example:
            >>> train = pack_bits([torch.tensor([[1, 2, 0], [0, 1, 0]], dtype=torch.uint8)])
            >>> query = torch.tensor([[3, 1, 0]], dtype=torch.uint8)
            >>> NearestMolecules(train).similarities(query)[0, :3]
            tensor([1.0000, 0.5000, 0.0000])
        """
        bit_indices = _bit_indices(counts)
        rows = np.zeros((len(bit_indices), 8 * self._train.shape[1]), np.float32)
        begin = 0
        for place, columns, sizes in self._blocks(_union(bit_indices)):
            for row, bits in zip(rows, bit_indices):
                row[begin : begin + len(sizes)] = _similarities(columns[place[bits]], sizes)
            begin += len(sizes)
        return torch.from_numpy(rows)

    def _blocks(self, needed: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield blocks of training molecules with the rows of the bits in ``needed``.

        Yields:
            For each block of m molecules: the row of each bit in it, the unpacked bits [rows, m],
            and the number of bits of each molecule, [m].
        """
        if self._train.shape[1] * 8 <= BLOCK:
            if self._train.size:
                yield np.arange(len(self._train)), self._unpacked, self._sizes
            return
        place = np.zeros(len(self._train), np.int64)
        place[needed] = np.arange(len(needed))
        for begin in range(0, self._train.shape[1], BLOCK // 8):
            some = slice(begin, begin + BLOCK // 8)
            columns = np.unpackbits(self._train[needed, some], axis=1)
            yield place, columns, self._sizes[8 * some.start : 8 * some.stop]

    @functools.cached_property
    def _unpacked(self) -> np.ndarray:
        """Bits of all n training molecules, [bits, n] uint8. They are only stored if n is small."""
        return np.unpackbits(self._train, axis=1)

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        """Number of bits of each training molecule: [n] float32."""
        sizes = np.zeros(8 * self._train.shape[1], np.float32)
        for bits in self._train:
            sizes += np.unpackbits(bits)
        return sizes


def _bit_indices(counts: Tensor) -> list[np.ndarray]:
    """Return the indices of the bits that are set in each molecule."""
    return [np.flatnonzero(bits) for bits in (counts > 0).numpy()]


def _union(bit_indices: list[np.ndarray]) -> np.ndarray:
    """Return the indices of the bits that are set in any of the molecules, in ascending order."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *bit_indices]))


def _similarities(bits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the similarity of one molecule to n training molecules, [n] float32.

    Args:
        bits: [count, n], the rows of the bits that the molecule has, for all training molecules.
        sizes: [n] float32, the number of bits that each training molecule sets.
    """
    count = len(bits)
    shared = np.add.reduce(bits, axis=0, dtype=np.uint8 if count < 256 else np.uint16)
    least = shared.astype(np.float32)
    return least / np.maximum(sizes + np.float32(count) - least, np.float32(1))
