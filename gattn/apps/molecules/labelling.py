"""Estimators for molecules that the commands train, without the interface of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.arrays import as_classes, as_numbers, find_classes
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.fitted import ClassificationModel, RegressionModel
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.quantiles import QuantileIntervals
from gattn.apps.molecules.target_transform import TransformedIntervals, check_domain

__all__ = ["ClassificationEstimator", "RegressionEstimator"]


class RegressionEstimator(MoleculeEstimator, RegressionModel):
    """A :class:`gattn.apps.molecules.MoleculeRegressor` without scikit-learn's interface."""

    def _fit_labels(self, table: np.ndarray) -> None:
        for name, column in zip(self.targets_, as_numbers(table).T):
            labels = column[np.isfinite(column)]
            if len(labels) > 1 and labels.min() == labels.max():
                raise ValueError(
                    f"{name} must have different numbers; every label is {labels[0]:g}"
                )
            check_domain(self.settings().target_transform, column, name, "in row {}".format)

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_numbers(table)

    def _decide(self, mean: Tensor) -> np.ndarray:
        return mean.numpy()

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        transform, mean, std = self.predictor_.transform, prediction.mean, prediction.std
        if prediction.quantiles is not None:
            self.calibrator_ = QuantileIntervals.fit(transform, y, mean, prediction.quantiles, std)
        else:
            self.calibrator_ = TransformedIntervals.of(transform, y, mean, std)

    def _labels_state(self) -> dict[str, Any]:
        return {"calibration": self.calibrator_.state()}


class ClassificationEstimator(MoleculeEstimator, ClassificationModel):
    """A :class:`gattn.apps.molecules.MoleculeClassifier` without scikit-learn's interface."""

    def _fit_labels(self, table: np.ndarray) -> None:
        classes = find_classes(table, self.targets_)
        self.classes_ = classes[0] if self.single_target_ else classes

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_classes(table, self.classes_by_target, self.targets_)

    def _decide(self, mean: Tensor) -> np.ndarray:
        """Return the number of the most probable class (the first of several equal ones); NaN is
        returned unchanged.
        """
        chosen = [
            p.argmax(1).double().masked_fill(p.isnan().any(1), torch.nan)
            for p in self.probabilities(mean)
        ]
        return torch.stack(chosen, 1).numpy()

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        self.calibrator_ = self.calibrate_sets(y, prediction.mean)

    def _labels_state(self) -> dict[str, Any]:
        classes = [kinds.tolist() for kinds in self.classes_by_target]
        return {"classes": classes, "calibration": self.calibrator_.state()}
