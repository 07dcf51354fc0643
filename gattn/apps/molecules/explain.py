"""Explanations of predictions: weights of atoms, and tests of their faithfulness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.molecules.masking import MoleculeAtoms, atoms_of, predict_masked
from gattn.apps.molecules.members import PREDICTION_BATCH, batch_elements
from gattn.apps.molecules.target_transform import TargetTransform
from gattn.apps.runtime.threads import limited_threads

if TYPE_CHECKING:
    from gattn.apps.molecules.estimators import MoleculeEstimator
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.apps.molecules.predictor import MoleculePredictor


@dataclass(frozen=True, eq=False)
class Attribution:
    """Attribution of a prediction to the n atoms of one molecule.

    Attributes:
        weights: [n] float64, the sum of the parts.
        parts: for each component of the model its attribution [n], multiplied by the weight of
            the component in the prediction.
        members: [K, n], the weights if one of the K networks alone replaces the ensemble.
    """

    weights: Tensor
    parts: dict[str, Tensor]
    members: Tensor


def attribute(
    predictor: MoleculePredictor, inputs: MoleculeInputs, *, atoms: Sequence[MoleculeAtoms],
    target: int = 0,
) -> list[Attribution]:  # fmt: skip
    r"""Compute the contribution of each atom of some molecules to the predictions, by masking.

    .. math:: w_i = f(x) - f(x \text{ without atom } i)

    Here f is the output of ``predict``, in the target's unit (for classes a probability). See
    :func:`gattn.apps.molecules.masking.masked_inputs` for the molecule without an atom.

    Args:
        predictor: the model.
        inputs: k molecules.
        atoms: the result of :func:`gattn.apps.molecules.masking.atoms_of`.
        target: index of the target.

    Returns:
        For each molecule its weights, in the target's unit; an empty list for no molecules.

    Raises:
        ValueError: the target does not exist.

    Reference: Zeiler and Fergus, "Visualizing and understanding convolutional networks" (ECCV
    2014).
    """
    if not 0 <= target < predictor.targets:
        raise ValueError(f"target must be at least 0 and below {predictor.targets}; got {target}")
    masks = [
        torch.cat([torch.zeros(1, n, dtype=torch.bool), torch.eye(n, dtype=torch.bool)])
        for n in (len(one.symbols) for one in atoms)
    ]
    weights = predictor.weights_of(target)
    network = next((name for name in weights if name not in ("gp", "forest")), "")
    result = []
    for masked in predict_masked(predictor, inputs, masks, target, atoms):
        parts = {name: weights[name] * _drops(part) for name, part in masked.parts.items()}
        total = torch.stack(list(parts.values())).sum(0)
        rest = total - parts.get(network, 0.0)
        members = weights.get(network, 0.0) * _drops(masked.members) + rest
        result.append(Attribution(total, parts, members))
    return result


def _drops(predictions: Tensor) -> Tensor:
    """Return the decrease of predictions [..., 1 + n] without each atom: [..., n]."""
    return predictions[..., :1] - predictions[..., 1:]


TOP = 0.2
"""An explanation is tested by deleting this fraction of a molecule's atoms (at least one atom)."""
ROUNDING = 1e-5
"""Two atom weights count as equal if they differ by less than this fraction of the largest
weight.
"""
DRAWS = 20
"""Number of random sets of atoms that are deleted. Their effect is compared with that of the
atoms with the highest weights.
"""


