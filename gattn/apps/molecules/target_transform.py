"""Transforms of regression targets, which keep the predictions inside the domain of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

FARTHEST = {"log10": 300.0, "logit": 20.0}
"""Transformed values are clipped to plus or minus this number. The inverse transform is then
finite and never exactly at an end of the domain.
"""
SCORES = {"log10": "a number above 0", "logit": "a number above 0 and below 1"}


@dataclass(frozen=True)
class TargetTransform:
    r"""Transform z = g(y) of the targets of a model, with its inverse.

    ``"log10"``: z = log10(y) for y > 0. ``"logit"``: z = ln(y / (1 - y)) for 0 < y < 1. ``"none"``:
    z = y. All transforms are increasing functions, so an interval is transformed by transforming
    its ends.

    A model that is trained on z predicts the median of y: y = g^{-1}(z). A standard deviation is
    multiplied by the derivative of the inverse, as in the delta method; an interval is transformed
    exactly.

    Attributes:
        name: the name of the transform.

    Example:
        >>> transform = TargetTransform("log10")
        >>> z = transform(torch.tensor([100.0, 0.1], dtype=torch.float64))
        >>> z.tolist(), transform.inverse(z).tolist()
        ([2.0, -1.0], [100.0, 0.1])
    """

    name: str

    def __call__(self, y: Tensor) -> Tensor:
        """Transform labels, or the ends of labels; NaN stays NaN. A value outside the domain
        becomes infinite.
        """
        if self.name == "log10":
            positive = y.clamp(min=torch.finfo(y.dtype).tiny)
            return torch.where(y <= 0, -torch.inf, positive.log10())
        if self.name == "logit":
            inside = torch.where(y >= 1, torch.inf, torch.logit(y))
            return torch.where(y <= 0, -torch.inf, inside)
        return y

    def inverse(self, z: Tensor) -> Tensor:
        """Convert transformed values to the targets' units. Infinity becomes an end of the
        domain.
        """
        if self.name == "none":
            return z
        return 10.0**z if self.name == "log10" else torch.sigmoid(z)

    def restored(self, z: Tensor) -> Tensor:
        """Convert predictions to the targets' units, clipped to the values that have a finite
        result.
        """
        far = FARTHEST.get(self.name)
        return self.inverse(z if far is None else z.clamp(-far, far))

    def slope(self, y: Tensor) -> Tensor:
        """Return the derivative g'(y) of the transform at predictions in the target's unit."""
        if self.name == "none":
            return torch.ones_like(y)
        return 1 / (y * math.log(10)) if self.name == "log10" else 1 / (y * (1 - y))


def check_domain(
    name: str, labels: np.ndarray, target: str, where: Callable[[int], str],
    bounds: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Raise an error if a label is outside the domain of its transform.

    Args:
        name: name of the transform; ``"none"`` accepts all labels.
        labels: [n] labels of one target, NaN for a missing value.
        target: name of the target.
        where: converts a row to words, for example ``"in line 22"``.
        bounds: [n, 2] ends of the labels for a bounded loss; None if there are no limits. If the
            label is a limit, an end may be infinite, or equal to an end of the domain.

    Raises:
        ValueError: a label is outside the domain; the message names the first.
    """
    if name not in SCORES:
        return
    end = 1.0 if name == "logit" else math.inf
    bad = (labels <= 0) | (labels >= end)
    if bounds is not None:
        # A label such as "<0" or ">1" may exclude every value of the domain.
        bad |= (bounds[:, 1] <= 0) | (bounds[:, 0] >= end)
    rows = np.flatnonzero(bad)
    if len(rows):
        row = int(rows[0])
        value = labels[row] if bounds is None or np.isfinite(labels[row]) else bounds[row]
        verb = "label is" if len(rows) == 1 else "labels are"
        hint = "; divide percentages by 100" if name == "logit" and np.nanmax(labels) > 1 else ""
        raise ValueError(
            f"target_transform {name} needs {SCORES[name]} as every label of {target}; "
            f"{len(rows):,} {verb} not, the first {value} {where(row)}{hint}"
        )


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
        transform: the transform of the targets.

    Returns:
        The same predictions if the targets are not transformed. Otherwise, the means are medians,
        and the standard deviations are multiplied by the derivative of the inverse transform.
    """
    if transform.name == "none":
        return predicted
    inverse = transform.restored
    mean = inverse(predicted.mean)
    return replace(
        predicted, mean=mean, std=predicted.std / transform.slope(mean),
        component_means={name: inverse(m) for name, m in predicted.component_means.items()},
        member_predictions=inverse(predicted.member_predictions),
    )  # fmt: skip
