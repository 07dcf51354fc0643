"""Training molecules that are most similar to a molecule, and the values measured for them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.kernels.features import CountTable

Array = Any
"""Type of a NumPy array, or of numbers that NumPy converts to one."""
PRIOR_MOLECULES = 8.0
"""Strength of the prior that two targets are uncorrelated, as a number of molecules."""
LEAST_EIGENVALUE = 0.05
"""Minimum eigenvalue of the correlation matrix. Below it, the coefficients of two nearly equal
targets become large.
"""


class MeasuredTargets:
    r"""Correction of the targets of a molecule that were not measured, by its measured targets.

    .. math::
        y_t \leftarrow y_t + s_t\, C_{tO} C_{OO}^{-1} r_O, \qquad
        s_t^2 \leftarrow s_t^2\, (1 - C_{tO} C_{OO}^{-1} C_{Ot})

    r are the errors of predictions of the measured targets O by a Gaussian process that was not
    trained on the molecule, divided by their standard deviations, and C is their correlation. s in
    the first equation is the standard deviation of the Gaussian process. If a molecule is less
    soluble than its structure suggests, its permeability may differ in the same way.

    Molecules with the same counts of Morgan environments are the same molecule.

    Args:
        counts: [n, d] counts of Morgan environments of the training molecules.
        residuals: [n, t] errors r; NaN for a target that was not measured.
        correlation: [t, t] matrix C.

    Reference: Journel and Huijbregts, "Mining Geostatistics" (1978), chapter 5, on cokriging.

    Example:
        >>> counts, residuals = np.array([[1, 0], [0, 1]]), np.array([[2.0, np.nan], [1.0, 1.0]])
        >>> measured = MeasuredTargets(counts, residuals, np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> shift, factor = measured.corrections(np.array([[1, 0], [1, 1]]))
        >>> shift.tolist(), factor.round(3).tolist()
        ([[0.0, 1.0], [0.0, 0.0]], [[1.0, 0.866], [1.0, 1.0]])
    """

    def __init__(self, counts: Array, residuals: Array, correlation: Array) -> None:
        self.counts, self.residuals, self.correlation = counts, residuals, correlation

    @cached_property
    def _rows(self) -> dict[bytes, list[int]]:
        """Rows of the training molecules by their counts."""
        rows: dict[bytes, list[int]] = defaultdict(list)
        for row, counts in enumerate(self.counts):
            rows[counts.tobytes()].append(row)
        return rows

    def corrections(self, counts: Array) -> tuple[Array, Array]:
        """Compute the corrections of k molecules.

        Args:
            counts: [k, d] counts of Morgan environments, of the type of the training counts.

        Returns:
            The differences [k, t] to add to the means, in standard deviations s, and the factors
            [k, t] of the standard deviations: zeros and ones for targets that were measured and for
            molecules that were not trained on.
        """
        shift = np.zeros((len(counts), len(self.correlation)))
        factor = np.ones_like(shift)
        for i, one in enumerate(counts):
            errors = self.residuals[self._rows.get(one.tobytes(), [])]
            number = np.isfinite(errors).sum(0)
            measured, others = np.flatnonzero(number), np.flatnonzero(number == 0)
            if not len(measured) or not len(others):
                continue
            residual = np.nansum(errors[:, measured], 0) / number[measured]
            between = self.correlation[np.ix_(measured, others)]
            slope = np.linalg.solve(self.correlation[np.ix_(measured, measured)], between)
            shift[i, others] = residual @ slope
            factor[i, others] = np.sqrt(np.maximum(1 - (between * slope).sum(0), 0))
        return shift, factor


def residual_correlation(residuals: Array) -> Array:
    """Estimate the correlation of the errors of each two targets from the molecules that have both.

    Args:
        residuals: [n, t] errors divided by their standard deviations; NaN for missing labels.

    Returns:
        [t, t], a positive definite matrix with ones on its diagonal.

    Example:
        >>> errors = np.linspace(-1, 1, 400)
        >>> residual_correlation(np.stack([errors, -errors], 1)).round(2).tolist()
        [[1.0, -0.95], [-0.95, 1.0]]
    """
    mask = np.isfinite(residuals).astype(float)
    values = np.nan_to_num(residuals)
    squares = (values**2).T @ mask
    size = np.sqrt(np.maximum(squares * squares.T, 1e-12))
    count = mask.T @ mask
    matrix = values.T @ values / size * count / (count + PRIOR_MOLECULES)
    np.fill_diagonal(matrix, 1.0)
    eigenvalues, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(eigenvalues, LEAST_EIGENVALUE)) @ vectors.T
    scale = np.sqrt(matrix.diagonal())
    return matrix / np.outer(scale, scale)


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
            :func:`pack_bits`. It is not copied, and must not be changed afterwards.

    Example:
        >>> nearest = NearestMolecules(pack_bits([torch.tensor([[1, 2, 0]], dtype=torch.uint8)]))
        >>> nearest.similarity(torch.tensor([[3, 1, 0], [0, 0, 1]], dtype=torch.uint8))
        tensor([1., 0.])
    """

    def __init__(self, train: Tensor) -> None:
        self._train = train.numpy()

    def similarity(self, counts: Tensor) -> Tensor:
        """Return the similarity of each molecule to the most similar training molecule.

        Args:
            counts: [k, bits] uint8; a bit is set where a count is above 0.

        Returns:
            [k] float32 in 0..1; zeros if there are no training molecules.

        Raises:
            ValueError: the counts have another number of columns or another dtype.
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

        Raises:
            ValueError: the counts have another number of columns or another dtype.

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
        """Yield pairs of the bits [k, d] uint8 of the molecules, and of a block of training
        molecules to which they are compared. The blocks are in the order of the columns of
        ``train``; of many training molecules, only the d bits that a molecule has are read.
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
        """Number of bits of each training molecule: [m] float32, 0 for those that pad a byte."""
        sizes = np.zeros(8 * self._train.shape[1], np.float32)
        for bits in self._train:
            sizes += np.unpackbits(bits)
        return torch.from_numpy(sizes)
