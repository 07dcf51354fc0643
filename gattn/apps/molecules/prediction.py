"""Predictions of a model of molecules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gattn.apps.molecules.target_transform import TargetTransform

__all__ = ["Prediction", "empty_prediction", "in_target_units"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions for k molecules and t targets, with their expected errors.

    Attributes:
        mean: [k, t] float64, in the target's unit; for two classes the probability of class 1. For
            several classes t is the number of classes of all targets, and these are the
            probabilities of the classes.
        std: [k, t] float64, in the target's unit: the standard deviation of the expected error.
            For classes the standard deviation over components and networks.
        component_means: mean [k, t] of each component: ``"attention"``,
            ``"gp"``, ``"forest"``.
        member_predictions: [K, k, t], predictions of each network of the ensemble.
        max_train_similarity: [k] float32 in 0..1, the Tanimoto similarity on Morgan bits to the
            most similar molecule of the training and validation parts; for
            :attr:`MoleculePredictor.validation`, of the training part alone.
            Different molecules may have a similarity of 1.
        nearest_index: [k, c] int64, the columns of the model's fingerprints of the c most similar
            molecules, as :meth:`MoleculePredictor.nearest` returns them; None if not requested.
        nearest_similarity: [k, c] float32, their similarities; None if not requested.
    """

    mean: Tensor
    std: Tensor
    component_means: dict[str, Tensor]
    member_predictions: Tensor
    max_train_similarity: Tensor
    nearest_index: Tensor | None = None
    nearest_similarity: Tensor | None = None

    def take(self, index: Tensor) -> Prediction:
        """Return the predictions of the molecules at these indices."""
        optional = (self.nearest_index, self.nearest_similarity)
        return Prediction(
            self.mean[index], self.std[index],
            {name: mean[index] for name, mean in self.component_means.items()},
            self.member_predictions[:, index], self.max_train_similarity[index],
            *(None if each is None else each[index] for each in optional),
        )  # fmt: skip


def empty_prediction(targets: int) -> Prediction:
    """Return the prediction for no molecules.

    Args:
        targets: the number of targets.

    Returns:
        Empty tensors.
    """
    none = torch.empty(0, targets, dtype=torch.float64)
    return Prediction(none, none, {}, none[None][:0], torch.empty(0))


def in_target_units(predicted: Prediction, transform: TargetTransform) -> Prediction:
    """Convert predictions of transformed targets to the targets' units.

    Args:
        predicted: the predictions on the scale on which the model is trained.
        transform: the transform of each target.

    Returns:
        The same predictions if no target is transformed. Otherwise, the means are medians, and the
        standard deviations are multiplied by the derivative of the inverse transform.
    """
    if transform.is_identity:
        return predicted

    inverse = transform.restored
    mean = inverse(predicted.mean)
    return replace(
        predicted, mean=mean, std=predicted.std / transform.slope(mean),
        component_means={name: inverse(m) for name, m in predicted.component_means.items()},
        member_predictions=inverse(predicted.member_predictions),
    )  # fmt: skip
