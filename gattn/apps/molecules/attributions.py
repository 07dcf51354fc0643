"""Attribution of a prediction to the atoms of a molecule: a signed weight for each atom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import DescribedInputs, ExpandedInputs
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.masking import (
    Environments,
    Masked,
    MoleculeAtoms,
    atoms_of,
    predict_masked,
)
from gattn.apps.molecules.network import batch_inputs

if TYPE_CHECKING:
    from gattn.apps.molecules.inputs import MoleculeInputs
    from gattn.apps.molecules.predictor import MoleculePredictor

__all__ = ["DEFAULT_METHOD", "METHODS", "Attribution", "attribute"]

METHODS = ("integrated_gradients", "masking")
DEFAULT_METHOD = "integrated_gradients"
"""Default method of attribution. It agrees best with exact contributions in ``python -m
benchmarks.molecules.attributions``.
"""

STEPS = 32
"""Number of quadrature points for the integral of integrated gradients."""
BUDGET = 1 << 14
"""Maximum number of atoms in one batch of a gradient computation, to limit its memory."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attribution of a prediction to the n atoms of one molecule.

    Attributes:
        weights: [n] float64, the sum of the parts.
        parts: for each component of the model its attribution [n], multiplied by the weight of
            the component in the prediction.
        members: [K, n], the weights if one of the K networks alone replaces the ensemble.
        baseline: prediction for a molecule without atoms, to which the weights of
            ``"integrated_gradients"`` are relative; NaN for ``"masking"``.
    """

    weights: Tensor
    parts: dict[str, Tensor]
    members: Tensor
    baseline: float = math.nan


def attribute(
    predictor: MoleculePredictor, inputs: MoleculeInputs, method: str = DEFAULT_METHOD, *,
    target: int = 0, atoms: Sequence[MoleculeAtoms] | None = None,
) -> list[Attribution]:  # fmt: skip
    r"""Compute the contribution of each atom of some molecules to the predictions.

    In these methods, f is the output of ``predict``, in the target's unit (for classes a
    probability):

    ``"integrated_gradients"``
        .. math:: w_i = x_i \cdot \int_0^1 \nabla_{x_i} f(\alpha x)\, d\alpha

        from a molecule whose atom features, descriptors and fingerprints are zero. The rest of the
        difference between the prediction and the prediction for a molecule without atoms (the
        effect of the bonds and of the number of atoms) is divided equally among the atoms.
        Therefore the weights sum to the prediction minus one baseline, which is the same for all
        molecules.
    ``"masking"``
        .. math:: w_i = f(x) - f(x \text{ without atom } i)

        See :func:`gattn.apps.molecules.masking.masked_inputs`.

    The gradient with respect to a descriptor is divided among atoms in the proportions of the
    descriptor (:func:`gattn.apps.molecules.shares.descriptor_shares`). Fingerprints have no
    gradient: their contribution is divided exactly among the environments
    (:meth:`gattn.apps.molecules.gaussian_process.GaussianProcess.by_count`), and the contribution
    of an environment or of an atom pair is divided equally among its atoms. A forest has no
    gradient: its prediction is divided among the splits on the paths to its leaves
    (:meth:`gattn.apps.molecules.forest.Forest.contributions`).

    Args:
        predictor: the model.
        inputs: k molecules.
        method: one of :data:`METHODS`.
        target: index of the target.
        atoms: the result of :func:`gattn.apps.molecules.masking.atoms_of`, if it was already
            computed.

    Returns:
        For each molecule its weights, in the target's unit; an empty list for no molecules.

    Raises:
        ValueError: the method or the target does not exist.

    Reference: Sundararajan et al., "Axiomatic attribution for deep networks" (ICML 2017);
    Zeiler and Fergus, "Visualizing and understanding
    convolutional networks" (ECCV 2014), for masking.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if not 0 <= target < predictor.targets:
        raise ValueError(f"target must be at least 0 and below {predictor.targets}; got {target}")
    atoms = atoms_of(inputs, predictor.settings) if atoms is None else atoms
    if method == "masking":
        return _masking(predictor, inputs, target, atoms)
    masks = [torch.tensor([[False], [True]]).expand(2, len(one.symbols)) for one in atoms]
    ends = predict_masked(predictor, inputs, masks, target, atoms)
    result: list[Attribution] = []
    for begin, end in _batches(inputs):
        some = slice(begin, end)
        result += _gradients(predictor, inputs[begin:end], target, atoms[some], ends[some])
    return result


