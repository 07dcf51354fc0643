"""Explanations of predictions: the atoms' weights, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.molecules.attributions import DEFAULT_METHOD, Attribution, attributions
from gattn.molecules.masking import MoleculeAtoms, atoms_of, predict_masked

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs
    from gattn.molecules.predictor import MoleculePredictor

__all__ = ["DEFAULT_METHOD", "Explanation", "Faithfulness", "explain"]

TOP = 0.2
"""The share of atoms that is deleted to test an explanation, one atom at least."""
ROUNDING = 1e-5
"""Weights that differ by less of the largest one are equal when the highest are chosen."""
DRAWS = 20
"""Random sets of as many atoms, to compare with."""


@dataclass(frozen=True)
class Faithfulness:
    """How much the prediction drops when atoms are deleted.

    An explanation says something of the model where ``top`` is clearly above ``random``.

    Attributes:
        atoms: the positions of the fifth with the highest weights, sign included: the atoms that
            raise the prediction most.
        top: the drop of the prediction without them, in the target's unit; negative for a rise.
        random: the mean drop without as many atoms drawn at random.
        random_std: the standard deviation of these drops.
    """

    atoms: tuple[int, ...]
    top: float
    random: float
    random_std: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """The weights of a molecule's n atoms, and what is known of them.

    Attributes:
        smiles: the molecule, as it was written.
        symbols: the element of each atom. A hydrogen that the text writes as an atom is counted
            with the atom that holds it and has no entry.
        atoms: [n], the number from 0 of each atom in the text, where hydrogens count that it
            writes as atoms. Without such hydrogens these are 0..n-1.
        method: what the weights were made by.
        target: the position of the target explained.
        prediction: what ``predict`` gives, in the target's unit; of classes a probability.
        std: the standard deviation that goes with it.
        weights: [n] float64, signed, in the target's unit; of ``"attention"`` without either.
        parts: [n] of each part of the model; they sum to the weights.
        spread: [n], the standard deviation of the weights over the ensemble's networks; NaN where
            there are not two.
        faithfulness: what deleting the top atoms does.
    """

    smiles: str
    symbols: tuple[str, ...]
    atoms: tuple[int, ...]
    method: str
    target: int
    prediction: float
    std: float
    weights: Tensor
    parts: dict[str, Tensor]
    spread: Tensor
    faithfulness: Faithfulness


def explain(
    predictor: MoleculePredictor, inputs: MoleculeInputs, method: str = DEFAULT_METHOD, *,
    target: int = 0, seed: int = 0,
) -> list[Explanation]:  # fmt: skip
    """Weigh the atoms of molecules, and test the weights by deleting atoms.

    Args:
        predictor: the model.
        inputs: k molecules.
        method: one of :data:`gattn.molecules.attributions.METHODS`.
        target: the position of the target.
        seed: of the random atoms. What is said of a molecule does not depend on the others.

    Returns:
        One explanation a molecule.

    Raises:
        ValueError: no such method or target, or attention of a model that has none.
    """
    atoms = atoms_of(inputs)
    found = attributions(predictor, inputs, method, target=target, atoms=atoms)
    tops = [_top(one.weights, of) for one, of in zip(found, atoms)]
    masks = [_masks(top, one.order, seed) for top, one in zip(tops, atoms)]
    # Copies that are alike are predicted once, and so have the same bits.
    each = [mask.unique(dim=0, return_inverse=True) for mask in masks]
    predicted = predict_masked(predictor, inputs, [mask for mask, _ in each], target, atoms)
    return [
        Explanation(
            smiles=smiles, symbols=one.symbols, atoms=one.places, method=method, target=target,
            prediction=float(made.mean[places[0]]), std=float(made.std[places[0]]),
            weights=weighed.weights, parts=weighed.parts, spread=_spread(weighed),
            faithfulness=_faithfulness(top, made.mean[places]),
        )
        for smiles, one, weighed, top, made, (_, places) in
        zip(inputs.molecules.smiles, atoms, found, tops, predicted, each)
    ]  # fmt: skip


def _top(weights: Tensor, atoms: MoleculeAtoms) -> Tensor:
    """The positions of the highest weights; of equal ones the first in canonical order.

    Atoms that symmetry exchanges have equal weights up to rounding, which depends on how the
    molecule is written: their mean stands for each.
    """
    classes, order = atoms.classes, atoms.order
    sums = weights.new_zeros(len(weights)).index_add_(0, classes, weights)
    counts = weights.new_zeros(len(weights)).index_add_(0, classes, torch.ones_like(weights))
    means = (sums / counts.clamp(min=1))[classes]
    unit = means.abs().max() * ROUNDING
    rounded = (means / unit).round() if unit else means
    best = rounded[order].argsort(descending=True, stable=True)
    return order[best[: max(round(TOP * len(weights)), 1)]]


def _masks(top: Tensor, order: Tensor, seed: int) -> Tensor:
    """No atom, the top atoms, and as many at random of the canonical order: [2 + DRAWS, n]."""
    generator, atoms = torch.Generator().manual_seed(seed), len(order)
    masks = torch.zeros(2 + DRAWS, atoms, dtype=torch.bool)
    masks[1, top] = True
    for mask in masks[2:]:
        mask[order[torch.randperm(atoms, generator=generator)[: len(top)]]] = True
    return masks


def _faithfulness(top: Tensor, mean: Tensor) -> Faithfulness:
    drops = mean[0] - mean[1:]
    random = drops[1:]
    std = (random - random[0]).std()  # 0, not what rounding leaves, where all are alike
    return Faithfulness(tuple(top.tolist()), float(drops[0]), float(random.mean()), float(std))


def _spread(found: Attribution) -> Tensor:
    if len(found.members) < 2:
        return torch.full_like(found.weights, torch.nan)
    return found.members.std(0)
