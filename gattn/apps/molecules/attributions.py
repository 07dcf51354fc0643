"""Attribution of a prediction to the atoms of a molecule: a signed weight for each atom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.masking import Masked, MoleculeAtoms, predict_masked
from gattn.apps.molecules.network import batch_inputs

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.apps.molecules.predictor import MoleculePredictor

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
    atoms: Sequence[MoleculeAtoms], target: int = 0,
) -> list[Attribution]:  # fmt: skip
    r"""Compute the contribution of each atom of some molecules to the predictions.

    In these methods, f is the output of ``predict``, in the target's unit (for classes a
    probability):

    ``"masking"``
        .. math:: w_i = f(x) - f(x \text{ without atom } i)

        See :func:`gattn.apps.molecules.masking.masked_inputs`.
    ``"integrated_gradients"``
        .. math:: w_i = x_i \cdot \int_0^1 \nabla_{x_i} f(\alpha x)\, d\alpha

        for the networks, from a molecule whose atom features and descriptors are zero; the gradient
        with respect to a descriptor is divided by :func:`.shares.descriptor_shares`. Counts of
        environments and a forest have no useful gradient, so the Gaussian process and the forest
        are masked. The rest of the difference between the prediction and the prediction for a
        molecule without atoms is divided equally among the atoms. Therefore the weights sum to the
        prediction minus one baseline, which is the same for all molecules.

    Args:
        predictor: the model.
        inputs: k molecules.
        method: one of :data:`METHODS`.
        atoms: the result of :func:`gattn.apps.molecules.masking.atoms_of`.
        target: index of the target.

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
    masks = [
        torch.cat([torch.tensor([[False], [True]]).expand(2, n), torch.eye(n, dtype=torch.bool)])
        for n in (len(one.symbols) for one in atoms)
    ]
    masked = predict_masked(predictor, inputs, masks, target, atoms)
    if method == "masking":
        return [_attribution(predictor, target, one, _drops(one.members)) for one in masked]
    result: list[Attribution] = []
    for begin, end in _batches(inputs):
        gradients = _gradients(predictor, inputs[begin:end], target, atoms[begin:end])
        result += [
            _attribution(predictor, target, *pair, complete=True)
            for pair in zip(masked[begin:end], gradients)
        ]
    return result


def _attribution(
    predictor: MoleculePredictor,
    target: int,
    masked: Masked,
    members: Tensor,
    *,
    complete: bool = False,
) -> Attribution:
    """Return the weighted sum of the attributions of the model's components.

    Args:
        predictor: the model, whose weights of the components are used.
        target: index of the target.
        masked: the predictions with all atoms, without atoms, and without each atom.
        members: [K, n], the attributions of the networks.
        complete: whether the weights are completed to the change from a molecule without atoms.
    """
    weights = predictor.weights_of(target)
    network = next((name for name in weights if name not in ("gp", "forest")), "")
    parts = {
        name: members.mean(0) if name == network else _drops(part)
        for name, part in masked.parts.items()
    }
    if complete:
        parts = {name: _completed(part, masked.parts[name]) for name, part in parts.items()}
        members = _completed(members, masked.members)
    parts = {name: weights[name] * part for name, part in parts.items()}
    total = torch.stack(list(parts.values())).sum(0)
    rest = total - parts.get(network, 0.0)
    baseline = float(masked.mean[1]) if complete else math.nan
    return Attribution(total, parts, weights.get(network, 0.0) * members + rest, baseline)


def _drops(predictions: Tensor) -> Tensor:
    """Return the decrease of predictions [..., 2 + n] without each atom: [..., n]."""
    return predictions[..., :1] - predictions[..., 2:]


def _completed(weights: Tensor, predictions: Tensor) -> Tensor:
    """Divide the rest of the change between predictions [..., 2 + n] with all atoms and without
    atoms equally among n atoms, whose weights are [..., n].
    """
    rest = predictions[..., 0] - predictions[..., 1] - weights.sum(-1)
    return weights + rest[..., None] / max(weights.shape[-1], 1)


def _gradients(
    predictor: MoleculePredictor, inputs: MoleculeInputs, target: int,
    atoms: Sequence[MoleculeAtoms],
) -> Sequence[Tensor]:  # fmt: skip
    """Return the integrated gradients of the K networks for the n atoms of each molecule, [K,
    n].
    """
    inputs, sizes = predictor.standardised(inputs), [len(one.symbols) for one in atoms]
    nodes = sum(one.node_count for one in atoms)
    places, weights = np.polynomial.legendre.leggauss(STEPS)
    # Many points of a small molecule are one batch, because the time of a small batch hardly
    # depends on its size.
    count = math.ceil(STEPS / max(BUDGET // max(nodes, 1), 1))
    steps = [
        (torch.from_numpy((some + 1) / 2).float(), torch.from_numpy(others / 2).float())
        for some, others in zip(np.array_split(places, count), np.array_split(weights, count))
    ]
    copies = [batch_inputs(inputs[[*range(len(inputs))] * len(some)]) for some, _ in steps]
    members = [
        torch.stack(
            [
                _network(predictor, number, batch, step, target, atoms)
                for batch, step in zip(copies, steps)
            ]
        ).sum(0)
        for number in range(len(predictor.networks))
    ]
    stacked = torch.stack(members) if members else torch.zeros(0, sum(sizes)).double()
    return stacked.split(sizes, 1)


def _network(
    predictor: MoleculePredictor, number: int, batch: MoleculeBatch, step: tuple[Tensor, Tensor],
    target: int, atoms: Sequence[MoleculeAtoms],
) -> Tensor:  # fmt: skip
    """Return the share of some points of the path in the contribution of each atom, [n], to the
    predictions of one network.

    Args:
        predictor: the model.
        number: index of the network.
        batch: a copy of the molecules for each point.
        step: [c] points and [c] weights of the quadrature.
        target: index of the target.
        atoms: atoms of the molecules, without the copies.
    """
    places, weights = step
    features: dict[str, Tensor] = {"x": batch.x, "descriptors": batch.descriptors}
    moved = {
        name: (values.unflatten(0, (len(places), -1)) * places[:, None, None])
        .flatten(0, 1)
        .requires_grad_()
        for name, values in features.items()
    }
    with torch.enable_grad():
        raw = predictor.networks[number](replace(batch, **moved))
        partial = torch.autograd.grad(
            predictor.in_units(raw)[:, target].sum(),
            list(moved.values()), allow_unused=True, materialize_grads=True,
        )  # fmt: skip
    by_x, by_descriptor = (
        torch.einsum("c,cnd->nd", weights, one.unflatten(0, (len(places), -1))) for one in partial
    )
    by_node = (by_x * batch.x[: len(by_x)]).double().sum(1)
    nodes = by_node.split([one.node_count for one in atoms])
    by_atom = [one.sum_nodes(some) for one, some in zip(atoms, nodes)]
    return torch.cat(by_atom) + _shared(by_descriptor, atoms)


def _shared(by_descriptor: Tensor, atoms: Sequence[MoleculeAtoms]) -> Tensor:
    """Multiply the derivative with respect to each descriptor, [k, d], by the atoms' shares of the
    descriptor, and sum over the descriptors. The result is [n] for the n atoms of all k molecules.
    """
    rows = by_descriptor.double()
    shares = [one.shares @ row for one, row in zip(atoms, rows)]
    return torch.cat([torch.zeros(0).double(), *shares])


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