def _masking(
    predictor: MoleculePredictor, inputs: MoleculeInputs, target: int,
    atoms: Sequence[MoleculeAtoms],
) -> list[Attribution]:  # fmt: skip
    """Return for each atom the decrease of the prediction when the atom is masked."""
    masks = [
        torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])
        for n in (len(one.symbols) for one in atoms)
    ]
    return [
        _weighed(
            predictor,
            {name: part[0] - part[1:] for name, part in masked.parts.items()},
            masked.members[:, :1] - masked.members[:, 1:],
        )
        for masked in predict_masked(predictor, inputs, masks, target, atoms)
    ]


def _gradients(
    predictor: MoleculePredictor, inputs: MoleculeInputs, target: int,
    atoms: Sequence[MoleculeAtoms], ends: Sequence[Masked],
) -> list[Attribution]:  # fmt: skip
    """Integrate gradients, and complete their sums. ``ends`` has for each molecule the predictions
    with all atoms and without atoms.
    """
    inputs = predictor.standardised(inputs)
    batch, sizes = batch_inputs(inputs), [len(one.symbols) for one in atoms]
    path = _path(STEPS)
    networks = [_network(predictor, number, batch, target, atoms, path) for number in
                range(len(predictor.networks))]  # fmt: skip
    members = torch.stack(networks) if networks else torch.zeros(0, sum(sizes)).double()
    parts: dict[str, Tensor] = {}
    for name in predictor.weights:
        if name == "forest":
            parts[name] = _forest(predictor, inputs, target, atoms)
        elif name == "gp":
            parts[name] = _kernel(predictor, inputs, target, atoms, path)
        else:
            parts[name] = members.mean(0)
    split = {name: part.split(sizes) for name, part in parts.items()}
    return [
        _weighed(
            predictor,
            {name: _completed(of[place], end.parts[name]) for name, of in split.items()},
            _completed(member_weights, end.members),
            baseline=float(end.mean[1]),
        )
        for place, (member_weights, end) in enumerate(zip(members.split(sizes, 1), ends))
    ]


def _completed(weights: Tensor, ends: Tensor) -> Tensor:
    """Divide the rest of a change of the prediction equally among n atoms.

    Args:
        weights: [..., n].
        ends: [..., 2], the predictions with all atoms and without atoms.
    """
    rest = ends[..., 0] - ends[..., 1] - weights.sum(-1)
    return weights + rest[..., None] / max(weights.shape[-1], 1)


def _network(
    predictor: MoleculePredictor, number: int, batch: MoleculeBatch, target: int,
    atoms: Sequence[MoleculeAtoms], path: Sequence[tuple[float, float]],
) -> Tensor:  # fmt: skip
    """Return the contribution of each atom of a batch, [n], to the predictions of one network."""
    features: dict[str, Tensor] = {"x": batch.x, "descriptors": batch.descriptors}
    gradients = {name: torch.zeros_like(values) for name, values in features.items()}
    for place, weight in path:
        moved = {name: (place * values).requires_grad_() for name, values in features.items()}
        with torch.enable_grad():
            raw = predictor.networks[number](replace(batch, **moved))
            partial = torch.autograd.grad(
                predictor.in_units(raw)[:, target].sum(),
                list(moved.values()), allow_unused=True, materialize_grads=True,
            )  # fmt: skip
        for name, gradient in zip(features, partial):
            gradients[name] += weight * gradient
    by_node = (gradients["x"] * features["x"]).double().sum(1)
    nodes = by_node.split([one.node_count for one in atoms])
    by_atom = [one.sum_nodes(some) for one, some in zip(atoms, nodes)]
    return torch.cat(by_atom) + _shared(gradients["descriptors"], atoms)


def _kernel(
    predictor: MoleculePredictor, inputs: MoleculeInputs, target: int,
    atoms: Sequence[MoleculeAtoms], path: Sequence[tuple[float, float]],
) -> Tensor:  # fmt: skip
    """Return the contribution of each of n atoms, [n], to the predictions of the Gaussian
    process.
    """
    kernel = predictor.kernel
    assert kernel is not None
    total = torch.zeros(inputs.descriptors.shape, dtype=torch.float64)
    extra = inputs.extra_descriptors
    for place, weight in path:
        moved = (place * inputs.descriptors.double()).requires_grad_()
        with torch.enable_grad():
            smooth = kernel.smooth(torch.cat([moved, extra], 1), target)
            total += weight * torch.autograd.grad(smooth.sum(), moved)[0]
    by_environment = [
        _by_environment(kernel.by_count(counts, target), counts, one.environments, one)
        for counts, one in zip(inputs.counts, atoms)
    ]
    if kernel.has_pairs:
        by_environment = [
            part
            + _by_environment(kernel.by_count(pairs, target, pairs=True), pairs, one.pairs, one)
            for part, pairs, one in zip(by_environment, inputs.pairs, atoms)
        ]
    return _shared(total, atoms) + torch.cat([torch.zeros(0).double(), *by_environment])


