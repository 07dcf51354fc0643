"""Tanimoto similarity of molecules to the training molecules of a model."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.kernels.features import CountTable

BLOCK, QUERIES = 8192, 256
"""Numbers of training molecules and of other molecules that are compared at once, to limit the
memory.
"""


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
        largest = torch.zeros(len(counts))
        for queries, table in self._blocks(counts):
            for rows in (slice(i, i + QUERIES) for i in range(0, len(counts), QUERIES)):
                nearest = table.tanimoto(queries[rows]).amax(1)
                largest[rows] = torch.maximum(largest[rows], nearest)
        return largest

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
        rows = torch.empty(len(counts), 8 * self._train.shape[1])
        begin = 0
        for queries, table in self._blocks(counts):
            size = len(table.totals)
            rows[:, begin : begin + size] = table.tanimoto(queries)
            begin += size
        return rows

    def _blocks(self, counts: Tensor) -> Iterator[tuple[Tensor, CountTable]]:
        """Yield blocks of training molecules, with the bits of the molecules that are compared to
        them: [k, d] uint8.
        """
        bits = (counts > 0).to(torch.uint8)
        if self._train.shape[1] * 8 <= BLOCK:
            if self._train.size:
                yield bits, self._table
            return
        # Only the rows of bits that a molecule has are unpacked.
        needed = (counts > 0).any(0)
        queries, packed = bits[:, needed], self._train[needed.numpy()]
        for begin in range(0, packed.shape[1], BLOCK // 8):
            some = slice(begin, begin + BLOCK // 8)
            columns = torch.from_numpy(np.unpackbits(packed[:, some], axis=1))
            yield queries, CountTable(columns, self._sizes[8 * some.start : 8 * some.stop])

    @functools.cached_property
    def _table(self) -> CountTable:
        """Bits of all training molecules. They are only stored unpacked if there are few."""
        return CountTable(torch.from_numpy(np.unpackbits(self._train, axis=1)), self._sizes)

    @functools.cached_property
    def _sizes(self) -> Tensor:
        """Number of bits of each training molecule: [n] float32."""
        sizes = np.zeros(8 * self._train.shape[1], np.float32)
        for bits in self._train:
            sizes += np.unpackbits(bits)
        return torch.from_numpy(sizes)
