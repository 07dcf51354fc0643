"""Prediction intervals for atoms and bonds. They are calibrated over whole molecules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.apps.fitting.checks import check_fraction

__all__ = ["GroupedScores"]


@dataclass(frozen=True, eq=False)
class GroupedScores:
    r"""Conformal scores of atoms, where every molecule has the same total weight.

    The atoms of a molecule depend on one another, so that they are not exchangeable with the atoms
    of a new molecule. Whole molecules are exchangeable. The scores of K calibration molecules with
    n_k atoms are

    .. math:: r_{ki} = |y_{ki} - m_{ki}| / s_{ki}

    and the interval of an atom is m ± q s, where q is the quantile of the scores at the requested
    coverage, with the probabilities

    .. math:: \sum_k \sum_i \frac{1}{(K + 1)\, n_k}\, \delta_{r_{ki}}
        + \frac{1}{K + 1}\, \delta_\infty

    **Guarantee.** If the calibration molecules and a new molecule are exchangeable and the model
    was not trained on either, the interval of a random atom of the new molecule contains its value
    with a probability of at least the coverage.

    Attributes:
        scores: [r] float64, ascending.
        mass: [r] float64, the sum of the probabilities up to each score.

    Reference:
        Lee, Barber and Willett, "Distribution-free inference with hierarchical data" (2023), HCP.

    Example:
        >>> scores = GroupedScores.fit(torch.arange(19.0), torch.arange(19))
        >>> scores.quantile(0.9), scores.quantile(0.99)
        (17.0, inf)
        >>> scores.molecules
        19
    """

    scores: Tensor
    mass: Tensor

    @classmethod
    def fit(cls, scores: Tensor, groups: Tensor) -> GroupedScores:
        """Collect the conformal scores of a calibration part.

        Args:
            scores: [r], NaN where nothing was measured.
            groups: [r] int64, the molecule of each score.
        """
        measured = ~scores.isnan()
        values, owners = scores[measured].double(), groups[measured]
        _, place, sizes = owners.unique(return_inverse=True, return_counts=True)
        share = 1 / ((len(sizes) + 1) * sizes.double())[place]
        order = values.argsort(stable=True)
        return cls(values[order], share[order].cumsum(0))

    @property
    def molecules(self) -> int:
        """Number of calibration molecules with a measured value."""
        # With K molecules, the probabilities of all scores sum to K / (K + 1), from which K is
        # computed.
        total = float(self.mass[-1]) if len(self.mass) else 0.0
        return round(total / (1 - total))

    def quantile(self, coverage: float) -> float:
        """Return the score q for a coverage in (0, 1). It is infinite if there are too few
        molecules.
        """
        check_fraction("coverage", coverage)
        # A sum of probabilities has a rounding error of about 1e-16 for each score.
        place = int(torch.searchsorted(self.mass, coverage - 1e-9))
        return float(self.scores[place]) if place < len(self.scores) else float("inf")

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which :meth:`from_state` restores the scores."""
        return {"scores": self.scores, "mass": self.mass}

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> GroupedScores:
        """Restore the scores from the result of :meth:`state`."""
        return cls(tensors["scores"], tensors["mass"])
