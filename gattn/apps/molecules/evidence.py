"""Predictions for molecules by models that were not trained on them, and the weights of
components that follow from these predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.molecules.forest import OutOfBag
from gattn.apps.molecules.gaussian_process import GaussianProcess, draw
from gattn.apps.molecules.stacking import fit_mixture, varied

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

__all__ = ["Evidence", "left_out_of_kernel", "network_prior", "part_weights"]

ROWS = 1000
"""Maximum number of training molecules that are predicted by models that were not trained on
them.
"""
FOREST = 0.4
"""Prior weight of the forest relative to the Gaussian process."""
SLOPE, SIMILAR, MOST, ENOUGH = 6.0, 0.62, 0.4, 300
"""Constants of :func:`network_prior`."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Predictions for n training molecules by models that were not trained on them, and for m
    validation molecules by models of the training part.

    Attributes:
        kernel: [n, t], predictions of training molecules by the Gaussian process; NaN for molecules
            that it did not predict.
        kernel_val: [m, t].
        forest: [n, t], predictions by the trees that read the training part alone; None if there is
            no forest.
        forest_val: [m, t], of the same trees.
        y: [n, t] labels, NaN for missing values.
        groups: [n] int64, the group of each training molecule.
        groups_val: [m] int64, the group of each validation molecule.
    """

    kernel: Tensor
    kernel_val: Tensor
    forest: OutOfBag | None
    forest_val: OutOfBag | None
    y: Tensor
    groups: Tensor
    groups_val: Tensor


def left_out_of_kernel(
    kernel: GaussianProcess, inputs: MoleculeInputs, rows: int, seed: int, groups: Tensor,
    val: MoleculeInputs,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Predict training molecules by Gaussian processes that were fitted without their group, and
    predict other molecules.

    Args:
        kernel: the Gaussian process of the training part.
        inputs: k molecules. The Gaussian process was fitted to those that ``draw`` samples.
        rows: the maximum number of molecules to which it was fitted.
        seed: the seed with which it was fitted.
        groups: [k] int64, the group of each molecule.
        val: m other molecules.

    Returns:
        The means [k, t] of the training molecules in the targets' units, with NaN for the molecules
        that were not sampled, and the means [m, t] of the other molecules.
    """
    sampled = draw(len(inputs), rows, seed)
    some = draw(len(sampled), ROWS, seed)
    ((mean, _),) = kernel.leave_out(some, groups[sampled[some]], torch.full((len(some),), -1))
    result = torch.full((len(inputs), mean.shape[1]), torch.nan, dtype=torch.float64)
    result[sampled[some]] = mean
    return result, kernel.predict(val)[0]


def network_prior(similarities: Tensor, count: int) -> float:
    r"""Return the prior weight of the network, relative to the Gaussian process and the forest.

    .. math:: w_0 = \min(0.4, \max(0, 6\, (0.62 - \bar s))) \min(1, n / 300)

    n is the number of training molecules: with few of them, a network predicts worse than the
    other components. :math:`\bar s` is the mean similarity of the validation molecules to the
    nearest training molecule. In a set of similar molecules, the nearest molecules predict a
    molecule better than a network does. In a set of different molecules, a network describes
    properties that fingerprints do not contain.

    Args:
        similarities: [m] Tanimoto similarities in 0..1.
        count: number n of training molecules.

    Returns:
        The weight. If m is 0, the first factor is half of its maximum.

    Example:
        >>> similarities = torch.tensor([0.5, 0.7])
        >>> round(network_prior(similarities, 500), 2), round(network_prior(similarities, 30), 3)
        (0.12, 0.012)
    """
    different = MOST / 2
    if len(similarities):
        mean = float(similarities.double().mean())
        different = min(MOST, max(0.0, SLOPE * (SIMILAR - mean)))
    return different * min(1.0, count / ENOUGH)


def part_weights(
    evidence: Evidence, network: Tensor, y_val: Tensor, rows: Tensor, scale: Tensor,
    prior: float, factors: tuple[Tensor, Tensor] | None, clipped: Callable[[Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Fit the weights of the network, the Gaussian process and the forest.

    The weight of the forest against the Gaussian process is fitted to all molecules, because both
    components predict each training molecule without its own label. The weight of the network is
    fitted to the validation molecules, against the combination of the two.

    Args:
        evidence: predictions of the Gaussian process and the forest.
        network: [m, t] predictions of the validation molecules by the networks.
        y_val: [m, t] labels of the validation molecules; NaN for missing values.
        rows: [m] bool, the validation molecules to use.
        scale: [t] scale of each target, by which its errors are divided.
        prior: prior weight of the network.
        factors: weights of the squared errors of the training molecules [n, t] and of the
            validation molecules [m, t]; None if all are 1.
        clipped: converts predictions of the Gaussian process and the forest to probabilities, if
            the targets are classes.

    Returns:
        [P] float64: the weights of the network and the Gaussian process, then of the forest if
        there is one; they sum to one.
    """
    y_val, network = y_val[rows], network[rows]
    combined, share = clipped(evidence.kernel_val)[rows], 0.0
    has_forest = evidence.forest is not None
    if evidence.forest is not None and evidence.forest_val is not None:
        y = torch.cat([evidence.y, y_val])
        kernel = torch.cat([evidence.kernel, evidence.kernel_val[rows]])
        forest = torch.cat([evidence.forest.mean, evidence.forest_val.mean[rows]])
        excess = torch.cat([evidence.forest.excess, evidence.forest_val.excess[rows]])
        first, second = (_errors(clipped(each), y, scale) for each in (kernel, forest))
        every = None if factors is None else torch.cat([factors[0], factors[1][rows]]).flatten()
        excess = (excess / scale.square()).flatten()
        group = _groups_of_errors(torch.cat([evidence.groups, evidence.groups_val[rows]]), y)
        share = fit_mixture(first, second, FOREST, factors=every, excess=excess, groups=group)
        combined = torch.lerp(combined, clipped(evidence.forest_val.mean)[rows], share)
    first, second = (_errors(each, y_val, scale) for each in (combined, network))
    by_label = None if factors is None else factors[1][rows].flatten()
    group = _groups_of_errors(evidence.groups_val[rows], y_val)
    weight = fit_mixture(first, second, prior, factors=by_label, groups=group)
    rest = 1 - weight
    parts = [weight, rest * (1 - share), *([rest * share] if has_forest else [])]
    return torch.tensor(parts, dtype=torch.float64)


def _groups_of_errors(groups: Tensor, y: Tensor) -> Tensor:
    """Return the group of each error of :func:`_errors`, [k t]: a group and a target."""
    targets = y.shape[1]
    return (groups[:, None] * targets + torch.arange(targets)).flatten()


def _errors(predicted: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    """Return the errors divided by the scale of each target, flattened to [k t].

    They are NaN for missing labels. They are also NaN for a target whose labels are all equal,
    because it does not show which component is better.
    """
    errors = (predicted - y) / scale
    return errors.masked_fill(~varied(y), torch.nan).flatten() if len(y) else errors.flatten()
