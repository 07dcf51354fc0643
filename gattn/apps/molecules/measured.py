"""Correction of predictions by the labels of other targets that were measured for a molecule."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

import numpy as np

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

    r are the errors of predictions of the measured targets O by a model that was not trained on the
    molecule, divided by their standard deviations, and C is their correlation. If a molecule is
    less soluble than its structure suggests, its permeability may differ in the same way.

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
            The differences [k, t] to add to the means, in standard deviations, and the factors
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
