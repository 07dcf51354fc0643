"""Weights of the components of a model, and errors of its predictions, from the validation part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.molecules.components import Components, disagreement
from gattn.apps.molecules.evidence import Evidence, network_prior, part_weights
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.stacking import combine, fit_shrinkage, fit_spread, predicted_std

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

__all__ = ["Calibration", "calibrate"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Weights and error coefficients that are fitted to the validation part.

    Attributes:
        weights: [P] float64, the weight of each component; they sum to one, and for classes to the
            factor of :func:`gattn.apps.molecules.stacking.fit_shrinkage`.
        spread: [s] float64, the coefficients of the model of the squared error; empty for classes.
        offset: [t] float64, the number that is added to the probability of each class; 0 for
            regression.
        validation: cross-fitted predictions of the validation part, on the scale on which the model
            is trained.
    """

    weights: Tensor
    spread: Tensor
    offset: Tensor
    validation: Prediction


def calibrate(
    components: Components, val: MoleculeInputs, y_val: Tensor, outputs: Tensor, *,
    similarities: Tensor, kernel_index: Tensor, group: Tensor, folds: Tensor,
    by_part: tuple[Tensor | None, Tensor | None], evidence: Evidence | None,
    forest_val: Tensor | None,
) -> Calibration:  # fmt: skip
    """Fit the weights of the components, and the coefficients of the error variance.

    The prediction of a validation molecule uses weights and coefficients that are fitted to the
    molecules of the other folds. See :meth:`gattn.apps.molecules.predictor.MoleculePredictor.fit`.

    Args:
        components: the trained components.
        val: m molecules of the validation part.
        y_val: [m, t] labels of the validation molecules; NaN for missing labels.
        outputs: [K, m, o], cross-fitted outputs of the networks.
        similarities: [m] similarity of each molecule to the most similar training molecule.
        kernel_index: indices of the validation molecules on which the Gaussian process is trained.
        group: [m], the group of each row.
        folds: [m], the fold of each row.
        by_part: weights of the rows of the training and of the validation part; None if all are
            equal.
        evidence: predictions by components that were not trained on a molecule; None for a model
            of one component.
        forest_val: [m, t], predictions of the forest by the trees that were not trained on the
            group of a molecule; None if there is no forest.

    Returns:
        The weights, the coefficients, and the predictions of the validation part.
    """
    regression = components.task == "regression"
    members = components.in_units(outputs)
    row_weights = by_part[1]
    factors: tuple[Tensor, Tensor] | None = None
    if by_part[0] is not None and row_weights is not None:
        shape = (-1, y_val.shape[1])
        factors = by_part[0][:, None].expand(shape), row_weights[:, None].expand(shape)
    # The trees that were trained on the validation part must not be used to fit the coefficients of
    # the error, because they have read the labels of the fold that is predicted.
    forest_few = forest_all = torch.zeros_like(y_val)
    if forest_val is not None:
        assert evidence is not None
        assert evidence.forest_val is not None
        forest_few, forest_all = evidence.forest_val.mean, forest_val
    count = int(folds.max()) + 1
    left_out = [(torch.empty(0), torch.zeros_like(y_val))] * (1 + count)
    if components.kernel is not None:
        left_out = _leave_out(components, val, kernel_index, group, folds)
    prior = 0.0 if evidence is None else network_prior(similarities, len(evidence.y))

    def fit(pair: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Fit the weights of the components, and the coefficients of the error variance or the
        calibration of the classes, to the molecules at ``rows``.
        """
        means = components.means(members, pair[0], forest_few)
        sources = components.error_inputs(means, members, pair[1])
        weights = torch.ones(1).double()
        if evidence is not None:
            weights = part_weights(
                evidence, members.mean(0), y_val, rows, components.scale, prior, factors,
                components.probabilities,
            )  # fmt: skip
        by_row = None if row_weights is None else row_weights[rows]
        if not regression:
            factor, offset = fit_shrinkage(
                combine(means[:, rows], weights), y_val[rows], components.classes, by_row
            )
            return factor * weights, torch.ones(0), offset
        errors = y_val[rows] - combine(means[:, rows], weights)
        return weights, fit_spread(sources[:, rows], errors, by_row), y_val.new_zeros(1).double()

    chosen = fit(left_out[0], torch.ones(len(y_val), dtype=torch.bool))
    means = components.means(members, left_out[0][0], forest_all)
    sources = components.error_inputs(means, members, left_out[0][1])
    mean, std = combine(means, chosen[0]) + chosen[2], disagreement(means, members)
    for fold, pair in zip(range(count), left_out[1:], strict=True):
        inside = folds == fold
        weights, coefficients, offset = fit(pair, ~inside) if not inside.all() else chosen
        mean[inside] = combine(means[:, inside], weights) + offset
        if regression:
            measured = y_val[~inside].isfinite().any(0)
            coefficients = coefficients.where(measured, chosen[1])
            std[inside] = predicted_std(sources[:, inside], coefficients)
    named = dict(zip(components.names, means))
    validation = Prediction(mean, std, named, members, similarities)
    return Calibration(*chosen, validation)


def _leave_out(
    components: Components, val: MoleculeInputs, kernel_index: Tensor, group: Tensor, folds: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Predict validation molecules with Gaussian processes that were not trained on them.

    Returns:
        Pairs of means and variances [m, t]. In the first pair, the model of a molecule was
        trained without its group; in the next pairs, also without one fold each.
    """
    kernel = components.kernel
    assert kernel is not None
    rows = len(kernel.counts) - len(kernel_index) + torch.arange(len(kernel_index))
    left_out = kernel.leave_out(rows, group[kernel_index], folds[kernel_index])
    plain = kernel.predict(val)
    # If a fold contains no training molecule of the Gaussian process, its molecules are
    # predicted by the complete Gaussian process.
    left_out += left_out[:1] * (int(folds.max()) + 2 - len(left_out))
    pairs = []
    for pair in left_out:
        full = tuple(each.clone() for each in plain)
        for each, out in zip(full, pair):
            # A row without a label was not used to fit the Gaussian process, so no model
            # without its fold is needed.
            each[kernel_index] = torch.where(out.isfinite(), out, each[kernel_index])
        pairs.append(full)
    return pairs
