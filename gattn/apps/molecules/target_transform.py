"""Transforms of regression targets, which keep the predictions inside the domain of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator

NAMES = ("none", "log10", "logit")
"""Names of the target transforms, in the order of their codes in a model file."""
FARTHEST = {"log10": 300.0, "logit": 20.0}
"""Transformed values are clipped to plus or minus this number. The inverse transform is then
finite and never exactly at an end of the domain.
"""
SCORES = {"log10": "a number above 0", "logit": "a number above 0 and below 1"}


@dataclass(frozen=True, eq=False)
class TargetTransform:
    r"""Transform z = g(y) of each of t targets, with its inverse.

    ``"log10"``: z = log10(y) for y > 0. ``"logit"``: z = ln(y / (1 - y)) for 0 < y < 1. ``"none"``:
    z = y. All transforms are increasing functions, so an interval is transformed by transforming
    its ends.

    A model that is trained on z predicts the median of y: y = g^{-1}(z). A standard deviation is
    multiplied by the derivative of the inverse, as in the delta method; an interval is transformed
    exactly.

    Attributes:
        names: the name of the transform of each target.

    Example:
        >>> transform = TargetTransform(("log10", "logit"))
        >>> z = transform(torch.tensor([[100.0, 0.5]], dtype=torch.float64))
        >>> z.tolist(), transform.inverse(z).tolist()
        ([[2.0, 0.0]], [[100.0, 0.5]])
    """

    names: tuple[str, ...]

    @classmethod
    def from_codes(cls, codes: Tensor) -> TargetTransform:
        """Restore the transforms from :attr:`codes`."""
        return cls(tuple(NAMES[code] for code in codes.tolist()))

    @property
    def codes(self) -> Tensor:
        """Codes of the transforms, [t] int64, as stored in a model file."""
        return torch.tensor([NAMES.index(name) for name in self.names], dtype=torch.int64)

    @property
    def is_identity(self) -> bool:
        """Whether no target is transformed."""
        return all(name == "none" for name in self.names)

    def __call__(self, y: Tensor) -> Tensor:
        """Transform labels [..., t]; NaN stays NaN."""
        return self._each(y, {"log10": _log10, "logit": _logit})

    def limits(self, bounds: Tensor) -> Tensor:
        """Transform the lower and upper ends of labels, [n, t, 2]. An end outside the domain
        becomes infinite.
        """
        return torch.stack([self(ends) for ends in bounds.unbind(-1)], -1)

    def inverse(self, z: Tensor) -> Tensor:
        """Convert transformed values [..., t] to the targets' units. Infinity becomes an end of
        the domain.
        """
        return self._each(z, {"log10": _power, "logit": torch.sigmoid})

    def clipped(self, z: Tensor) -> Tensor:
        """Clip transformed predictions [..., t], so that their inverse is finite."""
        limits = {name: (lambda v, far=far: v.clamp(-far, far)) for name, far in FARTHEST.items()}
        return self._each(z, limits)

    def restored(self, z: Tensor) -> Tensor:
        """Convert predictions to the targets' units, clipped to the values that have a finite
        result.
        """
        return self.inverse(self.clipped(z))

    def slope(self, y: Tensor) -> Tensor:
        """Return the derivative g'(y) of the transform at predictions [..., t] in the target's
        unit.
        """
        slopes = {
            "none": torch.ones_like,
            "log10": lambda v: 1 / (v * math.log(10)),
            "logit": lambda v: 1 / (v * (1 - v)),
        }
        return self._each(y, slopes)

    def _each(self, values: Tensor, functions: Mapping[str, Callable[[Tensor], Tensor]]) -> Tensor:
        """Apply the function of each target's transform to this target's values, along the last
        dimension.
        """
        if self.is_identity:
            return values if "none" not in functions else functions["none"](values)
        columns = [
            functions[name](column) if name in functions else column
            for name, column in zip(self.names, values.unbind(-1), strict=True)
        ]
        return torch.stack(columns, -1)


def _log10(y: Tensor) -> Tensor:
    return torch.where(y <= 0, -torch.inf, y.clamp(min=torch.finfo(y.dtype).tiny).log10())


def _logit(y: Tensor) -> Tensor:
    inside = torch.logit(y)
    return torch.where(y <= 0, -torch.inf, torch.where(y >= 1, torch.inf, inside))


def _power(z: Tensor) -> Tensor:
    return 10.0**z


def check_domain(
    name: str, labels: np.ndarray, target: str, where: Callable[[int], str],
    bounds: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Raise an error if a label is outside the domain of its transform.

    Args:
        name: name of the transform; ``"auto"`` and ``"none"`` read all labels.
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


class TransformedIntervals(IntervalCalibrator):
    """Calibrator of prediction intervals that is fitted on the transformed scale. Its predictions
    and intervals are in the targets' units.

    It has the interface of :class:`gattn.apps.fitting.conformal.IntervalCalibrator`. Means and
    standard deviations are converted to the transformed scale, where the interval is z ± q s; its
    ends are then converted by the inverse transform. The guarantee of the coverage is the same,
    because the transform is an increasing function.

    Attributes:
        scores: for each of t targets the scores of its measured calibration rows, ascending.
        transform: the transforms of the targets.
    """

    transform: TargetTransform

    def __init__(self, scores: tuple[tuple[float, ...], ...], transform: TargetTransform) -> None:
        super().__init__(scores)
        object.__setattr__(self, "transform", transform)

    @classmethod
    def of(
        cls, transform: TargetTransform, y: Tensor, mean: Tensor, std: Tensor
    ) -> TransformedIntervals:
        """Fit the calibrator to labels and predictions in the targets' units, all [n, t]."""
        inner = IntervalCalibrator.fit(transform(y), transform(mean), std * transform.slope(mean))
        return cls(inner.scores, transform)

    def state(self) -> dict[str, Any]:
        """Return the conformal scores and the names of the transforms as JSON values."""
        return {"scores": self.scores, "transform": list(self.transform.names)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TransformedIntervals:
        """Restore a calibrator from the result of :meth:`state`."""
        scores = IntervalCalibrator.from_state(state).scores
        return cls(scores, TargetTransform(tuple(state["transform"])))

    def interval(
        self, mean: Tensor, std: Tensor, *, coverage: float = 0.9
    ) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper end of each prediction interval, in the targets' units.

        Args:
            mean: [k, t] predictions.
            std: [k, t] standard deviations of the predictions' errors.
            coverage: the requested probability, in (0, 1).

        Returns:
            The lower and the upper ends, both [k, t] float64; an infinite end becomes an end of the
            domain.
        """
        mean, std = mean.double(), std.double()
        low, high = super().interval(
            self.transform(mean), std * self.transform.slope(mean), coverage=coverage
        )
        return self.transform.inverse(low), self.transform.inverse(high)


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