@dataclass(frozen=True)
class Faithfulness:
    """Change of a prediction when atoms are deleted, as a measure of an explanation's faithfulness.

    An explanation is faithful to the model if ``top`` is clearly above ``random``.

    Attributes:
        atoms: indices of the fifth of the atoms with the highest signed weights, which raise the
            prediction most.
        top: decrease of the prediction when these atoms are deleted, in the target's unit; negative
            if the prediction rises.
        random: mean decrease when the same number of random atoms is deleted.
        random_std: standard deviation of the decrease over the sets of random atoms.
    """

    atoms: tuple[int, ...]
    top: float
    random: float
    random_std: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Weights of a molecule's n atoms for one prediction, with their uncertainty and faithfulness.

    Attributes:
        smiles: the input SMILES.
        symbols: the element of each atom. A hydrogen that the SMILES writes as an atom belongs to
            its neighbour and has no entry.
        atoms: [n], the position of each atom in the SMILES, counted from 0 and including hydrogens
            that the SMILES writes as atoms; 0..n-1 without such hydrogens.
        target: index of the explained target.
        prediction: output of ``predict``: a number in the target's unit, or the predicted class.
        std: the standard deviation of this number, or of the explained probability.
        explained: name of the explained quantity: the target, with its transform, or the
            probability of a class, such as ``P(toxic = yes)``.
        value: the explained quantity, on the scale of the weights.
        error: the expected error of the value: the standard deviation of a number, or that of an
            event with the probability.
        weights: [n] float64, signed, contributions to the value.
        parts: [n] for each part of the model; they sum to the weights.
        spread: [n], the standard deviation of the weights over the ensemble's networks; NaN for
            fewer than two networks.
        faithfulness: effect of deleting the top atoms.
        transform: name of the target transform; ``"none"`` if there is none. With a transform, the
            value, error, weights, parts, spread and faithfulness are those of the transformed
            target.
    """

    smiles: str
    symbols: tuple[str, ...]
    atoms: tuple[int, ...]
    target: int
    prediction: float | str
    std: float
    explained: str
    value: float
    error: float
    weights: Tensor
    parts: dict[str, Tensor]
    spread: Tensor
    faithfulness: Faithfulness
    transform: str = "none"


def explain(
    predictor: MoleculePredictor, inputs: MoleculeInputs, *, target: int = 0,
    complement: bool = False,
) -> list[Explanation]:  # fmt: skip
    """Compute weights of the atoms of molecules, and test them by deleting atoms.

    Args:
        predictor: the model.
        inputs: k molecules.
        target: index of the predictor's output.
        complement: whether to explain 1 minus the output, the probability of the first of two
            classes.

    Returns:
        One explanation for each molecule. The random atoms are drawn with a fixed seed, so that an
        explanation does not depend on the other molecules, except for rounding errors.

    Raises:
        ValueError: the target does not exist.
    """
    elements = batch_elements(min(len(inputs), PREDICTION_BATCH), predictor.settings)
    with limited_threads(elements, predictor.threads):
        atoms = atoms_of(inputs, add_h=predictor.settings.add_h)
        results = attribute(predictor, inputs, target=target, atoms=atoms)
        sign = 1.0
        if complement:
            sign, results = -1.0, [_complement(result) for result in results]
        tops = [_top(result.weights, described) for result, described in zip(results, atoms)]
        masks = [_masks(top, one.order) for top, one in zip(tops, atoms)]
        # Predict each distinct mask once, so that equal masks get bitwise equal predictions.
        distinct = [mask.unique(dim=0, return_inverse=True) for mask in masks]
        predicted = predict_masked(predictor, inputs, [mask for mask, _ in distinct], target, atoms)
    transform = predictor.transform
    first = [
        (sign * one.mean[places[:1]] + complement, one.std[places[:1]])
        for one, (_, places) in zip(predicted, distinct)
    ]
    units = [_in_units(mean, std, transform) for mean, std in first]
    is_number = not predictor.task.is_class
    return [
        Explanation(
            smiles=smiles, symbols=one.symbols, atoms=one.places, target=target,
            prediction=prediction, std=std, transform=transform.name, value=float(mean),
            explained="prediction",
            error=float(error if is_number else (mean * (1 - mean)).clamp(min=0).sqrt()),
            weights=weighed.weights, parts=weighed.parts, spread=_spread(weighed),
            faithfulness=_faithfulness(top, sign * masked.mean[places]),
        )
        for smiles, one, weighed, top, masked, (_, places), (mean, error),
        (prediction, std) in zip(
            inputs.molecules.smiles, atoms, results, tops, predicted, distinct,
            first, units,
        )
    ]  # fmt: skip


def explain_model(
    model: MoleculeEstimator, inputs: MoleculeInputs, *, target: int = 0, label: str | None = None
) -> list[Explanation]:
    """Explain the predictions of a model: numbers, or probabilities of a class.

    Args:
        model: the model.
        inputs: k molecules.
        target: index of the target.
        label: the class whose probability is explained; None for the predicted class of each
            molecule.

    Returns:
        One explanation for each molecule.

    Raises:
        ValueError: the target or the class does not exist, ``label`` is set for a model of numbers,
            or the model reads reactions or several molecules in a row.
    """
    if model.row_format.joined:
        raise ValueError(
            "explain needs a model of one molecule in a row; this model reads "
            f"{model.row_format.rows_noun}"
        )
    if not 0 <= target < len(model.targets_):
        raise ValueError(f"target must be at least 0 and below {len(model.targets_)}; got {target}")
    if not model.task.is_class:
        if label is not None:
            raise ValueError(f"only a model of classes explains a class; got {label!r}")
        name = model.scale_of(target)
        explanations = explain(model.predictor_, inputs, target=target)
        return [replace(one, explained=name) for one in explanations]
    names = list(map(str, model.classes_by_target[target].tolist()))
    if label is not None and label not in names:
        raise ValueError(
            f"the class of {model.targets_[target]!r} to explain must be one of "
            f"{', '.join(names)}; got {label}"
        )
    chances = model.probabilities(model.predictor_.predict(inputs).mean)[target]
    predicted = chances.argmax(1).tolist()
    chosen = predicted if label is None else [names.index(label)] * len(predicted)
    result: dict[int, Explanation] = {}
    for place in set(chosen):
        rows = [row for row, each in enumerate(chosen) if each == place]
        counts = model.class_counts
        explanations = explain(
            model.predictor_, inputs[rows], complement=not counts and place == 0,
            target=sum(counts[:target]) + place if counts else target,
        )  # fmt: skip
        name = class_probability(model, target, place)
        result |= {
            row: replace(one, prediction=names[predicted[row]], explained=name, target=target)
            for row, one in zip(rows, explanations)
        }
    return [result[row] for row in range(len(chosen))]


def class_probability(model: MoleculeEstimator, target: int, place: int) -> str:
    """Return the name of the probability of a class: ``P(target = class)``."""
    return f"P({model.targets_[target]} = {model.classes_by_target[target][place]})"


def _complement(attribution: Attribution) -> Attribution:
    """Convert the attribution of a probability to that of the complementary class."""
    parts = {name: -part for name, part in attribution.parts.items()}
    return Attribution(-attribution.weights, parts, -attribution.members)


def _in_units(mean: Tensor, std: Tensor, transform: TargetTransform) -> tuple[float, float]:
    """Convert a prediction [1] and its standard deviation [1] to the target's unit, as
    :func:`gattn.apps.molecules.target_transform.in_target_units` does.
    """
    value = transform.restored(mean)
    return float(value), float(std / transform.slope(value))


def _top(weights: Tensor, atoms: MoleculeAtoms) -> Tensor:
    """Return the indices of the atoms with the highest weights.

    Symmetric atoms have equal weights up to rounding, which depends on how the SMILES is written.
    Each atom is therefore ranked by the mean weight of its symmetry class; atoms with equal means
    are ranked in canonical order.
    """
    classes, order = atoms.classes, atoms.order
    sums = weights.new_zeros(len(weights)).index_add_(0, classes, weights)
    counts = weights.new_zeros(len(weights)).index_add_(0, classes, torch.ones_like(weights))
    means = (sums / counts.clamp(min=1))[classes]
    unit = means.abs().max() * ROUNDING
    rounded = (means / unit).round() if unit else means
    best = rounded[order].argsort(descending=True, stable=True)
    return order[best[: max(round(TOP * len(weights)), 1)]]


def _masks(top: Tensor, order: Tensor) -> Tensor:
    """Return masks [2 + DRAWS, n] of the atoms to delete: none, the atoms ``top``, and random sets
    of the same size. The sets are drawn with a fixed seed from the canonical ``order`` of the
    atoms.
    """
    generator, atoms = torch.Generator().manual_seed(0), len(order)
    masks = torch.zeros(2 + DRAWS, atoms, dtype=torch.bool)
    masks[1, top] = True
    for mask in masks[2:]:
        mask[order[torch.randperm(atoms, generator=generator)[: len(top)]]] = True
    return masks


def _faithfulness(top: Tensor, mean: Tensor) -> Faithfulness:
    """Return the changes of the prediction without the atoms ``top``, and without random atoms;
    ``mean`` [2 + draws] are the predictions of the molecule, without the top and without random
    atoms.
    """
    drops = mean[0] - mean[1:]
    random = drops[1:]
    # Subtracting the first number gives a standard deviation of exactly 0 if all numbers are equal.
    std = (random - random[0]).std()
    return Faithfulness(tuple(top.tolist()), float(drops[0]), float(random.mean()), float(std))


def _spread(attribution: Attribution) -> Tensor:
    """Return the standard deviation [n] of the members' weights; NaN for a single member."""
    if len(attribution.members) < 2:
        return torch.full_like(attribution.weights, torch.nan)
    return attribution.members.std(0)
