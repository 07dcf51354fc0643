"""Mean labels of atoms and bonds that have the same environment. They are a baseline, and a
component of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.checks import check_fraction
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.environments import environments

RADII = 4
"""Number of radii. An environment contains the atoms within 0, 1, 2 or 3 bonds."""
STRENGTH = 1.0
"""The mean of an environment is shrunk towards the mean of the next smaller environment, as if
it had this number of additional labels.
"""


def environment_codes(arrays: MoleculeArrays, level: str) -> np.ndarray:
    """Return hash codes of the environments of atoms or bonds; equal environments have equal
    codes.

    Args:
        arrays: graphs of molecules, with n atoms or bonds.
        level: ``"atom"`` or ``"bond"``. The code of a bond combines those of its two atoms, in any
            order, with its features.

    Returns:
        [radii, n] int64.
    """
    edges = arrays.edge_ptr.diff()
    first = arrays.ptr[:-1].repeat_interleave(edges)
    ends = (arrays.edge_index + first)[:, ::2].t().numpy()
    atoms = _hashed(arrays.x)
    bonds = _hashed(arrays.edge_attr[::2])
    nowhere = np.zeros(len(atoms), np.bool_)
    of_atoms = [atoms]
    for _ in range(RADII - 1):
        of_atoms.append(environments(of_atoms[-1], of_atoms[-1], nowhere, bonds, ends))
    if level == "atom":
        return np.stack(of_atoms).view(np.int64)
    of_bonds = [codes[ends].sum(1, dtype=np.uint64) + np.uint64(3) * bonds for codes in of_atoms]
    return np.stack(of_bonds).view(np.int64).reshape(RADII, len(bonds))


def _hashed(features: Tensor) -> np.ndarray:
    """Return a hash code for each of r rows of features, [r] uint64."""
    words = features.contiguous().numpy().view(np.uint32).astype(np.uint64)
    random = np.random.default_rng(0).integers(1, 2**62, words.shape[1], dtype=np.uint64)
    return (words * (2 * random + np.uint64(1))).sum(1, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class EnvironmentMeans:
    r"""Mean labels of environments. Each mean is shrunk towards the mean of the next smaller
    environment.

    .. math:: m_r = \frac{\sum_i y_i + \lambda\, m_{r-1}}{n_r + \lambda}

    for the n_r labels of an environment of radius r; m before the smallest radius is the mean of
    all labels. The prediction is that of the largest environment that was labelled. An atom of an
    unknown element has the mean of all labels. This model needs no network; it is equivalent to a
    table with one value for each type of atom.

    Attributes:
        overall: [o] float64, the mean of all labels.
        codes: for each radius the codes of the environments, ascending, [u] int64.
        means: for each radius [u, o] float64.
        counts: for each radius [u, o] float64, the number of labels.
    """

    overall: Tensor
    codes: tuple[Tensor, ...]
    means: tuple[Tensor, ...]
    counts: tuple[Tensor, ...]

    @classmethod
    def fit(cls, codes: np.ndarray, y: Tensor) -> EnvironmentMeans:
        """Compute the mean label of each environment.

        Args:
            codes: [radii, r] from :func:`environment_codes`.
            y: [r, o] float64, NaN where a label is missing.
        """
        factor = (~y.isnan()).double()
        values = y.nan_to_num(0.0)
        overall = values.sum(0) / factor.sum(0).clamp(min=1e-12)
        coarse = overall.expand(len(y), *overall.shape)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for row in codes:
            distinct, place = np.unique(row, return_inverse=True)
            index = torch.from_numpy(place.reshape(-1))
            shape = (len(distinct), *overall.shape)
            total = torch.zeros(shape, dtype=torch.float64).index_add_(0, index, values)
            count = torch.zeros(shape, dtype=torch.float64).index_add_(0, index, factor)
            before = torch.zeros(shape, dtype=torch.float64).index_copy_(0, index, coarse)
            mean = (total + STRENGTH * before) / (count + STRENGTH)
            parts.append((torch.from_numpy(distinct), mean, count))
            coarse = mean[index]
        sorted_codes, means, counts = zip(*parts)
        return cls(overall, sorted_codes, means, counts)

    def predict(self, codes: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean labels of environments, given their codes.

        Args:
            codes: [radii, r].

        Returns:
            The means [r, o]; the numbers of their labels [r, o]; and the radius of the largest
            known environment of each row, [r] int64, -1 if its atom is unknown.
        """
        count = codes.shape[1]
        mean = self.overall.expand(count, *self.overall.shape).clone()
        labels = torch.zeros(count, len(self.overall), dtype=torch.float64)
        radius = torch.full((count,), -1)
        for r in range(len(self.codes)):
            distinct, row = self.codes[r], torch.from_numpy(codes[r])
            if not len(distinct):
                continue
            place = torch.searchsorted(distinct, row).clamp(max=len(distinct) - 1)
            is_known = distinct[place] == row
            # If a larger environment occurred in training, its smaller environments occurred, too.
            mean[is_known] = self.means[r][place[is_known]]
            labels[is_known] = self.counts[r][place[is_known]]
            radius[is_known] = r
        return mean, labels, radius

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which :meth:`from_state` restores the means."""
        tensors = {"overall": self.overall}
        for r, (codes, means, counts) in enumerate(zip(self.codes, self.means, self.counts)):
            tensors |= {f"{r}.codes": codes, f"{r}.means": means, f"{r}.counts": counts}
        return tensors

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> EnvironmentMeans:
        """Restore the means from the result of :meth:`state`."""
        columns = [
            tuple(tensors[f"{r}.{name}"] for r in range(RADII))
            for name in ("codes", "means", "counts")
        ]
        return cls(tensors["overall"], *columns)


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