def _forest(
    predictor: MoleculePredictor, inputs: MoleculeInputs, target: int,
    atoms: Sequence[MoleculeAtoms],
) -> Tensor:  # fmt: skip
    """Return the contribution of each of n atoms, [n], to the predictions of the forest, relative
    to the prediction for features that are all zero.

    Splits at environments that a molecule does not have, and at descriptor columns of the user,
    are divided equally among the atoms.
    """
    forest = predictor.forest
    assert forest is not None
    extra = inputs.extra_descriptors
    nothing = DescribedInputs(
        ExpandedInputs(
            inputs.molecules, torch.zeros_like(inputs.counts), torch.zeros_like(inputs.descriptors)
        ),
        extra,
    )
    pairs = zip(forest.contributions(inputs, target), forest.contributions(nothing, target))
    described, columns, counted = (one - other for one, other in pairs)
    absent = inputs.counts == 0
    equal = counted.where(absent, 0.0).sum(1) + columns.sum(1)
    by_atom = [
        _by_environment(by_count, counts, one.environments, one) + rest / max(len(one.symbols), 1)
        for by_count, counts, rest, one in zip(
            counted.masked_fill(absent, 0.0), inputs.counts, equal, atoms
        )
    ]
    parts = [
        part + _weights_of_shares(one.shares) @ row.double()
        for part, one, row in zip(by_atom, atoms, described)
    ]
    return torch.cat([torch.zeros(0).double(), *parts])


def _shared(by_descriptor: Tensor, atoms: Sequence[MoleculeAtoms]) -> Tensor:
    """Multiply the derivative with respect to each descriptor, [k, d], by the atoms' shares of the
    descriptor, and sum over the descriptors. The result is [n] for the n atoms of all k molecules.
    """
    rows = by_descriptor.double()
    shares = [one.shares @ row for one, row in zip(atoms, rows)]
    return torch.cat([torch.zeros(0).double(), *shares])


def _weights_of_shares(shares: Tensor) -> Tensor:
    """Return the fraction [n, d] of the contribution of each descriptor that each atom gets.

    The fractions are proportional to the absolute shares: the sum of shares with different signs
    may be close to zero. If all shares of a descriptor are zero, the fractions are equal.
    """
    size = shares.abs()
    total = size.sum(0)
    return torch.where(total > 0, size / total.where(total > 0, 1.0), 1 / max(len(shares), 1))


def _by_environment(
    by_count: Tensor, counts: Tensor, environments: Environments, atoms: MoleculeAtoms
) -> Tensor:
    """Divide the contribution of each fingerprint column among the atoms of the molecule: [n].

    The contribution of a column is divided equally among the environments that it counts, and the
    contribution of an environment is divided equally among its atoms.
    """
    places, (which, atom) = environments.places, environments.members
    counted = (
        torch.zeros(len(counts)).double().index_add_(0, places, torch.ones(len(places)).double())
    )
    size = torch.zeros(len(places)).double().index_add_(0, which, torch.ones(len(which)).double())
    by_atom = (by_count / counted.clamp(min=1))[places] / size
    return torch.zeros(len(atoms.symbols)).double().index_add_(0, atom, by_atom[which])


def _weighed(
    predictor: MoleculePredictor, parts: dict[str, Tensor], members: Tensor,
    baseline: float = math.nan,
) -> Attribution:  # fmt: skip
    """Return the weighted sum of the attributions of the model's components. The weights are
    those of the components in the prediction.
    """
    weights = predictor.weights
    parts = {name: weights[name] * part for name, part in parts.items()}
    network = next((name for name in parts if name not in ("gp", "forest")), "")
    rest = sum((part for name, part in parts.items() if name != network), torch.zeros(1).double())
    total = torch.stack(list(parts.values())).sum(0)
    member_weights = weights.get(network, 0.0) * members + rest
    return Attribution(total, parts, member_weights, baseline)


def _path(steps: int) -> list[tuple[float, float]]:
    """Return the points and weights of the Gauss-Legendre quadrature on the interval 0..1."""
    places, weights = np.polynomial.legendre.leggauss(steps)
    return [
        ((place + 1) / 2, weight / 2) for place, weight in zip(places.tolist(), weights.tolist())
    ]


def _batches(inputs: MoleculeInputs) -> Iterator[tuple[int, int]]:
    """Yield ranges of molecules that have at most BUDGET atoms together. A molecule with more
    atoms is a batch of its own.
    """
    ptr = inputs.molecules.arrays.ptr.tolist()
    begin = 0
    for end in range(1, len(inputs) + 1):
        if end == len(inputs) or ptr[end + 1] - ptr[begin] > BUDGET:
            yield begin, end
            begin = end
